/** Health: whether the machine is sound. What the server says about itself, what it could not process, and the figures behind it. */

import { may, mayRead } from "../access.js";
import { get, getText, type Problem, runIdOf } from "../api/call.js";
import type { Ready, SetAside, Version, Workers } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { type Metrics, parseMetrics, quantile, sum } from "../model/metrics.js";
import { visible } from "../model/shown.js";
import type { Look } from "../model/state.js";
import { clockOffset, now, roughly, span } from "../model/time.js";
import { Card, Empty, Failed, Time } from "../parts/bits.js";
import { Facts, Foot, Head } from "../parts/frame.js";
import { Mark } from "../parts/glyph.js";
import { Read } from "../parts/read.js";
import { type Column, Table } from "../parts/table.js";

const SOUND: Look = { tone: "ok", glyph: "ok", word: "ready" };
const UNSOUND: Look = { tone: "bad", glyph: "bad", word: "not ready" };

interface State {
  ready: Ready;
  version: Version;
  /** How many coordinators there are; unknown to a key that may not read runs. */
  coordinators?: number;
  /** How long the server took to answer, as this browser sees it. */
  tookMs: number;
}

async function read(signal: AbortSignal): Promise<State> {
  const started = performance.now();
  // A server that is not ready says why with the status 503.
  const ready = await get<Ready>("readyz", { alsoAnswer: 503, signal });
  const tookMs = performance.now() - started;
  const [version, workers] = await Promise.all([
    get<Version>("version", { signal }),
    mayRead("runs") ? get<Workers>("v1/workers", { query: { limit: 1 }, signal }) : undefined,
  ]);
  return { ready, version, coordinators: workers?.coordinators, tookMs };
}

export function HealthPage() {
  document.title = "Health · Tenure";
  const query = useQuery<State>("health", "operate", read);
  const ready = query.data.value?.ready;
  return (
    <>
      <Head
        title="Health"
        look={ready && (ready.ready ? SOUND : UNSOUND)}
        note="whether the machine is sound"
      />
      <Read query={query}>{(state) => <Checks state={state} />}</Read>
      {may("set-aside.read") && <SetAsideCards />}
      <Figures />
      <Foot lines={["tenure doctor", "tenure coordinators"]} />
    </>
  );
}

type Check = Ready["checks"][number];

/** What a check is about; a check that the console does not know keeps its own name. */
const ABOUT: Record<string, string> = {
  progress: "the coordinator commits what it is asked",
  certificate: "the certificate on disk is the one that is served",
};

const CHECKS: Array<Column<Check>> = [
  ["check", ({ name }) => visible(name), "strong"],
  ["state", ({ ok }) => <Mark look={ok ? { ...SOUND, word: "well" } : { ...UNSOUND, word: "not well" }} />],
  ["what it says", ({ name, detail }) => visible(detail ?? ABOUT[name] ?? ""), "wide-cell"],
];

function Checks({ state }: { state: State }) {
  const skew = clockOffset();
  return (
    <>
      <Facts
        of={[
          ["version", state.version.version],
          ["API", state.version.api],
          ["coordinators", state.coordinators],
          ["answered in", span(state.tookMs)],
          [
            "your clock",
            Math.abs(skew) < 1000
              ? "agrees"
              : `is ${roughly(Math.abs(skew))} ${skew > 0 ? "behind" : "ahead"}`,
          ],
        ]}
      />
      <Card title="Checks" note="of the coordinator that answered">
        <Table items={state.ready.checks} by={({ name }) => name} columns={CHECKS} />
      </Card>
    </>
  );
}

type Aside = SetAside["tasks"][number];
type Parked = NonNullable<SetAside["messages"]>[number];

const Run = ({ id }: { id: string }) => <a href={`runs/${runIdOf(id)}`}>{id}</a>;

const ASIDE: Array<Column<Aside>> = [
  ["task", ({ taskId }) => <Run id={taskId} />, "wide-cell"],
  ["why", ({ why }) => visible(why), "wide-cell"],
  ["since", ({ since }) => <Time at={since} />, "nowrap"],
  ["tries", ({ tries }) => tries, "num r"],
  ["tried again", ({ retryAfterMs }) => (retryAfterMs ? `in ${roughly(retryAfterMs)}` : "now"), "nowrap"],
];

const PARKED: Array<Column<Parked>> = [
  ["from", ({ fromTaskId }) => <Run id={fromTaskId} />, "wide-cell"],
  ["to", ({ toTaskId }) => <Run id={toTaskId} />, "wide-cell"],
  ["refused with", ({ why }) => <code>{visible(why)}</code>],
];

function SetAsideCards() {
  const query = useQuery<SetAside>("set-aside", "operate", (signal) => get("v1/set-aside", { signal }));
  return (
    <Read query={query}>
      {({ tasks, messages = [] }) => (
        <>
          <Card
            title="Set aside"
            note="tasks that cannot be read, decided or stored, and are skipped for now"
          >
            {tasks.length === 0 ? (
              <p class="pad-x">None. Every task is processed.</p>
            ) : (
              <Table items={tasks} by={({ taskId }) => taskId} columns={ASIDE} />
            )}
          </Card>
          {messages.length > 0 && (
            <Card
              title="Messages that wait"
              note="the rules refuse them; they hold up later ones of the same pair"
            >
              <Table
                items={messages}
                by={({ fromTaskId, toTaskId }) => `${fromTaskId} ${toTaskId}`}
                columns={PARKED}
              />
            </Card>
          )}
        </>
      )}
    </Read>
  );
}

/** Figures of `/metrics` that tell whether a server is sound, in words; those that it does not have are left out. */
export function figures(metrics: Metrics, at: number): Array<[string, string]> {
  const started = sum(metrics, "tenure_start_time_seconds");
  const count = (name: string) => sum(metrics, name)?.toLocaleString("en");
  const seconds = (value: number | undefined) =>
    value === undefined
      ? undefined
      : value === Infinity
        ? "beyond the scale"
        : `at most ${span(value * 1000)}`;
  const promises = (metrics.get("tenure_store_promise") ?? []).map(
    ({ labels, value }) =>
      `${(labels["promise"] ?? "").replaceAll("_", " ")} ${value === 1 ? "kept" : "not kept"}`,
  );
  const found: Array<[string, string | undefined]> = [
    ["started", started === undefined ? undefined : `${roughly(at - started * 1000)} ago`],
    ["a commit takes, half of them", seconds(quantile(metrics, "tenure_commit_seconds", 0.5))],
    ["a commit takes, 99 of 100", seconds(quantile(metrics, "tenure_commit_seconds", 0.99))],
    ["batches that the store refused", count("tenure_store_failures_total")],
    ["what the store promises", promises.join(", ") || undefined],
    ["open connections", count("tenure_connections")],
    ["connections turned away", count("tenure_connections_turned_away_total")],
    ["polls that wait for work", count("tenure_polls_waiting")],
    ["leases that expired", count("tenure_leases_expired_total")],
    ["calls refused by a limit", count("tenure_limited_total")],
  ];
  return found.filter((figure): figure is [string, string] => figure[1] !== undefined);
}

function Figures() {
  // One question: a key that may not read the figures is not refused again and again.
  const query = useQuery<Metrics>("metrics", undefined, async (signal) =>
    parseMetrics(await getText("metrics", { signal })),
  );
  const problem = query.problem.value;
  return (
    <Card
      title="Figures"
      note="of the coordinator that answered, since it started"
      aside={
        <button type="button" class="link" onClick={() => void query.again()}>
          read again
        </button>
      }
    >
      {problem && <NoFigures problem={problem} />}
      {query.data.value && (
        <dl class="kv figures-list">
          {figures(query.data.value, now()).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="num">{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}

function NoFigures({ problem }: { problem: Problem }) {
  if (problem.status !== 403 && problem.status !== 404) return <Failed problem={problem} />;
  return <Empty title="This key may not read the figures">{visible(problem.message)}</Empty>;
}
