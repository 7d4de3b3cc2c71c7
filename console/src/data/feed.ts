/**
 * Says when something may have changed, so that pages read it again. A hint: what is shown is read, and nothing depends on it.
 *
 * Today the hint is a timer: each topic has its period, hidden pages wait, and a server that does not answer is asked less often. A
 * stream of events can take its place behind the same two functions.
 */

import { effect, signal } from "@preact/signals";
import { now } from "../model/time.js";

export type Topic = "runs" | "run" | "queues" | "inbox" | "overview" | "operate";

/** How often a page of a topic reads again, in milliseconds. */
const PERIOD: Record<Topic, number> = {
  runs: 2000,
  run: 1000,
  queues: 4000,
  inbox: 3000,
  overview: 5000,
  operate: 10_000,
};

/** A slow answer is not asked for again before this many times what it took: a console may take 5 % of a server, and no more. */
const COST_FACTOR = 20;

const BACKOFF_MAX_MS = 8000;

/** Whether what is shown is current. */
export const isLive = signal(true);
/** When the last answer came, in the server's time. */
export const asOf = signal(now());

let failures = 0;

/** An answer came. */
export function fresh(): void {
  failures = 0;
  isLive.value = true;
  asOf.value = now();
}

/** No answer came. */
export function lost(): void {
  failures += 1;
  isLive.value = false;
}

/** Calls `read` whenever the topic may have changed, never twice at once, until the returned function is called. */
export function follow(topic: Topic, read: () => Promise<void>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  const round = async () => {
    const started = performance.now();
    if (document.visibilityState === "visible") await read();
    if (isOver) return;
    const took = performance.now() - started;
    const backoff = failures === 0 ? 0 : Math.min(BACKOFF_MAX_MS, 500 * 2 ** failures);
    timer = setTimeout(round, Math.max(PERIOD[topic], took * COST_FACTOR, backoff));
  };
  const wake = () => {
    if (document.visibilityState !== "visible" || isOver) return;
    clearTimeout(timer);
    timer = setTimeout(round, 0);
  };
  document.addEventListener("visibilitychange", wake);
  void round();
  return () => {
    isOver = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", wake);
  };
}

/** Keeps the mark in the title of the tab: a tab that shows old data says so. */
export function markTitle(): void {
  effect(() => {
    const plain = document.title.replace(/^○ /, "");
    document.title = isLive.value ? plain : `○ ${plain}`;
  });
}
