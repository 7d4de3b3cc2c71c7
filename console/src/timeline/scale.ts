/**
 * Time to pixels. Long spans in which nothing worked shrink to a fold, so that 7 s of work in 14 min of waiting stay visible.
 *
 * Invariants, tested by properties: `x` never decreases, stays between the edges, and every instant between two folds has the same
 * scale.
 */

export interface Fold {
  from: number;
  to: number;
  x0: number;
  x1: number;
}

export interface Tick {
  at: number;
  x: number;
  step: number;
}

export interface Scale {
  x(t: number): number;
  folds: Fold[];
  ticks: Tick[];
}

export interface ScaleOptions {
  left: number;
  right: number;
  isTrue?: boolean;
}

/** Width of a fold: room for its length in words. */
const FOLD_PX = 92;
/** A gap is folded if it is longer than this share of the whole. */
const FOLD_SHARE = 0.15;
/** Shorter gaps are no wait that hides work: a run of milliseconds is shown as it was. */
const FOLD_LEAST_MS = 1000;
/** Pixels that stay beside each edge of a fold, so that marks and labels there are not on it. */
const MARGIN_PX = 44;
/** Least distance of two ticks. */
const TICK_PX = 84;
const FOLDS_MAX = 4;

/** `busy` are spans with work, `points` instants at which something happened. */
export function scale(
  from: number,
  to: number,
  busy: Array<[number, number]>,
  points: number[],
  { left, right, isTrue = false }: ScaleOptions,
): Scale {
  const whole = Math.max(1, to - from);
  const gaps = isTrue ? [] : idleGaps(from, to, busy, points, whole);
  const folds = placed(gaps, from, to, left, right);
  const x = projection(from, to, folds, left, right);
  const set = folds.map(([a, b]) => ({ from: a, to: b, x0: x(a), x1: x(b) }));
  return { x, folds: set, ticks: ticks(from, to, set, x) };
}

function idleGaps(
  from: number,
  to: number,
  busy: Array<[number, number]>,
  points: number[],
  whole: number,
): Array<[number, number]> {
  const instants = [from, to, ...busy.flat(), ...points]
    .filter((t) => t >= from && t <= to)
    .sort((a, b) => a - b);
  const gaps: Array<[number, number]> = [];
  for (let i = 1; i < instants.length; i++) {
    const [a, b] = [instants[i - 1]!, instants[i]!];
    const isIdle = !busy.some(([f, t]) => f < b && t > a);
    if (isIdle && b - a > Math.max(FOLD_SHARE * whole, FOLD_LEAST_MS)) gaps.push([a, b]);
  }
  return gaps
    .sort(([a, b], [c, d]) => d - c - (b - a))
    .slice(0, FOLDS_MAX)
    .sort(([a], [c]) => a - c);
}

/** Cuts the margins off the gaps. Their width in time depends on the scale, which depends on them: a few rounds settle it. */
function placed(
  gaps: Array<[number, number]>,
  from: number,
  to: number,
  left: number,
  right: number,
): Array<[number, number]> {
  const pixels = right - left - FOLD_PX * gaps.length;
  const margins = 2 * MARGIN_PX * gaps.length;
  const linear = to - from - gaps.reduce((sum, [a, b]) => sum + b - a, 0);
  // The margins get their pixels, the rest is for what happened.
  const perPixel = Math.max(linear, (to - from) * 1e-4) / Math.max(pixels - margins, pixels / 3);
  const margin = MARGIN_PX * perPixel;
  return gaps.map(([a, b]) => {
    const cut = Math.min(margin, (b - a) * 0.2);
    return [a + cut, b - cut];
  });
}

function projection(
  from: number,
  to: number,
  folds: Array<[number, number]>,
  left: number,
  right: number,
): (t: number) => number {
  const linear = to - from - folds.reduce((sum, [a, b]) => sum + b - a, 0);
  const foldPx = Math.min(FOLD_PX, (right - left) / (2 * Math.max(1, folds.length)));
  const perMs = (right - left - foldPx * folds.length) / Math.max(1e-9, linear);
  return (time) => {
    const t = Math.min(Math.max(time, from), to);
    let px = left;
    let at = from;
    for (const [a, b] of folds) {
      if (t <= a) break;
      px += (a - at) * perMs;
      if (t < b) return Math.min(right, px + (foldPx * (t - a)) / (b - a));
      px += foldPx;
      at = b;
    }
    return Math.min(right, px + (t - at) * perMs);
  };
}

const NICE = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const STEPS = [
  ...NICE,
  ...[1, 2, 5, 10, 15, 30].map((s) => s * 1000),
  ...[1, 2, 5, 10, 15, 30].map((m) => m * 60_000),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 240, 720].map((h) => h * 3_600_000),
];

function ticks(from: number, to: number, folds: Fold[], x: (t: number) => number): Tick[] {
  const edges = [from, ...folds.flatMap((fold) => [fold.from, fold.to]), to];
  const found: Tick[] = [];
  for (let i = 0; i < edges.length; i += 2) {
    const [a, b] = [edges[i]!, edges[i + 1]!];
    const width = x(b) - x(a);
    if (b <= a || width < 8) continue;
    const step = STEPS.find((step) => (width * step) / (b - a) >= TICK_PX) ?? STEPS.at(-1)!;
    let first = from + Math.ceil((a - from) / step) * step;
    // A short piece between two folds still says when it was.
    if (first > b) first = (a + b) / 2;
    for (let t = first; t <= b; t += step) found.push({ at: t - from, x: x(t), step });
  }
  const isFree = (tick: Tick, i: number, all: Tick[]) =>
    !folds.some((fold) => tick.x > fold.x0 - 34 && tick.x < fold.x1 + 34) &&
    (i === 0 || tick.x - all[i - 1]!.x >= TICK_PX * 0.7);
  return found.filter(isFree);
}
