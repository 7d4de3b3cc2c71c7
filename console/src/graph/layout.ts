/**
 * Where the statuses of an artifact type and the arrows between them are drawn. Pure.
 *
 * Statuses are in one row, in declared order. An arrow to the next status is a line, one that goes back (or stays) runs above the
 * row, and one that skips statuses runs below. Arrows of one side that overlap have different levels, so that no two of them lie on
 * each other; on each box their ends are ordered so that nested arrows do not cross.
 */

import { type ArtifactType, type Declaration, type Mover, moverOf } from "../model/topology.js";

export const BOX = { width: 136, height: 54 };
const GAP = 96;
const LEVEL = 30;
/** Room above and below the outermost arrow, for its label. */
const EDGE = 18;
const CORNER = 8;

export interface Box {
  status: string;
  x: number;
  y: number;
  isInitial: boolean;
  isFinal: boolean;
}

export interface Arrow {
  from: string;
  to: string;
  kind: Mover;
  label: string;
  path: string;
  /** The middle of the label's base line, and how much room it has. */
  labelAt: { x: number; y: number; width: number };
}

export interface Picture {
  width: number;
  height: number;
  boxes: Box[];
  arrows: Arrow[];
}

type Side = "above" | "below";

/** An arrow before it has a place: `from` and `to` are the places of its statuses in the row. */
interface Edge {
  from: number;
  to: number;
  kind: Mover;
  label: string;
  side: Side | undefined;
  level: number;
}

export function layout(type: ArtifactType, roles: Declaration["roles"]): Picture {
  const edges = edgesOf(type, roles);
  const above = assignLevels(edges.filter(({ side }) => side === "above"));
  const below = assignLevels(edges.filter(({ side }) => side === "below"));
  const top = above === 0 ? EDGE : above * LEVEL + EDGE;
  const boxes = type.statuses.map((status, i) => ({
    status,
    x: 1 + i * (BOX.width + GAP),
    y: top,
    isInitial: status === type.initial,
    isFinal: type.final?.includes(status) ?? false,
  }));
  const ports = portsOf(edges);
  return {
    width: boxes.length * (BOX.width + GAP) - GAP + 2,
    height: top + BOX.height + (below === 0 ? 4 : below * LEVEL),
    boxes,
    arrows: edges.map((edge) => arrowOf(edge, boxes, ports)),
  };
}

/** One edge for each pair of statuses; several movers of one pair share it. */
function edgesOf({ statuses, transitions = [] }: ArtifactType, roles: Declaration["roles"]): Edge[] {
  const edges = new Map<string, Edge>();
  for (const transition of transitions) {
    const [from, to] = [statuses.indexOf(transition.from), statuses.indexOf(transition.to)];
    if (from < 0 || to < 0) continue;
    const { kind, name } = moverOf(transition, roles);
    const known = edges.get(`${from} ${to}`);
    if (known) {
      known.label += `, ${name}`;
      continue;
    }
    const side = to <= from ? "above" : to === from + 1 ? undefined : "below";
    edges.set(`${from} ${to}`, { from, to, kind, label: name, side, level: 0 });
  }
  return [...edges.values()];
}

const spanOf = ({ from, to }: Edge): [number, number] => [Math.min(from, to), Math.max(from, to)];
const lengthOf = ({ from, to }: Edge): number => Math.abs(to - from);

/** Gives short arrows the levels next to the row. Returns how many levels there are. */
function assignLevels(edges: Edge[]): number {
  const taken: Array<Array<[number, number]>> = [];
  for (const edge of edges.sort((a, b) => lengthOf(a) - lengthOf(b))) {
    const [first, last] = spanOf(edge);
    // Ends at the same box are apart by their ports, but their labels would touch: they count as overlapping.
    const isFree = (level: number) => (taken[level] ?? []).every(([a, b]) => last < a || b < first);
    while (!isFree(edge.level)) edge.level += 1;
    taken[edge.level] = [...(taken[edge.level] ?? []), [first, last]];
  }
  return taken.length;
}

type Ports = Map<Edge, { from: number; to: number }>;

/** Where each end meets its box, as a share of the box's width. */
function portsOf(edges: Edge[]): Ports {
  const ports: Ports = new Map(edges.map((edge) => [edge, { from: 0.5, to: 0.5 }]));
  const ends = edges.flatMap((edge) =>
    edge.side === undefined ? [] : (["from", "to"] as const).map((end) => ({ edge, end, box: edge[end] })),
  );
  for (const group of groupBy(ends, ({ edge, box }) => `${edge.side} ${box}`).values()) {
    // What leads to the left meets the box on its left; of two that lead there, the longer one is outside of the other.
    const rank = ({ edge, end, box }: (typeof ends)[number]) => {
      const other = end === "from" ? edge.to : edge.from;
      if (other === box) return end === "from" ? 0.2 : -0.2;
      return other < box ? -1000 + lengthOf(edge) : 1000 - lengthOf(edge);
    };
    group.sort((a, b) => rank(a) - rank(b));
    group.forEach(({ edge, end }, i) => {
      ports.get(edge)![end] = (i + 1) / (group.length + 1);
    });
  }
  return ports;
}

function groupBy<T>(items: T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

function arrowOf(edge: Edge, boxes: Box[], ports: Ports): Arrow {
  const [a, b] = [boxes[edge.from]!, boxes[edge.to]!];
  const shared = { from: a.status, to: b.status, kind: edge.kind, label: edge.label };
  if (edge.side === undefined) {
    const y = a.y + BOX.height / 2;
    const [x1, x2] = [a.x + BOX.width, b.x];
    return {
      ...shared,
      path: `M${x1} ${y}H${x2 - 1}`,
      labelAt: { x: (x1 + x2) / 2 - 2, y: y - 6, width: GAP - 14 },
    };
  }
  const port = ports.get(edge)!;
  const [x1, x2] = [a.x + BOX.width * port.from, b.x + BOX.width * port.to];
  const isAbove = edge.side === "above";
  const start = isAbove ? a.y : a.y + BOX.height;
  const out = isAbove ? -1 : 1;
  const y = start + out * (edge.level + 0.7) * LEVEL;
  return {
    ...shared,
    path: bracket(x1, x2, start, y),
    labelAt: { x: (x1 + x2) / 2, y: y - 5, width: Math.max(BOX.width, Math.abs(x2 - x1)) - 16 },
  };
}

/** Out of the row, along it, and back, with round corners. */
function bracket(x1: number, x2: number, start: number, y: number): string {
  const [way, out] = [Math.sign(x2 - x1) || 1, Math.sign(y - start)];
  const r = Math.min(CORNER, Math.abs(x2 - x1) / 2);
  return (
    `M${x1} ${start}V${y - out * r}Q${x1} ${y} ${x1 + way * r} ${y}` +
    `H${x2 - way * r}Q${x2} ${y} ${x2} ${y - out * r}V${start + out}`
  );
}
