/** Turns of the event loop. */

/**
 * Runs it when everything that is ready now has run: the microtask queue is empty then. `setImmediate` where there is one,
 * which comes right after the input that the loop has read.
 */
export const afterThisTurn: (run: () => void) => void =
  typeof setImmediate === "function" ? (run) => void setImmediate(run) : (run) => void setTimeout(run, 0);
