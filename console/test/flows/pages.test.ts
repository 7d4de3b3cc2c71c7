// Every page with real data, in both themes and on a phone, each without a serious finding of axe. With CONSOLE_PICTURES pictures of
// them are written to test/out: a person looks at them, they are not compared by pixel.

import { beforeAll, describe, expect, it } from "vitest";
import { findings, logIn, visit } from "../support/browser.js";
import { OUT, Scene } from "../support/scene.js";
import { IS_FOR_PICTURES, type Told, tell } from "../support/story.js";

const approvalOf = (run: string) => `appr_${run.replace("run_", "")}-1`;

const WIDE = { width: 1440, height: 1000 };
const PHONE = { width: 390, height: 844 };
const SCREENS = [
  ["light", "light", WIDE],
  ["dark", "dark", WIDE],
  ["phone", "light", PHONE],
] as const;

describe("pages", () => {
  const scene = Scene.of("pages");
  let told: Told;

  beforeAll(async () => {
    told = await tell(scene.server);
  });

  const pages = (): Array<[string, string, RegExp]> => [
    ["overview", "?span=15m", /Needs you/],
    ["runs", "runs", /mail\.send/],
    ["runs-none", "runs?kind=nothing", /No run matches/],
    ["run", `runs/${told.invoice}`, /Late report refused/],
    ["run-steps", `runs/${told.invoice}/steps`, /extract/],
    ["run-payloads", `runs/${told.invoice}/payloads`, /Acme GmbH/],
    ["run-children", `runs/${told.invoice}/children`, /invoice\.render/],
    ["run-history", `runs/${told.invoice}/history`, /submitted/],
    ["run-record", `runs/${told.invoice}/record`, /computed here, the same/],
    ["run-raw", `runs/${told.invoice}/raw`, /taskId/],
    ["run-halted", `runs/${told.halted}`, /BUDGET_EXHAUSTED/],
    ["inbox", `inbox/${approvalOf(told.pending)}`, /What you approve/],
    ["inbox-closed", `inbox/${approvalOf(told.invoice)}?show=closed`, /2 approvals let the run go on/],
    ["queues", "queues", /No worker polls this queue/],
    ["queues-workers", "queues?tab=workers", /m-20/],
    ["queues-leases", "queues?tab=leases", /by expiry/],
    ["schedules", "schedules", /nightly-report/],
    ["schedule", "schedules/nightly-report", /changes and firings/],
    ["effects", "effects", /accounting/],
    ["effect", `effects/${told.effect}`, /What is sent/],
    ["effects-endpoints", "effects?tab=endpoints", /crm/],
    ["queues-flow", "queues?tab=flow", /No flow keys are in use/],
    ["topologies", "topologies", /agent-review/],
    ["topology", "topologies/agent-review", /At work/],
    ["topology-other", "topologies/task-management", /At work/],
    ["topology-artifacts", "topologies/agent-review?tab=artifacts", /being-planned/],
    ["topology-artifact", "topologies/agent-review?artifact=assignment/greeting", /build judged: FAIL/],
    ["topology-orders", "topologies/agent-review?tab=orders", /passed/],
    ["topology-claims", "topologies/agent-review?tab=claims", /Claims/],
    ["topology-pauses", "topologies/task-management?tab=pauses", /GATE_FAILED/],
    ["topology-declaration", "topologies/agent-review?tab=declaration", /the version in force/],
    ["limits", "limits", /Rates and quotas/],
    ["audit", "audit", /limits\.set/],
    ["keys", "keys", /approver/],
    ["health", "health", /Every task is processed/],
  ];

  /** The picture that the README opens with, in the resolution of a laptop's screen. */
  const takeover = async () => {
    const { page } = await visit(scene.browser, { viewport: WIDE, deviceScaleFactor: 1.5 });
    await logIn(page, scene.console.url, scene.server.key);
    await page.goto(`${scene.console.url}runs/${told.invoice}`);
    const card = page.locator(".card", { has: page.getByRole("heading", { name: "Timeline" }) });
    await card.getByText("204", { exact: true }).waitFor();
    await card.screenshot({ path: `${OUT}takeover.png`, animations: "disabled" });
    await page.close();
  };

  it("draws people by name, and every try of an effect", async () => {
    await scene.logIn();
    await scene.open(`runs/${told.invoice}`);
    // Marks, because labels that would collide are dropped: without pauses the two votes are one after the other.
    const marks = [
      "approved by ann",
      "approved by bea",
      "try of run.succeeded: 503",
      "try of run.succeeded: 204",
    ];
    for (const name of marks) await scene.page.getByRole("button", { name }).waitFor();
  });

  for (const [name, colorScheme, viewport] of SCREENS) {
    it(`has every page on the screen ${name}, without a serious finding`, async () => {
      const { page, faults } = await visit(scene.browser, { colorScheme, viewport });
      const found: string[] = [];
      const look = async (of: string) => {
        if (IS_FOR_PICTURES)
          await page.screenshot({ path: `${OUT}${of}-${name}.png`, fullPage: true, animations: "disabled" });
        found.push(...(await findings(page)).map((finding) => `${of}: ${finding}`));
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (overflow > 0) found.push(`${of} is ${overflow} px wider than the screen`);
      };
      await page.goto(scene.console.url);
      await page.getByLabel("API key").waitFor();
      await look("login");
      await logIn(page, scene.console.url, scene.server.key);
      for (const [of, path, text] of pages()) {
        await page.goto(scene.console.url + path);
        await page.getByText(text).locator("visible=true").first().waitFor();
        await look(of);
      }
      if (IS_FOR_PICTURES && name === "light") await takeover();
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
      await look("help");
      expect(found).toEqual([]);
      expect(faults).toEqual([]);
      await page.close();
    });
  }
});
