/** Standard Schema as three libraries implement it: inputs, signals and results are read by them, and typed by them. */
import { durable, type Failure, FlowTest, type StandardSchemaV1, type Task, task } from "@tenure/sdk";
import { type } from "arktype";
import * as v from "valibot";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { announcementOf } from "../dist/announcement.js";
import { Client } from "../dist/index.js";
import { runInline } from "../dist/testing.js";
import { type Stub, startStub } from "./stub.ts";

interface Order {
  id: number;
  lines: Array<{ item: string; at: Date }>;
}

/** As it travels: a date is text. */
interface Sent {
  id: number;
  lines: Array<{ item: string; at: string }>;
}

const zod = z.object({
  id: z.number(),
  lines: z.array(z.object({ item: z.string(), at: z.iso.datetime().transform((at) => new Date(at)) })),
});
const valibot = v.object({
  id: v.number(),
  lines: v.array(
    v.object({
      item: v.string(),
      at: v.pipe(
        v.string(),
        v.isoTimestamp(),
        v.transform((at) => new Date(at)),
      ),
    }),
  ),
});
const arktype = type({
  id: "number",
  lines: type({ item: "string", at: "string.date.iso.parse" }).array(),
});

// The types of what is sent and of what is read are those of the schema, without a word from the program.
const withZod = task("order", { input: zod }, (order) => read(order)) satisfies Task<Sent, string>;
const withValibot = task("order", { input: valibot }, (order) => read(order)) satisfies Task<Sent, string>;
const withArktype = task("order", { input: arktype }, (order) => read(order)) satisfies Task<Sent, string>;

function read(order: Order): string {
  return order.lines.map(({ item, at }) => `${order.id}: ${item} in ${at.getUTCFullYear()}`).join();
}

const good: Sent = { id: 7, lines: [{ item: "lamp", at: "2026-01-02T03:04:05Z" }] };
const bad = { id: 7, lines: [good.lines[0], { item: 5, at: "2026-01-02T03:04:05Z" }] };

const libraries: Array<[string, Task<Sent, string>, StandardSchemaV1<Sent, Order>]> = [
  ["zod", withZod, zod],
  ["valibot", withValibot, valibot],
  ["arktype", withArktype, arktype],
];

const stubs: Stub[] = [];
afterEach(async () => {
  for (const stub of stubs.splice(0)) await stub.close();
});

describe.each(libraries)("a schema of %s", (_, order, schema) => {
  it("reads the input of a task", async () => {
    expect(await runInline(order, good)).toBe("7: lamp in 2026");
  });

  it("refuses an input with its place, which is not retried", async () => {
    const failure = (await runInline(order, bad as never).catch((error: unknown) => error)) as Failure;
    expect(failure).toMatchObject({ category: "DATA_QUALITY", retryable: undefined });
    expect(failure.message).toMatch(/^the input is refused at \$\.lines\[1\]\.item: .+/);
  });

  it("reads the input of a durable function and the payloads of its signals", async () => {
    const waits = durable("waits", { input: schema }, async (flow, first) => {
      const second = await flow.signal("more", schema);
      return `${read(first)} and ${read(second)}`;
    });
    const ended = await new FlowTest(waits, good).signal("more", { ...good, id: 8 }).run();
    expect(ended.output).toBe("7: lamp in 2026 and 8: lamp in 2026");
    const refused = await new FlowTest(waits, good).signal("more", bad).run();
    expect(refused.error).toMatchObject({
      category: "DATA_QUALITY",
      message: expect.stringContaining("cannot be read at $.lines[1].item"),
    });
  });

  it("reads a result", async () => {
    const answering = async (output: unknown) => {
      const stub = await startStub(() => ({ body: { runId: "run_1", state: "succeeded", output } }));
      stubs.push(stub);
      return new Client({ url: stub.url, apiKey: "k" }).run<Order>("run_1").result({ schema });
    };
    expect(read(await answering(good))).toBe("7: lamp in 2026");
    await expect(answering(bad)).rejects.toMatchObject({
      code: "output_unreadable",
      path: "$.lines[1].item",
    });
  });

  it("is announced where it can be written as a JSON Schema, and never stops a worker", () => {
    expect(() => announcementOf([order], "build-1")).not.toThrow();
  });
});
