/** Small parts that every page uses: instants, copying, commands, and the states of a page that has nothing to show. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Problem } from "../api/call.js";
import { clock, clockTime, ms, relative, spell, timeStyle } from "../model/time.js";

/** An instant in the style that the reader chose; the tip has the other ones. */
export function Time({ at }: { at: string | number | null | undefined }) {
  const t = typeof at === "number" ? at : ms(at);
  if (t === undefined || Number.isNaN(t)) return <span class="muted">–</span>;
  const tip = `${relative(t, clock.value)}\nlocal ${clockTime(t, 0, false, true)}\nUTC ${clockTime(t, 0, true, true)}`;
  return (
    <time class="num" dateTime={new Date(t).toISOString()} title={tip}>
      {spell(t, clock.value, timeStyle.value)}
    </time>
  );
}

export function Copy({ text, label = "copy" }: { text: string; label?: string }) {
  const isDone = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copyBySelection(text);
    }
    isDone.value = true;
    setTimeout(() => {
      isDone.value = false;
    }, 1500);
  };
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`${label}: ${text.slice(0, 80)}`}>
      {isDone.value ? "copied" : label}
    </button>
  );
}

/** Over plain HTTP from another machine a page may not use the clipboard. */
function copyBySelection(text: string): void {
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

/** The command line that shows or does the same. */
export function Cli({ line }: { line: string }) {
  return (
    <div class="cli">
      <code>{line}</code>
      <Copy text={line} />
    </div>
  );
}

export function Card(props: {
  title: ComponentChildren;
  note?: ComponentChildren;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      <header>
        <h2>{props.title}</h2>
        {props.note && <span class="muted">{props.note}</span>}
        <span class="sp" />
        {props.aside}
      </header>
      {props.children}
    </section>
  );
}

/** What, why, what to do; one card fails, not the page. `deed` says what was tried. */
export function Failed({
  problem,
  again,
  deed = "read",
}: {
  problem: Problem;
  again?: () => void;
  deed?: "read" | "do";
}) {
  const isForbidden = problem.status === 403;
  return (
    <div class="notice t-bad" role="alert">
      <b>{isForbidden ? `This key may not ${deed} this` : problem.title}</b>
      <p>{problem.message}</p>
      <p class="muted">
        <code>{problem.code}</code>
        {problem.requestId && (
          <>
            {" · request "}
            <code>{problem.requestId}</code>
          </>
        )}
        {again && (
          <>
            {" · "}
            <button type="button" class="link" onClick={again}>
              try again
            </button>
          </>
        )}
      </p>
    </div>
  );
}

/** Grey lines of the final height; they appear after 150 ms, so that a fast answer shows none. */
export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" aria-hidden="true">
      {Array.from({ length: rows }, (_, i) => (
        <i key={i} />
      ))}
    </div>
  );
}

/** An empty place that teaches what belongs there. */
export function Empty({
  title,
  children,
  lines = [],
}: {
  title: string;
  children?: ComponentChildren;
  lines?: string[];
}) {
  return (
    <div class="empty">
      <b>{title}</b>
      {children && <p>{children}</p>}
      {lines.map((line) => (
        <Cli key={line} line={line} />
      ))}
    </div>
  );
}

/** A digest in groups of four. */
export function Digest({ value, short = false }: { value: string; short?: boolean }) {
  const groups = value.match(/.{1,4}/g) ?? [];
  return (
    <code class="digest" title={value}>
      {short ? `${groups.slice(0, 6).join(" ")}…` : groups.join(" ")}
    </code>
  );
}
