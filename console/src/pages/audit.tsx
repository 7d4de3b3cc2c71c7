/** Audit: who changed or was refused what. The server keeps it in a chain of seals, which can be checked here. */

import { useSignal } from "@preact/signals";
import { may } from "../access.js";
import { get, type Problem } from "../api/call.js";
import type { AuditEntry, AuditLog, AuditVerified } from "../api/types.js";
import { asProblem, useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import type { Look } from "../model/state.js";
import { Empty, Failed, Time } from "../parts/bits.js";
import { Chips, Foot, Head, Listing } from "../parts/frame.js";
import { Glyph, Mark } from "../parts/glyph.js";
import { type Column, Table } from "../parts/table.js";
import { nameOf } from "../people.js";
import { place, withQuery } from "../router.js";

const PAGE = 200;

const CHANGES: Look = { tone: "ok", glyph: "step", word: "changes" };
const REFUSED: Look = { tone: "refused", glyph: "refused", word: "refused calls" };
const CHOICES: Array<[string, Look]> = [
  ["changes", CHANGES],
  ["refused-calls", REFUSED],
];

const isRefusal = ({ action }: AuditEntry) => action === "refused";

/** The entries of a page that a choice leaves; the server has no filter of its own. */
export function chosen(entries: AuditEntry[], what: string): AuditEntry[] {
  if (what === "refused-calls") return entries.filter(isRefusal);
  return what === "changes" ? entries.filter((entry) => !isRefusal(entry)) : entries;
}

export function AuditPage() {
  document.title = "Audit · Tenure";
  const asked = place.value.query;
  const what = asked.get("what") ?? "";
  const before = asked.get("before") ?? undefined;
  const query = useQuery<AuditLog>(`audit ${before ?? ""}`, "operate", (signal) =>
    get("v1/audit", { query: { limit: PAGE, before }, signal }),
  );
  return (
    <>
      <Head title="Audit" note="administrative changes and refused calls, the newest first" />
      {may("audit.verify.read") && <Verify />}
      <Chips label="What" name="what" choices={CHOICES} />
      <Listing
        query={query}
        isEmpty={({ entries }) => entries.length === 0}
        empty={
          <Empty title={before ? "No entry is older" : "Nothing was changed or refused yet"}>
            Keys, limits, budgets, pauses and topologies are changed by people: each change is an entry, and
            so is each call that a key was not allowed to make.
          </Empty>
        }
      >
        {(log) => <Entries log={log} what={what} isNewest={before === undefined} />}
      </Listing>
      <Foot lines={[command("audit", ...(before ? ["--before", before] : [])), "tenure audit verify"]} />
    </>
  );
}

function Entries({ log, what, isNewest }: { log: AuditLog; what: string; isNewest: boolean }) {
  const shown = chosen(log.entries, what);
  const [last] = log.entries.slice(-1);
  return (
    <>
      {shown.length > 0 && <Table isList items={shown} by={({ n }) => n} columns={COLUMNS} />}
      <div class="bound muted">
        {what !== "" && `${shown.length} of the `}
        {log.entries.length} entries back to <Time at={last?.at} />
        {!isNewest && (
          <>
            {" · "}
            <a href={withQuery({ before: undefined })}>the newest</a>
          </>
        )}
        {log.nextBefore != null && (
          <>
            {" · "}
            <a href={withQuery({ before: String(log.nextBefore) })}>older ones</a>
          </>
        )}
      </div>
    </>
  );
}

const COLUMNS: Array<Column<AuditEntry>> = [
  ["when", ({ at }) => <Time at={at} />, "nowrap"],
  [
    "what",
    (entry) =>
      isRefusal(entry) ? (
        <Mark look={{ ...REFUSED, word: entry.times > 1 ? `refused ${entry.times} times` : "refused" }} />
      ) : (
        <b class="strong">{visible(entry.action)}</b>
      ),
    "nowrap",
  ],
  [
    "about",
    ({ object, error, actor }) => (
      <>
        <code>{visible(object === "*" ? "all workspaces" : object)}</code>
        {error && <span class="muted"> {visible(error)}</span>}
        <span class="show-narrow">
          by <Actor id={actor} />
        </span>
      </>
    ),
    "wide-cell",
  ],
  ["by", ({ actor }) => <Actor id={actor} />, "nowrap hide-narrow"],
  [
    "scope",
    ({ tenantId, workspaceId }) => visible(`${tenantId} / ${workspaceId === "*" ? "all" : workspaceId}`),
    "hide-narrow",
  ],
  ["request", ({ requestId }) => requestId && <code class="soft">{requestId}</code>, "nowrap hide-narrow"],
  ["no.", ({ n }) => n, "num r hide-narrow"],
];

function Actor({ id }: { id: string }) {
  if (id === "server" || id === "anonymous") return <span class="muted">{id}</span>;
  return <span title={`the key ${id}`}>{visible(nameOf(id))}</span>;
}

/** What a check of all seals found, in one sentence. */
export function verdict(found: AuditVerified): string {
  const [first] = found.findings;
  if (first) return `The audit was changed: ${first.message} (entry ${first.n}).`;
  const old = found.entries - found.sealed;
  const parts = [
    found.entries === 1 ? "Its one entry is" : `All ${found.entries} entries are`,
    "as they were written",
    old > 0 ? `; ${old} of them are older than the seals` : "",
    found.anchored
      ? ", and none is missing at the end."
      : ". The end was not compared with an anchor outside of the store, so missing entries at the end would not be noticed.",
  ];
  return `${parts[0]} ${parts[1]}${parts[2]}${parts[3]}`;
}

/** The check reads the whole audit, so it is done when a person asks for it. */
function Verify() {
  const found = useSignal<AuditVerified | undefined>(undefined);
  const problem = useSignal<Problem | undefined>(undefined);
  const isBusy = useSignal(false);
  const check = async () => {
    isBusy.value = true;
    problem.value = undefined;
    try {
      found.value = await get<AuditVerified>("v1/audit/verify");
    } catch (error) {
      problem.value = asProblem(error);
    } finally {
      isBusy.value = false;
    }
  };
  const isBad = (found.value?.findings.length ?? 0) > 0;
  return (
    <div class="verify">
      <button type="button" class="btn" disabled={isBusy.value} onClick={check}>
        {isBusy.value ? "Checking…" : "Check the seals"}
      </button>
      <span role="status" class={found.value && `t-${isBad ? "bad" : "ok"} ink`}>
        {found.value ? (
          <>
            <Glyph name={isBad ? "bad" : "ok"} /> {visible(verdict(found.value))}
          </>
        ) : (
          <span class="muted">
            whether an entry was changed, removed, added or moved since it was written
          </span>
        )}
      </span>
      {problem.value && <Failed problem={problem.value} again={check} />}
    </div>
  );
}
