// Moves a job from BullMQ, and loses the connection to Redis between its submission and its removal.
import { Client } from "@tenure/sdk";
import { Queue } from "bullmq";

import { moveWaiting } from "../build/from-bullmq/mails.js";

const redis = new URL(process.env.REDIS_URL);
const old = new Queue("mails", { connection: { host: redis.hostname, port: Number(redis.port) } });
await old.add("mail", { number: 300, to: "later" }, { jobId: "mail-300", delay: 86_400_000 });
const getJobs = old.getJobs.bind(old);
old.getJobs = async (...types) => {
  const jobs = await getJobs(...types);
  for (const job of jobs) {
    job.remove = async () => {
      throw new Error("the connection to Redis is lost");
    };
  }
  return jobs;
};
const client = new Client();
try {
  console.log(await moveWaiting(client, old));
} catch (error) {
  console.log(error.message);
}
client.close();
await old.close();
