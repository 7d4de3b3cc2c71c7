/** Golden files of every SDK's examples, with the same functions in TypeScript: in memory, and under `tenure replay`. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { durable } from "@tenure/sdk";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { golden, ReplayDiffers, replayFile } from "../dist/testing.js";
import { invoice, order, payout } from "./examples.ts";
import { binary, output } from "./server.ts";

const folder = fileURLToPath(new URL("../../../protocol/golden", import.meta.url));

describe("golden files in memory", () => {
  // S4-74: a run that one SDK recorded continues in another one.
  golden(order, join(folder, "order-*.jsonl"), { it });
  golden(payout, join(folder, "payout-*.jsonl"), { it });
  golden(invoice, join(folder, "invoice-*.jsonl"), { it });

  it("name the renamed step", async () => {
    const renamed = durable("order", { queue: "orders" }, async (flow, order: { cents: number }) =>
      flow.step("bill", () => 1, { input: order.cents }),
    );
    const replayed = replayFile(renamed, join(folder, "order-approved.jsonl"));
    await expect(replayed).rejects.toThrow(ReplayDiffers);
    await expect(replayed).rejects.toThrow("recorded `charge#1`, now `bill#1`");
  });

  it("that were changed are refused", async () => {
    const home = mkdtempSync(join(tmpdir(), "tenure-golden-"));
    const text = readFileSync(join(folder, "order-approved.jsonl"), "utf8");
    const without = text.slice(0, text.trimEnd().lastIndexOf("\n") + 1);
    for (const changed of [text.replace("500 cents", "501 cents"), without, ""]) {
      const file = join(home, "changed.jsonl");
      writeFileSync(file, changed);
      await expect(replayFile(order, file)).rejects.toThrow("was cut or changed");
    }
    rmSync(home, { recursive: true, force: true });
  });

  it("tell where the code records more, or ends too soon", async () => {
    const longer = durable(
      "payout",
      { queue: "payouts" },
      async (flow, input: { to: string; cents: number }) => {
        const code = payout.code;
        if (code?.type !== "durable") throw new Error("payout is durable");
        const output = await code.run(flow, input);
        await flow.step("more", () => 1);
        return output;
      },
    );
    const replayed = replayFile(longer, join(folder, "payout-approved.jsonl"));
    await expect(replayed).rejects.toThrow("goes on after the recorded end");
  });

  it("tell another end", async () => {
    const other = durable(
      "payout",
      { queue: "payouts" },
      async (flow, input: { to: string; cents: number }) => {
        const code = payout.code;
        if (code?.type !== "durable") throw new Error("payout is durable");
        return `${await code.run(flow, input)}!`;
      },
    );
    await expect(replayFile(other, join(folder, "payout-approved.jsonl"))).rejects.toThrow("its output was");
  });
});

describe("golden files under `tenure replay`", () => {
  let work: string;

  beforeAll(() => {
    // The worker's program is JavaScript, as every Node can run it.
    work = mkdtempSync(join(fileURLToPath(new URL("..", import.meta.url)), "dist", "examples-"));
    const source = readFileSync(new URL("./examples.ts", import.meta.url), "utf8");
    const module = ts.transpileModule(source, {
      compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
    });
    writeFileSync(join(work, "examples.mjs"), module.outputText);
  });

  afterAll(() => rmSync(work, { recursive: true, force: true }));

  it("are the same, with and without executing the steps", async () => {
    const files = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    expect(files.length).toBeGreaterThanOrEqual(12);
    const home = mkdtempSync(join(tmpdir(), "tenure-replay-"));
    const env = {
      ...process.env,
      HOME: home,
      EXAMPLES: join(work, "examples.mjs"),
      NOTES: join(home, "notes"),
      TENURE_LOG: "off",
    };
    const worker = fileURLToPath(new URL("./programs-worker.mjs", import.meta.url));
    for (const mode of [[], ["--execute"]]) {
      const paths = files.map((file) => join(folder, file));
      const { code, text } = await output(
        binary(),
        ["replay", ...mode, ...paths, "--", process.execPath, worker],
        env,
      );
      expect(text.match(/^same /gm)?.length, text).toBe(files.length);
      expect(code, text).toBe(0);
    }
    rmSync(home, { recursive: true, force: true });
  });
});
