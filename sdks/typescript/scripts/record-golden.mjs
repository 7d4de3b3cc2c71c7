/**
 * Records the golden files of this SDK: runs the examples of `test/examples.ts` on a server, along six paths, and has
 * `tenure export` write each. Files that exist are kept: a golden file stays as it is for ever.
 *
 * Needs a Node that takes `.ts` files, and TENURE_BINARY.
 */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, Worker } from "@tenure/sdk";
import { invoice, order, pack, payout } from "../test/examples.ts";

const golden = fileURLToPath(new URL("../../../protocol/golden", import.meta.url));
const binary = process.env.TENURE_BINARY;
const home = mkdtempSync(join(tmpdir(), "tenure-golden-"));
const env = { ...process.env, HOME: home, XDG_STATE_HOME: home, XDG_CONFIG_HOME: home };

function startServer() {
  const server = spawn(binary, ["dev", "--port", "0", "--store", `sqlite:${join(home, "t.db")}`], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  return new Promise((resolve) => {
    let text = "";
    server.stdout.on("data", (chunk) => {
      text += chunk;
      const [, url] = /TENURE_URL=(\S+)/.exec(text) ?? [];
      const [, apiKey] = /TENURE_API_KEY=(\S+)/.exec(text) ?? [];
      if (apiKey !== undefined) resolve({ server, settings: { url, apiKey } });
    });
  });
}

async function eventually(ask) {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A receiver that takes what it gets, or says that it is gone for good. */
async function startReceiver() {
  const receiver = createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(request.url === "/gone" ? 410 : 204).end());
  });
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  return { receiver, at: `http://127.0.0.1:${receiver.address().port}` };
}

const { server, settings } = await startServer();
const client = new Client(settings);
const { receiver, at } = await startReceiver();
const stop = new AbortController();
const worker = new Worker({ tasks: [pack, order, payout, invoice], client }).run({ signal: stop.signal });

async function person(name) {
  const { secret } = await client.keys.create({ name, roles: ["approver"] });
  return new Client({ ...settings, apiKey: secret });
}
const people = [await person("ann"), await person("bob")];

async function decide(run, ...votes) {
  const open = await eventually(async () => {
    for await (const approval of client.approvals.list({ state: "pending" }))
      if (approval.runId === run.id) return approval;
    return undefined;
  });
  for (const [n, [decision, comment]] of votes.entries())
    await people[n].approvals.decide(open.approvalId, decision, { digest: open.digest, comment });
}

async function keep(name, run) {
  await run.wait();
  const file = join(golden, `${name}-typescript.jsonl`);
  if (existsSync(file)) return console.log(`kept ${file}`);
  const where = ["--url", settings.url, "--key", settings.apiKey];
  execFileSync(binary, ["export", run.id, "--output", file, ...where], { env, stdio: "inherit" });
  return console.log(`wrote ${file}`);
}

const approved = await client.submit(order, { id: 31, cents: 2_750, items: ["Löffel", "杯子", "cable"] });
await approved.signal("approve", true);
await keep("order-approved", approved);
const refunded = await client.submit(order, { id: 32, cents: 990, items: ["Kanne ☕"] });
await refunded.signal("approve", false);
await keep("order-refunded", refunded);

const paid = await client.submit(payout, { to: "Åsa", cents: 120_000 });
await decide(paid, ["APPROVED"], ["APPROVED", "geprüft ✓"]);
await keep("payout-approved", paid);
const rejected = await client.submit(payout, { to: "Zoë", cents: 999_999 });
await decide(rejected, ["REJECTED", "too much for “Zoë”"]);
await keep("payout-rejected", rejected);

await client.endpoints.create("billing", `${at}/here`, { types: ["invoice.issued"] });
await keep("invoice-delivered", await client.submit(invoice, { customer: "gruen-und-soehne", cents: 4_711 }));
await client.endpoints.update("billing", { url: `${at}/gone` });
await keep("invoice-given-up", await client.submit(invoice, { customer: "gruen-und-soehne", cents: 815 }));

stop.abort();
await worker;
for (const one of [client, ...people]) one.close();
receiver.close();
const gone = new Promise((resolve) => server.once("exit", resolve));
server.kill("SIGTERM");
await gone;
rmSync(home, { recursive: true, force: true });
