/**
 * The session of the browser: how calls are authorised, and the one place that knows it.
 *
 * The server keeps the session in a cookie that no script can read. What is here is the page token that belongs to it: the cookie
 * is sent along with calls of other pages on this host, the token is not. It is shared by the tabs of this address and forgotten when
 * the session is over. The key itself is sent once and kept nowhere.
 */

import { signal } from "@preact/signals";
import type { Session } from "./api/types.js";

/** Who is logged in, and what the key may do; `undefined` before the first answer, `null` if nobody is. */
export const person = signal<Session | null | undefined>(undefined);

/** Why the last session ended, for the login page. */
export const endedBecause = signal<string>("");

let pageToken = "";
let beginnings = 0;

/** Which session this is, counted in this tab: an answer to a call of an earlier one says nothing about it. */
export const ordinal = (): number => beginnings;

/** Two consoles behind prefixes of one proxy share their storage. */
const stored = (): string => `tenure.session ${new URL(".", document.baseURI).pathname}`;

/** A key looks like `tnr_<id>_<secret>_<check>`. The server decides whether it is one; this only finds typing errors. */
export const looksLikeKey = (text: string): boolean =>
  /^tnr_[0-9a-z]+_[0-9a-z]+_[0-9a-z]+$/i.test(text.trim());

/** The one-time code in a link or typed without it. */
export const codeIn = (text: string): string | undefined =>
  /(?:^|#code=)([0-9a-f]{32})$/.exec(text.trim())?.[1];

/** Takes the one-time code out of the address, before anything else sees it. */
export function takeCode(): string | undefined {
  if (!location.hash.startsWith("#code=")) return undefined;
  const code = codeIn(location.hash);
  history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** What a tab that was opened before has left; whether there is something. */
export function restore(): boolean {
  pageToken = localStorage.getItem(stored()) ?? "";
  beginnings += 1;
  return pageToken !== "";
}

/** Another tab has logged in or out: this one goes along. */
export function followOtherTabs(again: () => void): void {
  addEventListener("storage", ({ key }) => {
    if (key !== stored() && key !== null) return;
    if (restore()) again();
    else person.value = null;
  });
}

export function begin(token: string, session: Session): void {
  pageToken = token;
  beginnings += 1;
  localStorage.setItem(stored(), token);
  endedBecause.value = "";
  person.value = session;
}

/** The session is over, unless another tab has begun one meanwhile. */
export function end(because = ""): void {
  if (localStorage.getItem(stored()) === pageToken) localStorage.removeItem(stored());
  pageToken = "";
  endedBecause.value = because;
  person.value = null;
}

/** What every call carries beside the cookie. */
export const credentials = (): Record<string, string> =>
  pageToken === "" ? {} : { "x-tenure-session": pageToken };
