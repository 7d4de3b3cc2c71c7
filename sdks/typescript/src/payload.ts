/**
 * Values on the side of a caller: what has no JSON form is told before anything is sent, with the call that it belongs to
 * and its place in the value.
 */
import { Setup } from "./errors.js";
import { throughJson, Unwritable } from "./json.js";

/** The value as its receiver will see it. */
export function sendable(what: string, value: unknown): unknown {
  return orSetup(what, () => throughJson(value));
}

/** What is made of a value; `what` names it for people: "the input of `greet`". */
export function orSetup<T>(what: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error;
    throw new Setup(`${what} cannot be sent: ${error.message}`, "pass another value", error);
  }
}
