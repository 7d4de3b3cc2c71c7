/** Overview: what needs a person now, and whether the system is well. */

import type { ComponentChildren } from "preact";
import { may, mayRead } from "../access.js";
import { get } from "../api/call.js";
import type {
  Approval,
  ApprovalList,
  Effect,
  EffectList,
  History,
  Queues,
  Run,
  RunList,
  SetAside,
  Workers,
} from "../api/types.js";
import { useQuery } from "../data/query.js";
import { type QueueRow, queueRows } from "../model/queues.js";
import { axis, buckets, failing, quantile } from "../model/sample.js";
import { visible } from "../model/shown.js";
import { type GlyphName, isEnded, stateLook, type Tone } from "../model/state.js";
import { clock, ms, now, relative, roughly, span } from "../model/time.js";
import { Card, Empty, Failed, Loading, Time } from "../parts/bits.js";
import { Chart, ChartLegend, Spark } from "../parts/chart.js";
import { Glyph } from "../parts/glyph.js";
import { place, withQuery } from "../router.js";
import { type Events, eventsOf } from "../timeline/events.js";

/** Runs that the figures are made of. */
const SAMPLE = 400;
const SPANS: Record<string, number> = { "15m": 900_000, "1h": 3_600_000, "24h": 86_400_000 };
const BUCKETS = 48;

interface State {
  recent: RunList;
  failed: Run[];
  halted: Run[];
  running: Run[];
  troubles: Trouble[];
  approvals: Approval[];
  /** Effects that no try delivers any more. */
  dead: Effect[];
  queues: QueueRow[];
  setAside: number;
  at: number;
}

/** A run with what happened to its leases. */
interface Trouble {
  run: Run;
  events: Events;
}

const SUSPECTS_MAX = 8;
/** Runs that have ended are read once. */
const ended = new Map<string, Trouble>();

async function readTrouble(listed: Run, signal: AbortSignal): Promise<Trouble> {
  const known = ended.get(listed.runId);
  if (known) return known;
  const [run, history] = await Promise.all([
    get<Run>(`v1/runs/${listed.runId}`, { signal }),
    get<History>(`v1/runs/${listed.runId}/history`, { query: { limit: 500 }, signal }),
  ]);
  const trouble = { run, events: eventsOf(run, history.entries, [], now()) };
  if (isEnded(run.state) && now() - ms(run.completedAt)! > 60_000) ended.set(run.runId, trouble);
  return trouble;
}

async function read(spanMs: number, signal: AbortSignal): Promise<State> {
  const since = new Date(now() - spanMs).toISOString();
  const runs = (query: Record<string, string | number>) => get<RunList>("v1/runs", { query, signal });
  const optional = <T,>(reading: Promise<T>): Promise<T | undefined> => reading.catch(() => undefined);
  const [recent, failed, halted, running, approvals, dead, queues, workers, setAside] = await Promise.all([
    runs({ since, limit: SAMPLE }),
    runs({ state: "failed", since, limit: 200 }),
    runs({ state: "halted", since, limit: 50 }),
    runs({ state: "running", limit: 100 }),
    optional(get<ApprovalList>("v1/approvals", { query: { state: "pending", limit: 50 }, signal })),
    mayRead("effects")
      ? optional(get<EffectList>("v1/effects", { query: { state: "dead", limit: 20 }, signal }))
      : undefined,
    optional(get<Queues>("v1/queues", { signal })),
    optional(get<Workers>("v1/workers", { query: { limit: 1000 }, signal })),
    may("set-aside.read") ? optional(get<SetAside>("v1/set-aside", { signal })) : undefined,
  ]);
  // Refused calls and the end of each attempt come with a single run only: the latest runs with several attempts may have some.
  const suspects = recent.runs.filter((run) => run.attempt > 1 || run.lost > 0).slice(0, SUSPECTS_MAX);
  const troubles = await Promise.all(suspects.map((run) => optional(readTrouble(run, signal))));
  return {
    recent,
    failed: failed.runs,
    halted: halted.runs,
    running: running.runs,
    troubles: troubles.filter((trouble): trouble is Trouble => trouble !== undefined),
    approvals: approvals?.approvals ?? [],
    dead: dead?.effects ?? [],
    queues: queueRows(queues?.queues ?? [], workers?.workers ?? [], now()),
    setAside: setAside?.tasks.length ?? 0,
    at: now(),
  };
}

export function OverviewPage() {
  const name = place.value.query.get("span") ?? "1h";
  const spanMs = SPANS[name] ?? 3_600_000;
  const query = useQuery<State>(`overview ${name}`, "overview", (signal) => read(spanMs, signal));
  const state = query.data.value;
  document.title = "Overview · Tenure";
  return (
    <>
      <div class="head">
        <h1>Overview</h1>
        <span class="sp" />
        <nav class="segments" aria-label="Span">
          {Object.keys(SPANS).map((each) => (
            <a
              key={each}
              class={each === name ? "on" : ""}
              aria-current={each === name ? "true" : undefined}
              href={withQuery({ span: each }) || "./"}
            >
              {each.replace("m", " min").replace("h", " h")}
            </a>
          ))}
        </nav>
      </div>
      {query.problem.value && <Failed problem={query.problem.value} again={query.again} />}
      {!state && !query.problem.value && <Loading rows={14} />}
      {state && state.recent.runs.length === 0 && state.running.length === 0 && state.queues.length === 0 ? (
        <Fresh />
      ) : (
        state && <Shown state={state} spanMs={spanMs} />
      )}
    </>
  );
}

function Fresh() {
  return (
    <section class="card">
      <Empty
        title="Nothing has run here lately"
        lines={[
          "tenure work --queue demo --exec cat",
          'tenure submit hello --queue demo --input \'{"name":"Ada"}\' --wait',
          "tenure tour",
        ]}
      >
        Any program can be a worker. Start one, submit a run, and watch it here.
      </Empty>
    </section>
  );
}

function Shown({ state, spanMs }: { state: State; spanMs: number }) {
  return (
    <>
      <NeedsYou state={state} />
      <Figures state={state} spanMs={spanMs} />
      <Plots state={state} spanMs={spanMs} />
      <div class="three">
        <QueuesCard state={state} />
        <LeasesCard state={state} />
        <TakeoversCard state={state} />
      </div>
      {state.failed.length > 0 && <FailingCard state={state} />}
    </>
  );
}

interface Need {
  id: string;
  tone: Tone;
  glyph: GlyphName;
  title: string;
  note: string;
  since: number;
  to: string;
  act: string;
}

/** Worst first: starving queues, dead effects, approvals that expire soon, approvals, halts, pauses, tasks that are set aside. */
function needs(state: State): Need[] {
  const found: Need[] = [];
  for (const queue of state.queues.filter((queue) => queue.isStarving)) {
    found.push({
      id: `queue ${queue.queue}`,
      tone: "bad",
      glyph: "bad",
      title: `${queue.queue}: ${queue.ready} ${queue.ready === 1 ? "run waits" : "runs wait"}, and no worker polls`,
      note: "",
      since: ms(queue.oldestReadyAt)!,
      to: `queues/${queue.queue.replaceAll("/", "~")}`,
      act: "Show queue",
    });
  }
  for (const effect of state.dead) {
    found.push({
      id: effect.effectId,
      tone: "bad",
      glyph: "bad",
      title: `${effect.endpoint} did not take ${effect.type}: dead after ${effect.tries} ${effect.tries === 1 ? "try" : "tries"}`,
      note: effect.blocks ? "what follows it waits" : "",
      since: ms(effect.settledAt) ?? ms(effect.decidedAt)!,
      to: `effects/${effect.effectId}`,
      act: "Look",
    });
  }
  const approvals = [...state.approvals].sort(
    (a, b) => (ms(a.expiresAt) ?? Number.MAX_VALUE) - (ms(b.expiresAt) ?? Number.MAX_VALUE),
  );
  for (const approval of approvals) {
    const expires = approval.expiresAt
      ? `; ${(approval.default ?? "EXPIRED").toLowerCase()} ${relative(ms(approval.expiresAt)!, clock.value)}`
      : "";
    const votes = approval.votes.filter((vote) => vote.decision === "APPROVED").length;
    found.push({
      id: approval.approvalId,
      tone: "wait",
      glyph: "wait",
      title: approval.subject ?? approval.key,
      note: `${votes} of ${approval.quorum} approved${expires}`,
      since: ms(approval.openedAt)!,
      to: `inbox/${approval.approvalId}`,
      act: "Decide",
    });
  }
  for (const run of state.halted.filter((run) => (run.forks ?? []).length === 0)) {
    found.push({
      id: run.runId,
      tone: "halt",
      glyph: "halt",
      title: `${run.kind} halted: ${run.error?.message ?? ""}`,
      note: `${run.durable?.steps ?? 0} recorded steps are kept`,
      since: ms(run.completedAt) ?? 0,
      to: `runs/${run.runId}`,
      act: "Look",
    });
  }
  for (const queue of state.queues.filter((queue) => queue.pause && queue.ready > 0)) {
    found.push({
      id: `pause ${queue.queue}`,
      tone: "retry",
      glyph: "park",
      title: `${queue.queue} is paused, and ${queue.ready} ${queue.ready === 1 ? "waits" : "wait"}`,
      note: queue.pause?.reason ?? "",
      since: ms(queue.pause?.pausedAt) ?? 0,
      to: `queues/${queue.queue.replaceAll("/", "~")}`,
      act: "Show queue",
    });
  }
  if (state.setAside > 0)
    found.push({
      id: "set-aside",
      tone: "bad",
      glyph: "bad",
      title: `${state.setAside} tasks are set aside`,
      note: "the server could not decide about them",
      since: state.at,
      to: "runs",
      act: "Look",
    });
  return found;
}

function NeedsYou({ state }: { state: State }) {
  const all = needs(state);
  if (all.length === 0) {
    return (
      <section class="card calm t-ok">
        <Glyph name="ok" size={15} /> <b>Nothing waits for a person</b>
      </section>
    );
  }
  const oldest = Math.min(...all.map((need) => need.since));
  return (
    <Card
      title="Needs you"
      note={`${all.length > 5 ? `5 of ${all.length}` : all.length}, the oldest since ${roughly(clock.value - oldest)}`}
      aside={<a href="inbox">Inbox</a>}
    >
      <ul class="needs">
        {all.slice(0, 5).map((need) => (
          <li key={need.id}>
            <span class={`t-${need.tone} ink`}>
              <Glyph name={need.glyph} size={15} />
            </span>
            <span class="what">
              <b>
                <bdi>{visible(need.title)}</bdi>
              </b>{" "}
              <span class="soft">{visible(need.note)}</span>
            </span>
            <span class="muted nowrap">since {roughly(clock.value - need.since)}</span>
            <a class="btn" data-row href={need.to} aria-label={`${need.act}: ${need.title}`}>
              {need.act}
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Figure({
  name,
  value,
  note,
  children,
  tone,
}: {
  name: string;
  value: string;
  note: ComponentChildren;
  children?: ComponentChildren;
  tone?: Tone;
}) {
  return (
    <div class="figure">
      <span class="soft">{name}</span>
      <span class="value">
        <b class={tone ? `t-${tone} ink` : ""}>{value}</b>
        {children}
      </span>
      <span class="muted">{note}</span>
    </div>
  );
}

function Figures({ state, spanMs }: { state: State; spanMs: number }) {
  const series = buckets(state.recent.runs, state.at, spanMs, 24);
  const ended = series.map((bucket) => bucket.succeeded + bucket.failed);
  const total = ended.reduce((a, b) => a + b, 0);
  const failed = series.reduce((sum, bucket) => sum + bucket.failed, 0);
  const waiting = state.queues.reduce((sum, queue) => sum + queue.ready, 0);
  const delayed = state.queues.reduce((sum, queue) => sum + queue.delayed, 0);
  const parked = state.queues.reduce((sum, queue) => sum + (queue.parked ?? 0), 0);
  const oldest = state.queues
    .filter((queue) => queue.oldestMs !== undefined)
    .sort((a, b) => b.oldestMs! - a.oldestMs!)[0];
  const workers = new Set(state.running.map((run) => run.lease?.owner).filter(Boolean)).size;
  const lost = state.troubles.reduce(
    (sum, { events }) => sum + events.attempts.filter((attempt) => attempt.outcome === "LOST").length,
    0,
  );
  const refused = state.troubles.reduce((sum, { events }) => sum + events.refused.length, 0);
  return (
    <section class="card figures" aria-label="Figures">
      <Figure
        name="Ended"
        value={String(total)}
        note={`in ${span(spanMs).replace(" 00 s", "").replace(" 00 min", "")}${state.recent.nextCursor ? `, of the newest ${state.recent.runs.length}` : ""}`}
      >
        <Spark values={ended} tone="ok" />
      </Figure>
      <Figure name="Waiting" value={String(waiting)} note={`+ ${parked} parked, ${delayed} delayed`} />
      <Figure
        name="Oldest waiting"
        value={oldest ? roughly(oldest.oldestMs!) : "–"}
        note={oldest ? visible(oldest.queue) : "nothing waits"}
        tone={oldest?.isStarving ? "bad" : undefined}
      />
      <Figure
        name="Running"
        value={`${state.running.length}${state.running.length === 100 ? "+" : ""}`}
        note={`on ${workers} ${workers === 1 ? "worker" : "workers"}`}
      />
      <Figure
        name="Failed or halted"
        value={
          total === 0
            ? "–"
            : `${((100 * failed) / total).toFixed(failed === 0 || failed * 10 > total ? 0 : 2)} %`
        }
        note={`${failed} of ${total}`}
        tone={failed > 0 ? "bad" : undefined}
      >
        <Spark values={series.map((bucket) => bucket.failed)} tone="bad" />
      </Figure>
      <Figure
        name="Refused reports"
        value={String(refused)}
        note={`and ${lost} lost ${lost === 1 ? "attempt" : "attempts"}`}
        tone={refused > 0 ? "refused" : undefined}
      />
    </section>
  );
}

function Plots({ state, spanMs }: { state: State; spanMs: number }) {
  const series = buckets(state.recent.runs, state.at, spanMs, BUCKETS);
  const perMinute = (n: number) => (n * BUCKETS * 60_000) / spanMs;
  const ended = [
    { name: "succeeded", tone: "ok" as const, values: series.map((bucket) => perMinute(bucket.succeeded)) },
    { name: "failed", tone: "bad" as const, values: series.map((bucket) => perMinute(bucket.failed)) },
  ];
  const delays = [
    { name: "p50", tone: "run" as const, values: series.map((bucket) => quantile(bucket.delays, 0.5)) },
    {
      name: "p95",
      tone: "wait" as const,
      values: series.map((bucket) => quantile(bucket.delays, 0.95)),
      isDashed: true,
    },
  ];
  const note = state.recent.nextCursor ? `of the newest ${state.recent.runs.length} runs` : "";
  const range = { from: state.at - spanMs, to: state.at };
  const max = axis(Math.max(0, ...delays[1]!.values.filter((value) => !Number.isNaN(value)))).at(-1)!;
  return (
    <div class="two">
      <Card title="Ended per minute" note={note} aside={<ChartLegend series={ended} />}>
        <div class="pad-x pad-b">
          <Chart series={ended} isStacked label={`Ended per minute ${note}`} {...range} />
        </div>
      </Card>
      <Card title="Time from ready to started" note={note} aside={<ChartLegend series={delays} />}>
        <div class="pad-x pad-b">
          <Chart
            series={delays}
            label={`Time from ready to started, at most ${span(max)}`}
            format={(value) => (value === 0 ? "0" : roughly(value))}
            {...range}
          />
        </div>
      </Card>
    </div>
  );
}

function served(queue: QueueRow): ComponentChildren {
  if (queue.pause) return <b class="t-retry ink">paused</b>;
  if (queue.isStarving) return <b class="t-bad ink">no worker</b>;
  if (queue.polls > 0) return `${queue.polls} ${queue.polls === 1 ? "polls" : "poll"}`;
  return queue.workers.length > 0 ? `${queue.workers.length} busy` : "no worker";
}

function QueuesCard({ state }: { state: State }) {
  return (
    <Card title="Queues" aside={<a href="queues">all {state.queues.length}</a>}>
      {state.queues.length === 0 && <p class="pad-x muted">No queue has work or a worker.</p>}
      {state.queues.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>queue</th>
              <th class="r">waiting</th>
              <th class="r">running</th>
              <th class="r">oldest</th>
              <th>workers</th>
            </tr>
          </thead>
          <tbody>
            {state.queues.slice(0, 6).map((queue) => (
              <tr key={queue.queue}>
                <td>
                  <a class="clip" href={`queues/${queue.queue.replaceAll("/", "~")}`}>
                    {visible(queue.queue)}
                  </a>
                </td>
                <td class="num r">{queue.ready}</td>
                <td class="num r">{queue.running}</td>
                <td class="num r">{queue.oldestMs === undefined ? "" : roughly(queue.oldestMs)}</td>
                <td class="nowrap">{served(queue)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function LeasesCard({ state }: { state: State }) {
  const held = state.running
    .filter((run) => run.lease)
    .sort((a, b) => ms(a.lease!.expiresAt)! - ms(b.lease!.expiresAt)!);
  return (
    <Card title="Next leases to expire" aside={<a href="queues?tab=leases">all {held.length}</a>}>
      {held.length === 0 && <p class="pad-x muted">No lease is held.</p>}
      {held.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>run</th>
              <th>worker</th>
              <th class="r">ends in</th>
              <th>
                <span class="vh">share of the lease</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {held.slice(0, 6).map((run) => (
              <LeaseRow key={run.runId} run={run} />
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

export function LeaseRow({ run }: { run: Run }) {
  const lease = run.lease!;
  const left = ms(lease.expiresAt)! - clock.value;
  const whole = Math.max(1, ms(lease.expiresAt)! - ms(lease.heartbeatAt)!);
  const share = Math.min(1, Math.max(0, left / whole));
  const tone: Tone = share < 0.15 ? "bad" : share < 0.4 ? "retry" : "run";
  return (
    <tr>
      <td>
        <a class="clip" data-row href={`runs/${run.runId}`}>
          {visible(run.kind)}
        </a>
      </td>
      <td class="soft">
        <span class="clip">{visible(lease.owner)}</span>
      </td>
      <td class={`num r t-${tone} ${tone === "run" ? "" : "ink"}`}>{left <= 0 ? "expired" : span(left)}</td>
      <td>
        <span class={`meter t-${tone}`}>
          <i style={{ width: `${Math.round(100 * share)}%` }} />
        </span>
      </td>
    </tr>
  );
}

interface Happening {
  id: string;
  at: number;
  glyph: GlyphName;
  tone: Tone;
  what: string;
  run: Run;
}

function happeningsOf({ run, events }: Trouble): Happening[] {
  const refusals = events.refused.map(
    (call, i): Happening => ({
      id: `${run.runId} ${i}`,
      at: call.at,
      glyph: "refused",
      tone: "refused",
      what: `${call.call} of ${call.worker}`,
      run,
    }),
  );
  const takeovers = events.attempts.flatMap((attempt, i): Happening[] => {
    const before = events.attempts[i - 1];
    if (before?.outcome !== "LOST") return [];
    return [
      {
        id: `${run.runId} t${i}`,
        at: attempt.granted,
        glyph: "take",
        tone: "retry",
        what: `${attempt.owner} from ${before.owner}`,
        run,
      },
    ];
  });
  return [...refusals, ...takeovers];
}

function TakeoversCard({ state }: { state: State }) {
  const happenings = state.troubles.flatMap(happeningsOf);
  happenings.sort((a, b) => b.at - a.at);
  return (
    <Card title="Takeovers and refusals">
      {happenings.length === 0 && (
        <p class="pad-x pad-b muted">
          None. A worker that dies or goes silent loses its lease, another one takes over, and a late report
          is refused: it would be shown here.
        </p>
      )}
      {happenings.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>
                <span class="vh">kind</span>
              </th>
              <th>what</th>
              <th class="r">when</th>
            </tr>
          </thead>
          <tbody>
            {happenings.slice(0, 6).map((one) => (
              <tr key={one.id}>
                <td class={`t-${one.tone} ink`}>
                  <Glyph name={one.glyph} size={13} />
                </td>
                <td>
                  <span class="clip">
                    {visible(one.what)}, <a href={`runs/${one.run.runId}`}>{visible(one.run.kind)}</a>
                  </span>
                </td>
                <td class="r nowrap">
                  <Time at={one.at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function FailingCard({ state }: { state: State }) {
  const look = stateLook("failed");
  return (
    <Card
      title="Failing kinds"
      note={`${state.failed.length}${state.failed.length === 200 ? " or more" : ""} failed runs`}
      aside={<a href="runs?state=failed">all failed</a>}
    >
      <table>
        <thead>
          <tr>
            <th>kind</th>
            <th>reason</th>
            <th class="r">runs</th>
            <th class="r">last</th>
            <th class="hide-narrow">message of the last</th>
          </tr>
        </thead>
        <tbody>
          {failing(state.failed)
            .slice(0, 6)
            .map((group) => (
              <tr key={group.kind + group.reason}>
                <td class="nowrap">
                  <span class={`t-${look.tone} ink`}>
                    <Glyph name={look.glyph} />
                  </span>{" "}
                  <a href={`runs?state=failed&kind=${encodeURIComponent(group.kind)}`}>
                    {visible(group.kind)}
                  </a>
                </td>
                <td>
                  <code>{group.reason}</code>
                </td>
                <td class="num r">{group.count}</td>
                <td class="r nowrap">
                  <Time at={group.lastAt} />
                </td>
                <td class="wide-cell hide-narrow">
                  <a href={`runs/${group.last}`}>{visible(group.message)}</a>
                </td>
              </tr>
            ))}
        </tbody>
      </table>
    </Card>
  );
}
