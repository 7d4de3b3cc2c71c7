/** A run: head, story, timeline, and everything behind it as tabs. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { get, runIdOf } from "../api/call.js";
import type {
  Approval,
  Checkpoint,
  Effect,
  EffectList,
  Explanation,
  History,
  HistoryEntry,
  Run,
  Steps,
} from "../api/types.js";
import { type Query, useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import { isEnded, stateLook } from "../model/state.js";
import { story } from "../model/story.js";
import { clock, ms, now, span, timeStyle } from "../model/time.js";
import { Actions } from "../parts/actions.js";
import { Cli, Copy, Empty, Failed, Loading, Time } from "../parts/bits.js";
import { Pill } from "../parts/glyph.js";
import { Sentence } from "../parts/sentence.js";
import { place } from "../router.js";
import { type Events, eventsOf } from "../timeline/events.js";
import { ChildrenTab, EffectsTab, PayloadsTab, RawTab, RecordTab, StepsTab } from "./run-tabs.js";
import { HistoryTab, TimelineTab } from "./run-timeline.js";

/** Everything about a run that its page needs at once. */
export interface Whole {
  run: Run;
  entries: HistoryEntry[];
  steps: Checkpoint[];
  effects: Effect[];
  approvals: Approval[];
  explanation?: Explanation;
}

/** Decisions that are read; a run with more shows its last ones in the list of its history only. */
const ENTRIES_MAX = 4000;

async function readWhole(id: string, known: Whole | undefined, signal: AbortSignal): Promise<Whole> {
  const run = await get<Run>(`v1/runs/${id}`, { query: { tree: 20 }, signal });
  // A run that has ended does not change any more, except by calls that are refused and effects that are delivered.
  const isOver = known !== undefined && isEnded(known.run.state) && isEnded(run.state);
  if (isOver && known.effects.every(isSettled)) return { ...known, run };
  const entries = await readHistory(id, known?.entries ?? [], signal);
  const optional = <T,>(read: Promise<T>): Promise<T | undefined> => read.catch(() => undefined);
  const [steps, effects, explanation, approvals] = await Promise.all([
    run.durable ? optional(get<Steps>(`v1/runs/${id}/steps`, { query: { limit: 1000 }, signal })) : undefined,
    optional(readEffects(run, known?.effects ?? [], signal)),
    optional(get<Explanation>(`v1/runs/${id}/explain`, { signal })),
    readApprovals(run, entries, known?.approvals ?? [], signal),
  ]);
  return { run, entries, steps: steps?.steps ?? [], effects: effects ?? [], explanation, approvals };
}

async function readHistory(id: string, known: HistoryEntry[], signal: AbortSignal): Promise<HistoryEntry[]> {
  const entries = [...known];
  for (;;) {
    const after = entries.at(-1)?.n ?? 0;
    const page = await get<History>(`v1/runs/${id}/history`, { query: { after, limit: 1000 }, signal });
    entries.push(...page.entries);
    if (page.entries.length < 1000 || entries.length >= ENTRIES_MAX) return entries;
  }
}

const isSettled = (effect: Effect): boolean => effect.state === "delivered" || effect.state === "dead";

/** Effects whose tries are read and drawn. */
const TOLD_EFFECTS_MAX = 20;

async function readEffects(run: Run, known: Effect[], signal: AbortSignal): Promise<Effect[]> {
  const query = { runId: run.runId, limit: 50 };
  const { effects } = await get<EffectList>("v1/effects", { query, signal });
  // Each try comes with a single effect only, and what is settled is read once.
  const whole = (listed: Effect, i: number) => {
    const told = known.find((effect) => effect.effectId === listed.effectId);
    if (i >= TOLD_EFFECTS_MAX) return listed;
    if (told && isSettled(told) && told.state === listed.state) return told;
    return get<Effect>(`v1/effects/${listed.effectId}`, { signal }).catch(() => listed);
  };
  return Promise.all(effects.map(whole));
}

async function readApprovals(
  run: Run,
  entries: HistoryEntry[],
  known: Approval[],
  signal: AbortSignal,
): Promise<Approval[]> {
  const numbers = new Set(
    entries.map((entry) => entry.detail["approval"]).filter((n): n is number => typeof n === "number"),
  );
  const ids = [...numbers].slice(0, 20).map((n) => `appr_${run.taskId.replace(/^task_/, "")}-${n}`);
  const read = (id: string) => {
    const closed = known.find((approval) => approval.approvalId === id && approval.state === "closed");
    return closed ?? get<Approval>(`v1/approvals/${id}`, { signal }).catch(() => undefined);
  };
  return (await Promise.all(ids.map(read))).filter(
    (approval): approval is Approval => approval !== undefined,
  );
}

export function RunPage({ id: named, tab }: { id: string; tab: string }) {
  const id = runIdOf(named);
  const known = useSignal<Whole | undefined>(undefined);
  const query: Query<Whole> = useQuery(`run ${id}`, "run", async (signal) => {
    const whole = await readWhole(id, known.value, signal);
    known.value = whole;
    return whole;
  });
  const whole = query.data.value;
  if (!whole) {
    const problem = query.problem.value;
    if (problem?.status === 404) return <Gone id={id} />;
    return problem ? <Failed problem={problem} again={query.again} /> : <Loading rows={12} />;
  }
  return <Shown whole={whole} tab={tab} again={query.again} />;
}

function Gone({ id }: { id: string }) {
  return (
    <Empty title="This run is not here" lines={[command("prove", id)]}>
      No run of this workspace has the id <code>{id}</code>. It may belong to another workspace, or retention
      has removed it; its seal still names it.
    </Empty>
  );
}

function Shown({ whole, tab, again }: { whole: Whole; tab: string; again: () => Promise<void> }) {
  const { run, entries, effects, explanation } = whole;
  const events = eventsOf(run, entries, effects, isEnded(run.state) ? 0 : Math.max(clock.value, now()));
  const parts = story(run, events, explanation?.gates ?? [], timeStyle.value === "utc");
  const look = stateLook(run.state);
  document.title = `${run.kind} ${run.state} · Tenure`;
  return (
    <>
      <div class="crumb">
        <a href="runs">Runs</a> /{" "}
        <a href={`runs?kind=${encodeURIComponent(run.kind)}`}>{visible(run.kind)}</a>
      </div>
      <div class="head">
        <h1>{visible(run.kind)}</h1>
        <Pill look={look} />
        <span class="id">
          <code class="soft">{run.runId}</code>
          <Copy text={run.runId} />
        </span>
        <span class="sp" />
        <Actions run={run} again={again} />
      </div>
      <Facts
        run={run}
        lost={events.attempts.filter((attempt) => attempt.outcome === "LOST").length}
        work={workOf(events)}
      />
      <p class={`story t-${look.tone}`}>
        <Sentence parts={parts} />
      </p>
      <Tabs id={run.runId} tab={tab} whole={whole} />
      {tab === "timeline" && <TimelineTab whole={whole} events={events} />}
      {tab === "steps" && <StepsTab steps={whole.steps} />}
      {tab === "payloads" && <PayloadsTab run={run} />}
      {tab === "effects" && <EffectsTab effects={effects} run={run} />}
      {tab === "children" && <ChildrenTab run={run} />}
      {tab === "history" && <HistoryTab whole={whole} />}
      {tab === "record" && <RecordTab run={run} />}
      {tab === "raw" && <RawTab run={run} />}
      {tab !== "timeline" && (
        <div class="foot">
          <Cli line={commandOf(tab, run)} />
        </div>
      )}
    </>
  );
}

function commandOf(tab: string, run: Run): string {
  if (tab === "history") return command("runs", "history", run.runId);
  if (tab === "record") return command("runs", "record", run.runId);
  if (tab === "effects") return command("effects", "--run", run.runId);
  if (tab === "raw") return command("runs", "show", run.runId, "--json");
  return command("runs", "show", run.runId);
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** How long workers held the run. */
function workOf(events: Events): number {
  return events.attempts.reduce((sum, attempt) => sum + (attempt.ended ?? events.to) - attempt.granted, 0);
}

/** What is used of each limit of the budget. */
function spent(run: Run): Array<[string, string]> {
  const { limits, used } = run.budget ?? {};
  if (!limits || !used) return [];
  const units = [
    ["tokens", used.tokens, limits.tokens],
    ["tool calls", used.toolCalls, limits.toolCalls],
    ["budgeted steps", used.steps, limits.steps],
  ] as const;
  return units.flatMap(([unit, n, limit]) =>
    typeof limit === "number" ? [[unit, `${counted(n)} of ${counted(limit)}`] as [string, string]] : [],
  );
}

const counted = (n: number): string => n.toLocaleString("en");

function Facts({ run, lost, work }: { run: Run; lost: number; work: number }) {
  const end = ms(run.completedAt);
  const created = ms(run.createdAt)!;
  return (
    <dl class="facts">
      <Fact name="queue">
        <a href={`queues/${run.queue.replaceAll("/", "~")}`}>{visible(run.queue)}</a>
      </Fact>
      <Fact name="submitted">
        <Time at={run.createdAt} />
      </Fact>
      <Fact name={end === undefined ? "open for" : "took"}>
        <b>{span((end ?? clock.value) - created)}</b>{" "}
        {work > 0 && <span class="muted">({span(work)} of work)</span>}
      </Fact>
      {run.attempt > 0 && (
        <Fact name="attempts">
          {run.attempt}
          {lost > 0 && (
            <>
              , <span class="t-retry ink">{lost} lost</span>
            </>
          )}
        </Fact>
      )}
      {spent(run).map(([unit, words]) => (
        <Fact key={unit} name={unit}>
          {words}
        </Fact>
      ))}
      {run.lease && (
        <Fact name="lease ends">
          <Time at={run.lease.expiresAt} />
        </Fact>
      )}
      {run.deadline && (
        <Fact name="deadline">
          <Time at={run.deadline} />
        </Fact>
      )}
      {run.parent && (
        <Fact name="child of">
          <a href={`runs/${runIdOf(run.parent.taskId)}`}>{visible(run.parent.key)}</a>
        </Fact>
      )}
      {run.retryOf && (
        <Fact name="retry of">
          <a href={`runs/${run.retryOf}`}>{run.retryOf}</a>
        </Fact>
      )}
      {run.forkOf && (
        <Fact name="continues">
          <a href={`runs/${run.forkOf}`}>{run.forkOf}</a>
        </Fact>
      )}
      {[...(run.retries ?? []), ...(run.forks ?? [])].map((id) => (
        <Fact key={id} name="went on as">
          <a href={`runs/${id}`}>{id}</a>
        </Fact>
      ))}
      {Object.entries(run.labels ?? {})
        .slice(0, 6)
        .map(([name, value]) => (
          <Fact key={name} name={visible(name)}>
            <a href={`runs?label=${encodeURIComponent(`${name}=${value}`)}`}>{visible(String(value))}</a>
          </Fact>
        ))}
    </dl>
  );
}

function Tabs({ id, tab, whole }: { id: string; tab: string; whole: Whole }) {
  const { run, entries, steps, effects } = whole;
  const children = run.durable?.children ?? 0;
  const all: Array<[string, string, boolean]> = [
    ["timeline", "Timeline", true],
    ["steps", `Steps ${steps.length}`, steps.length > 0],
    ["payloads", "Input and output", true],
    ["effects", `Effects ${effects.length}`, effects.length > 0],
    ["children", `Children ${children}`, children > 0],
    ["history", `History ${entries.length}`, true],
    ["record", "Record", isEnded(run.state)],
    ["raw", "Raw", true],
  ];
  const query = place.value.query.toString();
  return (
    <nav class="tabs" aria-label="Parts of the run">
      {all
        .filter(([name, , isThere]) => isThere || name === tab)
        .map(([name, title]) => (
          <a
            key={name}
            class={tab === name ? "on" : ""}
            aria-current={tab === name ? "page" : undefined}
            href={`runs/${id}${name === "timeline" ? "" : `/${name}`}${query ? `?${query}` : ""}`}
          >
            {title}
          </a>
        ))}
    </nav>
  );
}
