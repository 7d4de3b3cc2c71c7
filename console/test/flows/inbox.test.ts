// What waits for a person: shown before it is decided, and decided about what was shown.

import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { logIn, visit } from "../support/browser.js";
import { Scene } from "../support/scene.js";
import { type Server, Worker } from "../support/server.js";

const INPUT = { to: "Ada", cents: 50000 };
const DIGEST = createHash("sha256").update('{"cents":50000,"to":"Ada"}').digest("hex");

/** A run that asks people about its input. */
async function ask(server: Server, queue: string, subject: string, quorum: number): Promise<string> {
  const worker = new Worker(server, "payer");
  const id = await server.submit("payout", queue, { input: INPUT });
  const approval = { subject, quorum, roles: ["approver", "admin"], digest: DIGEST };
  await worker.must(await worker.lease(queue), "checkpoints", {
    wait: { key: "wait:pay", mode: "all", for: [{ key: "pay", approval }] },
  });
  return id;
}

describe("inbox", () => {
  const scene = Scene.of("inbox");

  it("decides an approval with two people, bound to what was shown", async () => {
    const { page, server, browser } = scene;
    const id = await ask(server, "payouts", "Pay 500.00 to Ada?", 2);
    // Who asked may not decide: the key that submitted the run would be refused.
    await scene.logIn(await server.keyOf("reader,approver", "ann"));
    await page.getByRole("link", { name: /Inbox/ }).first().click();
    await page.getByText("the same as the run asked for").waitFor();
    await page.getByRole("cell", { name: "50000" }).waitFor();
    await page.getByLabel("Comment").fill("checked the invoice");
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByText("waits for 1 more person").waitFor();
    // The same person cannot decide twice, and is told so.
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByText("already_voted").waitFor();

    const approver = await visit(browser, { viewport: { width: 390, height: 844 } });
    await logIn(approver.page, scene.console.url, await server.keyOf("approver", "bea"));
    // One who may only approve sees the Inbox and nothing else, and proves what they looked at by its digest.
    const entries = approver.page.getByRole("navigation", { name: "Pages" }).getByRole("link");
    expect(await entries.count()).toBeLessThanOrEqual(2);
    await approver.page.getByRole("link", { name: /Pay 500.00 to Ada/ }).click();
    await approver.page.getByLabel("Digest of what you have looked at").fill(DIGEST);
    await approver.page.getByRole("button", { name: "Approve", exact: true }).click();
    await approver.page.locator(".pill", { hasText: "approved" }).waitFor();
    expect(approver.faults).toEqual([]);
    await approver.page.close();
    await scene.open(`runs/${id}`);
    await page.getByText("2 people approved").waitFor();
  });

  it("rejects only after it was said what a rejection does", async () => {
    const { page, server } = scene;
    const id = await ask(server, "refunds", "Refund 500.00 to Ada?", 1);
    await scene.logIn(await server.keyOf("reader,approver", "cem"));
    await scene.open("inbox");
    await page.getByRole("link", { name: /Refund 500.00 to Ada/ }).click();
    await page.getByText("the same as the run asked for").waitFor();
    await page.getByRole("button", { name: "Reject…" }).click();
    await page.getByText("One rejection rejects, whatever others have decided").waitFor();
    await page.getByRole("button", { name: "Reject it" }).click();
    await page.locator(".pill", { hasText: "rejected" }).waitFor();
    await scene.open("inbox?show=closed");
    await page.getByRole("link", { name: /Refund 500.00 to Ada/ }).waitFor();
    // The run goes on, and decides what follows.
    const task = await new Worker(server, "payer").lease("refunds");
    expect(task.runId).toBe(id);
  });
});
