// Many runs at once: exactly those of the preview, stopped in the middle, gone on with, and repeated.

import { describe, expect, it } from "vitest";
import { Scene } from "../support/scene.js";
import { Worker } from "../support/server.js";

const RUNS = 300;

describe("bulk", () => {
  const scene = Scene.of("bulk");

  it("cancels 300 runs of a preview, can be stopped, and touches no other", async () => {
    const { page, server } = scene;
    const run = { kind: "many", queue: "many", input: {} };
    await server.call("POST", "/v1/runs", { runs: Array.from({ length: RUNS }, () => run) });
    await scene.logIn();
    await scene.open("runs?kind=many");
    await page.getByRole("button", { name: "Cancel all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(`${RUNS} runs`, { exact: true }).waitFor();
    // Submitted after the preview: it is not in it.
    const late = await server.submit("many", "many");
    let calls = 0;
    await page.route("**/cancel", async (route) => {
      calls += 1;
      if (calls === 40) await dialog.getByRole("button", { name: "Stop" }).click();
      await route.continue();
    });
    await dialog.getByRole("button", { name: `Cancel ${RUNS} runs` }).click();
    const goOn = dialog.getByRole("button", { name: /Go on with \d+/ });
    await goOn.waitFor();
    expect(calls).toBeLessThan(RUNS);
    await goOn.click();
    await dialog.getByText("not tried yet").waitFor({ state: "detached" });
    await dialog.getByText(`${RUNS} cancelled, or asked to stop`).waitFor();
    expect(calls).toBe(RUNS);
    await dialog.getByRole("button", { name: "Close" }).click();
    const left = await server.call<{ runs: Array<{ runId: string }> }>(
      "GET",
      "/v1/runs?kind=many&state=queued",
    );
    expect(left.runs.map(({ runId }) => runId)).toEqual([late]);
    // Again: what was cancelled does not match any more.
    await page.getByRole("button", { name: "Cancel all…" }).click();
    await dialog.getByText("1 run", { exact: true }).waitFor();
    await dialog.getByRole("button", { name: "Back" }).click();
  });

  it("retries failed runs once, whoever asks twice", async () => {
    const { page, server } = scene;
    const worker = new Worker(server, "breaker");
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) {
      ids.push(await server.submit("broken", "broken", { maxAttempts: 1 }));
      await worker.must(await worker.lease("broken"), "completed", {
        outcome: "FAILED",
        error: { category: "USER_CODE", message: "no" },
      });
    }
    await scene.logIn();
    await scene.open("runs?state=failed&kind=broken");
    await page.getByRole("button", { name: "Retry all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Retry 3 runs" }).click();
    await dialog.getByText("3 retried").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Retry all…" }).click();
    await dialog.getByText("3 were retried before").waitFor();
    await dialog.getByRole("button", { name: "Back" }).click();
    const { runs } = await server.call<{ runs: unknown[] }>("GET", "/v1/runs?kind=broken&state=queued");
    expect(runs.length).toBe(3);
  });

  it("runs a failed run again with another input, once for a double click", async () => {
    const { page, server } = scene;
    const worker = new Worker(server, "breaker");
    const id = await server.submit("edited", "edited", {
      maxAttempts: 1,
      input: { amount: -1 },
      labels: { team: "a" },
      priority: 7,
    });
    await worker.must(await worker.lease("edited"), "completed", {
      outcome: "FAILED",
      error: { category: "USER_CODE", message: "a negative amount" },
    });
    await scene.logIn();
    await scene.open(`runs/${id}`);
    await page.getByRole("button", { name: "Run again…" }).click();
    await page.getByLabel("Input, as JSON").fill('{"amount": 1}');
    await page.getByRole("button", { name: "Submit a new run" }).dblclick();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const { runs } = await server.call<{ runs: Array<Record<string, unknown>> }>(
      "GET",
      "/v1/runs?kind=edited&state=queued&include=input",
    );
    expect(runs).toHaveLength(1);
    expect(runs[0]).toMatchObject({
      input: { amount: 1 },
      labels: { team: "a" },
      priority: 7,
      maxAttempts: 1,
    });
  });
});
