import assert from "node:assert/strict";
import { test } from "node:test";
import { FlowTest, runInline } from "@tenure/sdk/testing";
import { greet, order, pack } from "./tasks.js";

test("a greeting", async () => assert.equal(await runInline(greet, "Ada"), "Hello, Ada!"));

test("an order, and one whose worker dies at every place", async () => {
  const approved = new FlowTest(order, { id: 7, cents: 500, items: ["lamp"] })
    .approve("ship", "ann")
    .approve("ship", "bob")
    .child(pack, (item) => item);
  for (const ended of await approved.runWithEveryCrash()) assert.deepEqual(ended.output, ["lamp"]);
});
