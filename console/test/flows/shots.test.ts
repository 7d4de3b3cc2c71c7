// Pictures of every page with real data, in both themes and on a phone, each without a serious finding of axe. A person looks at
// them: they are not compared by pixel. They are written to test/out.

import { mkdirSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findings, launch, logIn, type Site, site, visit } from "../support/browser.js";
import { Server } from "../support/server.js";
import { type Told, tell } from "../support/story.js";

const approvalOf = (run: string) => `appr_${run.replace("run_", "")}-1`;
const OUT = new URL("../out/", import.meta.url).pathname;
const THEMES = ["light", "dark"] as const;

describe("pages", () => {
  let server: Server;
  let browser: Browser;
  let console_: Site;
  let told: Told;

  beforeAll(async () => {
    mkdirSync(OUT, { recursive: true });
    server = await Server.start();
    told = await tell(server);
    console_ = await site(server);
    browser = await launch();
  });

  afterAll(async () => {
    await browser?.close();
    await console_?.close();
    await server?.stop();
  });

  const pages = (): Array<[string, string, RegExp]> => [
    ["overview", "", /Needs you/],
    ["runs", "runs", /mail\.send/],
    ["run", `runs/${told.invoice}`, /Late report refused/],
    ["run-steps", `runs/${told.invoice}/steps`, /extract/],
    ["run-payloads", `runs/${told.invoice}/payloads`, /Acme GmbH/],
    ["run-history", `runs/${told.invoice}/history`, /submitted/],
    ["run-record", `runs/${told.invoice}/record`, /computed here, the same/],
    ["run-halted", `runs/${told.halted}`, /BUDGET_EXHAUSTED/],
    ["inbox", `inbox/${approvalOf(told.pending)}`, /What you approve/],
    ["queues", "queues", /No worker polls this queue/],
    ["queues-workers", "queues?tab=workers", /m-20/],
  ];

  for (const theme of THEMES) {
    it(`has every page in ${theme}, without a serious finding`, async () => {
      const { page, faults } = await visit(browser, { colorScheme: theme });
      await logIn(page, console_.url, server.key);
      const found: string[] = [];
      for (const [name, path, text] of pages()) {
        await page.goto(console_.url + path);
        await page.getByText(text).first().waitFor();
        await page.screenshot({ path: `${OUT}${name}-${theme}.png`, fullPage: true });
        found.push(...(await findings(page)).map((finding) => `${name}: ${finding}`));
      }
      expect(found).toEqual([]);
      expect(faults).toEqual([]);
      await page.close();
    });
  }

  it("is usable at 390 px", async () => {
    const { page, faults } = await visit(browser, {
      colorScheme: "light",
      viewport: { width: 390, height: 844 },
    });
    await logIn(page, console_.url, server.key);
    const found: string[] = [];
    for (const [name, path, text] of pages()) {
      await page.goto(console_.url + path);
      await page.getByText(text).locator("visible=true").first().waitFor();
      await page.screenshot({ path: `${OUT}${name}-phone.png`, fullPage: true });
      found.push(...(await findings(page)).map((finding) => `${name}: ${finding}`));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (overflow > 0) found.push(`${name} is ${overflow} px wider than the screen`);
    }
    expect(found).toEqual([]);
    expect(faults).toEqual([]);
    await page.close();
  });
});
