// What people write first: a task, and a durable function with a step, a sleep, an approval and children.
import { durable, task } from "@tenure/sdk";

interface Order {
  id: number;
  cents: number;
  items: string[];
}

export const greet = task("greet", { queue: "mail" }, async (name: string) => `Hello, ${name}!`);

export const pack = task("pack", { queue: "orders" }, async (item: string) => `parcel with ${item}`);

export const order = durable("order", { queue: "orders" }, async (flow, order: Order) => {
  const receipt = await flow.step("charge", () => `receipt for ${order.cents}`);
  await flow.sleep("cool-off", { milliseconds: 50 });
  const { approved } = await flow.approval("ship", { subject: `Ship ${order.id}?`, quorum: 2 });
  if (!approved) return flow.step("refund", () => [`refunded ${receipt}`]);
  return flow.all(order.items.map((item) => flow.call(pack, item)));
});
