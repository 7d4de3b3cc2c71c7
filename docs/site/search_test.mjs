// Asks the search of a built site what people ask, without a browser: search_test.mjs FOLDER.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

// The answer must be among so many results: what fits on a screen without scrolling.
const SEEN = 5;
const QUESTIONS = [
  ["run it behind TLS", "operate/install.html"],
  ["task_expired", "errors/task-expired.html"],
  ["limit customer at once", "guide/flow-control.html"],
  ["alert dead webhook", "operate/runbook/effects-are-dead.html"],
  ["how do I back up", "operate/backup.html"],
  ["approvals quorum", "guide/approvals.html"],
  ["when does a lease expire", "concepts/lease.html"],
  ["Temporal", "compare.html"],
  ["tenure submit", "reference/cli/submit.html"],
  ["/v1/leases", "reference/http/workers.html"],
];

const folder = process.argv[2];
const site = { window: {} };
vm.runInNewContext(readFileSync(join(folder, "search-index.js"), "utf8"), site);
const { prepare, search } = vm.runInNewContext(`${readFileSync(join(folder, "search.js"), "utf8")};tenureSearch`, {});
const passages = prepare(site.window.tenureIndex);
const missed = [];
for (const [question, page] of QUESTIONS) {
  const found = search(passages, question).slice(0, SEEN).map((passage) => passage.address);
  if (!found.some((address) => address.split("#")[0] === page)) missed.push(`${question}: not ${page}, but\n  ${found.join("\n  ")}`);
}
if (missed.length > 0) {
  console.error(`the search does not find\n${missed.join("\n")}`);
  process.exit(1);
}
console.log(`the search answers ${QUESTIONS.length} questions about ${passages.length} passages`);
