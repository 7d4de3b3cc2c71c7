/** Effects: what was not delivered, why, and what is held up behind it; endpoints as a tab. Read-only: the commands are beside it. */

import { get } from "../api/call.js";
import type { Effect, EffectList, Endpoint, EndpointList } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import { effectLook } from "../model/state.js";
import { span } from "../model/time.js";
import { Card, Cli, Empty, Time } from "../parts/bits.js";
import { Chips, Chosen, Crumb, Facts, Foot, Head, Listing, Tabs } from "../parts/frame.js";
import { Mark } from "../parts/glyph.js";
import { PayloadView } from "../parts/payload.js";
import { Read } from "../parts/read.js";
import { type Column, Table } from "../parts/table.js";
import { nameOf } from "../people.js";
import { place, withQuery } from "../router.js";

/** What needs a person comes first. */
const STATES = ["dead", "unknown", "queued", "pending", "in_flight", "delivered"];
const PAGE = 100;

export function EffectsPage({ id }: { id: string | undefined }) {
  document.title = "Effects · Tenure";
  if (id) return <EffectPage id={id} />;
  const isEndpoints = place.value.query.get("tab") === "endpoints";
  return (
    <>
      <Head title="Effects" note="what other systems are told" />
      <Tabs
        tabs={[
          ["effects", "Effects"],
          ["endpoints", "Endpoints"],
        ]}
        on={isEndpoints ? "endpoints" : "effects"}
      />
      {isEndpoints ? <EndpointsTab /> : <EffectsTab />}
    </>
  );
}

function EffectsTab() {
  const asked = place.value.query;
  const state = asked.get("state") ?? "";
  const endpoint = asked.get("endpoint") ?? "";
  const query = useQuery<EffectList>(`effects ${state} ${endpoint}`, "queues", (signal) =>
    get("v1/effects", { query: { state, endpoint, limit: PAGE }, signal }),
  );
  const filters = [...(endpoint ? ["--endpoint", endpoint] : []), ...(state ? ["--state", state] : [])];
  return (
    <>
      <Chips label="State" name="state" choices={STATES.map((name) => [name, effectLook(name)])}>
        {endpoint && <Chosen name="endpoint" value={endpoint} />}
      </Chips>
      <Listing
        query={query}
        isEmpty={(list) => list.effects.length === 0}
        empty={
          <Empty
            title={state || endpoint ? "No effect matches" : "Nothing was decided for other systems"}
            lines={["tenure endpoints create crm https://crm.example.org/hooks"]}
          >
            An effect is recorded in the commit that decided it, and delivered afterwards, in order, until the
            receiver has it. Register an endpoint, and it is told of the ends of runs.
          </Empty>
        }
      >
        {({ effects, cursor }) => (
          <>
            <Table isList items={effects} by={(effect) => effect.effectId} columns={COLUMNS} />
            {cursor && <div class="bound muted">the newest {effects.length}; filter to see others</div>}
          </>
        )}
      </Listing>
      <Foot lines={[command("effects", ...filters)]} />
    </>
  );
}

const COLUMNS: Array<Column<Effect>> = [
  ["state", (effect) => <Mark look={effectLook(effect.state)} />, "nowrap"],
  [
    "type",
    (effect) => (
      <a data-row href={`effects/${effect.effectId}`}>
        {visible(effect.type)}
      </a>
    ),
    "strong",
  ],
  ["endpoint", (effect) => <a href={withQuery({ endpoint: effect.endpoint })}>{visible(effect.endpoint)}</a>],
  ["tries", (effect) => effect.tries, "num r hide-narrow"],
  ["decided", (effect) => <Time at={effect.decidedAt} />, "nowrap hide-narrow"],
  ["next", (effect) => next(effect), "nowrap hide-narrow"],
  ["last answer", (effect) => answer(effect), "wide-cell hide-narrow"],
];

function next(effect: Effect) {
  if (effect.state === "dead" || effect.state === "unknown")
    return <b class="t-bad ink">{effect.blocks ? "a person; its aggregate waits" : "a person"}</b>;
  if (effect.state === "queued") return "behind an earlier one";
  return effect.dueAt ? <Time at={effect.dueAt} /> : "";
}

const answer = ({ lastTry }: Pick<Effect, "lastTry">): string =>
  visible([lastTry?.status, lastTry?.note].filter(Boolean).join(" "));

/** What became of it, and what a person can do, in one sentence. */
export function fate(effect: Effect): string {
  const tries = effect.tries === 1 ? "1 try" : `${effect.tries} tries`;
  switch (effect.state) {
    case "delivered":
      return `Delivered after ${tries}.`;
    case "dead":
      return `Dead after ${tries}: ${effect.reason ?? "given up"}. ${
        effect.blocks
          ? "What follows it in its aggregate waits for it: give it new tries, or let the others go on."
          : "Nothing waits for it. It can be given new tries."
      }`;
    case "unknown":
      return "It was sent, and no answer came. Ask the receiver whether it has it, and say so.";
    case "queued":
      return "It waits for an earlier effect of its aggregate: they are delivered in order.";
    default:
      return effect.tries === 0
        ? "It is about to be sent."
        : `${tries} failed. It is tried again until the receiver has it.`;
  }
}

/** The commands that go on from here. */
function remedies(effect: Effect): string[] {
  const id = effect.effectId;
  if (effect.state === "dead")
    return [command("effects", "redrive", id), ...(effect.blocks ? [command("effects", "release", id)] : [])];
  if (effect.state === "unknown")
    return [
      command("effects", "reconcile", id, "--arrived"),
      command("effects", "reconcile", id, "--not-arrived"),
    ];
  return [];
}

function EffectPage({ id }: { id: string }) {
  const query = useQuery<Effect>(`effect ${id}`, "queues", (signal) => get(`v1/effects/${id}`, { signal }));
  return (
    <>
      <Crumb name="Effects" to="effects" />
      <Read query={query}>{(effect) => <Shown effect={effect} />}</Read>
    </>
  );
}

function Shown({ effect }: { effect: Effect }) {
  const look = effectLook(effect.state);
  return (
    <>
      <Head title={effect.type} look={look} note={<code>{effect.effectId}</code>} />
      <Facts
        of={[
          [
            "to",
            <a href={`effects?endpoint=${encodeURIComponent(effect.endpoint)}`}>
              {visible(effect.endpoint)}
            </a>,
          ],
          ["of", <a href={`runs/${effect.runId}`}>{effect.runId}</a>],
          [
            "place",
            <>
              {effect.sequence} of <bdi>{visible(effect.aggregate)}</bdi>
            </>,
          ],
          ["decided", <Time at={effect.decidedAt} />],
          ["settled", effect.settledAt && <Time at={effect.settledAt} />],
        ]}
      />
      <p class={`story t-${look.tone}`}>{fate(effect)}</p>
      {remedies(effect).map((line) => (
        <Cli key={line} line={line} />
      ))}
      <Card title="What happened" note="oldest first">
        <Table items={effect.log ?? []} by={(change) => `${change.at} ${change.state}`} columns={CHANGES} />
      </Card>
      {effect.body !== undefined && effect.body !== null && (
        <Card title="What is sent" note="the same bytes with every try">
          <PayloadView text={effect.body} label="what is sent" />
        </Card>
      )}
      <Foot lines={[command("effects", "show", effect.effectId)]} />
    </>
  );
}

type Change = NonNullable<Effect["log"]>[number];

const CHANGES: Array<Column<Change>> = [
  ["when", (change) => <Time at={change.at} />, "nowrap"],
  ["state", (change) => <Mark look={effectLook(change.state)} />, "nowrap"],
  ["tries", (change) => change.tries, "num r"],
  ["answer", (change) => change.state !== "in_flight" && answer(change), "wide-cell"],
  ["by", (change) => (change.keyId ? visible(nameOf(change.keyId)) : "")],
];

function EndpointsTab() {
  const query = useQuery<EndpointList>("endpoints", "queues", (signal) => get("v1/endpoints", { signal }));
  return (
    <>
      <Listing
        query={query}
        isEmpty={({ endpoints }) => endpoints.length === 0}
        empty={
          <Empty
            title="No endpoint is registered"
            lines={["tenure endpoints create crm https://crm.example.org/hooks"]}
          >
            An endpoint is told what was decided: by default the ends of runs.
          </Empty>
        }
      >
        {({ endpoints }) => (
          <Table isList items={endpoints} by={(endpoint) => endpoint.name} columns={ENDPOINTS} />
        )}
      </Listing>
      <Foot lines={["tenure endpoints"]} />
    </>
  );
}

const ENDPOINTS: Array<Column<Endpoint>> = [
  [
    "endpoint",
    ({ name }) => (
      <a data-row href={`effects?endpoint=${encodeURIComponent(name)}`}>
        {visible(name)}
      </a>
    ),
    "strong",
  ],
  ["state", ({ state, disabledBecause }) => state + (disabledBecause ? `: ${visible(disabledBecause)}` : "")],
  ["address", ({ url }) => <code>{visible(url)}</code>, "wide-cell hide-narrow"],
  ["told of", ({ types }) => visible(types.join(", ")) || "what workers declare", "wide-cell hide-narrow"],
  ["tries", ({ maxTries }) => maxTries, "num r hide-narrow"],
  ["pause between tries", pauses, "nowrap hide-narrow"],
];

function pauses({ retry }: Endpoint): string {
  const [least, most] = [span(retry.baseMs), span(retry.capMs)];
  return least === most ? least : `${least} to ${most}`;
}
