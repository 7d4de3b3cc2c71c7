/** Lines of an attempt: numbered, bounded, sent with the next call, and never in the way of the work. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, task, Worker } from "@tenure/sdk";
import { describe, expect, it } from "vitest";
import { BUFFER_BYTES_MAX, CALL_BYTES_MAX, LogBuffer, LogSwitch, textOf } from "../src/log-buffer.ts";

const NOW = "2026-01-01T00:00:00.000Z";
const buffer = () => new LogBuffer(new LogSwitch(true));

describe("the buffer", () => {
  it("numbers lines and keeps them until they arrived", () => {
    const log = buffer();
    expect(log.take()).toBeUndefined();
    log.add("info", "one");
    log.add("warn", "two");
    const first = log.take();
    expect(first?.lines.map(({ n, level, text }) => [n, level, text])).toEqual([
      [1, "info", "one"],
      [2, "warn", "two"],
    ]);
    expect(log.take(), "a call that is repeated brings the same").toEqual(first);
    log.add("info", "three");
    log.arrived(first?.last ?? 0);
    expect(log.take()?.lines.map(({ n }) => n)).toEqual([3]);
    log.arrived(3);
    expect(log.isEmpty).toBe(true);
  });

  it("drops the oldest, which leaves a gap", () => {
    const log = buffer();
    for (let n = 1; n <= 1000; n += 1) log.add("info", "x".repeat(1000));
    const all = log.take(BUFFER_BYTES_MAX)?.lines ?? [];
    expect(all.at(-1)?.n).toBe(1000);
    expect(all[0]?.n).toBe(1000 - all.length + 1);
    expect(all.length * 1000).toBeLessThanOrEqual(BUFFER_BYTES_MAX);
    const some = log.take()?.lines ?? [];
    expect(some.length * 1000).toBeLessThanOrEqual(CALL_BYTES_MAX);
  });

  it.each([
    ["a\0b", "a\ufffdb"],
    ["\udc80", "\ufffd"],
    ["é".repeat(100_000), "é".repeat(2048)],
    ["two\nlines", "two\nlines"],
  ])("can send any text", (text, kept) => {
    const log = buffer();
    log.add("info", text);
    expect(log.take()?.lines[0]?.text).toBe(kept);
  });

  it("puts data into words", () => {
    expect(textOf({ level: "info", message: "m" })).toBe("m");
    expect(textOf({ level: "info", message: "m", data: { a: 1 } })).toBe('m {"a":1}');
    expect(textOf({ level: "info", message: "m", data: { a: 1n } })).toBe("m");
  });

  it("recognises that lines are refused, and sends none any more", () => {
    const takesLogs = new LogSwitch(true);
    const log = new LogBuffer(takesLogs);
    log.add("info", "one");
    expect(takesLogs.isRefusedBy({ error: "task_expired" })).toBe(false);
    expect(takesLogs.isRefusedBy({ error: "invalid_argument", field: "reports[0].output" })).toBe(false);
    expect(takesLogs.isOn).toBe(true);
    expect(takesLogs.isRefusedBy({ error: "invalid_argument", field: "reports[0].log" })).toBe(true);
    expect(log.take()).toBeUndefined();
  });
});

function envelope(number: number) {
  return {
    taskId: `task_${number}`,
    runId: `run_${number}`,
    taskToken: "token",
    leaseId: `lease_${number}`,
    attempt: 1,
    fence: 1,
    kind: "noisy",
    queue: "q",
    input: null,
    heartbeatTimeoutMs: 90_000,
    heartbeatIntervalMs: 30_000,
    cancelGracePeriodMs: 30_000,
    leaseExpiresAt: "2026-01-01T00:01:30.000Z",
    serverTime: NOW,
  };
}

type Sent = { taskId: string; output: unknown; log?: Array<{ n: number; level: string; text: string }> };

/** The reports of a worker that gets one task after the other, as they arrived. */
async function reportsOf(count: number, answerItem: (item: Sent) => object): Promise<Sent[]> {
  const reports: Sent[] = [];
  const stop = new AbortController();
  let [granted, committed] = [0, 0];
  const answer = (path: string, body: { reports: Sent[] }): object => {
    if (path === "/v1/leases") {
      if (granted === count || granted > committed) return { leases: [], serverTime: NOW };
      granted += 1;
      return { leases: [envelope(granted)], serverTime: NOW };
    }
    if (path !== "/v1/reports") return { answers: [], serverTime: NOW };
    const answers = body.reports.map((item) => {
      reports.push(item);
      const told = answerItem(item) as { status: number };
      committed += told.status === 200 ? 1 : 0;
      return { taskId: item.taskId, ...told };
    });
    if (committed === count) setImmediate(() => stop.abort());
    return { answers, serverTime: NOW };
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString() || "{}");
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(answer(request.url ?? "", body)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = new Client({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    apiKey: "key",
  });
  const noisy = task("noisy", { queue: "q" }, async (_: null, ctx) => {
    ctx.log.info("begun", { with: 1 });
    ctx.log.debug("nobody asked for this");
    ctx.log.warn("done");
    return "ok";
  });
  await new Worker({ tasks: [noisy], client, concurrency: 1, onLog: () => {} }).run({ signal: stop.signal });
  client.close();
  server.closeAllConnections();
  server.close();
  return reports;
}

const COMMITTED = { status: 200, verdict: "COMMITTED", state: "succeeded" };

describe("a worker", () => {
  it("sends what a task logs with its report", async () => {
    const [report] = await reportsOf(1, () => COMMITTED);
    expect(report?.log?.map(({ n, level, text }) => [n, level, text])).toEqual([
      [1, "info", 'begun {"with":1}'],
      [2, "warn", "done"],
    ]);
  });

  it("sends the report without lines to a coordinator that does not know them", async () => {
    const refused = {
      status: 400,
      verdict: "REJECTED",
      error: "invalid_argument",
      field: "reports[0].log",
    };
    const reports = await reportsOf(2, (item) => (item.log === undefined ? COMMITTED : refused));
    expect(reports.map(({ taskId, output, log }) => [taskId, output, log !== undefined])).toEqual([
      ["task_1", "ok", true],
      ["task_1", "ok", false],
      ["task_2", "ok", false],
    ]);
  });
});
