/**
 * Spans of time, always with their unit: `{ minutes: 5 }`. A bare number is refused by the types, because no
 * reader can tell seconds from milliseconds.
 */
export interface Span {
  milliseconds?: number;
  seconds?: number;
  minutes?: number;
  hours?: number;
  days?: number;
}

const UNITS: Record<keyof Span, number> = {
  milliseconds: 1,
  seconds: 1000,
  minutes: 60_000,
  hours: 3_600_000,
  days: 86_400_000,
};

/** Whether this is a span with at least one unit. */
export function isSpan(value: unknown): value is Span {
  if (typeof value !== "object" || value === null) return false;
  const units = Object.entries(value);
  return units.length > 0 && units.every(([unit, count]) => unit in UNITS && isCount(count));
}

function isCount(count: unknown): boolean {
  return typeof count === "number" && count >= 0 && count < Number.POSITIVE_INFINITY;
}

/** Whole milliseconds. A span that is not a span is a defect of the program, so it throws at once. */
export function milliseconds(span: Span): number {
  if (typeof span !== "object" || span === null || Array.isArray(span))
    throw new TypeError(`a span has a unit, such as { seconds: 30 }, and is not \`${String(span)}\``);
  let sum = 0;
  for (const [unit, count] of Object.entries(span)) {
    const ms = UNITS[unit as keyof Span];
    if (ms === undefined)
      throw new TypeError(`\`${unit}\` is no unit of time; use ${Object.keys(UNITS).join(", ")}`);
    if (!isCount(count)) {
      throw new TypeError(
        `a span has units with finite numbers from 0 on, not \`${unit}: ${String(count)}\``,
      );
    }
    sum += count * ms;
  }
  return Math.round(sum);
}

export function optionalMilliseconds(span: Span | undefined): number | undefined {
  return span === undefined ? undefined : milliseconds(span);
}
