/** Schedules: when each runs next, and what became of the last ones. Read-only: the commands are beside it. */

import { get, inPath, Problem } from "../api/call.js";
import type { Schedule, ScheduleHistory, ScheduleList, SchedulePreview } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import type { Look } from "../model/state.js";
import { clock, clockTime, ms, relative, span } from "../model/time.js";
import { Card, Cli, Empty, Time } from "../parts/bits.js";
import { Crumb, Foot, Head, Listing } from "../parts/frame.js";
import { Mark } from "../parts/glyph.js";
import { Read } from "../parts/read.js";
import { type Column, Table } from "../parts/table.js";
import { nameOf } from "../people.js";

const PAGE = 200;
/** Instants of the future that are shown. */
const INSTANTS = 5;
/** Changes and firings that are shown. */
const ENTRIES = 20;

export function SchedulesPage({ name }: { name: string | undefined }) {
  document.title = "Schedules · Tenure";
  if (!name) return <SchedulesList />;
  return name.includes("~") ? <NamedSchedule key={name} path={name} /> : <SchedulePage named={name} />;
}

/** `15 2 * * * (Europe/Berlin)`, `every 15 min`. */
export function terms(schedule: Schedule): string {
  if (schedule.cron) return `${schedule.cron}${schedule.timeZone ? ` (${schedule.timeZone})` : ""}`;
  return schedule.everyMs ? `every ${span(schedule.everyMs).replace(/ 00 (s|min)$/, "")}` : "";
}

/** A schedule whose instant has come and has not fired is late. */
export function scheduleLook(schedule: Schedule, now: number): Look {
  if (schedule.state === "paused") return { tone: "retry", glyph: "park", word: "paused" };
  if (schedule.state === "deleted") return { tone: "queue", glyph: "cancel", word: "deleted" };
  const due = ms(schedule.nextAt);
  const isLate = schedule.waiting > 0 || (due !== undefined && due < now - LATE_MS);
  return isLate ? { tone: "bad", glyph: "bad", word: "late" } : { tone: "ok", glyph: "ok", word: "active" };
}

/** Longer than the server needs to fire an instant, so that a healthy schedule is never called late. */
const LATE_MS = 60_000;

/** What a call and a command name it by: the server does not find a name with a slash in a path, and finds its id. */
const handle = (schedule: Schedule) => (schedule.name.includes("/") ? schedule.scheduleId : schedule.name);

/** Schedules that are looked through for a name. */
const SEARCHED_MAX = 5000;

/** The id of a schedule by the name that an address writes with `~` for `/`. */
async function idOf(path: string, signal: AbortSignal): Promise<string> {
  let cursor: string | undefined;
  let searched = 0;
  do {
    const page = await get<ScheduleList>("v1/schedules", { query: { limit: PAGE, cursor }, signal });
    const found = page.schedules.find(({ name }) => inPath(name) === path);
    if (found) return found.scheduleId;
    searched += page.schedules.length;
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined && searched < SEARCHED_MAX);
  const name = path.replaceAll("~", "/");
  const where = cursor === undefined ? "the schedules of this workspace" : `the first ${searched} schedules`;
  const message = `none of ${where} is named ${name}; one that was deleted is found by its id`;
  throw new Problem(404, "not_found", "There is no such schedule", message);
}

/** A schedule with a slash in its name: its id is looked up once, and the page is read by the id. */
function NamedSchedule({ path }: { path: string }) {
  const query = useQuery<string>(`schedule ${path}`, undefined, (signal) => idOf(path, signal));
  const id = query.data.value;
  if (id !== undefined) return <SchedulePage named={id} />;
  return (
    <>
      <Crumb name="Schedules" to="schedules" />
      <Read query={query}>{() => null}</Read>
    </>
  );
}

function SchedulesList() {
  const query = useQuery<ScheduleList>("schedules", "queues", (signal) =>
    get("v1/schedules", { query: { limit: PAGE }, signal }),
  );
  return (
    <>
      <Head title="Schedules" note="runs that are submitted again and again" />
      <Listing
        query={query}
        isEmpty={({ schedules }) => schedules.length === 0}
        empty={
          <Empty
            title="No schedule yet"
            lines={["tenure schedules create nightly --cron '15 2 * * *' --kind report --queue reports"]}
          >
            A schedule submits a run at every instant of a cron expression or interval, once, also when the
            server was down in between.
          </Empty>
        }
      >
        {({ schedules }) => (
          <Table isList items={schedules} by={(schedule) => schedule.scheduleId} columns={COLUMNS} />
        )}
      </Listing>
      <Foot lines={["tenure schedules list"]} />
    </>
  );
}

const COLUMNS: Array<Column<Schedule>> = [
  ["state", (schedule) => <Mark look={scheduleLook(schedule, clock.value)} />, "nowrap"],
  [
    "schedule",
    (schedule) => (
      <a data-row href={`schedules/${inPath(schedule.name)}`}>
        {visible(schedule.name)}
      </a>
    ),
    "strong",
  ],
  ["when", (schedule) => <code>{visible(terms(schedule))}</code>, "hide-narrow"],
  ["next", (schedule) => <Time at={schedule.nextAt} />, "nowrap"],
  ["last run", (schedule) => <LastRun schedule={schedule} />, "nowrap hide-narrow"],
  ["fired", (schedule) => schedule.fired, "num r hide-narrow"],
  ["not fired", left, "hide-narrow"],
];

function LastRun({ schedule }: { schedule: Schedule }) {
  const { last } = schedule;
  if (!last) return <span class="muted">none</span>;
  return (
    <a href={`runs/${last.runId}`}>
      <Time at={last.instant} />
    </a>
  );
}

/** Instants without a run, with the reason. */
function left(schedule: Schedule): string {
  const parts: Array<[number, string]> = [
    [schedule.skipped, "skipped"],
    [schedule.missed, "missed"],
    [schedule.refused, "refused"],
  ];
  return parts
    .filter(([n]) => n > 0)
    .map(([n, word]) => `${n} ${word}`)
    .join(", ");
}

interface Whole {
  schedule: Schedule;
  preview: SchedulePreview;
  history: ScheduleHistory;
}

/** A schedule by its id, or by a name without a slash. */
function SchedulePage({ named }: { named: string }) {
  const query = useQuery<Whole>(`schedule ${named}`, "queues", async (signal) => {
    const path = `v1/schedules/${named}`;
    const [schedule, preview, history] = await Promise.all([
      get<Schedule>(path, { signal }),
      get<SchedulePreview>(`${path}/preview`, { query: { count: INSTANTS }, signal }),
      get<ScheduleHistory>(`${path}/history`, { query: { limit: ENTRIES }, signal }),
    ]);
    return { schedule, preview, history };
  });
  return (
    <>
      <Crumb name="Schedules" to="schedules" />
      <Read query={query}>{(whole) => <Shown whole={whole} />}</Read>
    </>
  );
}

function Shown({ whole }: { whole: Whole }) {
  const { schedule, preview, history } = whole;
  const look = scheduleLook(schedule, clock.value);
  const { run } = schedule;
  const named = handle(schedule);
  return (
    <>
      <Head title={schedule.name} look={look} note={<code>{visible(terms(schedule))}</code>} />
      <p class={`story t-${look.tone}`}>{fate(schedule)}</p>
      <div class="two">
        <Card
          title="Next"
          note={run ? `submits ${visible(run.kind ?? "")} to ${visible(run.queue ?? "")}` : ""}
        >
          <ol class="instants">
            {preview.instants.map((at) => (
              <li key={at}>
                <code>{clockTime(ms(at)!, 0, false)}</code>{" "}
                <span class="muted">{relative(ms(at)!, clock.value)}</span>
              </li>
            ))}
            {preview.instants.length === 0 && <li class="muted">no instant follows</li>}
          </ol>
          <div class="pad-x pad-b">
            <Cli line={command("schedules", "next", named)} />
          </div>
        </Card>
        <Card title="To change it">
          <div class="pad-x pad-b">
            <Cli line={command("schedules", schedule.state === "paused" ? "resume" : "pause", named)} />
            <Cli line={command("schedules", "trigger", named)} />
          </div>
        </Card>
      </div>
      <Card title="History" note="changes and firings, the newest first">
        <Table items={history.entries} by={({ revision }) => revision} columns={ENTRY_COLUMNS} />
        <div class="pad-x pad-b">
          <Cli line={command("schedules", "history", named)} />
        </div>
      </Card>
      <Foot lines={[command("schedules", "show", named)]} />
    </>
  );
}

/** What it does next and what became of the last ones, in words. */
export function fate(schedule: Schedule): string {
  const fired = schedule.fired === 1 ? "1 run" : `${schedule.fired} runs`;
  const not = left(schedule);
  const past = `It has submitted ${fired}${not ? `; ${not}` : ""}.`;
  const refusal = schedule.lastRefusal ? ` The last refusal was ${schedule.lastRefusal.error}.` : "";
  const state = {
    paused: "Paused: it fires nothing until it is resumed, and makes up for nothing. ",
    deleted: "Deleted; its runs stay. ",
    active: schedule.waiting > 0 ? `${schedule.waiting} instants have come and could not fire yet. ` : "",
  }[schedule.state];
  return state + past + refusal;
}

const ENTRY_COLUMNS: Array<Column<ScheduleHistory["entries"][number]>> = [
  ["when", ({ at }) => <Time at={at} />, "nowrap"],
  ["by", ({ keyId }) => (keyId ? visible(nameOf(keyId)) : <span class="muted">time</span>)],
  ["state", ({ schedule }) => schedule.state],
  ["terms", ({ schedule }) => <code>{visible(terms(schedule))}</code>, "hide-narrow"],
  ["fired", ({ schedule }) => schedule.fired, "num r"],
  ["last run", ({ schedule }) => <LastRun schedule={schedule} />, "nowrap"],
];
