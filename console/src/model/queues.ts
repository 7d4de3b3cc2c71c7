/** Queues, joined with the workers that poll them: who serves what, and which queue starves. Pure. */

import type { Queue, Worker } from "../api/types.js";
import { ms } from "./time.js";

export interface QueueRow extends Queue {
  /** Polls that wait for this queue now. */
  polls: number;
  workers: string[];
  oldestMs?: number;
  /** Tasks are ready, nothing pauses them, and no worker polls or holds one. */
  isStarving: boolean;
}

/** A task is not starving before this: between two polls a queue is unserved for a moment. */
const STARVING_AFTER_MS = 5000;

export function queueRows(queues: Queue[], workers: Worker[], at: number): QueueRow[] {
  const names = new Set(queues.map((queue) => queue.queue));
  const polled = workers.flatMap((worker) => worker.polls.flatMap((poll) => poll.queues));
  const idle = [...new Set(polled)]
    .filter((name) => !names.has(name))
    .map((queue): Queue => ({ queue, ready: 0, delayed: 0, running: 0 }));
  const rows = [...queues, ...idle].map((queue) => row(queue, workers, at));
  const rank = (r: QueueRow) => (r.isStarving ? 2 : r.ready > 0 ? 1 : 0);
  return rows.sort(
    (a, b) => rank(b) - rank(a) || (b.oldestMs ?? 0) - (a.oldestMs ?? 0) || a.queue.localeCompare(b.queue),
  );
}

function row(queue: Queue, workers: Worker[], at: number): QueueRow {
  const serving = workers.filter(
    (worker) =>
      worker.polls.some((poll) => poll.queues.includes(queue.queue)) ||
      worker.leases.some((lease) => lease.queue === queue.queue),
  );
  const polls = workers.reduce(
    (sum, worker) =>
      sum +
      worker.polls.filter((poll) => poll.queues.includes(queue.queue)).reduce((n, poll) => n + poll.count, 0),
    0,
  );
  const oldest = ms(queue.oldestReadyAt);
  const oldestMs = oldest === undefined ? undefined : Math.max(0, at - oldest);
  return {
    ...queue,
    polls,
    workers: serving.map((worker) => worker.workerId),
    oldestMs,
    isStarving:
      queue.ready > 0 && serving.length === 0 && !queue.pause && (oldestMs ?? 0) >= STARVING_AFTER_MS,
  };
}
