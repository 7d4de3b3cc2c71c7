// Chromium, the console that the binary serves, and what must hold on every page: no violation of the content security policy,
// no error on the console, nothing serious found by axe.

import { readFileSync } from "node:fs";
import { createServer, type Server as HttpServer, request } from "node:http";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";
import { serve } from "../../scripts/serve.mjs";
import type { Server } from "./server.js";

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  });
}

export interface Site {
  url: string;
  close: () => Promise<void>;
}

/**
 * The console under test: the one that the binary serves. While one works on it, `CONSOLE_DIST=1` takes the files of dist instead,
 * so that a change needs no new binary.
 */
export async function site(server: Server): Promise<Site> {
  if (process.env["CONSOLE_DIST"]) {
    const { server: files, url } = await serve({ target: () => server.url });
    return { url, close: () => closed(files) };
  }
  const url = `${server.url}/console/`;
  await mustBeDist(url);
  return { url, close: async () => {} };
}

/** A flow that passes has said nothing about dist if the binary has another one. */
async function mustBeDist(url: string): Promise<void> {
  for (const name of ["app.js", "app.css", "icon.svg"]) {
    const served = await (await fetch(url + name)).text();
    const built = readFileSync(new URL(`../../dist/${name}`, import.meta.url), "utf8");
    if (served !== built)
      throw new Error(
        `TENURE_BIN serves another ${name} than console/dist has; build the binary, or set CONSOLE_DIST=1`,
      );
  }
}

/** A reverse proxy that takes `prefix` away, as operators configure one, and knows nothing of the console. */
export async function proxy(site: Site, prefix: string): Promise<Site> {
  const behind = new URL("..", site.url);
  const server = createServer((incoming, answer) => {
    if (!incoming.url!.startsWith(`${prefix}/`)) {
      answer.writeHead(404).end();
      return;
    }
    const url = new URL(incoming.url!.slice(prefix.length), behind);
    const headers = { ...incoming.headers, host: url.host };
    const onward = request(url, { method: incoming.method, headers }, (response) => {
      answer.writeHead(response.statusCode!, response.headers);
      response.pipe(answer);
    });
    onward.on("error", () => answer.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}${prefix}/console/`, close: () => closed(server) };
}

function closed(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    server.closeAllConnections();
    server.close(() => resolve());
  });
}

/** A page that remembers what went wrong on it. */
export async function visit(
  browser: Browser,
  options: Parameters<Browser["newPage"]>[0] = {},
): Promise<{ page: Page; faults: string[] }> {
  // A context of its own, so that the page can open other tabs of the same person.
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, ...options });
  const page = await context.newPage();
  const faults: string[] = [];
  page.setDefaultTimeout(45_000);
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const isRefusal = /Failed to load resource/.test(message.text());
    if (message.type() === "error" && !isRefusal) faults.push(`console: ${message.text()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`),
    );
  });
  return { page, faults };
}

export async function logIn(page: Page, url: string, key: string): Promise<void> {
  await page.goto(url);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Log in" }).click();
  // The entries of the rail come with what the key may read; only then do keys and fields answer.
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: /Inbox/ }).waitFor();
}

/** What axe finds serious or critical. */
export async function findings(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const result = await page.evaluate(async () => {
    type Found = {
      violations: Array<{
        id: string;
        impact: string;
        nodes: Array<{ html: string; failureSummary: string }>;
      }>;
    };
    const run = (globalThis as unknown as { axe: { run: (options: unknown) => Promise<Found> } }).axe.run;
    return (await run({ resultTypes: ["violations"] })).violations;
  });
  return result
    .filter((violation) => violation.impact === "serious" || violation.impact === "critical")
    .map(
      (violation) =>
        `${violation.id}: ${violation.nodes
          .slice(0, 3)
          .map((node) => `${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 200)}`)
          .join(" | ")}`,
    );
}
