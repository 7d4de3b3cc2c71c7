/** Many waits of one client: they share calls, none waits for another one, and an older coordinator needs no setting. */
import { Client, Refused, TimedOut } from "@tenure/sdk";
import { afterEach, describe, expect, it } from "vitest";
import { type Answer, type Asked, problem, type Stub, startStub } from "./stub.ts";

/** A coordinator whose runs end when the test says so. */
class Runs {
  readonly #ended = new Set<string>();
  #changed: Array<() => void> = [];
  waits = 0;
  looks = 0;
  open = 0;
  openMost = 0;

  end(...ids: string[]): void {
    for (const id of ids) this.#ended.add(id);
    for (const resolve of this.#changed.splice(0)) resolve();
  }

  #view(id: string) {
    const state = this.#ended.has(id) ? "succeeded" : "running";
    return { runId: id, taskId: id, state, output: `of ${id}`, createdAt: "", attempt: 1 };
  }

  answer = async (asked: Asked): Promise<Answer> => {
    this.open += 1;
    this.openMost = Math.max(this.openMost, this.open);
    const answered = await (asked.path === "/v1/waits" ? this.#wait(asked.body) : this.#look(asked.path));
    this.open -= 1;
    return answered;
  };

  async #look(path: string): Promise<Answer> {
    this.looks += 1;
    const [, id = "", waitMs = ""] = /runs\/(\w+)\?waitMs=(\d+)/.exec(path) ?? [];
    while (!this.#ended.has(id) && waitMs !== "0") await this.#change();
    return { body: this.#view(id) };
  }

  async #wait({ runIds, waitMs }: { runIds: string[]; waitMs: number }): Promise<Answer> {
    this.waits += 1;
    expect([runIds.length <= 256, waitMs]).toEqual([true, 30_000]);
    const known = runIds.filter((id) => id !== "lost");
    const notFound = runIds.filter((id) => id === "lost");
    while (notFound.length === 0 && !known.some((id) => this.#ended.has(id))) await this.#change();
    const ended = known.filter((id) => this.#ended.has(id)).map((id) => this.#view(id));
    const pending = known.filter((id) => !this.#ended.has(id));
    return { body: { ended, pending, notFound, serverTime: "" } };
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }
}

let stub: Stub;
afterEach(() => stub.close());

async function connected(answer: (asked: Asked) => Answer | Promise<Answer>): Promise<Client> {
  stub = await startStub(answer);
  return new Client({ url: stub.url, apiKey: "k", retries: 0 });
}

const names = (many: number) => Array.from({ length: many }, (_, n) => `r${n}`);

describe("waits for results", () => {
  it("share calls where there are many, and each gets the result of its own run", async () => {
    const runs = new Runs();
    await using client = await connected(runs.answer);
    const ids = names(700);
    const results = ids.map((id) => client.run(id).result());
    for (const id of ids) {
      if (Math.random() < 0.2) await new Promise((resolve) => setImmediate(resolve));
      runs.end(id);
    }
    expect(await Promise.all(results)).toEqual(ids.map((id) => `of ${id}`));
    expect(runs.looks).toBe(0);
    expect(runs.openMost).toBeLessThanOrEqual(16);
  });

  it("have a call each where they are few", async () => {
    const runs = new Runs();
    await using client = await connected(runs.answer);
    const results = names(4).map((id) => client.run(id).result());
    runs.end(...names(4));
    expect(await Promise.all(results)).toEqual(names(4).map((id) => `of ${id}`));
    expect([runs.looks, runs.waits]).toEqual([4, 0]);
  });

  it("end as soon as their run does, although others go on", async () => {
    const runs = new Runs();
    await using client = await connected(runs.answer);
    const stop = new AbortController();
    const forever = names(300).map((id) => client.run(id).result({ signal: stop.signal }));
    for (let n = 0; n < 20; n++) {
      const quick = client.run(`quick${n}`).result();
      runs.end(`quick${n}`);
      expect(await quick).toBe(`of quick${n}`);
    }
    stop.abort(new Error("enough"));
    for (const one of await Promise.allSettled(forever)) expect(one.status).toBe("rejected");
  });

  it("are over in time, and leave the run alone", async () => {
    const runs = new Runs();
    await using client = await connected(runs.answer);
    const timeout = { milliseconds: 60 };
    const results = names(12).map((id) => client.run(id).result(id < "r4" ? {} : { timeout }));
    runs.end("r0", "r1", "r2", "r3", "r10", "r11");
    const told = await Promise.allSettled(results);
    const late = told.filter((one) => one.status === "rejected").map((one) => one.reason as unknown);
    expect(late.length).toBe(6);
    for (const reason of late) expect(reason).toBeInstanceOf(TimedOut);
  });

  it("of a run that is not there get the refusal of its own call", async () => {
    const runs = new Runs();
    await using client = await connected((asked) =>
      asked.path.startsWith("/v1/runs/lost") ? problem("run_not_found", 404) : runs.answer(asked),
    );
    const others = names(6).map((id) => client.run(id).result());
    const lost = await client
      .run("lost")
      .result()
      .catch((error: unknown) => error);
    expect(lost).toBeInstanceOf(Refused);
    expect(lost).toMatchObject({ code: "run_not_found" });
    runs.end(...names(6));
    expect(await Promise.all(others)).toHaveLength(6);
  });

  it.each([problem("not_found", 404), problem("method_not_allowed", 405), { status: 404, body: "" }])(
    "have a call each at a coordinator that does not know the shared one",
    async (answer) => {
      const runs = new Runs();
      let asked = 0;
      await using client = await connected((call) => {
        if (call.path !== "/v1/waits") return runs.answer(call);
        asked += 1;
        return answer;
      });
      const ids = names(20);
      const results = ids.map((id) => client.run(id).result());
      runs.end(...ids);
      expect(await Promise.all(results)).toEqual(ids.map((id) => `of ${id}`));
      expect(await client.run("r1").result()).toBe("of r1");
      expect(asked).toBe(1);
    },
  );
});
