/** Plots as plain SVG: stacked areas and lines over time. The numbers are also in words, for those who do not see them. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { axis } from "../model/sample.js";
import type { Tone } from "../model/state.js";
import { clockTime, timeStyle } from "../model/time.js";

export interface Series {
  name: string;
  tone: Tone;
  values: number[];
  isDashed?: boolean;
}

interface Props {
  series: Series[];
  from: number;
  to: number;
  isStacked?: boolean;
  label: string;
  format?: (value: number) => string;
}

const HEIGHT = 168;
const LEFT = 52;

export function Chart({ series, from, to, isStacked = false, label, format = String }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(520);
  useEffect(() => {
    const measure = () => {
      width.value = Math.max(280, box.current?.clientWidth ?? 520);
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const count = series[0]?.values.length ?? 0;
  const totals = Array.from({ length: count }, (_, i) =>
    isStacked
      ? series.reduce((sum, s) => sum + s.values[i]!, 0)
      : Math.max(0, ...series.map((s) => s.values[i]!).filter(isKnown)),
  );
  const ticks = axis(Math.max(0, ...totals));
  const max = ticks.at(-1)!;
  const x = (i: number) => LEFT + (i * (width.value - LEFT - 6)) / Math.max(1, count - 1);
  const y = (value: number) => HEIGHT - 22 - (value * (HEIGHT - 34)) / max;
  const base = new Array<number>(count).fill(0);
  return (
    <div ref={box} class="chart">
      <svg width={width.value} height={HEIGHT} role="img" aria-label={label}>
        {ticks.map((tick) => (
          <g key={tick}>
            <path class="tick-rule" d={`M${LEFT} ${y(tick)}H${width.value - 6}`} />
            <text class="tick" x={LEFT - 8} y={y(tick) + 4} text-anchor="end">
              {format(tick)}
            </text>
          </g>
        ))}
        {series.map((one) => {
          const upper = one.values.map((value, i) => (isStacked ? base[i]! : 0) + value);
          const line = path(upper, x, y);
          const back = base
            .map((value, i) => `L${x(count - 1 - i)} ${y(base[count - 1 - i] ?? value)}`)
            .join("");
          const area = isStacked ? <path class={`t-${one.tone} area`} d={`${line}${back}Z`} /> : null;
          if (isStacked)
            upper.forEach((value, i) => {
              base[i] = value;
            });
          return (
            <g key={one.name}>
              {area}
              {!isStacked && <path class={`t-${one.tone} curve ${one.isDashed ? "dashed" : ""}`} d={line} />}
              {!isStacked &&
                lonely(one.values).map((i) => (
                  <circle key={i} class={`t-${one.tone} dot`} cx={x(i)} cy={y(one.values[i]!)} r="2" />
                ))}
            </g>
          );
        })}
        {[0, 1 / 3, 2 / 3, 1].map((share) => (
          <text
            key={share}
            class="tick"
            x={LEFT + share * (width.value - LEFT - 6)}
            y={HEIGHT - 4}
            text-anchor={share === 0 ? "start" : share === 1 ? "end" : "middle"}
          >
            {share === 1
              ? "now"
              : clockTime(
                  from + share * (to - from),
                  from + share * (to - from),
                  timeStyle.value === "utc",
                ).slice(0, 5)}
          </text>
        ))}
      </svg>
    </div>
  );
}

const isKnown = (value: number | undefined): boolean => value !== undefined && !Number.isNaN(value);

/** A line through the values that there are; it ends where one is missing. */
function path(values: number[], x: (i: number) => number, y: (value: number) => number): string {
  const to = (value: number, i: number) =>
    `${isKnown(values[i - 1]) ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
  return values.map((value, i) => (isKnown(value) ? to(value, i) : "")).join("");
}

/** Values without a neighbour: a line would not show them. */
function lonely(values: number[]): number[] {
  return values.flatMap((value, i) =>
    isKnown(value) && !isKnown(values[i - 1]) && !isKnown(values[i + 1]) ? [i] : [],
  );
}

export function Spark({ values, tone }: { values: number[]; tone: Tone }) {
  const [width, height] = [84, 26];
  const max = Math.max(...values, 1);
  const line = path(
    values,
    (i) => (i * width) / Math.max(1, values.length - 1),
    (value) => height - 2 - (value * (height - 5)) / max,
  );
  return (
    <svg class={`spark t-${tone}`} width={width} height={height} aria-hidden="true">
      <path class="soft-area" d={`${line}L${width} ${height}L0 ${height}Z`} />
      <path class="curve" d={line} />
    </svg>
  );
}

export function ChartLegend({ series }: { series: Array<Pick<Series, "name" | "tone" | "isDashed">> }) {
  return (
    <span class="legend">
      {series.map((one) => (
        <span key={one.name}>
          <svg width="14" height="10" aria-hidden="true">
            <path class={`t-${one.tone} curve thick ${one.isDashed ? "dashed" : ""}`} d="M0 5H14" />
          </svg>
          {one.name}
        </span>
      ))}
    </span>
  );
}
