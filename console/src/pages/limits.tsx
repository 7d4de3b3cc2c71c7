/** Limits: what tenants and workspaces may use, and how near they are. They are set with the commands beside them. */

import { mayRead } from "../access.js";
import { get } from "../api/call.js";
import type { Limits, ScopeBudget, ScopeBudgets, TenantLimits } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import type { Look, Tone } from "../model/state.js";
import { Card, Cli, Empty, Time } from "../parts/bits.js";
import { Head } from "../parts/frame.js";
import { Pill } from "../parts/glyph.js";
import { Read } from "../parts/read.js";
import { type Column, Table } from "../parts/table.js";
import { FlowKeysCard } from "./flow-keys.js";

export function LimitsPage() {
  document.title = "Limits · Tenure";
  return (
    <>
      <Head title="Limits" note="what may be used, and how near it is" />
      <Budgets />
      <Rates />
      {mayRead("runs") && <FlowKeysCard />}
    </>
  );
}

const BUDGETS: Record<ScopeBudget["state"], Look> = {
  open: { tone: "ok", glyph: "ok", word: "open" },
  soft: { tone: "retry", glyph: "retry", word: "beyond a soft limit" },
  spent: { tone: "halt", glyph: "halt", word: "spent: new runs are refused" },
};

const PERIODS: Record<ScopeBudget["period"], string> = {
  total: "for all time",
  day: "each day",
  month: "each month",
};

/** What a budget counts. Money is kept in millionths of a unit of currency. */
const UNITS = [
  ["costMicros", "cost"],
  ["tokens", "tokens"],
  ["steps", "steps"],
  ["toolCalls", "tool calls"],
] as const;

export interface Row {
  unit: string;
  used: string;
  soft: string;
  limit: string;
  /** Of the limit, or of the soft one if there is no other: from 0 to 1. */
  share: number | undefined;
  tone: Tone;
}

/** An amount as people write it: thousands apart, money with two digits or as many as it has. */
export function amount(unit: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (unit !== "costMicros") return value.toLocaleString("en");
  return (value / 1e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 });
}

/** The units of a budget that have a limit. */
export function rowsOf({ limits, soft, used }: ScopeBudget): Row[] {
  return UNITS.flatMap(([unit, name]) => {
    const [hard, told, now] = [limits[unit], soft[unit], used[unit]];
    const bound = hard ?? told;
    if (bound === undefined || bound === null) return [];
    const share = bound === 0 ? 1 : Math.min(1, now / bound);
    const isOver = hard !== undefined && hard !== null && now >= hard;
    const isWarned = told !== undefined && told !== null && now >= told;
    return {
      unit: name,
      used: amount(unit, now),
      soft: amount(unit, told),
      limit: amount(unit, hard),
      share,
      tone: isOver ? "halt" : isWarned ? "retry" : "run",
    };
  });
}

function Meter({ share, tone, of }: { share: number; tone: Tone; of: string }) {
  const percent = `${Math.round(share * 100)} %`;
  return (
    <span class="share">
      <span class={`meter t-${tone}`} role="img" aria-label={`${percent} of ${of}`}>
        <i style={{ width: `${share * 100}%` }} />
      </span>
      <span class="num" aria-hidden="true">
        {percent}
      </span>
    </span>
  );
}

const UNIT_COLUMNS: Array<Column<Row>> = [
  ["unit", ({ unit }) => unit, "strong"],
  ["used", ({ used }) => used, "num r"],
  ["soft limit", ({ soft }) => soft, "num r hide-narrow"],
  ["limit", ({ limit }) => limit, "num r"],
  [
    "share",
    ({ share, tone, unit }) =>
      share !== undefined && <Meter share={share} tone={tone} of={`the limit of ${unit}`} />,
  ],
];

function Budgets() {
  const query = useQuery<ScopeBudgets>("budgets", "operate", (signal) => get("v1/budgets", { signal }));
  return (
    <Read query={query}>
      {({ budgets }) =>
        budgets.length === 0 ? (
          <section class="card">
            <Empty
              title="No tenant or workspace has a budget"
              lines={["tenure budgets set cost=5000000,tokens=200000,soft-tokens=150000 --period month"]}
            >
              A budget bounds what all runs of a workspace or tenant may use together. Money is counted in
              millionths of your unit of currency. Runs have budgets of their own besides.
            </Empty>
          </section>
        ) : (
          budgets.map((budget) => (
            <BudgetCard key={`${budget.tenantId} ${budget.workspaceId ?? ""}`} budget={budget} />
          ))
        )
      }
    </Read>
  );
}

function BudgetCard({ budget }: { budget: ScopeBudget }) {
  const { tenantId, workspaceId, period, resetsAt, state } = budget;
  return (
    <Card
      title={`Budget of ${visible(`${tenantId} / ${workspaceId ?? "all workspaces"}`)}`}
      note={
        <>
          {PERIODS[period]}
          {resetsAt && (
            <>
              , begins anew <Time at={resetsAt} />
            </>
          )}
        </>
      }
      aside={<Pill look={BUDGETS[state]} />}
    >
      <Table isList items={rowsOf(budget)} by={({ unit }) => unit} columns={UNIT_COLUMNS} />
      <div class="pad-x pad-b">
        <Cli line={setLine(budget)} />
      </div>
    </Card>
  );
}

/** The command that sets the same budget again: what it does not name would be removed. */
export function setLine({ tenantId, workspaceId, period, limits, soft }: ScopeBudget): string {
  const words = { costMicros: "cost", tokens: "tokens", steps: "steps", toolCalls: "tools" };
  const named = UNITS.flatMap(([unit]) => [
    ...(limits[unit] != null ? [`${words[unit]}=${limits[unit]}`] : []),
    ...(soft[unit] != null ? [`soft-${words[unit]}=${soft[unit]}`] : []),
  ]);
  const workspace = workspaceId ? ["--workspace", workspaceId] : [];
  return command("budgets", "set", named.join(","), "--tenant", tenantId, ...workspace, "--period", period);
}

function Rates() {
  const query = useQuery<Limits>("limits", "operate", (signal) => get("v1/limits", { signal }));
  return (
    <Read query={query}>
      {({ limits }) =>
        limits.length === 0 ? (
          <section class="card">
            <Empty
              title="No tenant has a rate or a quota"
              lines={["tenure limits set default --requests-per-second 500 --unfinished-runs 100000"]}
            >
              A rate bounds the calls of clients and polls of workers, a quota the runs that wait or run.
              Heartbeats, reports and administration are never limited.
            </Empty>
          </section>
        ) : (
          <Card title="Rates and quotas" note="of tenants; one that is not named has none">
            <Table isList items={limits} by={({ tenantId }) => tenantId} columns={LIMITS} />
            <div class="pad-x pad-b">
              <Cli line="tenure limits list" />
            </div>
          </Card>
        )
      }
    </Read>
  );
}

const LIMITS: Array<Column<TenantLimits>> = [
  ["tenant", ({ tenantId }) => visible(tenantId), "strong"],
  ["requests a second", ({ requestsPerSecond }) => requestsPerSecond ?? "–", "num r"],
  ["at once", ({ burst, requestsPerSecond }) => burst ?? requestsPerSecond ?? "–", "num r hide-narrow"],
  ["left now", ({ requestsLeftNow }) => requestsLeftNow ?? "–", "num r hide-narrow"],
  ["last refused", ({ limitedAt }) => <Time at={limitedAt} />, "nowrap hide-narrow"],
  ["unfinished runs", ({ unfinishedRunsNow }) => unfinishedRunsNow.toLocaleString("en"), "num r"],
  ["quota", ({ unfinishedRuns }) => unfinishedRuns?.toLocaleString("en") ?? "–", "num r"],
  ["share", (tenant) => <Quota of={tenant} />, "hide-narrow"],
  ["set", ({ changedAt }) => <Time at={changedAt} />, "nowrap hide-narrow"],
];

function Quota({ of: { unfinishedRuns: quota, unfinishedRunsNow: now } }: { of: TenantLimits }) {
  if (quota === undefined || quota === null) return null;
  const share = quota === 0 ? 1 : Math.min(1, now / quota);
  return <Meter share={share} tone={share >= 1 ? "bad" : share > 0.8 ? "retry" : "run"} of="the quota" />;
}
