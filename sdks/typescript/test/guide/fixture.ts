// fixture.ts
import { type TestServer, startServer } from "@tenure/sdk/testing";
import { test as base } from "vitest";

export const test = base.extend<{ tenure: TestServer }>({
  tenure: async ({}, use) => {
    await using server = await startServer();
    await use(server);
  },
});
