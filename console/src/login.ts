/** Logging in with a key or a one-time code, logging out, and going on with the session of before. */

import { get, type Problem, post } from "./api/call.js";
import type { Session } from "./api/types.js";
import { asProblem } from "./data/query.js";
import * as session from "./session.js";

interface LoggedIn {
  pageToken: string;
  session: Session;
}

/** Shows the server a key or a code. It answers who that is, or why not. */
export async function logIn(shown: { key: string } | { code: string }): Promise<Problem | undefined> {
  try {
    const { pageToken, session: begun } = await post<LoggedIn>("session", shown);
    session.begin(pageToken, begun);
    return undefined;
  } catch (error) {
    return asProblem(error);
  }
}

/** Ends the session here and at the server; a server that does not answer forgets it by itself. */
export async function logOut(): Promise<void> {
  await post("session/end", undefined).catch(() => {});
  session.end("You are logged out");
}

/** How long a server that does not answer is given before it is asked again. */
const AGAIN_MS = 2000;

/** The first thing the console does: a code of a link, else the session of before, else nobody. */
export async function enter(code: string | undefined): Promise<void> {
  const isKnown = session.restore();
  if (code !== undefined) {
    const problem = await logIn({ code });
    if (!problem) return;
    session.endedBecause.value = problem.message;
  }
  session.followOtherTabs(() => void resume());
  if (isKnown) await resume();
  else session.person.value = null;
}

async function resume(): Promise<void> {
  for (;;) {
    try {
      session.person.value = await get<Session>("v1/session");
      return;
    } catch (error) {
      const problem = asProblem(error);
      if (!problem.isUnreachable && problem.status !== 429) {
        if (session.person.value !== null) session.end(problem.message);
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}
