/** The statuses of an artifact type with the arrows between them, and how many artifacts are in each. */

import { visible } from "../model/shown.js";
import { clock, roughly } from "../model/time.js";
import type { ArtifactType, Count, Declaration, Mover } from "../model/topology.js";
import { type Arrow, BOX, type Box, layout } from "./layout.js";

/** Tone and words of a mover. The pattern of the line says the same as its colour. */
const MOVERS: Record<Mover, { tone: string; dash?: string; words: string }> = {
  role: { tone: "run", words: "moved by a role" },
  gate: { tone: "retry", dash: "7 3", words: "moved by a gate" },
  person: { tone: "wait", dash: "2 3", words: "moved by a person" },
};

/** Narrower than this a picture is not drawn, but scrolled: its words would be too small. */
const LEAST_PX = 860;

/** How wide a character of a label is, on average. */
const CHARACTER_PX = 6;

const clipped = (text: string, width: number): string => {
  const most = Math.max(3, Math.floor(width / CHARACTER_PX));
  const shown = visible(text);
  return shown.length <= most ? shown : `${shown.slice(0, most - 1)}…`;
};

export function Picture(props: {
  name: string;
  type: ArtifactType;
  roles: Declaration["roles"];
  counts: ReadonlyMap<string, Count>;
  /** Where the artifacts of a status are listed. */
  toStatus: (status: string) => string;
}) {
  const { width, height, boxes, arrows } = layout(props.type, props.roles);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="graph" tabIndex={0} aria-label={`Statuses of ${props.name}`}>
      <svg
        width={width}
        height={height}
        viewBox={`0 0 ${width} ${height}`}
        style={{ minWidth: `${Math.min(width, LEAST_PX)}px` }}
        role="group"
        aria-label={`Statuses of ${props.name} and who moves it between them`}
      >
        {arrows.map((arrow) => (
          <ArrowShape key={`${arrow.from} ${arrow.to}`} arrow={arrow} />
        ))}
        {boxes.map((box) => (
          <BoxShape
            key={box.status}
            box={box}
            count={props.counts.get(box.status)}
            to={props.toStatus(box.status)}
          />
        ))}
      </svg>
    </section>
  );
}

function ArrowShape({ arrow }: { arrow: Arrow }) {
  const { tone, dash } = MOVERS[arrow.kind];
  const { x, y, width } = arrow.labelAt;
  return (
    <g class={`t-${tone}`}>
      <title>{visible(`${arrow.from} → ${arrow.to}: ${arrow.label}`)}</title>
      <path class="arrow" d={arrow.path} stroke-dasharray={dash} />
      <path class="arrow-head" d={headOf(arrow.path)} />
      <text class="arrow-label" x={x} y={y}>
        {clipped(arrow.label, width)}
      </text>
    </g>
  );
}

/** A triangle at the end of a path, which arrives from the left, from above or from below. */
function headOf(path: string): string {
  const level = path.match(/^M\S+ (\S+)H(\S+)$/);
  if (level) {
    const [y, x] = [Number(level[1]), Number(level[2])];
    return `M${x} ${y}l-9 -4.500v9z`;
  }
  const [, x, y0, y] = path.match(/ (\S+) (\S+)V(\S+)$/)!.map(Number);
  return `M${x} ${y}l-4.500 ${Math.sign(y0! - y!) * 9}h9z`;
}

function BoxShape({ box, count, to }: { box: Box; count: Count | undefined; to: string }) {
  const { x, y, status, isFinal, isInitial } = box;
  const note = isFinal
    ? "final"
    : count?.oldestAt !== undefined
      ? `oldest ${roughly(clock.value - count.oldestAt)}`
      : "";
  return (
    <a href={to}>
      <rect
        class={`box ${isFinal ? "final" : ""} ${isInitial ? "initial" : ""} ${count ? "some" : ""}`}
        x={x}
        y={y}
        width={BOX.width}
        height={BOX.height}
        rx="8"
      />
      <text class="box-name" x={x + 12} y={y + 21}>
        {clipped(status, BOX.width - 16)}
      </text>
      <text class="box-count" x={x + 12} y={y + 43}>
        {count?.count ?? 0}
      </text>
      <text class="box-note" x={x + BOX.width - 12} y={y + 43}>
        {note}
      </text>
    </a>
  );
}

/** What the lines mean. */
export function Legend() {
  return (
    <div class="legend movers">
      {Object.entries(MOVERS).map(([kind, { tone, dash, words }]) => (
        <span key={kind}>
          <svg width="30" height="8" class={`t-${tone}`} aria-hidden="true">
            <path class="arrow" d="M0 4H30" stroke-dasharray={dash} />
          </svg>
          {words}
        </span>
      ))}
      <span>
        <svg width="22" height="14" aria-hidden="true">
          <rect class="box final" x="2" y="2" width="18" height="10" rx="3" />
        </svg>
        final status
      </span>
    </div>
  );
}
