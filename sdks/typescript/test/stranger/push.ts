// One handler in five frameworks, each behind an endpoint of its own.
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, durable, task } from "@tenure/sdk";
import { push, toFastify, toNode } from "@tenure/sdk/push";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";

const client = new Client();
const servers: Server[] = [];

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/work`;
}

type Handler = (request: Request) => Promise<Response>;

const frameworks: Record<string, (handler: Handler) => RequestListener | Promise<Server>> = {
  http: (handler) => toNode(handler),
  express: (handler) => {
    const app = express();
    app.post("/work", toNode(handler));
    return app;
  },
  fastify: async (handler) => {
    const app = fastify();
    app.register(toFastify(handler), { prefix: "/work" });
    await app.ready();
    return app.server;
  },
  hono: (handler) => {
    const app = new Hono();
    app.post("/work", (c) => handler(c.req.raw));
    return toNode(async (request) => app.fetch(request));
  },
  next: (handler) => {
    // app/work/route.ts
    const route = { POST: (request: Request) => handler(request) };
    return toNode(route.POST);
  },
};

for (const [queue, framework] of Object.entries(frameworks)) {
  const greet = task("greet", { queue }, async (name: string) => `Hello from ${queue}, ${name}!`);
  const nap = durable("nap", { queue }, async (flow, ms: number) => {
    await flow.sleep({ milliseconds: ms });
    return flow.step("wake", () => `awake in ${queue}`);
  });
  // The address is known before the secret is.
  let handler: Handler = async () => new Response(null, { status: 503 });
  const made = await framework((request) => handler(request));
  const url = await listening(typeof made === "function" ? createServer(made) : made);
  const { secret } = await client.endpoints.create(queue, url, { queues: [queue] });
  handler = push({ tasks: [greet, nap], secret, url, name: queue, client });
  console.log(await client.submit(greet, "Ada").result(), await client.submit(nap, 10).result());
}
for (const server of servers) {
  server.closeAllConnections();
  server.close();
}
client.close();
