/** An HTTP server that answers as a test says, and keeps what it was asked. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Asked {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: any;
  at: number;
}

export type Answer = {
  status?: number;
  body?: unknown;
  headers?: Record<string, string>;
  drop?: "before" | "half";
};

export interface Stub {
  url: string;
  asked: Asked[];
  close(): Promise<void>;
}

export async function startStub(
  answer: (asked: Asked, n: number) => Answer | Promise<Answer>,
): Promise<Stub> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const one: Asked = {
      method: request.method ?? "",
      path: request.url ?? "",
      headers: request.headers,
      body: text === "" ? undefined : JSON.parse(text),
      at: performance.now(),
    };
    asked.push(one);
    send(response, await answer(one, asked.length));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

function send(response: ServerResponse, { status = 200, body = {}, headers = {}, drop }: Answer): void {
  if (drop === "before") return void response.socket?.destroy();
  const text = typeof body === "string" ? body : JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    ...headers,
  });
  if (drop !== "half") return void response.end(text);
  response.write(text.slice(0, text.length / 2), () => response.socket?.destroy());
}

export function problem(error: string, status: number, more: object = {}): Answer {
  return {
    status,
    body: {
      error,
      message: `it is ${error}`,
      detail: "",
      title: "",
      type: "",
      status,
      serverTime: "",
      ...more,
    },
  };
}
