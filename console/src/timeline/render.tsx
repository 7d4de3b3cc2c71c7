/** Draws a layout as SVG. Marks can be reached and chosen by keyboard; the list of decisions beside it says the same in words. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { visible } from "../model/shown.js";
import { axisTime, span } from "../model/time.js";
import { Glyph, GlyphAt } from "../parts/glyph.js";
import type { Events } from "./events.js";
import {
  type Bar,
  type Drawing,
  GUTTER,
  type Label,
  type Lane,
  type Link,
  layout,
  type Mark,
} from "./layout.js";

const AXIS = 30;
const LANE = 46;
/** A narrower drawing scrolls: attempts and folds need this much to be told apart. */
const WIDTH_MIN = 760;
const laneY = (i: number) => AXIS + i * LANE + 22;

interface Props {
  events: Events;
  isTrue: boolean;
  selected: string | undefined;
  choose: (id: string) => void;
  approvalTitle?: (number: number) => string | undefined;
  nameOf?: (keyId: string) => string;
}

export function Timeline({ events, isTrue, selected, choose, approvalTitle, nameOf }: Props) {
  const box = useRef<HTMLElement>(null);
  const width = useSignal(1100);
  useEffect(() => {
    const measure = () => {
      width.value = Math.max(WIDTH_MIN, box.current?.clientWidth ?? 1100);
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const drawing = layout(events, { width: width.value, isTrue, approvalTitle, nameOf });
  const height = AXIS + drawing.lanes.length * LANE + 6;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="timeline" ref={box} tabIndex={0} aria-label="Timeline">
      <svg
        width={drawing.width}
        height={height}
        viewBox={`0 0 ${drawing.width} ${height}`}
        role="group"
        aria-label={summary(events)}
      >
        <Patterns />
        <Grid drawing={drawing} height={height} />
        {drawing.links.map((link, i) => (link.style === "cause" ? <LinkView key={i} link={link} /> : null))}
        {drawing.lanes.map((lane, i) => (
          <LaneView key={lane.id} lane={lane} y={laneY(i)} selected={selected} choose={choose} />
        ))}
        {drawing.links.map((link, i) => (link.style === "cause" ? null : <LinkView key={i} link={link} />))}
      </svg>
      {drawing.hidden > 0 && (
        <p class="muted">{drawing.hidden} more lanes are not drawn; the history has all of them.</p>
      )}
    </section>
  );
}

function summary(events: Events): string {
  const lost = events.attempts.filter((attempt) => attempt.outcome === "LOST").length;
  const parts = [
    `${events.attempts.length} attempts`,
    `${lost} lost`,
    `${events.refused.length} refused reports`,
    `${events.waits.length} waits`,
  ];
  return `Timeline: ${parts.join(", ")}`;
}

function Patterns() {
  return (
    <defs>
      <pattern id="silence" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect width="7" height="7" class="hatch-ground" />
        <rect width="2" height="7" class="hatch-line" />
      </pattern>
    </defs>
  );
}

function zigzag(x: number, top: number, bottom: number): string {
  let path = `M${x} ${top}`;
  for (let y = top, side = 1; y < bottom; y += 6, side = -side)
    path += `l${side * 3} ${Math.min(6, bottom - y)}`;
  return path;
}

function Grid({ drawing, height }: { drawing: Drawing; height: number }) {
  const { folds, ticks, width, lanes } = drawing;
  return (
    <g aria-hidden="true">
      {folds.map((fold) => (
        <g key={fold.from}>
          <rect class="fold" x={fold.x0} y={AXIS} width={fold.x1 - fold.x0} height={height - AXIS - 4} />
          <path class="fold-edge" d={zigzag(fold.x0, AXIS, height - 4)} />
          <path class="fold-edge" d={zigzag(fold.x1, AXIS, height - 4)} />
          <text class="tick strong" x={(fold.x0 + fold.x1) / 2} y="19" text-anchor="middle">
            {span(fold.to - fold.from)}
          </text>
        </g>
      ))}
      {ticks.map((tick) => (
        <g key={tick.at}>
          <path class="tick-line" d={`M${tick.x} ${AXIS}V${height - 4}`} />
          <text class="tick m" x={tick.x} y="19" text-anchor="middle">
            {axisTime(tick.at, tick.step)}
          </text>
        </g>
      ))}
      {Array.from({ length: lanes.length + 1 }, (_, i) => (
        <path key={i} class="lane-line" d={`M0 ${AXIS + i * LANE + 0.5}H${width}`} />
      ))}
    </g>
  );
}

interface LaneProps {
  lane: Lane;
  y: number;
  selected: string | undefined;
  choose: (id: string) => void;
}

function LaneView({ lane, y, selected, choose }: LaneProps) {
  const title = (
    <text class="lane-title" x="0" y={y - 1}>
      {cut(visible(lane.title), 19)}
    </text>
  );
  return (
    <g>
      {lane.href ? <a href={lane.href}>{title}</a> : title}
      <text class={`lane-note t-${lane.look.tone}`} x="0" y={y + 14}>
        {cut(visible(lane.note), 23)}
      </text>
      <g class={`t-${lane.look.tone} ink`}>
        <GlyphAt name={lane.look.glyph} x={GUTTER - 27} y={y + 1} size={14} />
      </g>
      {lane.bars.map((bar, i) => (
        <BarView key={i} bar={bar} y={y} />
      ))}
      {lane.marks.map((mark, i) => (
        <MarkView
          key={i}
          mark={mark}
          y={y}
          isSelected={mark.id !== undefined && mark.id === selected}
          choose={choose}
        />
      ))}
      {lane.labels.map((label) => (
        <LabelView key={`${label.row}${label.x}${label.text}`} label={label} y={y} />
      ))}
    </g>
  );
}

const cut = (text: string, max: number) => (text.length > max ? `${text.slice(0, max - 1)}…` : text);

function BarView({ bar, y }: { bar: Bar; y: number }) {
  const width = Math.max(0, bar.x1 - bar.x0);
  const line = `M${bar.x0} ${y}H${bar.x1}`;
  switch (bar.style) {
    case "granted":
      return <path class="granted" d={line} />;
    case "backoff":
      return <path class="cause" d={line} />;
    case "late":
      return <path class="late" d={line} />;
    case "lease":
      return <rect class="lease" x={bar.x0} y={y + 12} width={width} height="4" rx="2" />;
    case "silence":
      return <rect class="silence" x={bar.x0} y={y - 8} width={width} height="16" />;
    case "wait":
      return (
        <g>
          <rect
            class={`wait-bar ${bar.isOpen ? "open" : ""}`}
            x={bar.x0}
            y={y - 8}
            width={width}
            height="16"
            rx="8"
          />
          {bar.text && (
            <text class="wait-text" x={bar.x0 + 12} y={y + 4}>
              {visible(bar.text)}
            </text>
          )}
        </g>
      );
    default:
      return (
        <rect
          class={`work ${bar.isOpen ? "open" : ""}`}
          x={bar.x0}
          y={y - 8}
          width={width}
          height="16"
          rx="3"
        />
      );
  }
}

function MarkView({
  mark,
  y,
  isSelected,
  choose,
}: {
  mark: Mark;
  y: number;
  isSelected: boolean;
  choose: (id: string) => void;
}) {
  const { id } = mark;
  const shape = <MarkShape mark={mark} y={y} />;
  if (id === undefined)
    return (
      <g class={`t-${mark.tone} ink`}>
        <title>{mark.title}</title>
        {shape}
      </g>
    );
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(id);
  };
  return (
    <g
      class={`choice t-${mark.tone} ink`}
      role="button"
      tabIndex={0}
      aria-pressed={isSelected}
      aria-label={mark.title}
      onClick={() => choose(id)}
      onKeyDown={onKey}
    >
      <title>{mark.title}</title>
      <rect class={isSelected ? "chosen" : "hit"} x={mark.x - 15} y={y - 15} width="30" height="30" rx="7" />
      {shape}
    </g>
  );
}

function MarkShape({ mark, y }: { mark: Mark; y: number }) {
  const { x, glyph } = mark;
  switch (glyph) {
    case "grant":
      return <circle cx={x} cy={y} r="2.500" fill="currentColor" />;
    case "beat":
      return <path class="beat" d={`M${x} ${y + 9}v10`} />;
    case "expiry":
      return <path class="expiry" d={`M${x} ${y - 17}v34`} />;
    case "stop":
      return <path class="stop" d={`M${x} ${y - 11}v22`} />;
    case "step":
      return <path class="step" d={`M${x} ${y - 6}l6 6-6 6-6-6z`} />;
    case "refused":
      return (
        <g>
          <path class="refused" d={`M${x} ${y - 10}l10 10-10 10-10-10z`} />
          <path class="cross" d={`M${x - 3.5} ${y - 3.5}l7 7M${x + 3.5} ${y - 3.5}l-7 7`} />
        </g>
      );
    default:
      return (
        <g>
          <circle class="halo" cx={x} cy={y} r="9.500" />
          <GlyphAt name={glyph} x={x} y={y} size={16} />
        </g>
      );
  }
}

function LabelView({ label, y }: { label: Label; y: number }) {
  const dy = { above: -12, level: -3, below: 12 }[label.row];
  const tone = label.tone ? `t-${label.tone}` : "";
  return (
    <text
      class={`label ${tone} ${label.isStrong ? "strong" : ""}`}
      x={label.x}
      y={y + dy}
      text-anchor={label.anchor}
    >
      {visible(label.text)}
    </text>
  );
}

function LinkView({ link }: { link: Link }) {
  const [y0, y1] = [laneY(link.fromLane), laneY(link.toLane)];
  const { fromX, toX } = link;
  if (link.style === "cause") return <path class="cause" d={`M${fromX} ${y0 + 8}V${y1}H${toX}`} />;
  if (link.style === "resume") {
    // Along its own lane, which is empty there, and up in the space left of the grant: names above the lane stay readable.
    const turn = toX - 13;
    if (turn - fromX > 24) {
      return (
        <path class="resume" d={`M${fromX + 11} ${y0}H${turn - 8}q8 0 8 -8V${y1 + 8}q0 -8 8 -8H${toX - 4}`} />
      );
    }
    return (
      <path
        class="resume"
        d={`M${fromX} ${y0 - 12}C${fromX} ${y1 + 18} ${toX - 12} ${y1} ${toX - 4} ${y1}`}
      />
    );
  }
  // From the expiry down and into the next grant, in the space left of it.
  const bend = Math.min(fromX, toX) - 13;
  return (
    <g>
      <path
        class="takeover"
        d={`M${fromX} ${y0 + 17}C${fromX} ${y1 - 24} ${bend} ${y1 - 30} ${bend} ${y1 - 12}S${bend + 5} ${y1} ${toX - 5} ${y1}`}
      />
      <path class="takeover-head" d={`M${toX - 6} ${y1 - 4.5}l6 4.500-6 4.500z`} />
    </g>
  );
}

export function Legend() {
  return (
    <span class="legend">
      <span>
        <svg width="22" height="12" aria-hidden="true">
          <rect class="work" y="1" width="22" height="7" rx="2" />
          <rect class="lease" y="10" width="22" height="2" rx="1" />
        </svg>
        work, lease
      </span>
      <span class="t-retry ink">
        <Glyph name="take" />
        takeover
      </span>
      <span class="t-refused ink">
        <Glyph name="refused" />
        refused
      </span>
      <span class="t-run ink">
        <Glyph name="step" />
        checkpoint
      </span>
      <span>
        <svg width="20" height="12" aria-hidden="true">
          <rect class="fold" width="20" height="12" />
        </svg>
        idle time folded
      </span>
    </span>
  );
}
