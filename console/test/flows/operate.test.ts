// Who may enter, what may be used, who changed what, and whether the machine is sound.

import { describe, expect, it } from "vitest";
import { findings, logIn, visit } from "../support/browser.js";
import { Scene } from "../support/scene.js";

describe("operate", () => {
  const scene = Scene.of("operate");

  it("revokes a key after a dialog, shows no secret, and names it in the audit", async () => {
    const { page, server } = scene;
    const secret = await server.keyOf("worker", "printer");
    await scene.logIn();
    await page.getByRole("link", { name: "Keys" }).click();
    const row = page.getByRole("row", { name: /printer/ });
    await row.getByText("in force").waitFor();
    await row.getByRole("button", { name: "Revoke printer…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("What they hold goes on under their task tokens").waitFor();
    await dialog.getByText(`tenure keys revoke ${secret.split("_")[1]}`).waitFor();
    await dialog.getByRole("button", { name: "Back" }).click();
    await dialog.waitFor({ state: "detached" });
    await row.getByText("in force").waitFor();
    await row.getByRole("button", { name: "Revoke printer…" }).click();
    await page.getByRole("button", { name: "Revoke the key" }).click();
    await row.getByText("revoked", { exact: true }).waitFor();
    expect(await row.getByRole("button").count()).toBe(0);
    await expect(server.call("POST", "/v1/leases", { workerId: "x", queues: ["q"] }, secret)).rejects.toThrow(
      /401/,
    );
    expect(await page.content()).not.toContain(secret.split("_")[2]);
    await page.getByRole("link", { name: "in force", exact: true }).click();
    await page.getByText("client, worker, admin, approver").locator("visible=true").waitFor();
    expect(await row.count()).toBe(0);
    await page.getByRole("link", { name: "Audit" }).click();
    await page.getByRole("row", { name: /key\.revoked/ }).waitFor();
  });

  it("warns before a key ends its own session, and ends it", async () => {
    const { page, server } = scene;
    await scene.logIn(await server.keyOf("admin,reader", "leaver"));
    await scene.open("keys");
    await page.getByRole("button", { name: "Revoke leaver…" }).click();
    await page.getByText("it ends this session").waitFor();
    await page.getByRole("button", { name: "Revoke the key" }).click();
    // The next call of the console is refused.
    await page.getByLabel("API key").waitFor();
  });

  it("finds refused calls in the audit, pages back, and checks the seals", async () => {
    const { page, server } = scene;
    const secret = await server.keyOf("worker", "stranger");
    await expect(server.call("GET", "/v1/budgets", undefined, secret)).rejects.toThrow(/403/);
    await scene.logIn();
    await scene.open("audit");
    await page.getByRole("link", { name: "refused calls" }).click();
    expect(new URL(page.url()).search).toBe("?what=refused-calls");
    const refused = page.getByRole("row", { name: /GET \/v1\/budgets/ });
    await refused.getByText("forbidden").waitFor();
    await refused.getByText("stranger").locator("visible=true").waitFor();
    expect(await page.getByRole("row", { name: /key\.created/ }).count()).toBe(0);
    await scene.open("audit?before=2");
    await page.getByRole("link", { name: "the newest" }).waitFor();
    await page.getByRole("button", { name: "Check the seals" }).click();
    await page.getByText(/All \d+ entries are as they were written/).waitFor();
  });

  it("shows budgets, rates and quotas as they are used, and the commands that set them", async () => {
    const { page, server } = scene;
    await scene.logIn();
    await scene.open("limits");
    await page.getByText("No tenant or workspace has a budget").waitFor();
    await page.getByText("No tenant has a rate or a quota").waitFor();
    await server.submit("waiting", "nowhere");
    await server.call("POST", "/v1/limits", { tenantId: "default", unfinishedRuns: 4 });
    await server.call("POST", "/v1/budgets", { period: "day", tokens: 5000, soft: { tokens: 4000 } });
    await page.getByText("Budget of default / all workspaces").waitFor();
    await page
      .getByText("tenure budgets set tokens=5000,soft-tokens=4000 --tenant default --period day")
      .waitFor();
    await page.getByRole("row", { name: /tokens.*5,000/ }).waitFor();
    await page.getByRole("img", { name: "25 % of the quota" }).waitFor();
  });

  it("says whether the server is well, and shows its figures", async () => {
    const { page } = scene;
    await scene.logIn();
    await page.getByRole("link", { name: "Health" }).click();
    await page.locator(".pill", { hasText: "ready" }).waitFor();
    await page
      .getByRole("row", { name: /progress/ })
      .getByText("well")
      .waitFor();
    await page.getByText("Every task is processed").waitFor();
    await page.getByText("batches that the store refused").waitFor();
  });

  it("shows what a server says that is not ready, instead of calling it unreachable", async () => {
    const { page } = scene;
    await scene.logIn();
    await page.route("**/readyz", (route) =>
      route.fulfill({
        status: 503,
        contentType: "application/json",
        body: JSON.stringify({
          ready: false,
          checks: [{ name: "progress", ok: false, detail: "the disk is full" }],
        }),
      }),
    );
    await scene.open("health");
    await page.locator(".pill", { hasText: "not ready" }).waitFor();
    await page.getByText("the disk is full").waitFor();
    await page.unroute("**/readyz");
    await page.route("**/readyz", (route) => route.fulfill({ status: 503, body: "<h1>proxy</h1>" }));
    await page.reload();
    await page.getByText("The server answered 503").waitFor();
  });

  it("leaves out what a key may not read, and says why if its address is opened", async () => {
    const { page, server } = scene;
    await scene.logIn(await server.keyOf("reader", "looker"));
    const pages = page.getByRole("navigation", { name: "Pages" });
    await pages.getByRole("link", { name: "Audit" }).waitFor();
    expect(await pages.getByRole("link", { name: "Keys" }).count()).toBe(0);
    await scene.open("keys");
    const refusal = page.getByRole("alert");
    await refusal.getByText("This key may not read this").waitFor();
    expect(await refusal.textContent()).toMatch(/role admin/);
    await page.getByText("You are logged in with the key").waitFor();
  });

  it("offers an administrator who may not read runs what there is to administer", async () => {
    const { page, server } = scene;
    await scene.logIn(await server.keyOf("admin", "boss"));
    await page.getByRole("link", { name: "Limits" }).click();
    await page.getByRole("heading", { name: "Limits" }).waitFor();
    await page.getByText(/Rates and quotas|No tenant has a rate/).waitFor();
    await page.getByRole("link", { name: "Health" }).click();
    await page.getByText("Every task is processed").waitFor();
    await scene.open("runs");
    await page.getByText("This key may not read this").waitFor();
  });

  it("has the other pages behind More on a phone, by touch and by keyboard", async () => {
    const { page, faults } = await visit(scene.browser, { viewport: { width: 400, height: 844 } });
    await logIn(page, scene.console.url, scene.server.key);
    const health = page.getByRole("link", { name: "Health" });
    expect(await health.isVisible()).toBe(false);
    await page.getByRole("button", { name: "More" }).click();
    await health.waitFor();
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await health.waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "More" }).press("Enter");
    await health.click();
    await page.getByRole("heading", { name: "Health" }).waitFor();
    await health.waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Health" }).waitFor();
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(overflow).toBeLessThanOrEqual(0);
    expect(faults).toEqual([]);
    await page.close();
  });
});
