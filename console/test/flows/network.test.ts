// What lies between the browser and the server: a proxy with a prefix, and a server that goes away and comes back.

import { describe, expect, it } from "vitest";
import { logIn, proxy } from "../support/browser.js";
import { Scene } from "../support/scene.js";

describe("network", () => {
  const scene = Scene.of("network");

  it("works behind a prefix of a proxy, at every depth", async () => {
    const { page, server } = scene;
    const behind = await proxy(scene.console, "/ops/tenure");
    const id = await server.submit("prefixed", "prefixed");
    await logIn(page, behind.url, server.key);
    await page.goto(`${behind.url}runs/${id}/history`);
    await page.getByText("submitted").first().waitFor();
    await page.getByRole("link", { name: "Queues" }).click();
    await page.getByRole("heading", { name: "prefixed" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/ops/tenure/console/queues");
    await page.goBack();
    await page.getByText("submitted").first().waitFor();
    // Without its last slash too, as people type it.
    await page.goto(behind.url.slice(0, -1));
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(page.url()).toBe(behind.url);
    await page.close();
    await behind.close();
  });

  it("keeps what it shows while the server is away, says so, and goes on", async () => {
    const { page, server } = scene;
    const id = await server.submit("survivor", "survivors");
    await scene.logIn();
    await scene.open("runs?kind=survivor");
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
});
