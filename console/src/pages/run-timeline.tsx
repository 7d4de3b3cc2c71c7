/** The timeline of a run, the mark that is selected on it, and its history. */

import type { ComponentChildren } from "preact";
import type { HistoryEntry } from "../api/types.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import { fence, outcomeLook, type Tone } from "../model/state.js";
import { clockTime, ms, span, timeStyle } from "../model/time.js";
import { Card, Cli, Digest, Empty } from "../parts/bits.js";
import { nameOf } from "../people.js";
import { go, place, withQuery } from "../router.js";
import type { Attempt, Events, Refusal } from "../timeline/events.js";
import { Legend, Timeline } from "../timeline/render.js";
import type { Whole } from "./run.js";

/** Rows of the history beside the timeline. */
const EXCERPT = 9;

export function TimelineTab({ whole, events }: { whole: Whole; events: Events }) {
  const selected = place.value.query.get("sel") ?? preselected(events);
  const isTrue = place.value.query.get("scale") === "true";
  const choose = (id: string) => go(withQuery({ sel: id }), { replace: true });
  const title = (n: number) =>
    whole.approvals.find((approval) => approval.approvalId.endsWith(`-${n}`))?.subject ?? undefined;
  if (events.attempts.length === 0 && events.waits.length === 0) return <NotStarted whole={whole} />;
  return (
    <>
      <Card
        title="Timeline"
        aside={
          <>
            <Legend />
            <a class="switch" href={withQuery({ scale: isTrue ? undefined : "true" })}>
              {isTrue ? "fold idle time" : "true proportions"}
            </a>
          </>
        }
      >
        <div class="pad-x">
          <Timeline
            events={events}
            isTrue={isTrue}
            selected={selected}
            choose={choose}
            approvalTitle={title}
            nameOf={nameOf}
          />
        </div>
      </Card>
      <div class="beside">
        <Selected whole={whole} events={events} id={selected} />
        <Excerpt whole={whole} events={events} selected={selected} />
      </div>
    </>
  );
}

/** What is worth a look before anything was clicked: the refused report, else the lost attempt, else the last one. */
function preselected(events: Events): string | undefined {
  if (events.refused.length > 0) return "refused-0";
  const attempt = events.attempts.find((other) => other.outcome === "LOST") ?? events.attempts.at(-1);
  return attempt ? `attempt-${attempt.n}` : undefined;
}

function NotStarted({ whole }: { whole: Whole }) {
  const gate = whole.explanation?.gates[0];
  return (
    <section class="card">
      <Empty
        title="Nothing has happened yet"
        lines={[command("work", "--queue", whole.run.queue, "--exec", "cat")]}
      >
        {gate ? `${gate.now}. ` : ""}A worker that polls the queue <code>{whole.run.queue}</code> takes it:
      </Empty>
    </section>
  );
}

function Selected({ whole, events, id }: { whole: Whole; events: Events; id: string | undefined }) {
  const refused = events.refused.find((_, i) => id === `refused-${i}`);
  if (refused) return <RefusedCard whole={whole} events={events} refused={refused} />;
  const attempt = events.attempts.find((other) => id === `attempt-${other.n}`);
  if (attempt) return <AttemptCard whole={whole} attempt={attempt} />;
  const entry = whole.entries.find((other) => id === `entry-${other.n}`);
  if (entry) return <EntryCard whole={whole} entry={entry} />;
  return (
    <Card title="Details">
      <p class="pad-x muted">Choose a mark of the timeline.</p>
    </Card>
  );
}

const exact = (t: number) => clockTime(t, t, timeStyle.value === "utc", true);

function Facts({ rows }: { rows: Array<[string, ComponentChildren] | undefined> }) {
  return (
    <dl class="kv">
      {rows
        .filter((row): row is [string, ComponentChildren] => row !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function Toned({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`t-${tone} ink`}>{children}</span>;
}

function RefusedCard({ whole, events, refused }: { whole: Whole; events: Events; refused: Refusal }) {
  const attempt = events.attempts.find((other) => other.n === refused.attempt);
  const current = events.attempts.findLast((other) => other.granted <= refused.at);
  return (
    <Card
      title={<Toned tone="refused">Late {refused.call} refused</Toned>}
      aside={<span class="muted num">{exact(refused.at)}</span>}
    >
      <Facts
        rows={[
          [
            "who",
            <>
              {visible(refused.worker)}, attempt {refused.attempt}
              {attempt && `, fence ${fence(attempt.fence)}`}
            </>,
          ],
          [
            "when",
            attempt?.ended
              ? `${span(refused.at - attempt.ended)} after its lease had ended`
              : exact(refused.at),
          ],
          ["verdict", `${refused.verdict}: the worker had lost its authority`],
          [
            "because",
            <>
              <code>{refused.error}</code>
              {current &&
                current.n !== refused.attempt &&
                `: attempt ${current.n} of ${current.owner} was current`}
            </>,
          ],
          [
            "effect",
            "none on the record. The program may still have acted outside: pass the fence to the systems it writes to.",
          ],
        ]}
      />
      <Line run={whole.run.runId} />
    </Card>
  );
}

function AttemptCard({ whole, attempt }: { whole: Whole; attempt: Attempt }) {
  const look = outcomeLook(attempt.outcome);
  const isLost = attempt.outcome === "LOST";
  return (
    <Card
      title={
        <Toned tone={look.tone}>
          Attempt {attempt.n}: {look.word}
        </Toned>
      }
      aside={<span class="muted num">{exact(attempt.granted)}</span>}
    >
      <Facts
        rows={[
          ["who", <a href={`runs?worker=${encodeURIComponent(attempt.owner)}`}>{visible(attempt.owner)}</a>],
          ["lease", `granted with fence ${fence(attempt.fence)}, ${span(attempt.leaseMs)} with each renewal`],
          attempt.started === undefined
            ? undefined
            : ["started", `${span(attempt.started - attempt.granted)} after the grant`],
          isLost ? ["last heard", `${exact(attempt.lastBeat)}, one lease before the expiry`] : undefined,
          attempt.ended === undefined
            ? ["lease ends", exact(attempt.expires)]
            : ["ended", `${exact(attempt.ended)}, after ${span(attempt.ended - attempt.granted)}`],
          attempt.reason && attempt.reason !== attempt.outcome
            ? ["because", <code>{attempt.reason}</code>]
            : undefined,
          attempt.message ? ["message", visible(attempt.message)] : undefined,
          attempt.steps.length > 0
            ? [
                "recorded",
                attempt.steps
                  .slice(0, 12)
                  .map((step) => step.key)
                  .join(", "),
              ]
            : undefined,
        ]}
      />
      <Line run={whole.run.runId} />
    </Card>
  );
}

function EntryCard({ whole, entry }: { whole: Whole; entry: HistoryEntry }) {
  const key = entry.detail["step"] ?? entry.detail["wait"];
  const step = whole.steps.find((other) => other.key === key);
  return (
    <Card
      title={words(entry.kind)}
      note={`decision ${entry.n}`}
      aside={<span class="muted num">{exact(ms(entry.at)!)}</span>}
    >
      <Facts
        rows={[
          ...Object.entries(entry.detail).map(([name, value]): [string, ComponentChildren] => [
            name,
            visible(plain(value)),
          ]),
          step?.inputDigest ? ["input", <Digest value={step.inputDigest} short />] : undefined,
          step?.result
            ? ["result", <bdi class="mono clip">{visible(step.result.slice(0, 200))}</bdi>]
            : undefined,
        ]}
      />
      <Line run={whole.run.runId} />
    </Card>
  );
}

function Line({ run }: { run: string }) {
  return (
    <div class="pad-x pad-b">
      <Cli line={command("runs", "show", run)} />
    </div>
  );
}

const words = (kind: string) => kind.replaceAll("_", " ");
const plain = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

interface Row {
  id: string;
  n?: number;
  at: number;
  what: string;
  detail: string;
  attempt?: number;
  tone?: Tone;
}

/** Decisions and refusals in one order. */
function rowsOf(whole: Whole): Row[] {
  const decisions = whole.entries.map(
    (entry): Row => ({
      id: `entry-${entry.n}`,
      n: entry.n,
      at: ms(entry.at)!,
      what: words(entry.kind),
      detail: describe(entry),
      attempt: entry.attempt ?? undefined,
      tone: toneOf(entry),
    }),
  );
  const refusals = (whole.run.refused ?? []).map(
    (call, i): Row => ({
      id: `refused-${i}`,
      at: ms(call.at)!,
      what: "refused",
      detail: `${call.call} of ${call.workerId}: ${call.error}`,
      attempt: call.attempt,
      tone: "refused",
    }),
  );
  return [...decisions, ...refusals].sort(
    (a, b) => a.at - b.at || (a.n ?? Number.MAX_SAFE_INTEGER) - (b.n ?? Number.MAX_SAFE_INTEGER),
  );
}

function toneOf(entry: HistoryEntry): Tone | undefined {
  return entry.detail["outcome"] === "LOST"
    ? "retry"
    : entry.detail["outcome"] === "FAILED"
      ? "bad"
      : undefined;
}

function describe(entry: HistoryEntry): string {
  const { detail } = entry;
  const text = (name: string) => (typeof detail[name] === "string" ? (detail[name] as string) : undefined);
  if (entry.kind === "granted")
    return [
      `to ${text("owner")}`,
      `fence ${fence(Number(detail["fence"]))}`,
      text("step") && `${text("step")} recorded`,
    ]
      .filter(Boolean)
      .join(", ");
  if (text("decision"))
    return [`${text("by")?.slice(0, 8)}: ${text("decision")}`, text("comment") && `“${text("comment")}”`]
      .filter(Boolean)
      .join(", ");
  if (entry.kind === "attempt_closed")
    return [
      text("outcome"),
      text("reason") !== text("outcome") ? text("reason") : undefined,
      text("wait") && `waits for ${text("wait")?.replace(/^wait:/, "")}`,
      text("message"),
    ]
      .filter(Boolean)
      .join(", ");
  if (entry.kind === "submitted" || entry.kind === "planned") return `${text("kind")} on ${text("queue")}`;
  return [
    text("step"),
    text("wait"),
    text("signal"),
    text("childKey"),
    text("child"),
    text("key"),
    text("cancelReason"),
  ]
    .filter(Boolean)
    .join(", ");
}

function HistoryRows({ rows, selected }: { rows: Row[]; selected: string | undefined }) {
  const choose = (id: string) => go(withQuery({ sel: id }), { replace: true });
  return (
    <table class="history">
      <thead class="vh">
        <tr>
          <th>number</th>
          <th>time</th>
          <th>decision</th>
          <th>detail</th>
          <th>attempt</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.id} class={`${row.id === selected ? "sel" : ""} ${row.tone ? `t-${row.tone}` : ""}`}>
            <td class="num muted">{row.n ?? ""}</td>
            <td class="num">{exact(row.at)}</td>
            <td>
              <button
                type="button"
                class="plain"
                data-row
                aria-pressed={row.id === selected}
                onClick={() => choose(row.id)}
              >
                {row.what}
              </button>
            </td>
            <td class="wide-cell">{visible(row.detail)}</td>
            <td class="muted nowrap">{row.attempt === undefined ? "" : `attempt ${row.attempt}`}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Excerpt({
  whole,
  selected,
  events,
}: {
  whole: Whole;
  events: Events;
  selected: string | undefined;
}) {
  const rows = rowsOf(whole);
  const at = Math.max(
    0,
    rows.findIndex((row) => row.id === selected || isClosing(row, selected, events)),
  );
  const from = Math.max(0, Math.min(at - 4, rows.length - EXCERPT));
  const refused = whole.run.refused?.length ?? 0;
  const note = `${whole.entries.length} decisions${refused > 0 ? ` and ${refused} ${refused === 1 ? "refusal" : "refusals"}` : ""}, in order of commit`;
  return (
    <Card title="History" note={note} aside={<a href={`runs/${whole.run.runId}/history`}>all</a>}>
      <HistoryRows rows={rows.slice(from, from + EXCERPT)} selected={selected} />
    </Card>
  );
}

function isClosing(row: Row, selected: string | undefined, events: Events): boolean {
  const attempt = events.attempts.find((other) => selected === `attempt-${other.n}`);
  return attempt !== undefined && row.n === (attempt.closedBy ?? attempt.entry);
}

export function HistoryTab({ whole }: { whole: Whole }) {
  const rows = rowsOf(whole);
  return (
    <Card
      title="History"
      note="every decision about the run, in order of commit; nothing is ever changed or removed"
    >
      <HistoryRows rows={rows} selected={place.value.query.get("sel") ?? undefined} />
    </Card>
  );
}
