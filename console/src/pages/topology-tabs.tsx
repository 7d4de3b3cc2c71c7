/** The lists of a deployment: artifacts, work orders with their run records, claims, and what waits for a person. */

import { get, inPath, post } from "../api/call.js";
import type {
  Artifact,
  ArtifactList,
  Claim,
  ClaimList,
  PauseState,
  PauseStateList,
  WorkOrder,
  WorkOrderList,
} from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import type { Look } from "../model/state.js";
import { ms } from "../model/time.js";
import { nameOfArtifact } from "../model/topology.js";
import { Act } from "../parts/act.js";
import { Empty, Time } from "../parts/bits.js";
import { Chips, Foot, Listing } from "../parts/frame.js";
import { Mark } from "../parts/glyph.js";
import { type Column, Table } from "../parts/table.js";
import { place } from "../router.js";
import type { Part } from "./topology-picture.js";

const PAGE = 200;

export function ArtifactLink({ deployment, name }: { deployment: string; name: string }) {
  const to = `topologies/${inPath(deployment)}?artifact=${encodeURIComponent(name)}`;
  return (
    <a data-row href={to}>
      {visible(name)}
    </a>
  );
}

const bound = (cursor: string | null | undefined, shown: number) =>
  cursor && <div class="bound muted">the first {shown} by id; filter to see others</div>;

export function ArtifactsTab({ path, name, declaration }: Part) {
  const types = Object.keys(declaration.artifacts);
  const asked = place.value.query;
  const type = types.find((each) => each === asked.get("type")) ?? types[0] ?? "";
  const status = asked.get("status") ?? "";
  const query = useQuery<ArtifactList>(`artifacts ${name} ${type} ${status}`, "queues", (signal) =>
    get(`${path}/artifacts/${type}`, { query: { status, limit: PAGE }, signal }),
  );
  const statuses = declaration.artifacts[type]?.statuses ?? [];
  return (
    <>
      {types.length > 1 && (
        <nav class="chips" aria-label="Type">
          {types.map((each) => (
            <a
              key={each}
              class={`chip ${each === type ? "on" : ""}`}
              aria-current={each === type ? "true" : undefined}
              href={`topologies/${inPath(name)}?tab=artifacts&type=${encodeURIComponent(each)}`}
            >
              {visible(each)}
            </a>
          ))}
        </nav>
      )}
      <Chips label="Status" name="status" choices={statuses.map((each) => [each, { word: visible(each) }])} />
      <Listing
        query={query}
        isEmpty={({ artifacts }) => artifacts.length === 0}
        empty={
          <Empty
            title={status ? "No artifact has this status" : `No ${type} yet`}
            lines={[command("artifacts", "create", name, type, "ID", "--fields", "{}")]}
          >
            An artifact is what the roles work on: it begins in its initial status and moves as the topology
            declares.
          </Empty>
        }
      >
        {({ artifacts, cursor }) => (
          <>
            <Table isList items={artifacts} by={nameOfArtifact} columns={artifactColumns(name)} />
            {bound(cursor, artifacts.length)}
          </>
        )}
      </Listing>
      <Foot lines={[command("artifacts", "list", name, type, ...(status ? ["--status", status] : []))]} />
    </>
  );
}

const artifactColumns = (deployment: string): Array<Column<Artifact>> => [
  [
    "artifact",
    (artifact) => <ArtifactLink deployment={deployment} name={nameOfArtifact(artifact)} />,
    "strong wide-cell",
  ],
  ["status", ({ status }) => visible(status)],
  ["since", ({ enteredAt }) => <Time at={enteredAt} />, "nowrap"],
  ["cycles", ({ cycles }) => cycles, "num r hide-narrow"],
  [
    "taken by",
    ({ reservedBy, passed }) =>
      reservedBy ? <code>{visible(reservedBy)}</code> : passed ? "passed, waits for a person" : "",
    "wide-cell hide-narrow",
  ],
  ["created", ({ createdAt }) => <Time at={createdAt} />, "nowrap hide-narrow"],
];

const ORDERS: Record<WorkOrder["state"], Look> = {
  active: { tone: "run", glyph: "run", word: "active" },
  passed: { tone: "ok", glyph: "ok", word: "passed" },
  failed: { tone: "bad", glyph: "bad", word: "failed" },
};

/** Why a work order did not pass, in one line. */
export function reasonsOf({ record }: WorkOrder): string {
  if (!record || record.gateResult === "PASS") return "";
  const parts = record.gateReasons.map(({ check, message }) => `${check}: ${message}`);
  if (record.executionStatus !== "COMPLETED") parts.unshift(record.executionStatus);
  return parts.join("; ");
}

export function OrdersTab({ path, name }: Part) {
  const state = place.value.query.get("state") ?? "";
  const query = useQuery<WorkOrderList>(`orders ${name} ${state}`, "queues", (signal) =>
    get(`${path}/workorders`, { query: { state, limit: PAGE }, signal }),
  );
  return (
    <>
      <Chips label="State" name="state" choices={Object.entries(ORDERS)} />
      <Listing
        query={query}
        isEmpty={({ workOrders }) => workOrders.length === 0}
        empty={
          <Empty title={state ? "No work order matches" : "No work order yet"}>
            A scheduler makes a work order of an event; an executor does it; a gate judges what it returned.
          </Empty>
        }
      >
        {({ workOrders, cursor }) => (
          <>
            <Table isList items={newestFirst(workOrders)} by={({ id }) => id} columns={orderColumns(name)} />
            {bound(cursor, workOrders.length)}
          </>
        )}
      </Listing>
    </>
  );
}

const newestFirst = (orders: WorkOrder[]) => [...orders].sort((a, b) => ms(b.createdAt)! - ms(a.createdAt)!);

const orderColumns = (deployment: string): Array<Column<WorkOrder>> => [
  ["state", ({ state }) => <Mark look={ORDERS[state]} />, "nowrap"],
  ["work order", ({ template, runId }) => <a href={`runs/${runId}`}>{visible(template)}</a>, "strong"],
  [
    "about",
    ({ artifacts }) =>
      artifacts.map((artifact) => <ArtifactLink key={artifact} deployment={deployment} name={artifact} />),
    "wide-cell",
  ],
  ["made", ({ createdAt }) => <Time at={createdAt} />, "nowrap hide-narrow"],
  ["judged", ({ record }) => <Time at={record?.createdAt} />, "nowrap hide-narrow"],
  ["why it failed", (order) => visible(reasonsOf(order)), "wide-cell hide-narrow"],
];

const CLAIMS: Array<Column<Claim>> = [
  ["what", ({ resource_type }) => resource_type.toLowerCase().replace("workorder", "work order"), "nowrap"],
  ["id", ({ resource_id }) => <code>{visible(resource_id)}</code>, "wide-cell"],
  ["by", ({ owner_id }) => visible(owner_id), "wide-cell"],
  ["renewed", ({ heartbeat_at }) => <Time at={heartbeat_at} />, "nowrap hide-narrow"],
  ["ends", ({ lease_expires_at }) => <Time at={lease_expires_at} />, "nowrap"],
  ["version", ({ claim_version }) => claim_version, "num r hide-narrow"],
];

export function ClaimsTab({ path, name }: Part) {
  const query = useQuery<ClaimList>(`claims ${name}`, "runs", (signal) => get(`${path}/claims`, { signal }));
  return (
    <>
      <Listing
        query={query}
        isEmpty={({ claims }) => claims.length === 0}
        empty={
          <Empty title="Nothing is claimed">
            A role claims an event or a work order while it decides about it, for moments. What stays here is
            taken by a role that runs in a process of its own.
          </Empty>
        }
      >
        {({ claims }) => (
          <Table isList items={claims} by={({ resource_id }) => resource_id} columns={CLAIMS} />
        )}
      </Listing>
      <Foot lines={[command("claims", "--deployment", name)]} />
    </>
  );
}

const OPEN: Look = { tone: "wait", glyph: "wait", word: "open" };
const CLOSED: Look = { tone: "ok", glyph: "ok", word: "closed" };

export function PausesTab(part: Part) {
  const { path, name } = part;
  const state = place.value.query.get("state") ?? "";
  const query = useQuery<PauseStateList>(`pauses ${name} ${state}`, "queues", (signal) =>
    get(`${path}/pause-states`, { query: { state, limit: PAGE }, signal }),
  );
  const choices: Array<[string, Look]> = [
    ["open", OPEN],
    ["closed", CLOSED],
  ];
  return (
    <>
      <Chips label="State" name="state" choices={choices} />
      <Listing
        query={query}
        isEmpty={({ pauseStates }) => pauseStates.length === 0}
        empty={
          <Empty title={state ? "No pause state matches" : "Nothing has waited for a person"}>
            A pause state says what a person has to decide or do, and what comes next.
          </Empty>
        }
      >
        {({ pauseStates, cursor }) => (
          <>
            <PauseTable part={part} pauses={pauseStates} again={query.again} />
            {bound(cursor, pauseStates.length)}
          </>
        )}
      </Listing>
      <Foot lines={[command("inbox", "--deployment", name)]} />
    </>
  );
}

/** Columns for which there is no room beside a picture. */
const LEFT_OUT = new Set(["state", "about", "since"]);

/** Pause states, each with what to do next; one that was seen to can be closed. */
export function PauseTable(props: {
  part: Part;
  pauses: PauseState[];
  again: () => Promise<void>;
  isShort?: boolean;
}) {
  const { part, pauses, again, isShort } = props;
  const columns: Array<Column<PauseState>> = [
    ["state", ({ state }) => <Mark look={state === "open" ? OPEN : CLOSED} />, "nowrap hide-narrow"],
    [
      "reason",
      ({ reason, subject }) => (
        <>
          <b class="strong">{visible(reason)}</b>
          {subject && (
            <span class={isShort ? "under" : "show-narrow"}>
              <ArtifactLink deployment={part.name} name={subject} />
            </span>
          )}
        </>
      ),
    ],
    [
      "about",
      ({ subject }) => subject && <ArtifactLink deployment={part.name} name={subject} />,
      "wide-cell hide-narrow",
    ],
    ["what to do", ({ actions }) => visible(actions.join(" ")), "wide-cell hide-narrow"],
    ["since", ({ createdAt }) => <Time at={createdAt} />, "nowrap hide-narrow"],
    ["", (pause) => pause.state === "open" && <Close part={part} pause={pause} again={again} />, "r"],
  ];
  return (
    <Table
      isList
      items={pauses}
      by={({ id }) => id}
      columns={isShort ? columns.filter(([head]) => !LEFT_OUT.has(head)) : columns}
    />
  );
}

function Close({ part, pause, again }: { part: Part; pause: PauseState; again: () => Promise<void> }) {
  return (
    <Act
      label="Close"
      needs="deployments.pause-states.close"
      about={`${pause.reason} ${pause.subject ?? ""}`}
      title="Close this pause state?"
      act="Close it"
      line={command("inbox", "close", part.name, pause.id)}
      run={async () => {
        await post(`${part.path}/pause-states/close`, { id: pause.id });
        await again();
      }}
    >
      <p>
        <b>{visible(pause.reason)}</b>
        {pause.subject && (
          <>
            {" "}
            about <code>{visible(pause.subject)}</code>
          </>
        )}{" "}
        leaves the lists of what waits for a person. It records that a person has seen to it, and moves
        nothing.
      </p>
      <ol class="steps">
        {pause.actions.map((action) => (
          <li key={action}>{visible(action)}</li>
        ))}
      </ol>
    </Act>
  );
}
