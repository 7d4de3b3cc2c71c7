/** Runs: filters in the address, pages by cursor, rows in sight only, new ones collected until they are asked for. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Problem } from "../api/call.js";
import { get } from "../api/call.js";
import type { Run, RunList } from "../api/types.js";
import { follow, fresh, lost } from "../data/feed.js";
import { asProblem } from "../data/query.js";
import { listCommand } from "../model/command.js";
import { visible } from "../model/shown.js";
import { STATE_NAMES, stateLook } from "../model/state.js";
import { clock, ms, now, span } from "../model/time.js";
import { why } from "../model/why.js";
import { Cli, Empty, Failed, Loading, Time } from "../parts/bits.js";
import { BulkActions } from "../parts/bulk.js";
import { FilterBar } from "../parts/filter.js";
import { Glyph, Mark } from "../parts/glyph.js";
import { VirtualRows } from "../parts/rows.js";
import { place, withQuery } from "../router.js";

const PAGE = 50;
/** Rows that a tab keeps; more are a question for a filter. */
const ROWS_MAX = 5000;
const FILTERS = ["state", "queue", "kind", "label", "worker", "category", "children"];

/** The filters of the address as a query of the API. `since` is a duration before now. */
export function apiQuery(query: URLSearchParams, at: number): URLSearchParams {
  const asked = new URLSearchParams();
  for (const name of FILTERS)
    for (const value of query.getAll(name)) if (value !== "") asked.append(name, value);
  const since = duration(query.get("since"));
  if (since !== undefined) asked.set("since", new Date(at - since).toISOString());
  return asked;
}

/** `15m`, `24h`, `7d` in milliseconds. */
export function duration(text: string | null): number | undefined {
  const match = text?.match(/^(\d{1,4})([mhd])$/);
  if (!match) return undefined;
  return Number(match[1]) * { m: 60_000, h: 3_600_000, d: 86_400_000 }[match[2] as "m" | "h" | "d"];
}

export function RunsPage() {
  const query = place.value.query;
  const key = query.toString();
  const list = useRuns(key, query);
  const count = list.rows.value.length;
  return (
    <>
      <div class="head">
        <h1>Runs</h1>
        {count > 0 && (
          <span class="soft">
            {count}
            {list.cursor.value ? " and more" : ""}, newest first
          </span>
        )}
        <span class="sp" />
        {list.above.value.length > 0 && (
          <button type="button" class="btn" onClick={list.showNew}>
            {list.above.value.length} new above ↑
          </button>
        )}
        <BulkActions filter={query} asked={(at) => apiQuery(query, at)} again={list.again} />
      </div>
      <StateTabs />
      <FilterBar />
      {list.problem.value && <Failed problem={list.problem.value} again={list.again} />}
      <Rows list={list} />
      <div class="foot">
        <Cli line={listCommand(query)} />
      </div>
    </>
  );
}

function StateTabs() {
  const chosen = place.value.query.get("state") ?? "";
  return (
    <nav class="chips" aria-label="State">
      <a
        class={`chip ${chosen === "" ? "on" : ""}`}
        aria-current={chosen === "" ? "true" : undefined}
        href={withQuery({ state: undefined })}
      >
        all
      </a>
      {STATE_NAMES.filter((state) => state !== "skipped" && state !== "blocked").map((state) => {
        const look = stateLook(state);
        const isOn = chosen === state;
        return (
          <a
            key={state}
            class={`chip ${isOn ? "on" : ""}`}
            aria-current={isOn ? "true" : undefined}
            href={withQuery({ state: isOn ? undefined : state })}
          >
            <span class={isOn ? "" : `t-${look.tone} ink`}>
              <Glyph name={look.glyph} size={11} />
            </span>
            {state}
          </a>
        );
      })}
    </nav>
  );
}

type List = ReturnType<typeof useRuns>;

/** Reads pages of runs: the first one again and again, further ones when asked. */
function useRuns(key: string, query: URLSearchParams) {
  const rows = useSignal<Run[]>([]);
  const above = useSignal<Run[]>([]);
  const cursor = useSignal<string | undefined>(undefined);
  const searched = useSignal<RunList | undefined>(undefined);
  const problem = useSignal<Problem | undefined>(undefined);
  const isRead = useSignal(false);
  const again = useRef(async () => {});
  useEffect(() => {
    let isOver = false;
    rows.value = [];
    above.value = [];
    cursor.value = undefined;
    isRead.value = false;
    again.current = async () => {
      try {
        const asked = apiQuery(query, now());
        asked.set("limit", String(PAGE));
        const page = await get<RunList>("v1/runs", { query: asked });
        if (isOver) return;
        merge(page);
        problem.value = undefined;
        fresh();
      } catch (error) {
        if (isOver) return;
        problem.value = asProblem(error);
        if (problem.value.isUnreachable) lost();
      }
    };
    const merge = (page: RunList) => {
      if (!isRead.value) {
        rows.value = page.runs;
        cursor.value = page.nextCursor ?? undefined;
        searched.value = page;
        isRead.value = true;
        return;
      }
      const known = new Set(rows.value.map((run) => run.runId));
      const changed = new Map(page.runs.map((run) => [run.runId, run]));
      rows.value = rows.value.map((run) => changed.get(run.runId) ?? run);
      above.value = page.runs.filter((run) => !known.has(run.runId));
      // Nothing moves below the pointer; at the top of the page new rows may simply appear.
      if (scrollY < 40) showNew();
    };
    const stop = follow("runs", () => again.current());
    return () => {
      isOver = true;
      stop();
    };
  }, [key]);
  const showNew = () => {
    rows.value = [...above.value, ...rows.value].slice(0, ROWS_MAX);
    above.value = [];
  };
  const more = async () => {
    if (!cursor.value || rows.value.length >= ROWS_MAX) return;
    const asked = apiQuery(query, now());
    asked.set("limit", String(PAGE * 2));
    asked.set("cursor", cursor.value);
    cursor.value = undefined;
    try {
      const page = await get<RunList>("v1/runs", { query: asked });
      const known = new Set(rows.value.map((run) => run.runId));
      rows.value = [...rows.value, ...page.runs.filter((run) => !known.has(run.runId))];
      cursor.value = page.nextCursor ?? undefined;
      searched.value = page;
    } catch (error) {
      problem.value = asProblem(error);
    }
  };
  return { rows, above, cursor, searched, problem, isRead, again: () => again.current(), more, showNew };
}

function Rows({ list }: { list: List }) {
  const runs = list.rows.value;
  if (!list.isRead.value)
    return list.problem.value ? null : (
      <section class="card">
        <Loading rows={8} />
      </section>
    );
  if (runs.length === 0)
    return (
      <section class="card">
        <NoRuns list={list} />
      </section>
    );
  return (
    <section class="card grid-table runs">
      <div role="table" aria-label="Runs" aria-rowcount={runs.length}>
        <div class="tr th" role="row">
          {["state", "kind", "queue", "submitted", "took", "attempts", "worker", "why"].map((name) => (
            <span key={name} role="columnheader" class={`c-${name}`}>
              {name}
            </span>
          ))}
        </div>
        <VirtualRows
          items={runs}
          height={34}
          nearEnd={list.more}
          row={(run, i) => <Row key={run.runId} run={run} index={i} />}
        />
      </div>
      <Bound list={list} />
    </section>
  );
}

function Row({ run, index }: { run: Run; index: number }) {
  const started = ms(run.startedAt);
  const end = ms(run.completedAt);
  const took =
    end !== undefined ? end - ms(run.createdAt)! : started !== undefined ? clock.value - started : undefined;
  return (
    <div class="tr" role="row" aria-rowindex={index + 1}>
      <span role="cell" class="c-state">
        <Mark look={stateLook(run.state)} />
      </span>
      <span role="cell" class="c-kind strong">
        <a class="row-link" data-row href={`runs/${run.runId}`}>
          {visible(run.kind)}
        </a>
      </span>
      <span role="cell" class="c-queue soft">
        {visible(run.queue)}
      </span>
      <span role="cell" class="c-submitted">
        <Time at={run.createdAt} />
      </span>
      <span role="cell" class="c-took num">
        {took === undefined ? "" : span(took)}
      </span>
      <span role="cell" class="c-attempts num">
        {attempts(run)}
      </span>
      <span role="cell" class="c-worker soft">
        {visible(run.workerId ?? run.lease?.owner ?? "–")}
      </span>
      <span role="cell" class="c-why soft" title={visible(why(run, clock.value))}>
        {visible(why(run, clock.value))}
      </span>
    </div>
  );
}

function attempts(run: Run) {
  if (run.attempt === 0) return "";
  return run.lost > 0 ? (
    <>
      {run.attempt}, <b class="t-retry ink">{run.lost} lost</b>
    </>
  ) : (
    run.attempt
  );
}

/** Every search has a bound, and says where it stopped. */
function Bound({ list }: { list: List }) {
  const { searched, cursor } = list;
  const answer = searched.value;
  if (!cursor.value) return null;
  const isBound = answer?.stopped === "scan";
  return (
    <div class="bound muted">
      {isBound && (
        <>
          searched {answer?.searched} runs, back to <Time at={answer?.searchedTo} /> ·{" "}
        </>
      )}
      <button type="button" class="link" onClick={list.more}>
        {isBound ? "search on" : "show more"}
      </button>
    </div>
  );
}

function NoRuns({ list }: { list: List }) {
  const isFiltered = [...place.value.query.keys()].length > 0;
  const answer = list.searched.value;
  if (isFiltered) {
    return (
      <Empty title="No run matches">
        {answer?.searched ? `${answer.searched} runs were looked at. ` : ""}
        {list.cursor.value ? (
          <button type="button" class="link" onClick={list.more}>
            Search on
          </button>
        ) : (
          <a href="runs">Show all runs</a>
        )}
      </Empty>
    );
  }
  return (
    <Empty
      title="No run yet"
      lines={[
        "tenure work --queue demo --exec cat",
        'tenure submit hello --queue demo --input \'{"name":"Ada"}\' --wait',
        "tenure tour",
      ]}
    >
      Any program can be a worker. Start one, submit a run, and it appears here; or watch the tour, which
      kills a worker.
    </Empty>
  );
}
