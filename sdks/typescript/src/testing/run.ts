/** One run of a durable function in memory: its attempts, its crashes, and what it spent. */
import type { Codec } from "../codec.js";
import type { Checkpoint, Command, EngineReport } from "../engine/command.js";
import { Run } from "../engine/run.js";
import { Failure, type FailureRecord } from "../failure.js";
import { Flow } from "../flow.js";
import { plain } from "../json.js";
import type { Amounts, Budget } from "../options.js";
import { readInput, type Task } from "../task.js";
import type { BudgetLeft } from "../wire.js";
import type { MemoryCoordinator } from "./coordinator.js";

/** A run that crashes at every command has this many attempts at most; more is a loop. */
const ATTEMPTS_MAX = 100_000;

/** When the worker dies, counted in commands of the whole run. */
export type Crash = { before: number } | { after: number };

/** How a run in memory ended. */
export interface Ended<O> {
  /** What the function returned. Throws if it failed. */
  readonly output: O;
  readonly error: FailureRecord | undefined;
  readonly report: EngineReport;
  /** Everything that was recorded, in commit order. */
  readonly history: readonly Checkpoint[];
  /** The keys of the history. */
  readonly keys: readonly string[];
  /** How often the work of each step was started. */
  readonly executed: Readonly<Record<string, number>>;
  readonly attempts: number;
  readonly commands: number;
  /** What the steps spent in all. */
  readonly spent: Required<Amounts>;
}

/** A run in memory, from its first attempt to its end. */
export class MemoryRun<O> {
  readonly #crashes: Crash[];
  #fence = 0;
  #commands = 0;
  #executed: Record<string, number> = {};
  readonly #budget: Budget | undefined;
  #spent: Required<Amounts> = { tokens: 0, costMicros: 0, toolCalls: 0 };

  constructor(
    private readonly task: Task<any, O>,
    private readonly coordinator: MemoryCoordinator,
    crashes: readonly Crash[],
  ) {
    this.#crashes = [...crashes];
    this.#budget = task.options.budget;
  }

  async run(): Promise<Ended<O>> {
    for (let n = 0; n < ATTEMPTS_MAX; n++) {
      const report = await this.#attempt();
      if (report !== undefined) return this.#ended(report);
    }
    throw new Error(`the run had ${ATTEMPTS_MAX} attempts and goes on: it repeats itself`);
  }

  async #attempt(): Promise<EngineReport | undefined> {
    this.#fence += 1;
    const run = await startRun(this.task, this.coordinator, this.#fence);
    run.left = this.#left();
    let changed = withChange(run);
    const timeouts: Array<{ key: string; number: number; ms: number }> = [];
    for (;;) {
      const turn = await run.next();
      if (turn === "idle") {
        // The work of a step waits for something outside; if it has a timeout, that is over.
        const shortest = timeouts.sort((a, b) => a.ms - b.ms).shift();
        if (shortest !== undefined) run.timeOut(shortest.key, shortest.number);
        else await changed;
        changed = withChange(run);
        continue;
      }
      if ("stop" in turn) throw turn.stop;
      if ("bug" in turn) throw turn.bug;
      if ("handBack" in turn) throw new Error(`the function handed its task back: ${turn.handBack}`);
      const number = this.#commands++;
      if (this.#dies({ before: number })) {
        run.close();
        return undefined;
      }
      const end = await this.#carry(turn.command, run, number, timeouts);
      if (end !== "goes on") return end === "next attempt" ? undefined : end;
    }
  }

  async #carry(
    command: Command,
    run: Run,
    number: number,
    timeouts: Array<{ key: string; number: number; ms: number }>,
  ): Promise<EngineReport | "goes on" | "next attempt"> {
    if (typeof command === "string") {
      if (command === "suspend") this.coordinator.skipTime();
      return "next attempt";
    }
    if ("execute" in command) {
      const { key, try: tried, timeoutMs } = command.execute;
      this.#executed[key] = (this.#executed[key] ?? 0) + 1;
      if (timeoutMs !== undefined) timeouts.push({ key, number: tried, ms: timeoutMs });
      return "goes on";
    }
    if ("complete" in command) {
      const { steps, children } = command.complete;
      this.#spend(steps);
      await this.coordinator.record({ ...(steps ? { steps } : {}), ...(children ? { children } : {}) });
      return command.complete;
    }
    const answer = await this.coordinator.record(command.checkpoint);
    this.#spend(command.checkpoint.steps);
    if (this.#isHalted()) return halted();
    if (this.#dies({ after: number })) {
      run.close();
      this.coordinator.skipTime();
      return "next attempt";
    }
    run.left = this.#left();
    run.recorded(answer);
    return "goes on";
  }

  #spend(steps: EngineReport["steps"]): void {
    for (const { spend } of steps ?? []) {
      if (spend === undefined) continue;
      this.#spent = {
        tokens: this.#spent.tokens + spend.tokens,
        costMicros: this.#spent.costMicros + spend.costMicros,
        toolCalls: this.#spent.toolCalls + spend.toolCalls,
      };
    }
  }

  #left(): BudgetLeft | undefined {
    if (this.#budget === undefined) return undefined;
    const { tokens, costMicros, toolCalls } = this.#budget;
    const rest = (limit: number | undefined, used: number) =>
      limit === undefined ? null : Math.max(0, limit - used);
    return {
      tokens: rest(tokens, this.#spent.tokens),
      costMicros: rest(costMicros, this.#spent.costMicros),
      toolCalls: rest(toolCalls, this.#spent.toolCalls),
    };
  }

  /** The call that crosses a limit halts the run, with every step kept. */
  #isHalted(): boolean {
    const { tokens, costMicros, toolCalls } = this.#budget ?? {};
    const crosses = (limit: number | undefined, used: number) => limit !== undefined && used > limit;
    return (
      crosses(tokens, this.#spent.tokens) ||
      crosses(costMicros, this.#spent.costMicros) ||
      crosses(toolCalls, this.#spent.toolCalls)
    );
  }

  /** A worker dies at each place once. */
  #dies(crash: Crash): boolean {
    const place = this.#crashes.findIndex((planned) => JSON.stringify(planned) === JSON.stringify(crash));
    if (place >= 0) this.#crashes.splice(place, 1);
    return place >= 0;
  }

  #ended(report: EngineReport): Ended<O> {
    const { history } = this.coordinator;
    return {
      get output(): O {
        if (report.outcome !== "SUCCEEDED")
          throw new Failure("USER_CODE", `the run failed: ${report.error?.message}`);
        return report.output as O;
      },
      error: report.error,
      report,
      history,
      keys: history.map(({ key }) => key),
      executed: this.#executed,
      attempts: this.#fence,
      commands: this.#commands,
      spent: this.#spent,
    };
  }
}

function halted(): EngineReport {
  const error = {
    category: "USER_CODE",
    reason: "BUDGET_EXCEEDED",
    message: "the run crossed its budget",
  } as const;
  return { outcome: "FAILED", error };
}

export async function startRun(
  task: Task,
  coordinator: MemoryCoordinator,
  fence: number,
  codec?: Codec,
): Promise<Run> {
  const { code } = task;
  if (code?.type !== "durable") throw new TypeError(`\`${task.kind}\` is no durable function with code`);
  const start = coordinator.start(fence);
  const input = await readInput(code, plain(start.input));
  return new Run(
    { ...start, input },
    (core, given) => code.run(new Flow({ core, branch: "" }), given),
    codec,
  );
}

/** Settles when the work of a step ends. */
function withChange(run: Run): Promise<void> {
  return new Promise((resolve) => {
    run.onChange = resolve;
  });
}
