// Another system, which is told what was decided: it answers as a test says.

import { once } from "node:events";
import { createServer } from "node:http";

/** Starts a receiver that answers with a status for the id of an effect and the path of the call. It ends with the tests. */
export async function receive(answer: (id: string, path: string) => number): Promise<string> {
  const receiver = createServer((call, response) => {
    const status = answer(String(call.headers["webhook-id"]), call.url!);
    call.resume();
    call.on("end", () => response.writeHead(status).end());
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  receiver.unref();
  const { port } = receiver.address() as { port: number };
  return `http://127.0.0.1:${port}`;
}
