/**
 * Submissions that wait go together: those of all callers of one client ride in one call.
 *
 * What is submitted in one turn of the event loop goes in one call, as soon as the turn is over. While enough calls are in
 * flight, others wait until one of them returns and then share the next, so nothing waits for a batch to fill. What a caller gets does not depend on the company: a run that
 * is refused inside a batch is submitted again alone, under the same idempotency key, and its caller gets that answer.
 */
import type { Calls } from "./calls.js";
import { writeChecked } from "./json.js";
import { afterThisTurn } from "./turn.js";
import type { RunAccepted, SubmitResult, SubmitResults, SubmitRun } from "./wire.js";

/** One call is decided while the next is on its way; more would only make the batches smaller. */
const CALLS_MAX = 2;
/** The coordinator's limit of one call. */
export const BATCH_ITEMS_MAX = 1000;
/** Well below the coordinator's limit on a body, with room for one more run of any size. */
const BATCH_BYTES_MAX = 512 * 1024;

interface Pending {
  /** The submission without its key, as JSON. */
  text: string;
  key: string;
  resolve(answer: RunAccepted): void;
  reject(error: unknown): void;
}

export class Submissions {
  #waiting: Pending[] = [];
  #inFlight = 0;
  /** Whether the end of this turn sends what waits. */
  #isDue = false;

  constructor(private readonly calls: Calls) {}

  /** Without a key one is generated, so that a repetition cannot submit the run twice. */
  submit(run: SubmitRun): Promise<RunAccepted> {
    const { idempotencyKey, ...rest } = run;
    const key = idempotencyKey ?? newKey();
    const text = writeChecked(rest);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, key, resolve, reject });
      this.#sendSoon();
    });
  }

  #sendSoon(): void {
    if (this.#isDue || this.#inFlight >= CALLS_MAX) return;
    this.#isDue = true;
    afterThisTurn(() => {
      this.#isDue = false;
      if (this.#inFlight < CALLS_MAX) this.#send();
    });
  }

  /** Submits exactly these, in calls of at most a thousand, and answers each. */
  async submitAll(runs: readonly SubmitRun[]): Promise<SubmitResult[]> {
    const texts = runs.map((run) => writeChecked({ ...run, idempotencyKey: run.idempotencyKey ?? newKey() }));
    const results: SubmitResult[] = [];
    for (const part of inParts(texts)) results.push(...(await this.#call(part)));
    return results;
  }

  #send(): void {
    const batch = this.#take();
    if (batch.length === 0) return;
    this.#inFlight += 1;
    const sent = batch.length === 1 ? this.#alone(batch[0] as Pending) : this.#together(batch);
    sent.finally(() => {
      this.#inFlight -= 1;
      // Its callers may submit again before this turn is over.
      this.#sendSoon();
    });
  }

  #take(): Pending[] {
    let bytes = 0;
    let many = 0;
    for (const pending of this.#waiting) {
      bytes += pending.text.length;
      if (many > 0 && (bytes > BATCH_BYTES_MAX || many >= BATCH_ITEMS_MAX)) break;
      many += 1;
    }
    return this.#waiting.splice(0, many);
  }

  /** A single run sends its key in the header; the member is for batches. */
  async #alone(pending: Pending): Promise<void> {
    const { text, key, resolve, reject } = pending;
    const call = { method: "POST", path: "/v1/runs", body: text, idempotencyKey: key } as const;
    await this.calls.json<RunAccepted>(call).then(resolve, reject);
  }

  async #together(batch: Pending[]): Promise<void> {
    const texts = batch.map(({ text, key }) => `{"idempotencyKey":${JSON.stringify(key)},${text.slice(1)}`);
    let results: SubmitResult[];
    try {
      results = await this.#call(texts);
    } catch (error) {
      for (const pending of batch) pending.reject(error);
      return;
    }
    await Promise.all(batch.map((pending, n) => this.#answer(pending, results[n])));
  }

  async #answer(pending: Pending, result: SubmitResult | undefined): Promise<void> {
    if (result?.runId) pending.resolve(result as RunAccepted);
    else await this.#alone(pending);
  }

  async #call(texts: readonly string[]): Promise<SubmitResult[]> {
    const body = `{"runs":[${texts.join(",")}]}`;
    return (await this.calls.json<SubmitResults>({ method: "POST", path: "/v1/runs", body })).results;
  }
}

function* inParts(texts: readonly string[]): Generator<string[]> {
  let part: string[] = [];
  let bytes = 0;
  for (const text of texts) {
    if (part.length > 0 && (part.length >= BATCH_ITEMS_MAX || bytes + text.length > BATCH_BYTES_MAX)) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(text);
    bytes += text.length;
  }
  if (part.length > 0) yield part;
}

/** A key that no other submission has. */
export function newKey(): string {
  return crypto.randomUUID();
}
