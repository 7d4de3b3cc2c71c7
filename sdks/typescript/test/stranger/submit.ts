import { Client } from "@tenure/sdk";
import { greet, order } from "./tasks.js";

await using client = new Client();
const text: string = await client.submit(greet, "Ada").result();

const run = await client.submit(order, { id: 7, cents: 500, items: ["lamp", "cable"] });
// Who asked cannot decide: each person has a key of their own.
const people: Client[] = [];
for (const name of ["ann", "bob"]) {
  const { secret } = await client.keys.create({ name, roles: ["approver"] });
  people.push(new Client({ apiKey: secret }));
}
for await (const _ of run.history({ follow: true })) {
  const { value: asked } = await client.approvals.list({ state: "pending" }).next();
  if (asked === undefined) continue;
  for (const person of people) await person.approvals.decide(asked.approvalId, "APPROVED");
  break;
}
const parcels: string[] = await run.result();
console.log(text, parcels.join(", "));
