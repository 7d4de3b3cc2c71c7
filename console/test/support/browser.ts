// Chromium, the console behind its development server, and what must hold on every page: no violation of the content security policy,
// no error on the console, nothing serious found by axe.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";
import { serve } from "../../scripts/serve.mjs";

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

export async function site(target: () => string, prefix = ""): Promise<Site> {
  const { server, url } = await serve({ target, prefix });
  const close = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
  return { url, close };
}

/** A page that remembers what went wrong on it. */
export async function visit(
  browser: Browser,
  options: Parameters<Browser["newPage"]>[0] = {},
): Promise<{ page: Page; faults: string[] }> {
  const page = await browser.newPage({ viewport: { width: 1440, height: 1000 }, ...options });
  const faults: string[] = [];
  page.setDefaultTimeout(45_000);
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
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
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
