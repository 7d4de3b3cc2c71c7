// orders.ts
import { durable, task } from "@tenure/sdk";

export const greet = task("greet", { queue: "mail" }, async (name: string) => `Hello, ${name}!`);

export const pack = task("pack", { queue: "orders" }, async (item: string) => `parcel with ${item}`);

export const order = durable("order", { queue: "orders" }, async (flow, order: { id: number; items: string[] }) => {
  const receipt = await flow.step("charge", () => `r-${order.id}`);
  await flow.sleep("cool-off", { days: 1 });
  const { approved } = await flow.approval("ship", { quorum: 2 });
  if (!approved) return "refunded";
  return `${receipt}: ${(await flow.map(pack, order.items)).join(", ")}`;
});
