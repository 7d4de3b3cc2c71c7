// Who may enter, what a key may do, and what the browser is forbidden.

import { describe, expect, it } from "vitest";
import { Scene } from "../support/scene.js";

describe("session", () => {
  const scene = Scene.of("session");

  it("logs in with a key, keeps it through a reload, and logs out", async () => {
    const { page } = scene;
    await scene.logIn();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByText("You are logged out").waitFor();
    await page.getByLabel("API key").waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it("refuses what is not a key, and a key that the server does not know", async () => {
    const { page, server } = scene;
    await scene.open("");
    const key = page.getByLabel("API key");
    const logIn = page.getByRole("button", { name: "Log in" });
    await key.fill("not a key");
    await logIn.click();
    await page.getByText("This is not an API key").waitFor();
    await page.getByText("a key begins with `tnr_`").waitFor();
    const last = server.key.endsWith("0") ? "1" : "0";
    await key.fill(server.key.slice(0, -1) + last);
    await logIn.click();
    await page.getByText("This server does not know this key").waitFor();
    await page.getByText("unauthenticated", { exact: true }).waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    await key.fill(server.key);
    await logIn.click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  it("tells a reader which role an action needs, and does nothing", async () => {
    const { page, server } = scene;
    const id = await server.submit("readable", "readables");
    await scene.logIn(await server.keyOf("reader", "looker"));
    await scene.open(`runs/${id}`);
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Cancel the run" }).click();
    const refusal = page.getByRole("dialog").getByRole("alert");
    await refusal.getByText("This key may not do this").waitFor();
    await refusal.getByText("forbidden", { exact: true }).waitFor();
    expect(await refusal.textContent()).toMatch(/client/);
    await page.getByRole("button", { name: "Back" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const run = await server.call<{ state: string }>("GET", `/v1/runs/${id}`);
    expect(run.state).toBe("queued");
  });

  it("throws out a key that is revoked while it looks, with the reason", async () => {
    const { page, server } = scene;
    const id = await server.submit("watched", "watched");
    const secret = await server.keyOf("reader", "leaver");
    await scene.logIn(secret);
    await scene.open(`runs/${id}`);
    await page.getByRole("heading", { name: "watched" }).waitFor();
    await server.call("POST", `/v1/keys/${secret.split("_")[1]}/revoke`, {});
    await page.getByLabel("API key").waitFor();
    await page.getByRole("status").getByText("it was revoked or has expired").waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it("notices a violation of the policy, which no other flow may have", async () => {
    const { page, faults } = scene;
    await scene.open("");
    await page.getByLabel("API key").waitFor();
    await page.evaluate(() => {
      const image = document.createElement("img");
      image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
      document.body.append(image);
    });
    await expect.poll(() => faults.join("\n"), { timeout: 45_000 }).toMatch(/CSP: img-src/);
    const thrown = await page.evaluate(() => {
      try {
        document.body.innerHTML = "<b>x</b>";
        return "";
      } catch (error) {
        return String(error);
      }
    });
    expect(thrown).toMatch(/TrustedHTML/);
    await expect.poll(() => faults.join("\n"), { timeout: 45_000 }).toMatch(/CSP: require-trusted-types-for/);
    faults.length = 0;
  });
});
