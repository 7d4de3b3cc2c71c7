/**
 * Push handlers where there is no `Request`: listeners for Node's `http` and Express, and a plugin for Fastify.
 *
 * The signature of a push is that of its bytes, so they must come as they were sent. Where something has parsed them
 * before, the answer says so.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import type { PushHandler } from "../push.js";

/** What a body parser that keeps the bytes (`express.raw`) leaves. */
type WithBody = IncomingMessage & { body?: unknown };

/** Makes a handler a listener for Node's `http` and for Express, before a body parser or behind `express.raw()`. */
export function toNode(handler: PushHandler): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    void answer(handler, request, response).catch((error: unknown) => {
      response.statusCode = 500;
      response.end(String(error instanceof Error ? error.message : error));
    });
  };
}

async function answer(
  handler: PushHandler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const answered = await handler(requestOf(request, await bytesOf(request)));
  response.writeHead(answered.status, Object.fromEntries(answered.headers));
  response.end(Buffer.from(await answered.arrayBuffer()));
}

async function bytesOf(request: WithBody): Promise<Uint8Array> {
  const { body } = request;
  if (body instanceof Uint8Array) return body;
  if (request.readableDidRead) {
    throw new Error(
      "the body of the push was parsed before its handler got it, so its signature cannot be checked: mount the handler " +
        'before body parsers, or behind `express.raw({ type: "application/json" })`',
    );
  }
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function requestOf(request: IncomingMessage, body: Uint8Array): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  const url = `http://${request.headers.host ?? "localhost"}${request.url ?? "/"}`;
  const init: RequestInit = { method: request.method ?? "POST", headers };
  if (init.method !== "GET" && init.method !== "HEAD") init.body = new Uint8Array(body);
  return new Request(url, init);
}

/** The part of a Fastify instance that the plugin calls. */
interface FastifyLike {
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    type: string,
    options: { parseAs: "buffer" },
    parser: (request: any, body: Buffer, done: (error: null, body: Buffer) => void) => void,
  ): unknown;
  post(path: string, handler: (request: any, reply: any) => unknown): unknown;
}

interface FastifyReply {
  status(code: number): FastifyReply;
  headers(headers: Record<string, string>): FastifyReply;
  send(body: Buffer): unknown;
}

/**
 * Makes a handler a plugin for Fastify: `fastify.register(toFastify(handler), { prefix: "/api/tenure" })`. Inside of it
 * bodies stay bytes; the parsers of other routes stay as they are.
 */
export function toFastify(handler: PushHandler): (fastify: FastifyLike) => Promise<void> {
  return async (fastify) => {
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser("*", { parseAs: "buffer" }, (_, body, done) => done(null, body));
    fastify.post("/", async ({ raw, body }: { raw: IncomingMessage; body: Buffer }, reply: FastifyReply) => {
      const answered = await handler(requestOf(raw, body));
      reply.status(answered.status).headers(Object.fromEntries(answered.headers));
      return reply.send(Buffer.from(await answered.arrayBuffer()));
    });
  };
}
