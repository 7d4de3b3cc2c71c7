// The session as the tab keeps it: whose end an answer announces.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { get } from "../../src/api/call.js";
import type { Session } from "../../src/api/types.js";
import { enter } from "../../src/login.js";
import * as session from "../../src/session.js";

const ANN = { keyId: "ann", may: [] } as unknown as Session;
const BOB = { keyId: "bob", may: [] } as unknown as Session;

const answer = (status: number, body: object) => new Response(JSON.stringify(body), { status });
const over = () => answer(401, { error: "session_required", title: "t", message: "it was ended" });

describe("the session of a tab", () => {
  const stored = new Map<string, string>();
  const told: Array<(event: { key: string | null }) => void> = [];
  beforeEach(() => {
    vi.stubGlobal("localStorage", {
      getItem: (name: string) => stored.get(name) ?? null,
      setItem: (name: string, text: string) => stored.set(name, text),
      removeItem: (name: string) => stored.delete(name),
    });
    vi.stubGlobal("document", { baseURI: "http://127.0.0.1:7400/console/" });
    vi.stubGlobal("addEventListener", (_: string, tell: (typeof told)[0]) => told.push(tell));
  });
  afterEach(() => {
    session.end();
    stored.clear();
    told.length = 0;
    vi.unstubAllGlobals();
  });

  it("ends when the server says that it is over", async () => {
    vi.stubGlobal("fetch", async () => over());
    session.begin("one", ANN);
    await expect(get("v1/runs")).rejects.toMatchObject({ code: "session_required" });
    expect(session.person.value).toBeNull();
    expect(session.endedBecause.value).toBe("Your session is over: it was ended");
    expect(stored.size).toBe(0);
  });

  it("does not end by an answer to a call of the session before", async () => {
    let reply = (_: Response) => {};
    vi.stubGlobal(
      "fetch",
      () =>
        new Promise<Response>((resolve) => {
          reply = resolve;
        }),
    );
    session.begin("one", ANN);
    const late = get("v1/runs");
    session.begin("two", BOB);
    reply(over());
    await expect(late).rejects.toMatchObject({ code: "session_required" });
    expect(session.person.value).toBe(BOB);
    expect([...stored.values()]).toEqual(["two"]);
  });

  it("goes on after a failure of the server, which has refused nobody", async () => {
    vi.useFakeTimers();
    const answers = [answer(500, {}), answer(503, {}), answer(429, {}), answer(200, ANN)];
    vi.stubGlobal("fetch", async () => answers.shift()!);
    session.begin("one", BOB);
    const entering = enter(undefined);
    await vi.runAllTimersAsync();
    await entering;
    vi.useRealTimers();
    expect(session.person.value).toEqual(ANN);
    expect(stored.size).toBe(1);
  });

  it("follows the other tabs, also if a link opened it", async () => {
    vi.stubGlobal("fetch", async () => answer(200, { pageToken: "one", session: ANN }));
    await enter("0123456789abcdef0123456789abcdef");
    expect(session.person.value).toEqual(ANN);
    vi.stubGlobal("fetch", async () => answer(200, BOB));
    const [name] = stored.keys();
    stored.set(name!, "two");
    for (const tell of told) tell({ key: name! });
    await vi.waitFor(() => expect(session.person.value).toEqual(BOB));
    stored.clear();
    for (const tell of told) tell({ key: name! });
    expect(session.person.value).toBeNull();
  });
});
