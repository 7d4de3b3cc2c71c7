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
  await post("logout", undefined).catch(() => {});
  session.end("You are logged out");
}

/** How long a server that does not answer is given before it is asked again. */
const AGAIN_MS = 2000;

/** The first thing the console does: a code of a link, else the session of before, else nobody. */
export async function enter(code: string | undefined): Promise<void> {
  const isKnown = session.restore();
  session.followOtherTabs(() => void resume());
  if (code !== undefined) {
    const problem = await logIn({ code });
    if (!problem) return;
    session.endedBecause.value = `You are not logged in: ${problem.message}`;
  }
  if (isKnown) await resume();
  else session.person.value = null;
}

/** Asks who this is, until the server says so or that the session is over, or another tab has begun another one. */
async function resume(): Promise<void> {
  const asked = session.ordinal();
  while (session.ordinal() === asked) {
    try {
      const person = await get<Session>("v1/session");
      if (session.ordinal() === asked) session.person.value = person;
      return;
    } catch (error) {
      const problem = asProblem(error);
      if (isRefused(problem)) {
        if (session.person.value !== null && session.ordinal() === asked) session.end(problem.message);
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

/** A server that fails, starts or is asked too often has refused nobody. */
const isRefused = ({ isUnreachable, status }: Problem): boolean =>
  !isUnreachable && status < 500 && status !== 429;
