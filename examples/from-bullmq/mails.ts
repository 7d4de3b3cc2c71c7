/**
 * From BullMQ to Tenure, one queue at a time, while both run.
 *
 *     node mails.js old-work    the old worker, as before
 *     node mails.js work        the new worker, beside it
 *     node mails.js add 100     producers: NEW_SHARE percent of the jobs go to Tenure
 *     node mails.js move        what still waits in BullMQ's queue goes to Tenure
 *
 * 1. Deploy with NEW_SHARE=0: nothing changes but that the new worker is there.
 * 2. Raise NEW_SHARE step by step. A job always goes the same way, so a producer that repeats it makes no second one.
 * 3. At 100, `move`: it pauses the old queue, and takes what waits or is delayed. Old workers finish what they have.
 * 4. Delete the old worker, `moveWaiting` and Redis.
 */
import { appendFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { Client, type RunOptions, task, Worker } from "@tenure/sdk";
import { type Job, Worker as OldWorker, Queue } from "bullmq";

const SENT = process.env["SENT_FILE"] ?? "sent.txt";
const NEW_SHARE = Number(process.env["NEW_SHARE"] ?? "0");
const QUEUE = "mails";
const redis = new URL(process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379");
const connection = { host: redis.hostname, port: Number(redis.port), maxRetriesPerRequest: null };

interface Mail {
  number: number;
  to: string;
}

/** The work. Neither queue has anything to do with it. */
async function send({ number, to }: Mail): Promise<string> {
  appendFileSync(SENT, `${number} ${to} ${process.env["WORKER"] ?? "?"}\n`);
  return `mail ${number} to ${to}`;
}

export const mail = task("mail", { queue: QUEUE, maxAttempts: 5, retry: { base: { seconds: 1 } } }, send);

/** What producers call instead of `queue.add`. A job goes to one of the two by its number, and not by chance. */
export async function sendMail(client: Client, old: Queue<Mail>, job: Mail): Promise<void> {
  if (hash(String(job.number)) % 100 < NEW_SHARE) {
    await client.submit(mail, job, { idempotencyKey: `mail-${job.number}` });
  } else {
    await old.add("mail", job, { jobId: `mail-${job.number}` });
  }
}

function hash(text: string): number {
  return [...text].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 1_000_003, 7);
}

/**
 * How the job is submitted. Its id is the key, as in `sendMail`: a job that is read twice, or that a producer has sent
 * both ways, makes one run.
 */
function optionsOf(job: Job<Mail>): RunOptions {
  const delayed = job.delay > 0 ? { runAt: new Date(job.timestamp + job.delay) } : {};
  return { idempotencyKey: `${job.id}`, ...delayed };
}

/**
 * Moves what waits. The queue is paused, so no old worker takes a job between the two calls, and a job is removed after
 * its run was accepted: a crash in between leaves it in the old queue, and the next call finds its run.
 */
export async function moveWaiting(client: Client, old: Queue<Mail>): Promise<number> {
  await old.pause();
  const jobs = await old.getJobs(["waiting", "paused", "delayed", "prioritized"]);
  for (const job of jobs) {
    await client.submit(mail, job.data, optionsOf(job));
    await job.remove();
  }
  return jobs.length;
}

async function oldWork(): Promise<void> {
  const worker = new OldWorker<Mail>(QUEUE, (job) => send(job.data), { connection });
  await worker.waitUntilReady();
  console.log("the old worker works");
  await new Promise((resolve) => process.once("SIGTERM", resolve));
  await worker.close();
}

async function main([command, ...words]: string[]): Promise<void> {
  if (command === "work") return new Worker({ tasks: [mail] }).run();
  if (command === "old-work") return oldWork();
  await using client = new Client();
  const old = new Queue<Mail>(QUEUE, { connection });
  if (command === "add") {
    for (let number = 0; number < Number(words[0]); number++) {
      await sendMail(client, old, { number, to: `customer-${number}` });
    }
  } else if (command === "move") {
    console.log(await moveWaiting(client, old), "moved");
  }
  await old.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2));
