/** What a page reads: a value that is read again when its topic may have changed, and dropped when the page is left. */

import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "../api/call.js";
import { follow, fresh, lost, type Topic } from "./feed.js";

export interface Query<T> {
  data: Signal<T | undefined>;
  /** Why the last read failed. Data of an earlier read stay. */
  problem: Signal<Problem | undefined>;
  again: () => Promise<void>;
}

/** Reads `read` for `key`, and again with its topic; without a topic, once. A new key drops the old data. */
export function useQuery<T>(
  key: string,
  topic: Topic | undefined,
  read: (signal: AbortSignal) => Promise<T>,
): Query<T> {
  const data = useSignal<T | undefined>(undefined);
  const problem = useSignal<Problem | undefined>(undefined);
  const latest = useRef(read);
  latest.current = read;
  const again = useRef<() => Promise<void>>(async () => {});
  useEffect(() => {
    const stop = new AbortController();
    data.value = undefined;
    problem.value = undefined;
    again.current = async () => {
      try {
        const value = await latest.current(stop.signal);
        if (stop.signal.aborted) return;
        data.value = value;
        problem.value = undefined;
        fresh();
      } catch (error) {
        if (stop.signal.aborted) return;
        problem.value = asProblem(error);
        if (problem.value.isUnreachable) lost();
        else fresh();
      }
    };
    const end = topic ? follow(topic, () => again.current()) : undefined;
    if (!topic) void again.current();
    return () => {
      stop.abort();
      end?.();
    };
  }, [key, topic]);
  return { data, problem, again: () => again.current() };
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new Problem(-1, "console_defect", "The console could not read the answer", message);
}

/** Runs a function whenever a signal it reads changes, for as long as the page is shown. */
export const useReaction = useSignalEffect;
