/**
 * Why a run cannot go on: the code and the record differ, or the code does what no replay can repeat.
 *
 * Both are defects of the function, found before anything is executed that the record does not allow. The record
 * stays as it is, so another build of the function can continue the run.
 */

/** A line of the function's source: the stack is taken when an operation is made, and read only if it is needed. */
export class Place {
  readonly #stack: { stack?: string } = {};

  /** `above` is the function of the SDK whose caller is meant. */
  constructor(above: (...args: never[]) => unknown) {
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 1;
    Error.captureStackTrace(this.#stack, above);
    Error.stackTraceLimit = limit;
  }

  toString(): string {
    const line = this.#stack.stack?.split("\n")[1] ?? "";
    const place = /\(?((?:file:\/\/)?[^()\s]+):(\d+):\d+\)?$/.exec(line.trim());
    if (place === null) return "unknown place";
    const file = place[1]?.replace(/^file:\/\//, "") ?? "";
    const base = globalThis.process?.cwd?.() ?? "";
    return `${base !== "" && file.startsWith(`${base}/`) ? file.slice(base.length + 1) : file}:${place[2]}`;
  }
}

export interface Seen {
  key: string;
  inputDigest?: string | undefined;
}

/** The first place at which the code and the record differ. */
export interface Divergence {
  difference: "operation" | "input" | "unreached" | "unreadable";
  /** Empty for the function's own branch. */
  branch: string;
  /** How many operations of the branch, since the last savepoint, were as recorded. */
  index: number;
  recorded: Seen | undefined;
  actual: Seen | undefined;
  at?: Place | undefined;
  problem?: string | undefined;
}

/** The run stops here; nothing more is executed or recorded in this attempt. */
export class Stop extends Error {
  override readonly name = "Stop";
  constructor(
    message: string,
    readonly divergence?: Divergence,
  ) {
    super(message);
  }

  static diverged(divergence: Divergence): Stop {
    const { branch, index, at } = divergence;
    const where = branch === "" ? "the function's own branch" : `branch \`${branch}\``;
    const line = at === undefined ? "" : ` (${at})`;
    return new Stop(
      `the function is not the one that was recorded: in ${where}, operation ${index}: ${difference(divergence)}${line}. ` +
        "Nothing was executed. Deploy the code that recorded the run, or keep the old path under `flow.patched` beside the new one",
      divergence,
    );
  }
}

function difference({ difference, recorded, actual, problem }: Divergence): string {
  const key = recorded?.key ?? "nothing";
  switch (difference) {
    case "operation":
      return `recorded \`${key}\`, now \`${actual?.key ?? "nothing"}\``;
    case "input":
      return `the input of \`${key}\` is ${recorded?.inputDigest ?? "absent"}, now it is ${actual?.inputDigest ?? "absent"}`;
    case "unreached":
      return `recorded \`${key}\`, which the code never reaches`;
    case "unreadable":
      return `the recorded result of \`${key}\` cannot be read: ${problem}`;
  }
}

/** What a durable function must not do. */
export const misuse = {
  foreignAwait: (last: string | undefined) =>
    new Stop(
      "the function awaits something that is not an operation of `flow`, outside of a step: a replay could not repeat it. " +
        "Put it inside `flow.step`, or use `flow.sleep`, `flow.signal` or `flow.call`. " +
        `Last operation: ${last ?? "none"}`,
    ),
  twoAtOnce: (first: string, second: string, at: Place) =>
    new Stop(
      `\`${second}\` (${at}) begins while \`${first}\` is not over: operations of one branch follow each other. ` +
        "Give them to `flow.all` instead of `Promise.all`",
    ),
  notAwaited: (name: string, at: Place) =>
    new Stop(`\`${name}\` (${at}) was made and never awaited: await it, or do not make it`),
  dropped: (name: string) =>
    new Stop(`the function returned while \`${name}\` is not over: await every operation before you return`),
  openTwice: (branch: string, at: Place) =>
    new Stop(`branch \`${branch}\` (${at}) is open already: parallel branches need different names`),
  branchOver: (branch: string, at: Place) =>
    new Stop(`branch \`${branch}\` is over, but its flow is used (${at}): use the outer flow`),
  badName: (name: string, at: Place) =>
    new Stop(
      `\`${name}\` (${at}) is no name here: use letters, digits, \`.\`, \`_\` and \`-\`, up to 128 bytes with the names ` +
        "of the branches around it, and none of `sleep` and `savepoint`",
    ),
  savepointInBranch: (branch: string, at: Place) =>
    new Stop(
      `a savepoint in branch \`${branch}\` (${at}): only the function's own branch can start over, after its branches have ended`,
    ),
  tooMany: (what: string, count: number, max: number, at: Place) =>
    new Stop(`${count} ${what} (${at}), the limit is ${max}: split the work among child runs`),
  notForAny: (name: string, at: Place) =>
    new Stop(
      `\`${name}\` (${at}) is a step or branch, which \`flow.any\` does not take, because what runs cannot be dropped: ` +
        "race signals, sleeps, calls, approvals and deliveries",
    ),
  emptyAnswer: () =>
    new Stop(
      "the coordinator's answer to a wait brings nothing that was awaited and does not suspend the run: SDK and " +
        "coordinator do not understand each other. Update the older one",
    ),
};
