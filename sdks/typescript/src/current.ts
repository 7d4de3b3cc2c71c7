/**
 * The step or task whose code runs here, deep in a call stack: for wrappers of LLM clients that report what was used.
 *
 * It follows asynchronous calls by `AsyncLocalStorage`, and is absent outside of the code of tasks and steps.
 */
import { AsyncLocalStorage } from "node:async_hooks";

import type { Ctx } from "./context.js";
import type { Step } from "./flow/step.js";

const storage = new AsyncLocalStorage<Ctx | Step>();

/** The `Step` or `Ctx` of the code that calls this. Throws where neither runs. */
export function current(): Ctx | Step {
  const found = storage.getStore();
  if (found === undefined) {
    throw new Error(
      "`current()` was called outside of the code of a task or step: call it where a worker runs your code",
    );
  }
  return found;
}

/** Calls code with this as its `current()`. */
export function callAsCurrent<C extends Ctx | Step, T>(as: C, run: (as: C) => T): T {
  return storage.run(as, run, as);
}

/**
 * The same as a promise: what the code throws at once is a rejection too. It is no async function, and passes the code's
 * own promise on: every promise counts where tasks are short.
 */
export function runAsCurrent<C extends Ctx | Step, T>(as: C, run: (as: C) => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(callAsCurrent(as, run));
  } catch (error) {
    return Promise.reject(error);
  }
}
