/** The examples of the Rust SDK in TypeScript: golden files that Rust wrote replay with these. */
import { durable, task } from "@tenure/sdk";

export const pack = task("pack", { queue: "orders" }, async (item: string) => `parcel with ${item}`);

export const order = durable(
  "order",
  { queue: "orders" },
  async (flow, order: { id: number; cents: number; items: string[] }) => {
    await flow.step("charge", () => `receipt for ${order.cents} cents`, { input: order.cents, retry: 5 });
    await flow.sleep({ seconds: 2 });
    const approved = await flow.signal<boolean>("approve").within({ days: 7 });
    if (approved !== true) {
      await flow.step("refund", () => null);
      return `order ${order.id} was refunded`;
    }
    const packed = await flow.map(pack, order.items);
    return flow.step("mail", () => `order ${order.id}: ${packed.join(", ")}`);
  },
);

export const payout = durable(
  "payout",
  { queue: "payouts" },
  async (flow, payout: { to: string; cents: number }) => {
    const account = await flow.step("look-up", () => `account of ${payout.to}`, { input: payout.to });
    const { approved, reason } = await flow.approval("pay", {
      quorum: 2,
      within: { days: 1 },
      default: "REJECTED",
      subject: `Pay ${payout.cents} cents to ${payout.to}`,
      about: payout,
    });
    if (!approved) return `not paid: ${reason ?? "no reason was given"}`;
    return flow.step("transfer", () => `paid ${payout.cents} cents to the ${account}`, { input: payout });
  },
);

export const invoice = durable(
  "invoice",
  { queue: "invoices" },
  async (flow, invoice: { customer: string; cents: number }) => {
    const number = await flow.step("number", () => invoice.cents % 1_000);
    const told = { endpoint: "billing", type: "invoice.issued", body: invoice, aggregate: invoice.customer };
    const delivery = await flow.effect("tell", told).delivered();
    if (delivery.delivered) return `invoice ${number} was delivered`;
    const why = delivery.reason ?? "nobody knows whether it arrived";
    await flow.step("letter", () => null, { input: invoice.customer });
    return `invoice ${number} was sent by letter: ${why}`;
  },
);
