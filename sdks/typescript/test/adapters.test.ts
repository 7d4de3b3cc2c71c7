/** Push handlers where people put them: Node's `http`, Express, Fastify, Hono, and a route of Next.js. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, task } from "@tenure/sdk";
import { push, toFastify, toNode } from "@tenure/sdk/push";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { describe, expect, it, vi } from "vitest";
import { pushed, secretOf, URL_OF_PUSH } from "./signed.ts";

const greet = task("greet", {}, async (name: string) => `Hello, ${name}!`);
const client = new Client({ url: "http://127.0.0.1:9", apiKey: "k" });
const handler = push({
  tasks: [greet],
  secret: secretOf(1),
  url: URL_OF_PUSH,
  client,
  onLog: () => {},
});

type Send = (path: string, init: ReturnType<typeof pushed>) => Promise<Response> | Response;

/** Listens on a free port for as long as it is used. */
async function served(listener: RequestListener, use: (send: Send) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  try {
    await use((path, init) => fetch(`http://127.0.0.1:${port}${path}`, init));
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** A push is answered with its report, and one that is signed with another secret is refused. */
async function answers(send: Send, path: string): Promise<void> {
  const answered = await send(path, pushed("greet", "Ada"));
  const report = await answered.text();
  expect([answered.status, answered.headers.get("content-type")], report).toEqual([200, "application/json"]);
  expect(JSON.parse(report)).toMatchObject({ outcome: "SUCCEEDED", output: "Hello, Ada!" });
  expect((await send(path, pushed("greet", "Ada", { secrets: [2] }))).status).toBe(401);
}

describe("a push handler", () => {
  it("is a listener of Node's http", () => served(toNode(handler), (send) => answers(send, "/work")));

  it("is a route of Express, before a body parser or behind one that keeps the bytes", async () => {
    const app = express();
    app.post("/first", toNode(handler));
    app.post("/raw", express.raw({ type: "application/json" }), toNode(handler));
    app.use(express.json());
    app.post("/parsed", toNode(handler));
    await served(app, async (send) => {
      await answers(send, "/first");
      await answers(send, "/raw");
      const late = await send("/parsed", pushed("greet", "Ada"));
      expect([late.status, await late.text()]).toEqual([500, expect.stringContaining("before body parsers")]);
    });
  });

  it("is a plugin of Fastify, and other routes keep their parsers", async () => {
    const app = fastify();
    app.register(toFastify(handler), { prefix: "/api/tenure" });
    app.post("/echo", async (request) => ({ got: request.body }));
    await app.listen({ port: 0, host: "127.0.0.1" });
    const { port } = app.server.address() as AddressInfo;
    const send: Send = (path, init) => fetch(`http://127.0.0.1:${port}${path}`, init);
    try {
      await answers(send, "/api/tenure");
      const other = { method: "POST", headers: { "content-type": "application/json" }, body: '{"n":1}' };
      expect(await (await fetch(`http://127.0.0.1:${port}/echo`, other)).json()).toEqual({ got: { n: 1 } });
    } finally {
      await app.close();
    }
  });

  it("is a route of Hono", async () => {
    const app = new Hono();
    app.post("/api/tenure", (c) => handler(c.req.raw));
    await answers((path, init) => app.request(path, init), "/api/tenure");
  });

  it("runs no isolated task, which has no child there, and may have it among its tasks", async () => {
    const alone = task("alone", { isolate: true }, () => 1);
    const both = push({
      tasks: [greet, alone],
      secret: secretOf(1),
      url: URL_OF_PUSH,
      client,
      onLog: () => {},
    });
    const send: Send = (path, init) => both(new Request(`https://example.com${path}`, init));
    await answers(send, "/work");
    expect(await (await send("/work", pushed("alone", null))).json()).toMatchObject({
      outcome: "FAILED",
      error: {
        category: "CONFIGURATION",
        message: expect.stringContaining("let a worker poll for its queue"),
      },
    });
  });

  it("is made before its secret is set, as where a framework builds, and says so when it is asked", async () => {
    const late = push({ tasks: [greet], url: URL_OF_PUSH, client, onLog: () => {} });
    const send: Send = (path, init) => late(new Request(`https://example.com${path}`, init));
    vi.stubEnv("TENURE_PUSH_SECRET", "");
    await expect(send("/work", pushed("greet", "Ada"))).rejects.toThrow(
      "set TENURE_PUSH_SECRET to that of the endpoint",
    );
    vi.stubEnv("TENURE_PUSH_SECRET", secretOf(1));
    await answers(send, "/work");
    vi.unstubAllEnvs();
  });

  it("is a route of Next.js", async () => {
    // app/api/tenure/route.ts exports it under the name of the method.
    const POST: (request: Request) => Promise<Response> = handler;
    await answers((path, init) => POST(new Request(`https://example.com${path}`, init)), "/api/tenure");
  });
});
