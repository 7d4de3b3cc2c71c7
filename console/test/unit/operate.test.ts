// Limits, Audit, Keys and Health: what they say about what the server answers, and which pages a key is offered.

import { afterEach, describe, expect, it } from "vitest";
import { may } from "../../src/access.js";
import type { AuditEntry, Key, ScopeBudget, Session } from "../../src/api/types.js";
import { entryOf, isOffered, offered, PAGES } from "../../src/map.js";
import { parseMetrics, quantile, sum } from "../../src/model/metrics.js";
import { chosen, verdict } from "../../src/pages/audit.js";
import { figures } from "../../src/pages/health.js";
import { isShown, keyLook } from "../../src/pages/keys.js";
import { amount, rowsOf, setLine } from "../../src/pages/limits.js";
import { targets } from "../../src/parts/jump.js";
import { codeIn, looksLikeKey, person } from "../../src/session.js";

const AT = Date.parse("2026-11-18T12:00:00Z");
const at = (seconds: number) => new Date(AT + seconds * 1000).toISOString();

describe("the map of pages", () => {
  const log = (...may: string[]) => {
    person.value = { keyId: "k", may } as unknown as Session;
  };
  afterEach(() => {
    person.value = undefined;
  });

  it("gives each page a letter, an address and a place in the jump field of its own", () => {
    expect(new Set(PAGES.map(({ key }) => key)).size).toBe(PAGES.length);
    expect(new Set(PAGES.map(({ to }) => to)).size).toBe(PAGES.length);
    for (const { name, to } of PAGES)
      expect(targets(name)).toContainEqual({ words: `page ${name.toLowerCase()}`, to });
  });

  it("offers nothing before the server said who this is", () => {
    expect(offered()).toEqual([]);
    expect(may("runs.read")).toBe(false);
  });

  it("offers an approver the Inbox alone, and makes it the first page", () => {
    log("approvals.read", "approvals.decide", "session.read");
    expect(offered().map(({ name }) => name)).toEqual(["Inbox"]);
    expect(entryOf(undefined)?.name).toBe("Inbox");
  });

  it("offers an administrator who may not read runs what there is to administer", () => {
    log("approvals.read", "effects.read", "audit.read", "keys.read");
    expect(offered().map(({ name }) => name)).toEqual([
      "Inbox",
      "Effects",
      "Limits",
      "Audit",
      "Keys",
      "Health",
    ]);
    expect(isOffered(entryOf("runs")!)).toBe(false);
    expect(entryOf("nothing")).toBeUndefined();
  });
});

describe("what is pasted at the door", () => {
  const code = "0123456789abcdef0123456789abcdef";
  it("is a key, a code, or the link with a code", () => {
    expect(looksLikeKey(" tnr_a1_b2_c3\n")).toBe(true);
    expect(looksLikeKey(code)).toBe(false);
    for (const text of [code, ` ${code} `, `http://127.0.0.1:7400/console/#code=${code}`, `#code=${code}`])
      expect(codeIn(text)).toBe(code);
    for (const text of ["", "tnr_a1_b2_c3", code.slice(1), `${code}0`, `#token=${code}`])
      expect(codeIn(text)).toBeUndefined();
  });
});

describe("keys", () => {
  const key = (more: Partial<Key>) => ({ keyId: "a", roles: ["reader"], createdAt: at(-60), ...more }) as Key;

  it("are in force until they are revoked or expire", () => {
    expect(keyLook(key({}), AT).word).toBe("in force");
    expect(keyLook(key({ expiresAt: at(1) }), AT).word).toBe("in force");
    expect(keyLook(key({ expiresAt: at(0) }), AT).word).toBe("expired");
    expect(keyLook(key({ expiresAt: at(-9), revokedAt: at(-1) }), AT).word).toBe("revoked");
    expect(keyLook(key({ previousSecretUntil: at(5) }), AT).word).toBe("two secrets");
    expect(keyLook(key({ previousSecretUntil: at(-5) }), AT).word).toBe("in force");
  });

  it("with two secrets count as in force", () => {
    const rotated = key({ previousSecretUntil: at(5) });
    expect(isShown(rotated, "in-force", AT)).toBe(true);
    expect(isShown(rotated, "revoked", AT)).toBe(false);
    expect(isShown(key({ revokedAt: at(-1) }), "revoked", AT)).toBe(true);
    expect(isShown(key({ revokedAt: at(-1) }), "in-force", AT)).toBe(false);
    expect(isShown(key({ expiresAt: at(-1) }), "", AT)).toBe(true);
  });
});

describe("the audit", () => {
  const entries = [
    { n: 3, action: "refused" },
    { n: 2, action: "key.created" },
    { n: 1, action: "limits.set" },
  ] as AuditEntry[];

  it("is filtered by what happened", () => {
    const numbers = (what: string) => chosen(entries, what).map(({ n }) => n);
    expect(numbers("")).toEqual([3, 2, 1]);
    expect(numbers("refused-calls")).toEqual([3]);
    expect(numbers("changes")).toEqual([2, 1]);
  });

  it("says what a check found, and what it could not find out", () => {
    const sound = { entries: 6, sealed: 6, anchored: true, findings: [] };
    expect(verdict(sound)).toBe("All 6 entries are as they were written, and none is missing at the end.");
    expect(verdict({ ...sound, sealed: 4 })).toMatch(/written; 2 of them are older than the seals, and/);
    expect(verdict({ ...sound, anchored: false })).toMatch(/missing entries at the end would not be noticed/);
    const broken = { ...sound, findings: [{ n: 2, message: "the seal differs" }] };
    expect(verdict(broken)).toBe("The audit was changed: the seal differs (entry 2).");
  });
});

describe("budgets", () => {
  const budget: ScopeBudget = {
    tenantId: "acme",
    period: "month",
    state: "soft",
    limits: { costMicros: 5_000_000, tokens: 200_000 },
    soft: { tokens: 150_000, steps: 10 },
    used: { costMicros: 1_250_000, tokens: 180_000, steps: 2, toolCalls: 7 },
    left: {},
  };

  it("show the units that have a limit, with the share that is used", () => {
    expect(rowsOf(budget)).toEqual([
      { unit: "cost", used: "1.25", soft: "–", limit: "5.00", share: 0.25, tone: "run" },
      { unit: "tokens", used: "180,000", soft: "150,000", limit: "200,000", share: 0.9, tone: "retry" },
      { unit: "steps", used: "2", soft: "10", limit: "–", share: 0.2, tone: "run" },
    ]);
  });

  it("are spent at a limit of nothing", () => {
    const rows = rowsOf({ ...budget, limits: { tokens: 0 }, soft: {} });
    expect(rows).toMatchObject([{ unit: "tokens", share: 1, tone: "halt" }]);
  });

  it("name every limit in the command that sets them, because others would be removed", () => {
    expect(setLine({ ...budget, workspaceId: "main" })).toBe(
      "tenure budgets set cost=5000000,tokens=200000,soft-tokens=150000,soft-steps=10 --tenant acme --workspace main --period month",
    );
    expect(setLine({ ...budget, limits: { toolCalls: 9 }, soft: {} })).toMatch(
      / tools=9 --tenant acme --period/,
    );
  });

  it("show fractions of money that are there", () => {
    expect(amount("costMicros", 1)).toBe("0.000001");
    expect(amount("tokens", undefined)).toBe("–");
  });
});

describe("figures", () => {
  const text = `# HELP tenure_commit_seconds time of one commit
# TYPE tenure_commit_seconds histogram
tenure_commit_seconds_bucket{le="0.001"} 90
tenure_commit_seconds_bucket{le="0.01"} 98
tenure_commit_seconds_bucket{le="+Inf"} 100
tenure_commit_seconds_sum 1.5
tenure_limited_total{limit="rate"} 3
tenure_limited_total{limit="quota \\"x\\", y"} 4
tenure_store_promise{promise="fsync"} 1
tenure_store_promise{promise="full_page_writes"} 0
tenure_start_time_seconds ${AT / 1000 - 120}
`;

  it("are read from the text of Prometheus", () => {
    const metrics = parseMetrics(text);
    expect(sum(metrics, "tenure_limited_total")).toBe(7);
    expect(sum(metrics, "tenure_nothing")).toBeUndefined();
    expect(metrics.get("tenure_limited_total")![1]!.labels).toEqual({ limit: 'quota \\"x\\", y' });
    expect(quantile(metrics, "tenure_commit_seconds", 0.5)).toBe(0.001);
    expect(quantile(metrics, "tenure_commit_seconds", 0.98)).toBe(0.01);
    expect(quantile(metrics, "tenure_commit_seconds", 0.99)).toBe(Infinity);
    expect(quantile(metrics, "tenure_nothing", 0.5)).toBeUndefined();
    expect(parseMetrics("<html>a proxy</html>").size).toBe(0);
  });

  it("are told in words, without those that the server does not have", () => {
    expect(figures(parseMetrics(text), AT)).toEqual([
      ["started", "2 min ago"],
      ["a commit takes, half of them", "at most 1 ms"],
      ["a commit takes, 99 of 100", "beyond the scale"],
      ["what the store promises", "fsync kept, full page writes not kept"],
      ["calls refused by a limit", "7"],
    ]);
  });
});
