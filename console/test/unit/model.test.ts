// Pure parts: what is parsed, hashed, spelled and quoted.

import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { parse } from "../../src/api/scan.js";
import type { Approval, Effect, Run, Schedule } from "../../src/api/types.js";
import { command, listCommand } from "../../src/model/command.js";
import { contentOf } from "../../src/model/content.js";
import { canonical, contentDigest, payloadDigest } from "../../src/model/digest.js";
import { queueRows } from "../../src/model/queues.js";
import { sha256 } from "../../src/model/sha256.js";
import { jsonLines, tableRows, visible } from "../../src/model/shown.js";
import { axisTime, relative, roughly, span } from "../../src/model/time.js";
import { fate as fateOfEffect } from "../../src/pages/effects.js";
import { fate, scheduleLook, terms } from "../../src/pages/schedules.js";
import { invalid } from "../../src/parts/actions.js";
import { refusal } from "../../src/parts/filter.js";
import { targets } from "../../src/parts/jump.js";
import { placeOf, withQuery } from "../../src/router.js";

describe("answers", () => {
  it("leave payloads as the text that was sent", () => {
    const text =
      '{"runId":"r","input": {"b":1,"a":12345678901234567890,"a":2} ,"output":"x\\"}","labels":{"input":"mine"},"steps":[{"result":[1, 2]}],"n":1e2}';
    expect(parse(text)).toEqual({
      runId: "r",
      input: '{"b":1,"a":12345678901234567890,"a":2}',
      output: '"x\\"}"',
      labels: { input: "mine" },
      steps: [{ result: "[1, 2]" }],
      n: 100,
    });
  });

  it("take scalars, empty containers and text that looks like members", () => {
    expect(parse('{"input":null,"output":-1.5e3}')).toEqual({ input: "null", output: "-1.5e3" });
    expect(parse('{"input":{},"output":[]}')).toEqual({ input: "{}", output: "[]" });
    expect(parse('{"message":"\\"input\\": 3","input":true}')).toEqual({
      message: '"input": 3',
      input: "true",
    });
  });
});

describe("digests", () => {
  it("of bytes are SHA-256", () => {
    for (const length of [0, 1, 55, 56, 63, 64, 65, 1000, 100_000]) {
      const bytes = new Uint8Array(length).map((_, i) => (i * 31) & 255);
      expect(sha256(bytes), `${length} bytes`).toBe(createHash("sha256").update(bytes).digest("hex"));
    }
  });

  it("of payloads are those of the server: its bytes, in the order in which they were sent", () => {
    expect(payloadDigest("null")).toBe("67ec4cfa5a08ee3f4811073d39c4d443d4c84b5452778eb3d0a613ee12f6e6ee");
    expect(payloadDigest('{"by":"bob"}')).toBe(
      "c6ae32c384db06f1ea2c3350a400665accf66a37dba203bbf066aa31522ab9ab",
    );
    expect(payloadDigest('{"id":7,"cents":500}')).toBe(
      "ad157aa84e4a3230795c637d1bbc8eab0ca6f5709ce96090c2fab49f8292d9a9",
    );
  });

  it("keep integers of any length and round fractions to doubles", () => {
    expect(canonical('[12345678901234567890, 1.0, 1e2, -0, 1E30, 0.1, {"b":[],"a":{}}]')).toBe(
      '[12345678901234567890,1,100,0,1e+30,0.1,{"a":{},"b":[]}]',
    );
    expect(canonical('{"€":1,"$":2,"\\u00e9":3}')).toBe('{"$":2,"é":3,"€":1}');
  });

  it("find what an approval is about among the payloads of its run", () => {
    const digest = contentDigest('{"cents":50000,"to":"Ada"}');
    const approval = { digest } as Approval;
    const run = { input: '{ "to": "Ada", "cents": 50000 }' } as unknown as Run;
    expect(contentOf(approval, run, [])).toEqual({
      text: '{"cents":50000,"to":"Ada"}',
      of: "the input of the run",
    });
    expect(contentOf({ digest: contentDigest("1") } as Approval, run, [])).toBeUndefined();
  });
});

describe("text from outside", () => {
  it("cannot hide or reorder anything", () => {
    expect(visible("a\u202Eb\u0000c\u200Bd\u{e0041}")).toBe("a‹U+202E›b‹U+0000›c‹U+200B›d‹U+E0041›");
    expect(visible("tabs\tand\nlines, é and 漢 stay")).toBe("tabs\tand\nlines, é and 漢 stay");
  });

  it("is laid out in lines without a token lost", () => {
    const text = '{"a":[1,{"b":"x, y: {z}"}],"a":1e400,"e":{},"f":[]}';
    const lines = jsonLines(text);
    expect(
      lines
        .map((line) => line.tokens.map((token) => token.text).join(""))
        .join("")
        .replaceAll(": ", ":"),
    ).toBe(text.replaceAll(": ", ":"));
    expect(lines[1]).toEqual({
      indent: 1,
      tokens: [
        { kind: "name", text: '"a"' },
        { kind: "mark", text: ": " },
        { kind: "mark", text: "[" },
      ],
    });
    expect(jsonLines("not } json [").length).toBeGreaterThan(0);
  });

  it("is a table only if every member is a scalar", () => {
    expect(tableRows('{"to":"Ada","cents":50000}')).toEqual([
      ["to", "Ada"],
      ["cents", "50000"],
    ]);
    expect(tableRows('{"to":{"name":"Ada"}}')).toBeUndefined();
    expect(tableRows("[1]")).toBeUndefined();
  });
});

describe("words", () => {
  it("of durations have at most two units", () => {
    expect([31, 4100, 59_949, 860_000, 7_500_000, 273_600_000].map(span)).toEqual([
      "31 ms",
      "4.1 s",
      "59.9 s",
      "14 min 20 s",
      "2 h 05 min",
      "3 d 4 h",
    ]);
    expect([31, 4100, 860_000, 7_500_000, 273_600_000].map(roughly)).toEqual([
      "31 ms",
      "4 s",
      "14 min",
      "2 h",
      "3 d",
    ]);
    expect([relative(0, 5000), relative(65_000, 5000), relative(5000, 5000)]).toEqual([
      "5 s ago",
      "in 1 min",
      "now",
    ]);
  });

  it("of the axis count from the beginning of the run", () => {
    expect([axisTime(20, 10), axisTime(2500, 500), axisTime(5000, 5000), axisTime(857_000, 1000)]).toEqual([
      "+20 ms",
      "+2.5 s",
      "+5 s",
      "+14:17",
    ]);
  });

  it("of commands are quoted for a shell", () => {
    expect(command("runs", "cancel", "run_1", "--reason", "it's $HOME")).toBe(
      "tenure runs cancel run_1 --reason 'it'\\''s $HOME'",
    );
    expect(listCommand(new URLSearchParams("state=failed&label=a=b&children=true&sel=x"))).toBe(
      "tenure runs list --state failed --label a=b --children",
    );
  });
});

describe("what is typed", () => {
  it("leads somewhere", () => {
    expect(targets("run_01M7PRN1DJ4F6DGRZ1CNSQ51JA")[0]).toEqual({
      words: "open run_01M7PRN1DJ4F6DGRZ1CNSQ51JA",
      to: "runs/run_01M7PRN1DJ4F6DGRZ1CNSQ51JA",
    });
    expect(targets("customer:acme")[0]!.to).toBe("runs?label=customer%3Dacme");
    expect(targets(" ")).toEqual([]);
  });

  it("is refused in words", () => {
    expect(refusal("since", "yesterday")).toMatch(/such as 24h/);
    expect(refusal("kind", "mail.send")).toBeUndefined();
    expect(invalid("{")).toBeDefined();
    expect(invalid('{"id":12345678901234567890}')).toMatch(/rounded/);
    expect(invalid('{"id":"12345678901234567890"}')).toBeUndefined();
  });

  it("is kept in the address and comes out of it", () => {
    const place = placeOf(new URL("http://h/ops/console/runs?state=failed&kind=a"), "/ops/console/");
    expect(place.path).toEqual(["runs"]);
    expect(withQuery({ kind: "b c", state: undefined }, place)).toBe("runs?kind=b+c");
  });
});

describe("queues", () => {
  it("starve when runs are ready and no worker polls", () => {
    const at = Date.parse("2026-01-01T00:01:00Z");
    const ready = { delayed: 0, ready: 3, running: 0, oldestReadyAt: "2026-01-01T00:00:00Z" };
    const workers = [
      { workerId: "w", polls: [{ queues: ["served", "idle"], count: 2, max: 1 }], leases: [] },
    ];
    const rows = queueRows(
      [
        { queue: "served", ...ready },
        { queue: "starving", ...ready },
        { queue: "paused", ...ready, pause: { pausedAt: "2026-01-01T00:00:00Z", pausedBy: "k" } },
      ],
      workers,
      at,
    );
    expect(rows.map((row) => [row.queue, row.isStarving, row.polls])).toEqual([
      ["starving", true, 0],
      ["paused", false, 0],
      ["served", false, 2],
      ["idle", false, 2],
    ]);
  });
});

describe("schedules and effects", () => {
  const schedule = (more: Partial<Schedule>) =>
    ({ state: "active", fired: 3, skipped: 0, missed: 0, refused: 0, waiting: 0, ...more }) as Schedule;

  it("say when", () => {
    expect(terms(schedule({ cron: "15 2 * * *", timeZone: "Europe/Berlin" }))).toBe(
      "15 2 * * * (Europe/Berlin)",
    );
    expect(terms(schedule({ everyMs: 900_000 }))).toBe("every 15 min");
  });

  it("call late only what should have fired", () => {
    const at = Date.parse("2026-11-18T12:00:00Z");
    const look = (more: Partial<Schedule>) => scheduleLook(schedule(more), at).word;
    expect(look({ nextAt: "2026-11-18T12:00:05Z" })).toBe("active");
    expect(look({ nextAt: "2026-11-18T11:59:59Z" })).toBe("active");
    expect(look({ nextAt: "2026-11-18T11:50:00Z" })).toBe("late");
    expect(look({ waiting: 1 })).toBe("late");
    expect(look({ state: "paused", nextAt: "2026-11-18T11:50:00Z" })).toBe("paused");
  });

  it("say what became of them and what a person can do", () => {
    expect(fate(schedule({ fired: 1, skipped: 2, refused: 1 }))).toBe(
      "It has submitted 1 run; 2 skipped, 1 refused.",
    );
    const effect = (more: Partial<Effect>) => fateOfEffect({ tries: 2, ...more } as Effect);
    expect(effect({ state: "delivered" })).toBe("Delivered after 2 tries.");
    expect(effect({ state: "dead", reason: "gone", blocks: true })).toMatch(/gone.*waits for it/);
    expect(effect({ state: "dead", reason: "gone", blocks: false })).toMatch(/Nothing waits for it/);
    expect(effect({ state: "unknown" })).toMatch(/Ask the receiver/);
    expect(effect({ state: "pending", tries: 0 })).toBe("It is about to be sent.");
  });
});
