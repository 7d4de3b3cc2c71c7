// Runs: found by a filter, followed live, read safely, and acted on.

import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { Scene } from "../support/scene.js";
import { Worker } from "../support/server.js";

/** Long enough that a worker that lives keeps its lease on a machine under load; a takeover waits this long. */
const LEASE = { leaseMs: 6000, heartbeatIntervalMs: 1000 };

/** A program that runs for as long as its worker lives, and leaves nothing behind. */
const AS_LONG_AS_WORKER = "while kill -0 $PPID; do sleep 1; done";

/** The largest input that the server takes. */
const INPUT_MAX = 256 * 1024;

describe("runs", () => {
  const scene = Scene.of("runs");

  it("shows a takeover live after a worker was killed", async () => {
    const { page, server } = scene;
    const id = await server.submit("nap", "naps", LEASE);
    await scene.logIn();
    await scene.open(`runs/${id}`);
    await page.getByText("Nothing has happened yet").waitFor();
    const words = ["work", "--queue", "naps", "--name"];
    const alice = scene.run(...words, "alice", "--exec", "sh", "--", "-c", AS_LONG_AS_WORKER);
    await page.locator(".pill", { hasText: "running" }).waitFor();
    alice.kill("SIGKILL");
    await once(alice, "exit");
    scene.run(...words, "bob", "--exec", "true");
    await page.getByText(/^bob\S* takes over$/).waitFor();
    const story = page.locator(".story");
    await story.getByText(/Succeeded after \d+ attempts/).waitFor();
    expect(await story.textContent()).toMatch(/Worker alice\S* went silent at .*, and bob\S* took over\./);
    await page.getByRole("button", { name: /attempt 1 of alice.*: lost/ }).click();
    await page.getByText("HEARTBEAT_TIMEOUT").first().waitFor();
  });

  it("names a report that came too late, and who was current", async () => {
    const { page, server } = scene;
    const [alice, bob] = [new Worker(server, "alice"), new Worker(server, "bob")];
    const id = await server.submit("late", "lates", LEASE);
    const first = await alice.lease("lates");
    await alice.must(first, "started");
    const second = await bob.lease("lates");
    await bob.must(second, "started");
    expect((await alice.tell(first, "completed", { outcome: "SUCCEEDED", output: 1 })).ok).toBe(false);
    await bob.must(second, "completed", { outcome: "SUCCEEDED", output: { by: "bob" } });
    await scene.logIn();
    await scene.open(`runs/${id}`);
    await page.getByRole("heading", { name: "Late report refused" }).waitFor();
    await page.getByText("attempt 2 of bob was current").waitFor();
    await page.getByRole("link", { name: "Record" }).click();
    await page.getByText("computed here, the same").nth(1).waitFor();
  });

  it("cancels, retries and runs again by keyboard, once for each dialog", async () => {
    const { page, server } = scene;
    const id = await server.submit("typed", "typing", { input: { a: 1 } });
    await scene.logIn();
    await page.keyboard.press("/");
    await page.keyboard.type(id);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Cancel…" }).waitFor();
    await page.keyboard.press(".");
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

  it("shares filters by their address, and goes back", async () => {
    const { page, server } = scene;
    await server.submit("red", "colours", { labels: { shade: "dark" } });
    await server.submit("blue", "colours");
    const red = page.getByRole("link", { name: "red", exact: true });
    const blue = page.getByRole("link", { name: "blue", exact: true });
    await scene.logIn();
    await scene.open("runs?queue=colours");
    await blue.waitFor();
    await page.getByLabel("Filter by").selectOption("label");
    await page.getByLabel("Value").fill("shade=dark");
    await page.getByRole("button", { name: "Filter" }).click();
    await blue.waitFor({ state: "detached" });
    await red.waitFor();
    expect(new URL(page.url()).search).toBe("?queue=colours&label=shade%3Ddark");
    await page.reload();
    await red.waitFor();
    expect(await blue.count()).toBe(0);
    await page.getByRole("link", { name: "succeeded", exact: true }).click();
    await page.getByText("No run matches").waitFor();
    await page.goBack();
    await red.waitFor();
    await page.getByRole("link", { name: "remove the filter label shade=dark" }).click();
    await blue.waitFor();
    await page.getByLabel("Filter by").selectOption("since");
    await page.getByLabel("Value").fill("yesterday");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.getByText("a number with m, h or d, such as 24h").waitFor();
  });

  it("shows hostile payloads as text, up to the largest", async () => {
    const { page, server } = scene;
    const before = `{"html":"<img src=x onerror=alert(1)><script>alert(2)</script>","bidi":"safe\u202Egnp.exe","big":1${"0".repeat(30)},"exact":12345678901234567891,"long":"`;
    const after = `","deep":${"[".repeat(20)}1${"]".repeat(20)}}`;
    const fill = INPUT_MAX - Buffer.byteLength(before + after);
    const input = before + "x".repeat(fill) + after;
    const made = await server.call<{ runId: string }>(
      "POST",
      "/v1/runs",
      `{"kind":"hostile","queue":"hostile","maxAttempts":1,"input":${input},"labels":{"note":"<i>x</i>"}}`,
    );
    const mallory = new Worker(server, "mallory");
    const message = "<script>alert(3)</script>";
    await mallory.must(await mallory.lease("hostile"), "completed", {
      outcome: "FAILED",
      error: { category: "USER_CODE", message, retryable: false },
    });
    await scene.logIn();
    await scene.open("runs?kind=hostile");
    await page.getByText(message).waitFor();
    await page.getByRole("link", { name: "hostile", exact: true }).first().click();
    await page.locator(".story").getByText(message).waitFor();
    await scene.open(`runs/${made.runId}/payloads`);
    await page.getByText("<img src=x onerror=alert(1)>").waitFor();
    await page.getByText("‹U+202E›").waitFor();
    await page.getByText("12345678901234567891").waitFor();
    await page.getByText(`1${"0".repeat(30)}`).waitFor();
    await page.getByText(/more characters/).waitFor();
    expect(await page.locator("main img, main script, main i:text-is('x')").count()).toBe(0);
  });
});
