// Who may enter, what a key may do, and what the browser is forbidden.

import { createServer } from "node:http";
import { describe, expect, it } from "vitest";
import { Scene } from "../support/scene.js";

describe("session", () => {
  const scene = Scene.of("session");

  const kept = () => scene.page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));

  it("logs in with a key that it keeps nowhere, stays through a reload and in another tab, and logs out", async () => {
    const { page, server } = scene;
    await scene.logIn();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await kept()).not.toContain(server.key.split("_")[2]);
    expect(await page.evaluate(() => document.cookie)).toBe("");
    const cookies = await page.context().cookies();
    expect(cookies).toHaveLength(1);
    expect(cookies[0]).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/console/api" });
    const tab = await page.context().newPage();
    await tab.goto(scene.console.url);
    await tab.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByText("You are logged out").waitFor();
    await page.getByLabel("API key").waitFor();
    await tab.getByLabel("API key").waitFor();
    await tab.close();
    expect(await kept()).not.toContain("tenure.session");
    expect(await page.context().cookies()).toEqual([]);
  });

  it("logs in by a link once, and leaves its code nowhere", async () => {
    const { page, server } = scene;
    const { path, code } = await server.call<{ path: string; code: string }>("POST", "/v1/console-codes", {});
    const sent: string[] = [];
    page.on("request", (request) => sent.push(request.url()));
    await page.goto(new URL(path.replace("/console/", ""), scene.console.url).href);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(page.url()).toBe(scene.console.url);
    expect(sent.filter((url) => url.includes(code)).filter((url) => !url.includes("#"))).toEqual([]);
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByText("You are logged out").waitFor();
    // Typed or pasted, too; and once is once.
    await page.getByLabel("API key").fill(`${scene.console.url}#code=${code}`);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByText("console_code_invalid", { exact: true }).waitFor();
    await page.goto("about:blank");
    await page.goto(`${scene.console.url}runs#code=${code}`);
    await page.getByText("the one-time code was used, has expired").waitFor();
    expect(page.url()).toBe(`${scene.console.url}runs`);
  });

  it("is one session for all tabs: who logs in or out in one of them does in all", async () => {
    const { page, server } = scene;
    await scene.logIn(await server.keyOf("reader", "looker"));
    const { path } = await server.call<{ path: string }>("POST", "/v1/console-codes", {});
    const tab = await page.context().newPage();
    await tab.goto(new URL(path.replace("/console/", ""), scene.console.url).href);
    await tab.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByTitle(`your key, ${server.key.split("_")[1]}`).waitFor();
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByText("You are logged out").waitFor();
    await tab.getByLabel("API key").waitFor();
    expect(await tab.getByText("Your session is over").count()).toBe(0);
    await tab.close();
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
    expect(await kept()).not.toContain("tenure.session");
    await key.fill(server.key);
    await logIn.click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  it("offers a reader no action, and the server refuses one that is sent by hand", async () => {
    const { page, server } = scene;
    const id = await server.submit("readable", "readables");
    await scene.logIn(await server.keyOf("reader", "looker"));
    await scene.open(`runs/${id}`);
    await page.getByRole("heading", { name: "readable" }).waitFor();
    expect(await page.locator("[data-actions] button").count()).toBe(0);
    const status = await page.evaluate(async (id) => {
      const name = Object.keys(localStorage).find((key) => key.startsWith("tenure.session"))!;
      const answer = await fetch(new URL(`api/v1/runs/${id}/cancel`, document.baseURI), {
        method: "POST",
        headers: { "content-type": "application/json", "x-tenure-session": localStorage[name] },
        body: "{}",
      });
      return answer.status;
    }, id);
    expect(status).toBe(403);
    const run = await server.call<{ state: string }>("GET", `/v1/runs/${id}`);
    expect(run.state).toBe("queued");
  });

  it("throws out a key that is revoked while it looks, with the reason, and leads back to the same page", async () => {
    const { page, server } = scene;
    const id = await server.submit("watched", "watched");
    const secret = await server.keyOf("reader", "leaver");
    await scene.logIn(secret);
    await scene.open(`runs/${id}`);
    await page.getByRole("heading", { name: "watched" }).waitFor();
    await server.call("POST", `/v1/keys/${secret.split("_")[1]}/revoke`, {});
    const key = page.getByLabel("API key");
    await key.waitFor();
    await page.getByRole("status").getByText("the key of this session was revoked").waitFor();
    expect(await kept()).not.toContain("tenure.session");
    await key.fill(server.key);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { name: "watched" }).waitFor();
  });

  it("is no use to a page on another port, which sends the cookie along", async () => {
    const { page, server } = scene;
    const id = await server.submit("coveted", "coveted");
    await scene.logIn();
    const token = await page.evaluate(() => {
      const name = Object.keys(localStorage).find((key) => key.startsWith("tenure.session"))!;
      return localStorage[name] as string;
    });
    const { origin, pathname } = new URL(scene.console.url);
    // Two programs on this machine: one has a page, the other one writes down what browsers send it.
    const seen: Array<{ cookie: boolean; site: string | undefined }> = [];
    const others = [1, 2].map(() =>
      createServer(({ method, headers }, answer) => {
        if (method === "POST")
          seen.push({ cookie: "cookie" in headers, site: headers["sec-fetch-site"] as string | undefined });
        answer.setHeader("content-type", "text/html").end("<p>other");
      }),
    );
    const ports = await Promise.all(
      others.map(async (other) => {
        await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
        return (other.address() as { port: number }).port;
      }),
    );
    const tab = await page.context().newPage();
    await tab.goto(`http://127.0.0.1:${ports[0]}/`);
    // What a page may send anywhere without being asked first: a form.
    await tab.evaluate(
      async (urls) => {
        for (const url of urls)
          await fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).catch(
            () => {},
          );
      },
      [`http://127.0.0.1:${ports[1]}`, origin].map((to) => `${to}${pathname}api/v1/runs/${id}/cancel`),
    );
    expect(seen).toEqual([{ cookie: true, site: "same-site" }]);
    const audit = () =>
      server.call<{ entries: Array<{ error?: string; object: string }> }>("GET", "/v1/audit");
    await expect
      .poll(async () => (await audit()).entries, { timeout: 45_000 })
      .toContainEqual(
        expect.objectContaining({
          error: "foreign_page",
          object: "POST /console/api/v1/runs/{run}/cancel",
        }),
      );
    // Even with the token it cannot add the header: nothing answers the question before.
    const outcome = await tab.evaluate(
      async ([url, token]) =>
        fetch(url!, { credentials: "include", headers: { "x-tenure-session": token! } }).then(
          (answer) => String(answer.status),
          () => "blocked",
        ),
      [`${origin}${pathname}api/v1/runs`, token],
    );
    expect(outcome).toBe("blocked");
    await tab.close();
    for (const other of others) other.close();
    const run = await server.call<{ state: string }>("GET", `/v1/runs/${id}`);
    expect(run.state).toBe("queued");
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
