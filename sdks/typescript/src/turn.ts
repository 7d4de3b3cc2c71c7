/** Turns of the event loop. */

/** `setImmediate` where there is one, which comes right after the input that the loop has read. */
const later: (run: () => void) => void =
  typeof setImmediate === "function" ? (run) => void setImmediate(run) : (run) => void setTimeout(run, 0);

let waiting: Array<() => void> = [];

/** Runs it when everything that is ready now has run: the microtask queue is empty then. What waits for that shares a turn. */
export function afterThisTurn(run: () => void): void {
  if (waiting.length === 0) later(runAll);
  waiting.push(run);
}

function runAll(): void {
  const all = waiting;
  waiting = [];
  for (const run of all) run();
}
