/** What a worker says about itself, to a coordinator that listens and to one that does not know the member. */
import { Client, durable, Setup, task, Worker } from "@tenure/sdk";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { announcementOf } from "../dist/announcement.js";
import { eventually } from "./server.ts";
import { type Asked, problem, type Stub, startStub } from "./stub.ts";

const input = z.object({ url: z.url(), width: z.coerce.number().min(1) });
const resize = task("resize", { queue: "images", input }, async ({ url }) => url);
const plain = durable("plain", { queue: "images" }, async () => 1);

describe("an announcement", () => {
  it("has the build, and the schemas that the libraries can give", () => {
    const { id, text } = announcementOf([resize, plain], "2026-11-18.3");
    const { kinds, ...rest } = JSON.parse(text);
    expect(rest).toEqual({ id, buildId: "2026-11-18.3" });
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(kinds[1]).toEqual({ kind: "plain" });
    expect(kinds[0].inputSchema).toMatchObject({ type: "object", required: expect.arrayContaining(["url"]) });
  });

  it("says which builds may continue a durable run", () => {
    const order = durable("order", { builds: "pin" }, async () => 1);
    expect(JSON.parse(announcementOf([order, plain], "7").text).kinds).toEqual([
      { kind: "order", builds: "pin" },
      { kind: "plain" },
    ]);
    expect(() => announcementOf([order], undefined)).toThrow(Setup);
  });

  it("leaves out what is too large, or has no such form", () => {
    const wide = z.object(Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [`m${n}`, z.string()])));
    const odd = z.custom<string>(() => true);
    const tasks = [
      task("wide", { input: wide }, async () => 1),
      task("odd", { input: z.map(z.string(), odd) }, async () => 1),
    ];
    expect(JSON.parse(announcementOf(tasks, undefined).text).kinds).toEqual([
      { kind: "wide" },
      { kind: "odd" },
    ]);
    expect(() => announcementOf([plain], "a build")).toThrow(Setup);
  });
});

describe("a worker", () => {
  let stub: Stub;
  afterEach(() => stub.close());

  /** Polls until the coordinator was asked so often. */
  async function polls(many: number, answer: (asked: Asked, n: number) => object): Promise<any[]> {
    stub = await startStub((asked, n) => answer(asked, n));
    await using client = new Client({ url: stub.url, apiKey: "k" });
    const stop = new AbortController();
    const ended = new Worker({ tasks: [resize], client, onLog: () => {} }).run({ signal: stop.signal });
    await eventually("it polls", () => (stub.asked.length >= many ? true : undefined));
    stop.abort();
    await ended;
    return stub.asked.slice(0, many).map(({ body }) => body);
  }

  const leases = (more: object = {}) => ({ body: { leases: [], signals: [], serverTime: "", ...more } });
  const { id } = announcementOf([resize], undefined);

  it("announces once, then names it, and again when it is asked to", async () => {
    const bodies = await polls(4, (_, n) => leases(n === 2 ? { announceAgain: true } : {}));
    expect(bodies.map((body) => [body.announce?.id, body.announced])).toEqual([
      [id, undefined],
      [undefined, id],
      [id, undefined],
      [undefined, id],
    ]);
  });

  it("repeats its poll without it at an older coordinator, and does not try again", async () => {
    const bodies = await polls(3, (_, n) => (n === 1 ? problem("invalid_argument", 400) : leases()));
    expect(bodies[1].pollId).toBe(bodies[0].pollId);
    expect(bodies.map((body) => "announce" in body || "announced" in body)).toEqual([true, false, false]);
  });
});
