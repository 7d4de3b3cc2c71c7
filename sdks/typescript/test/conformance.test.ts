/**
 * The conformance kit against this SDK's subject: one test per case.
 *
 * With the other tests run the cases that a busy machine decides as an idle one does: none of them judges milliseconds or
 * waits for a lease to end. `npm run conform` performs all of them, and so does `cargo xtask conform`.
 */
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { binary } from "./server.ts";

const SOUND_WHEN_BUSY =
  /^(client\/(submit-(answer-lost|half-body|400|422)|many|result-failed|result-unreadable|runs-pages|unknown-members|not-a-coordinator)|worker\/(echo|poll-answer-lost|duplicate-grant|start-refused|report-.*|categories|wrong-input|unknown-kind|nan|too-large|own-error|new-token|drain-open-poll)|durable\/(sequence|call-answer-lost|call-refused|child.*|detached|diverged-.*|patched-.*|savepoint|unicode-numbers|foreign-await|two-at-once|not-awaited|bug-is-retryable|failure-is-final|effect|approval)|webhooks\/.*|push\/push-(report|failure|wrong-url|copy))$/;
/** How many subjects run at once beside the other tests. */
const AT_ONCE = "2";

const cases = fileURLToPath(new URL("../../../protocol/conformance", import.meta.url));
const subject = fileURLToPath(new URL("./subject.mjs", import.meta.url));
const [kit = "", ...words] = process.env["TENURE_CONFORM_COMMAND"]?.split(" ") ?? [binary(), "conform"];

interface Case {
  case: string;
  about: string;
}

interface Outcome {
  case: string;
  standing: string;
  findings: string[];
  log: string[];
}

function listed(): Case[] {
  const text = execFileSync(kit, [...words, "--list", "--json", "--cases", cases], { encoding: "utf8" });
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Case);
}

const isComplete = process.env["TENURE_KIT"] === "all";
const chosen = listed().filter((one) => isComplete || SOUND_WHEN_BUSY.test(one.case));

describe("the conformance kit", () => {
  const outcomes = new Map<string, Promise<Outcome>>();
  const decide = new Map<string, (outcome: Outcome) => void>();
  let program: ReturnType<typeof spawn> | undefined;

  beforeAll(() => {
    for (const { case: name } of chosen)
      outcomes.set(name, new Promise((resolve) => decide.set(name, resolve)));
    const only = isComplete ? [] : chosen.flatMap((one) => ["--only", one.case]);
    const width = isComplete ? [] : ["--at-once", AT_ONCE];
    const options = ["--json", "--cases", cases, "--start-timeout", "60", ...width, ...only];
    const judge = spawn(kit, [...words, ...options, "--", process.execPath, subject], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    program = judge;
    createInterface({ input: judge.stdout }).on("line", (line) => {
      const outcome = JSON.parse(line) as Outcome;
      decide.get(outcome.case)?.(outcome);
    });
    // A kit that ends early must not leave its tests waiting.
    judge.once("close", (code) => {
      for (const [name, resolve] of decide)
        resolve({ case: name, standing: `not performed, the kit ended with ${code}`, findings: [], log: [] });
    });
  });

  afterAll(() => program?.kill());

  it("has cases of every group", () => {
    const groups = new Set(chosen.map((one) => one.case.split("/")[0]));
    expect([...groups].sort()).toEqual(["client", "durable", "push", "webhooks", "worker"]);
  });

  it.each(chosen)("$case: $about", { timeout: 600_000 }, async ({ case: name }) => {
    const outcome = await outcomes.get(name);
    expect(outcome?.standing, [...(outcome?.findings ?? []), ...(outcome?.log ?? [])].join("\n")).toBe(
      "passed",
    );
  });
});
