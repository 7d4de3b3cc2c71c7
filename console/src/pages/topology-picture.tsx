/** The picture of a deployment: statuses with live counts, who works on what, and what waits for a person. */

import { get } from "../api/call.js";
import type { ArtifactList, PauseStateList, WorkOrder, WorkOrderList } from "../api/types.js";
import { readPages } from "../data/pages.js";
import { useQuery } from "../data/query.js";
import { Legend, Picture } from "../graph/picture.js";
import { visible } from "../model/shown.js";
import { clock, roughly } from "../model/time.js";
import {
  type ArtifactType,
  type Count,
  countByStatus,
  type Declaration,
  moverOf,
} from "../model/topology.js";
import { Card, Time } from "../parts/bits.js";
import { Read } from "../parts/read.js";
import { type Column, Table } from "../parts/table.js";
import { ArtifactLink, PauseTable } from "./topology-tabs.js";

/** What every part of the page of a deployment is given. */
export interface Part {
  /** The path of its calls. */
  path: string;
  name: string;
  declaration: Declaration;
}

const PAGE = 500;
/** Artifacts of a type that are counted. The server has no counts, so beyond these the picture says "at least". */
const COUNTED_MAX = 1000;
/** Pause states that are shown beside the picture. */
const PAUSES = 5;

interface Counted {
  counts: Map<string, Count>;
  total: number;
  isCut: boolean;
}

async function countAll(path: string, type: string, signal: AbortSignal): Promise<Counted> {
  const { items, isCut } = await readPages(COUNTED_MAX, async (cursor) => {
    const query = { limit: PAGE, cursor };
    const page = await get<ArtifactList>(`${path}/artifacts/${type}`, { query, signal });
    return [page.artifacts, page.cursor];
  });
  return { counts: countByStatus(items), total: items.length, isCut };
}

interface State {
  counted: Map<string, Counted>;
  active: WorkOrderList;
  open: PauseStateList;
}

async function read({ path, declaration }: Part, signal: AbortSignal): Promise<State> {
  const types = Object.keys(declaration.artifacts);
  const [active, open, ...counted] = await Promise.all([
    get<WorkOrderList>(`${path}/workorders`, { query: { state: "active", limit: 50 }, signal }),
    get<PauseStateList>(`${path}/pause-states`, { query: { state: "open", limit: 50 }, signal }),
    ...types.map((type) => countAll(path, type, signal)),
  ]);
  return { active, open, counted: new Map(types.map((type, i) => [type, counted[i]!])) };
}

export function PictureTab(part: Part) {
  const query = useQuery<State>(`picture ${part.name}`, "queues", (signal) => read(part, signal));
  const { declaration, name } = part;
  return (
    <Read query={query}>
      {({ counted, active, open }) => (
        <>
          {Object.entries(declaration.artifacts).map(([type, declared]) => (
            <TypeCard
              key={type}
              part={part}
              name={type}
              type={declared}
              counted={counted.get(type) ?? { counts: new Map(), total: 0, isCut: false }}
            />
          ))}
          <Legend />
          <div class="two">
            <Card title="At work" note={atWork(active, declaration)}>
              {active.workOrders.length === 0 ? (
                <p class="pad-x">No work order is active.</p>
              ) : (
                <Table isList items={active.workOrders} by={({ id }) => id} columns={atWorkColumns(name)} />
              )}
            </Card>
            <Card title="Waits for a person" note={open.pauseStates.length > 0 ? count(open) : ""}>
              {open.pauseStates.length === 0 ? (
                <p class="pad-x">Nothing waits for a person.</p>
              ) : (
                <PauseTable
                  part={part}
                  pauses={open.pauseStates.slice(0, PAUSES)}
                  again={query.again}
                  isShort
                />
              )}
            </Card>
          </div>
        </>
      )}
    </Read>
  );
}

const count = ({ pauseStates, cursor }: PauseStateList): string =>
  `${pauseStates.length}${cursor ? " or more" : ""}`;

function atWork({ workOrders, cursor }: WorkOrderList, { limits }: Declaration): string {
  const most = limits?.executors;
  return `${workOrders.length}${cursor ? " or more" : ""}${most === undefined ? "" : ` of ${most} executors`}`;
}

const atWorkColumns = (deployment: string): Array<Column<WorkOrder>> => [
  ["work order", ({ template, runId }) => <a href={`runs/${runId}`}>{visible(template)}</a>, "strong"],
  [
    "about",
    ({ artifacts }) =>
      artifacts.map((artifact) => <ArtifactLink key={artifact} deployment={deployment} name={artifact} />),
    "wide-cell",
  ],
  ["since", ({ createdAt }) => <Time at={createdAt} />, "nowrap r"],
];

function TypeCard(props: { part: Part; name: string; type: ArtifactType; counted: Counted }) {
  const { part, name, type, counted } = props;
  const total = `${counted.isCut ? "at least " : ""}${counted.total} ${counted.total === 1 ? "artifact" : "artifacts"}`;
  const toStatus = (status: string) =>
    `topologies/${part.name}?tab=artifacts&type=${encodeURIComponent(name)}&status=${encodeURIComponent(status)}`;
  const { roles } = part.declaration;
  return (
    <Card title={visible(name)} note={`${total}${type.about ? `: ${visible(type.about)}` : ""}`}>
      <Picture name={name} type={type} roles={roles} counts={counted.counts} toStatus={toStatus} />
      <div class="graph-table">
        <Table
          isList
          items={type.statuses}
          by={(status) => status}
          columns={statusColumns(type, roles, counted.counts, toStatus)}
        />
      </div>
    </Card>
  );
}

/** The picture as a table, for screens that are too narrow for it. */
const statusColumns = (
  type: ArtifactType,
  roles: Declaration["roles"],
  counts: ReadonlyMap<string, Count>,
  toStatus: (status: string) => string,
): Array<Column<string>> => [
  ["status", (status) => <a href={toStatus(status)}>{visible(status)}</a>, "strong"],
  [
    "now",
    (status) => {
      const { count = 0, oldestAt } = counts.get(status) ?? {};
      const isResting = oldestAt !== undefined && !type.final?.includes(status);
      return (
        <>
          {count}
          {isResting && <span class="under muted">{roughly(clock.value - oldestAt)}</span>}
        </>
      );
    },
    "num r nowrap",
  ],
  ["goes on to", (status) => visible(waysOf(type, roles, status)), "wide-cell"],
];

/** `being-planned (planning), withdrawn (a person)`; a status that nothing leaves is final. */
export function waysOf(type: ArtifactType, roles: Declaration["roles"], status: string): string {
  const ways = (type.transitions ?? []).filter(({ from }) => from === status);
  if (ways.length === 0) return "final";
  return ways.map((way) => `${way.to} (${moverOf(way, roles).name})`).join(", ");
}
