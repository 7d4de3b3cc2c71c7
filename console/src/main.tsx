/** Mounts the console: session, router, clock, and the page that the address names. */

import { render } from "preact";
import { markTitle } from "./data/feed.js";
import { enter } from "./login.js";
import { rememberTimeStyle, startClock } from "./model/time.js";
import { startRouter } from "./router.js";
import { takeCode } from "./session.js";
import { App } from "./shell.js";
import { startTheme } from "./theme.js";

startTheme();
rememberTimeStyle(localStorage);
startClock();
const code = takeCode();
startRouter();
markTitle();
void enter(code);
render(<App />, document.body);
