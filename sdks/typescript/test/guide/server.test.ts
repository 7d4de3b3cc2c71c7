// server.test.ts
import { Worker } from "@tenure/sdk";
import { expect } from "vitest";
import { test } from "./fixture.js";
import { greet } from "./orders.js";

test("a greeting on a real server", async ({ tenure }) => {
  const client = tenure.client();
  const stop = new AbortController();
  const worker = new Worker({ tasks: [greet], client }).run({ signal: stop.signal });
  expect(await client.submit(greet, "Ada").result()).toBe("Hello, Ada!");
  stop.abort();
  await worker;
});
