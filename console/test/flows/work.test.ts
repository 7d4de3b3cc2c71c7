// What happens without a person: schedules that submit runs, and effects that are delivered.

import { describe, expect, it } from "vitest";
import { receive } from "../support/receiver.js";
import { Scene } from "../support/scene.js";
import { Worker } from "../support/server.js";

describe("work", () => {
  const scene = Scene.of("work");

  it("shows when a schedule runs next, what became of the last ones, and that it is paused", async () => {
    const { page, server } = scene;
    const run = { kind: "report", queue: "reports", input: {} };
    await server.call("POST", "/v1/schedules", { name: "nightly/report", everyMs: 1000, run });
    await scene.logIn();
    await page.getByRole("link", { name: "Schedules" }).click();
    await page.getByRole("link", { name: "nightly/report" }).click();
    await page.getByRole("heading", { name: "nightly/report" }).waitFor();
    expect(new URL(page.url()).pathname).toMatch(/\/schedules\/nightly~report$/);
    // The address works when it is shared, and so does the id, which is what calls and commands use.
    await page.reload();
    await page.getByRole("heading", { name: "nightly/report" }).waitFor();
    const { schedules } = await server.call<{ schedules: Array<{ scheduleId: string }> }>(
      "GET",
      "/v1/schedules",
    );
    const id = schedules[0]!.scheduleId;
    await scene.open("schedules/weekly~report");
    await page.getByText("none of the schedules of this workspace is named weekly/report").waitFor();
    await scene.open(`schedules/${id}`);
    await page.getByRole("heading", { name: "nightly/report" }).waitFor();
    await scene.open("schedules/nightly~report");
    // Its first run waits for a worker, so the instants after it are left out, with the reason.
    await page.getByText(/It has submitted 1 run; \d+ skipped\./).waitFor();
    await page.getByText(`tenure schedules pause ${id}`).waitFor();
    await server.call("POST", `/v1/schedules/${id}/pause`, {});
    await page.locator(".pill", { hasText: "paused" }).waitFor();
    await page.getByText(`tenure schedules resume ${id}`).waitFor();
    await page.getByRole("table").getByRole("link").first().click();
    await page.getByRole("heading", { name: "report", exact: true }).waitFor();
  });

  it("names an effect that was not delivered, what to do, and shows it delivered afterwards", async () => {
    const { page, server } = scene;
    let status = 500;
    const url = await receive(() => status);
    await server.call("POST", "/v1/endpoints", { name: "crm", url, maxTries: 1 });
    const id = await server.submit("sale", "sales", { input: { note: "<script>alert(1)</script>" } });
    const worker = new Worker(server, "seller");
    await worker.must(await worker.lease("sales"), "completed", {
      outcome: "SUCCEEDED",
      output: { sold: 1 },
    });
    await scene.logIn();
    await page.getByRole("link", { name: "Effects" }).click();
    await page.getByRole("link", { name: "dead", exact: true }).click();
    expect(new URL(page.url()).search).toBe("?state=dead");
    await page.getByRole("link", { name: "run.succeeded" }).click();
    await page.getByText(/Dead after 1 try: tries_exhausted\./).waitFor();
    await page.getByText(/^tenure effects redrive /).waitFor();
    await page.getByRole("link", { name: id }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByText("crm did not take run.succeeded: dead after 1 try").waitFor();
    await page.getByRole("link", { name: /^Look: crm did not take/ }).click();
    await page.getByText(/Dead after 1 try/).waitFor();
    status = 204;
    const effect = new URL(page.url()).pathname.split("/").at(-1);
    await server.call("POST", `/v1/effects/${effect}/redrive`, {});
    await page.getByText("Delivered after 1 try.").waitFor();
    await scene.open("effects?tab=endpoints");
    await page.getByText(url).waitFor();
    await page.getByRole("link", { name: "crm" }).click();
    await page.getByRole("link", { name: "run.succeeded" }).waitFor();
  });
});
