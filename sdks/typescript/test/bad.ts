/** What must not compile. `npm run types` fails if one of these lines does. */
import { Client, durable, kind, newRun, task, Worker } from "@tenure/sdk";
import { z } from "zod";

const client = new Client();
const greet = task("greet", { queue: "mail" }, async (name: string) => `Hello, ${name}!`);
const tick = task("tick", { queue: "mail" }, async () => 1);
const sized = task(
  "sized",
  { input: z.object({ width: z.coerce.number() }) },
  async ({ width }) => width * 2,
);
const remote = kind<{ id: number }, boolean>("remote");

interface Order {
  id: number;
  items: string[];
}

const order = durable("order", { queue: "orders" }, async (flow, order: Order) => {
  const receipt = await flow.step("charge", () => `r-${order.id}`);
  const parts = await flow.all(order.items.map((item) => flow.call(greet, item)));
  const first = await flow.any({ go: flow.signal<boolean>("go"), late: flow.sleep({ days: 1 }) });
  if (first.winner === "go") first.value satisfies boolean;
  const pair = await flow.all([flow.step("a", () => 1), flow.step("b", async () => "b")]);
  pair satisfies [number, string];
  // @ts-expect-error a span has a unit
  flow.sleep("x", 5);
  // @ts-expect-error promises are not operations
  flow.all([Promise.resolve(1)]);
  // @ts-expect-error the input of the call is text
  flow.call(greet, 7);
  // @ts-expect-error a step cannot be raced
  flow.any({ step: flow.step("s", () => 1) });
  // @ts-expect-error the result of the step is text
  const n: number = await flow.step("s", () => "text");
  // @ts-expect-error a signal with a limit may be undefined
  const ok: boolean = await flow.signal<boolean>("ok").within({ days: 7 });
  return [receipt, ...parts, n, ok] as const;
});

export async function right(): Promise<void> {
  (await client.submit(greet, "Ada").result()) satisfies string;
  (await client.submit(tick).result()) satisfies number;
  (await client.submit(tick, undefined, { delay: { seconds: 60 } })).id satisfies string;
  (await client.submit(sized, { width: "7" }).result()) satisfies number;
  (await client.submit(remote, { id: 7 }, { idempotencyKey: "k" }).result()) satisfies boolean;
  await client.submit("greet", "Ada", { queue: "mail" });
  await client.schedules.create("nightly", { cron: "0 3 * * *", timeZone: "Europe/Berlin" }, greet, "Ada");
  const [one, two] = await client.submitMany([newRun(greet, "Ada"), newRun(tick)]);
  (await one.handle?.result()) satisfies string | undefined;
  (await two.handle?.result()) satisfies number | undefined;
  new Worker({ tasks: [greet, tick, sized, order] });
}

export async function wrong(): Promise<void> {
  // @ts-expect-error the input is text
  client.submit(greet, 7);
  // @ts-expect-error the input is missing
  client.submit(greet);
  // @ts-expect-error there is no input
  client.submit(tick, 1);
  // @ts-expect-error the id is a number
  client.submit(order, { id: "1", items: [] });
  // @ts-expect-error the result is text
  const n: number = await client.submit(greet, "Ada").result();
  // @ts-expect-error there is no such option
  client.submit(greet, "Ada", { queu: "mail" });
  // @ts-expect-error a span has a unit
  client.submit(greet, "Ada", { delay: 60 });
  // @ts-expect-error a function is no task
  new Worker({ tasks: [() => 1] });
  // @ts-expect-error the input is text
  client.schedules.create("nightly", { cron: "0 3 * * *" }, greet, 7);
  // @ts-expect-error the input is text
  newRun(greet, 7);
  console.log(n);
}
