/**
 * Nightly reports: a schedule starts one durable function each night, which starts one run for each customer. The
 * warehouse takes two queries at once, whoever asks: nightly runs and people who press "refresh" share a flow key.
 *
 *     node reports.js work               the worker
 *     node reports.js schedule           puts the schedule in force; again after each change of it
 *     node reports.js refresh CUSTOMER…  reports now; of several for one customer within two seconds the last one counts
 *     tenure schedules trigger nightly-reports
 */
import { appendFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { Client, durable, Failure, Refused, task, Worker } from "@tenure/sdk";

const SCHEDULE = "nightly-reports";
/** Where a report is written, a line each. A real one goes to your own storage; the run has its address. */
const REPORTS = process.env["REPORTS_FILE"] ?? "reports.txt";

interface Sales {
  customer: string;
  cents: number;
}

export const report = task(
  "report",
  {
    queue: "reports",
    // In all queues and on all machines: no more than two queries at once.
    flowKey: { key: "warehouse", limit: 2 },
    maxAttempts: 3,
    retry: { base: { seconds: 1 } },
    attemptTimeout: { minutes: 10 },
  },
  async (customer: string): Promise<Sales> => {
    const cents = await queryWarehouse(customer);
    appendFileSync(REPORTS, `${customer} ${cents}\n`);
    return { customer, cents };
  },
);

export const nightly = durable("nightly-reports", { queue: "reports" }, async (flow, region: string) => {
  const customers = await flow.step("customers", () => customersOf(region), { retry: 5 });
  // All are started; the flow key decides how many run. One that fails for good does not stop the others.
  const ends = await flow.allSettled(customers.map((customer) => flow.call(report, customer)));
  const sales = ends.flatMap((end) => (end.status === "fulfilled" ? [end.value] : []));
  const failed = customers.filter((_, index) => ends[index]?.status === "rejected");
  const total = sales.reduce((sum, { cents }) => sum + cents, 0);
  await flow.step("mail", () => mail(`${region}: ${total} cents, ${failed.length} reports failed`));
  return { region, total, failed };
});

/** A person waits for this one, so it goes before what the night has left. */
export const refresh = durable(
  "refresh",
  { queue: "reports", priority: 10 },
  async (flow, customer: string) => flow.call(report, customer, { priority: 10 }),
);

/** A burst of clicks is one run: the last one counts. */
function refreshSoon(client: Client, customer: string) {
  return client.submit(refresh, customer, {
    flowKey: { key: `refresh-${customer}`, debounce: { seconds: 2 } },
  });
}

/** One run for each night, with any number of coordinators. A night that was missed is made up for until noon. */
export async function schedule(client: Client) {
  const when = {
    cron: "0 3 * * *",
    timeZone: "Europe/Berlin",
    overlap: "skip",
    catchUp: "one",
    window: { hours: 9 },
  } as const;
  try {
    return await client.schedules.create(SCHEDULE, when, nightly, "north");
  } catch (error) {
    if (!(error instanceof Refused && error.code === "schedule_exists")) throw error;
    return client.schedules.update(SCHEDULE, when);
  }
}

async function customersOf(region: string): Promise<string[]> {
  return ["acme", "brick", "crane", "delta", "empty"].map((name) => `${name}-${region}`);
}

async function queryWarehouse(customer: string): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 50));
  if (customer.startsWith("empty")) throw Failure.data(`${customer} has no sales`);
  return customer.length * 100;
}

async function mail(text: string): Promise<void> {
  console.log(`mail: ${text}`);
}

async function main([command, ...words]: string[]): Promise<void> {
  if (command === "work") return new Worker({ tasks: [nightly, refresh, report] }).run();
  await using client = new Client();
  if (command === "schedule") console.log((await schedule(client)).name);
  else if (command === "refresh") {
    for (const customer of words) console.log((await refreshSoon(client, customer)).id);
  } else console.error("usage: reports.js work | schedule | refresh CUSTOMER…");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv.slice(2));
