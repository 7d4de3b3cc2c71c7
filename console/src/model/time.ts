/** Instants and durations in words. The clock is the server's: answers carry its time, and the browser's is corrected by it. */

import { effect, signal } from "@preact/signals";

export type TimeStyle = "relative" | "local" | "utc";

/** The next style of the switch in the header. */
export const NEXT_STYLE: Record<TimeStyle, TimeStyle> = { relative: "local", local: "utc", utc: "relative" };

const STORED = "tenure.time";
export const timeStyle = signal<TimeStyle>("relative");

/** Reads the style from the browser's storage, and keeps it there. */
export function rememberTimeStyle(storage: Storage): void {
  const stored = storage.getItem(STORED);
  if (stored === "relative" || stored === "local" || stored === "utc") timeStyle.value = stored;
  effect(() => storage.setItem(STORED, timeStyle.value));
}

let offset = 0;
/** The server's time, once a second: what counts down depends on it. */
export const clock = signal(Date.now());

/** Corrects the clock by the `serverTime` of an answer that was asked for at `sent`. */
export function heard(serverTime: string, sent: number): void {
  const received = Date.now();
  // The answer was made between the two; beyond a second the answer says nothing about the clock.
  if (received - sent < 1000) offset = Date.parse(serverTime) - (sent + received) / 2;
}

/** By how much the server's clock is ahead of the browser's, in milliseconds. */
export const clockOffset = (): number => offset;

export const now = (): number => Date.now() + offset;

export function startClock(): void {
  setInterval(() => {
    clock.value = now();
  }, 1000);
}

export const ms = (time: string | null | undefined): number | undefined =>
  time === null || time === undefined ? undefined : Date.parse(time);

const two = (n: number) => String(n).padStart(2, "0");

/** A duration in at most two units: `31 ms`, `4.1 s`, `14 min 20 s`, `2 h 05 min`, `3 d 4 h`. */
export function span(duration: number): string {
  const t = Math.max(0, duration);
  if (t < 1000) return `${Math.round(t)} ms`;
  if (t < 59_950) return `${(t / 1000).toFixed(1)} s`;
  const s = Math.round(t / 1000);
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** A duration in one unit, for columns and countdowns: `31 ms`, `4 s`, `14 min`, `2 h`, `3 d`. */
export function roughly(duration: number): string {
  const t = Math.max(0, duration);
  if (t < 1000) return `${Math.round(t)} ms`;
  if (t < 60_000) return `${Math.floor(t / 1000)} s`;
  if (t < 3_600_000) return `${Math.floor(t / 60_000)} min`;
  if (t < 172_800_000) return `${Math.floor(t / 3_600_000)} h`;
  return `${Math.floor(t / 86_400_000)} d`;
}

/** How long ago, or in how long. */
export function relative(at: number, from: number): string {
  const t = from - at;
  if (Math.abs(t) < 1000) return "now";
  return t > 0 ? `${roughly(t)} ago` : `in ${roughly(-t)}`;
}

/** The time of day; with the date if it is another day. */
export function clockTime(at: number, from: number, utc: boolean, withMs = false): string {
  const date = new Date(at);
  const part = (name: "FullYear" | "Month" | "Date" | "Hours" | "Minutes" | "Seconds", of = date) =>
    utc ? of[`getUTC${name}`]() : of[`get${name}`]();
  const day = (of: Date) => `${part("FullYear", of)}-${two(part("Month", of) + 1)}-${two(part("Date", of))}`;
  const fraction = withMs ? `.${String(date.getTime() % 1000).padStart(3, "0")}` : "";
  const time = `${two(part("Hours"))}:${two(part("Minutes"))}:${two(part("Seconds"))}${fraction}`;
  return day(date) === day(new Date(from)) ? time : `${day(date)} ${time}`;
}

/** An instant as the header's switch asks for it. */
export function spell(at: number, from: number, style: TimeStyle): string {
  return style === "relative" ? relative(at, from) : clockTime(at, from, style === "utc");
}

/** An instant on the axis of a timeline, counted from the beginning of the run. */
export function axisTime(t: number, step: number): string {
  if (t < 1000 && step < 1000) return `+${trim(t, step)} ms`;
  if (t < 60_000) return `+${trim(t / 1000, step / 1000)} s`;
  const s = Math.floor(t / 1000);
  const rest =
    step < 1000
      ? `.${String(Math.floor(t % 1000))
          .padStart(3, "0")
          .slice(0, step < 100 ? 2 : 1)}`
      : "";
  if (s < 3600) return `+${Math.floor(s / 60)}:${two(s % 60)}${rest}`;
  const hours = Math.floor(s / 3600);
  if (hours < 48) return `+${hours}:${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`;
  return `+${Math.floor(s / 86_400)} d ${two(hours % 24)}:${two(Math.floor((s % 3600) / 60))}`;
}

function trim(value: number, step: number): string {
  const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : 2;
  return value.toFixed(digits);
}
