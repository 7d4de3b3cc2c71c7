/** Flow keys: how many runs hold a slot of each, and how many wait for one. A tab of Queues and a part of Limits. */

import { get } from "../api/call.js";
import type { FlowKeys } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { visible } from "../model/shown.js";
import { Card, Empty, Time } from "../parts/bits.js";
import { Read } from "../parts/read.js";
import { type Column, Table } from "../parts/table.js";

type FlowKey = FlowKeys["flowKeys"][number];

/** Holders that are named. */
const HOLDERS = 4;

const COLUMNS: Array<Column<FlowKey>> = [
  ["key", ({ key }) => visible(key), "strong wide-cell"],
  ["holds", ({ held }) => held, "num r"],
  ["limit", ({ limit }) => limit ?? "–", "num r"],
  ["parked", ({ parked }) => parked, "num r"],
  ["opens", ({ opensAt }) => <Time at={opensAt} />],
  [
    "holders",
    ({ holders }) =>
      holders.slice(0, HOLDERS).map((id) => (
        <a key={id} class="tag" href={`runs/${id}`}>
          {id}
        </a>
      )),
    "wide-cell",
  ],
];

export function FlowKeysCard() {
  const query = useQuery<FlowKeys>("flow", "queues", (signal) =>
    get("v1/flow-keys", { query: { limit: 200 }, signal }),
  );
  return (
    <Read query={query}>
      {({ flowKeys }) =>
        flowKeys.length === 0 ? (
          <section class="card">
            <Empty title="No flow keys are in use">
              Runs that share a flow key take turns: only so many of them are active at once, or start within
              a time.
            </Empty>
          </section>
        ) : (
          <Card title="Flow keys" note="how many hold a slot, and how many wait for one">
            <Table items={flowKeys} by={({ key }) => key} columns={COLUMNS} />
          </Card>
        )
      }
    </Read>
  );
}
