// What people do with the console, through a real browser against a real server. No page may violate its content security policy.

import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { launch, logIn, proxy, type Site, site, visit } from "../support/browser.js";
import { Server, Worker } from "../support/server.js";

describe("flows", () => {
  let server: Server;
  let browser: Browser;
  let console_: Site;
  let page: Page;
  let faults: string[];
  let children: ChildProcess[] = [];
  let flows = 0;

  beforeAll(async () => {
    server = await Server.start();
    console_ = await site(server);
    browser = await launch();
  });

  afterAll(async () => {
    await browser?.close();
    await console_?.close();
    await server?.stop();
  });

  beforeEach(async () => {
    ({ page, faults } = await visit(browser));
  });

  afterEach(async () => {
    for (const child of children) child.kill("SIGKILL");
    children = [];
    await page
      .screenshot({ path: new URL(`../out/flow-${++flows}.png`, import.meta.url).pathname })
      .catch(() => {});
    await page.close();
    expect(faults).toEqual([]);
  });

  const run = (...words: string[]) => {
    const child = server.run(...words);
    children.push(child);
    return child;
  };

  it("logs in with a key, keeps it through a reload, and logs out", async () => {
    await page.goto(console_.url);
    await page.getByLabel("API key").fill("not a key");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByText("This is not an API key").waitFor();
    await page.getByLabel("API key").fill(server.key.slice(0, -1) + (server.key.endsWith("0") ? "1" : "0"));
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByText("The API key is missing or unknown").waitFor();
    await page.getByLabel("API key").fill(server.key);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByLabel("API key").waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it("shows a takeover live after a worker was killed", async () => {
    const id = await server.submit("nap", "naps", { leaseMs: 2000, heartbeatIntervalMs: 500 });
    await logIn(page, console_.url, server.key);
    await page.goto(`${console_.url}runs/${id}`);
    await page.getByText("Nothing has happened yet").waitFor();
    const alice = run("work", "--queue", "naps", "--name", "alice", "--exec", "sleep", "--", "60");
    await page.locator(".pill", { hasText: "running" }).waitFor();
    alice.kill("SIGKILL");
    await once(alice, "exit");
    run("work", "--queue", "naps", "--name", "bob", "--exec", "true");
    await page.getByText(/^bob\S* takes over$/).waitFor();
    await page.locator(".story").getByText("Succeeded after 2 attempts").waitFor();
    const story = await page.locator(".story").textContent();
    expect(story).toMatch(/Worker alice\S* went silent at .*, and bob\S* took over\./);
    await page.getByRole("button", { name: /attempt 1 of alice.*: lost/ }).click();
    await page.getByText("HEARTBEAT_TIMEOUT").first().waitFor();
  });

  it("names a report that came too late, and who was current", async () => {
    const [alice, bob] = [new Worker(server, "alice"), new Worker(server, "bob")];
    const id = await server.submit("late", "lates", { leaseMs: 2000, heartbeatIntervalMs: 500 });
    const first = await alice.lease("lates");
    await alice.must(first, "started");
    const second = await bob.lease("lates");
    await bob.must(second, "started");
    expect((await alice.tell(first, "completed", { outcome: "SUCCEEDED", output: 1 })).ok).toBe(false);
    await bob.must(second, "completed", { outcome: "SUCCEEDED", output: { by: "bob" } });
    await logIn(page, console_.url, server.key);
    await page.goto(`${console_.url}runs/${id}`);
    await page.getByRole("heading", { name: "Late report refused" }).waitFor();
    await page.getByText("attempt 2 of bob was current").waitFor();
    await page.getByRole("link", { name: "Record" }).click();
    await page.getByText("computed here, the same").nth(1).waitFor();
  });

  it("decides an approval with two people, bound to what was shown", async () => {
    const input = { to: "Ada", cents: 50000 };
    const digest = createHash("sha256").update('{"cents":50000,"to":"Ada"}').digest("hex");
    const worker = new Worker(server, "payer");
    const id = await server.submit("payout", "payouts", { input });
    const task = await worker.lease("payouts");
    const approval = { subject: "Pay 500.00 to Ada?", quorum: 2, roles: ["approver", "admin"], digest };
    await worker.must(task, "checkpoints", {
      wait: { key: "wait:pay", mode: "all", for: [{ key: "pay", approval }] },
    });
    // Who asked may not decide: the key that submitted the run would be refused.
    await logIn(page, console_.url, await server.keyOf("reader,approver", "ann"));
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
    await logIn(approver.page, console_.url, await server.keyOf("approver", "bea"));
    // One who may only approve sees the Inbox and nothing else, and proves what they looked at by its digest.
    expect(
      await approver.page.getByRole("navigation", { name: "Pages" }).getByRole("link").count(),
    ).toBeLessThanOrEqual(2);
    await approver.page.getByRole("link", { name: /Pay 500.00 to Ada/ }).click();
    await approver.page.getByLabel("Digest of what you have looked at").fill(digest);
    await approver.page.getByRole("button", { name: "Approve", exact: true }).click();
    await approver.page.locator(".pill", { hasText: "approved" }).waitFor();
    expect(approver.faults).toEqual([]);
    await approver.page.close();
    await page.goto(`${console_.url}runs/${id}`);
    await page.getByText("2 people approved").waitFor();
  });

  it("shows hostile payloads as text", async () => {
    const hostile = `{"html":"<img src=x onerror=alert(1)><script>alert(2)</script>","bidi":"safe\u202Egnp.exe","big":1${"0".repeat(30)},"exact":12345678901234567891,"long":"${"x".repeat(200_000)}","deep":${"[".repeat(20)}1${"]".repeat(20)}}`;
    const made = await server.call<{ runId: string }>(
      "POST",
      "/v1/runs",
      `{"kind":"hostile","queue":"hostile","input":${hostile},"labels":{"note":"<i>x</i>"}}`,
    );
    await logIn(page, console_.url, server.key);
    await page.goto(`${console_.url}runs/${made.runId}/payloads`);
    await page.getByText("<img src=x onerror=alert(1)>").waitFor();
    await page.getByText("‹U+202E›").waitFor();
    await page.getByText("12345678901234567891").waitFor();
    await page.getByText(`1${"0".repeat(30)}`).waitFor();
    await page.getByText(/more characters/).waitFor();
    expect(await page.locator("main img, main script, main i:text-is('x')").count()).toBe(0);
  });

  it("works behind a prefix of a proxy, at every depth", async () => {
    const behind = await proxy(console_, "/ops/tenure");
    const id = await server.submit("prefixed", "prefixed");
    await logIn(page, behind.url, server.key);
    await page.goto(`${behind.url}runs/${id}/history`);
    await page.getByText("submitted").first().waitFor();
    await page.getByRole("link", { name: "Queues" }).click();
    await page.getByRole("heading", { name: "prefixed" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/ops/tenure/console/queues");
    await page.goBack();
    await page.getByText("submitted").first().waitFor();
    await behind.close();
  });

  it("keeps what it shows while the server is away, says so, and goes on", async () => {
    const id = await server.submit("survivor", "survivors");
    await logIn(page, console_.url, server.key);
    await page.goto(`${console_.url}runs?kind=survivor`);
    await page.locator(".row-link", { hasText: "survivor" }).waitFor();
    await server.kill();
    await page.getByText(/as of .*, connecting/).waitFor();
    await page.locator(".row-link", { hasText: "survivor" }).waitFor();
    await server.up();
    await page.getByText("live", { exact: true }).waitFor();
    const other = await server.submit("survivor", "survivors");
    await page.locator(`a[href="runs/${other}"]`).waitFor();
    await page.locator(`a[href="runs/${id}"]`).waitFor();
  });

  it("refuses what a reader may not do, with the reason, and throws out a revoked key", async () => {
    const id = await server.submit("readable", "readables");
    const secret = await server.keyOf("reader", "looker");
    await logIn(page, console_.url, secret);
    await page.goto(`${console_.url}runs/${id}`);
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByText("forbidden", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Back" }).click();
    await server.call("POST", `/v1/keys/${secret.split("_")[1]}/revoke`, {});
    await page.getByLabel("API key").waitFor();
  });

  it("cancels, retries and runs again by keyboard, once for each dialog", async () => {
    const id = await server.submit("typed", "typing", { input: { a: 1 } });
    await logIn(page, console_.url, server.key);
    await page.keyboard.press("/");
    await page.keyboard.type(id);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Cancel…" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator("body").press(".");
    await page.keyboard.press("Enter");
    await page.getByText("it ends at once as cancelled").waitFor();
    await page.getByLabel(/Reason/).fill("not needed");
    await page.keyboard.press("Enter");
    await page.locator(".pill", { hasText: "cancelled" }).waitFor();
    await page.getByRole("button", { name: "Retry…" }).click();
    await page.getByRole("button", { name: "Submit it once more" }).dblclick();
    await page.getByText("retry of").waitFor();
    const list = await server.call<{ runs: unknown[] }>("GET", "/v1/runs?kind=typed");
    expect(list.runs).toHaveLength(2);
  });

  it("shares a filter by its address, and goes back", async () => {
    await server.submit("red", "colours", { labels: { shade: "dark" } });
    await server.submit("blue", "colours");
    await logIn(page, console_.url, server.key);
    await page.goto(`${console_.url}runs`);
    await page.getByLabel("Filter by").selectOption("label");
    await page.getByLabel("Value").fill("shade=dark");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.getByRole("link", { name: "blue" }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "red" }).waitFor();
    expect(new URL(page.url()).search).toBe("?label=shade%3Ddark");
    await page.reload();
    await page.getByRole("link", { name: "red" }).waitFor();
    await page.goBack();
    await page.getByRole("link", { name: "blue" }).waitFor();
  });
});
