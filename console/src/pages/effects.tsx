/** Effects: what was not delivered, why, and what is held up behind it; endpoints as a tab. Read-only: the commands are beside it. */

import { get } from "../api/call.js";
import type { Effect, EffectList, Endpoint, EndpointList } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import { effectLook } from "../model/state.js";
import { span } from "../model/time.js";
import { Card, Cli, Empty, Time } from "../parts/bits.js";
import { Glyph, Mark, Pill } from "../parts/glyph.js";
import { PayloadView } from "../parts/payload.js";
import { Read } from "../parts/read.js";
import { nameOf } from "../people.js";
import { place, withQuery } from "../router.js";

/** What needs a person comes first. */
const STATES = ["dead", "unknown", "queued", "pending", "in_flight", "delivered"];
const PAGE = 100;

export function EffectsPage({ id }: { id: string | undefined }) {
  document.title = "Effects · Tenure";
  if (id) return <EffectPage id={id} />;
  const isEndpoints = place.value.query.get("tab") === "endpoints";
  const tab = (title: string, isOn: boolean, to: string) => (
    <a class={isOn ? "on" : ""} aria-current={isOn ? "page" : undefined} href={to}>
      {title}
    </a>
  );
  return (
    <>
      <div class="head">
        <h1>Effects</h1>
        <span class="soft">what other systems are told</span>
      </div>
      <nav class="tabs" aria-label="Parts">
        {tab("Effects", !isEndpoints, "effects")}
        {tab("Endpoints", isEndpoints, "effects?tab=endpoints")}
      </nav>
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
      <nav class="chips" aria-label="State">
        <a
          class={`chip ${state === "" ? "on" : ""}`}
          aria-current={state === "" ? "true" : undefined}
          href={withQuery({ state: undefined })}
        >
          all
        </a>
        {STATES.map((name) => {
          const look = effectLook(name);
          const isOn = name === state;
          return (
            <a
              key={name}
              class={`chip ${isOn ? "on" : ""}`}
              aria-current={isOn ? "true" : undefined}
              href={withQuery({ state: isOn ? undefined : name })}
            >
              <span class={isOn ? "" : `t-${look.tone} ink`}>
                <Glyph name={look.glyph} size={11} />
              </span>
              {look.word}
            </a>
          );
        })}
        {endpoint && (
          <a
            class="chip on-soft"
            href={withQuery({ endpoint: undefined })}
            aria-label={`remove the filter endpoint ${endpoint}`}
          >
            <span class="muted">endpoint</span> <bdi>{visible(endpoint)}</bdi> ×
          </a>
        )}
      </nav>
      <Read query={query}>
        {(list) => (
          <section class="card">
            {list.effects.length === 0 ? (
              <Empty
                title={state || endpoint ? "No effect matches" : "Nothing was decided for other systems"}
                lines={["tenure endpoints create crm https://crm.example.org/hooks"]}
              >
                An effect is recorded in the commit that decided it, and delivered afterwards, in order, until
                the receiver has it. Register an endpoint, and it is told of the ends of runs.
              </Empty>
            ) : (
              <EffectTable effects={list.effects} isCut={Boolean(list.cursor)} />
            )}
          </section>
        )}
      </Read>
      <div class="foot">
        <Cli line={command("effects", ...filters)} />
      </div>
    </>
  );
}

function EffectTable({ effects, isCut }: { effects: Effect[]; isCut: boolean }) {
  return (
    <>
      <table class="list-table">
        <thead>
          <tr>
            <th>state</th>
            <th>type</th>
            <th>endpoint</th>
            <th class="r hide-narrow">tries</th>
            <th class="hide-narrow">decided</th>
            <th class="hide-narrow">next</th>
            <th class="hide-narrow">last answer</th>
          </tr>
        </thead>
        <tbody>
          {effects.map((effect) => (
            <tr key={effect.effectId}>
              <td class="nowrap">
                <Mark look={effectLook(effect.state)} />
              </td>
              <td class="strong">
                <a data-row href={`effects/${effect.effectId}`}>
                  {visible(effect.type)}
                </a>
              </td>
              <td>
                <a href={withQuery({ endpoint: effect.endpoint })}>{visible(effect.endpoint)}</a>
              </td>
              <td class="num r hide-narrow">{effect.tries}</td>
              <td class="nowrap hide-narrow">
                <Time at={effect.decidedAt} />
              </td>
              <td class="nowrap hide-narrow">{next(effect)}</td>
              <td class="wide-cell hide-narrow">{answer(effect)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {isCut && <div class="bound muted">the newest {effects.length}; filter to see others</div>}
    </>
  );
}

function next(effect: Effect) {
  if (effect.state === "dead" || effect.state === "unknown")
    return <b class="t-bad ink">{effect.blocks ? "a person; its aggregate waits" : "a person"}</b>;
  if (effect.state === "queued") return "behind an earlier one";
  return effect.dueAt ? <Time at={effect.dueAt} /> : "";
}

const answer = (effect: Effect): string =>
  visible([effect.lastTry?.status, effect.lastTry?.note].filter(Boolean).join(" "));

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
      <div class="crumb">
        <a href="effects">Effects</a> /
      </div>
      <Read query={query}>{(effect) => <Shown effect={effect} />}</Read>
    </>
  );
}

function Shown({ effect }: { effect: Effect }) {
  const look = effectLook(effect.state);
  return (
    <>
      <div class="head">
        <h1>{visible(effect.type)}</h1>
        <Pill look={look} />
        <code class="soft clip">{effect.effectId}</code>
      </div>
      <dl class="facts">
        <div>
          <dt>to</dt>
          <dd>
            <a href={`effects?endpoint=${encodeURIComponent(effect.endpoint)}`}>{visible(effect.endpoint)}</a>
          </dd>
        </div>
        <div>
          <dt>of</dt>
          <dd>
            <a href={`runs/${effect.runId}`}>{effect.runId}</a>
          </dd>
        </div>
        <div>
          <dt>place</dt>
          <dd>
            {effect.sequence} of <bdi>{visible(effect.aggregate)}</bdi>
          </dd>
        </div>
        <div>
          <dt>decided</dt>
          <dd>
            <Time at={effect.decidedAt} />
          </dd>
        </div>
        {effect.settledAt && (
          <div>
            <dt>settled</dt>
            <dd>
              <Time at={effect.settledAt} />
            </dd>
          </div>
        )}
      </dl>
      <p class={`story t-${look.tone}`}>{fate(effect)}</p>
      {remedies(effect).map((line) => (
        <Cli key={line} line={line} />
      ))}
      <Card title="What happened" note="oldest first">
        <Changes effect={effect} />
      </Card>
      {effect.body !== undefined && effect.body !== null && (
        <Card title="What is sent" note="the same bytes with every try">
          <PayloadView text={effect.body} label="what is sent" />
        </Card>
      )}
      <div class="foot">
        <Cli line={command("effects", "show", effect.effectId)} />
      </div>
    </>
  );
}

function Changes({ effect }: { effect: Effect }) {
  return (
    <table>
      <thead>
        <tr>
          <th>when</th>
          <th>state</th>
          <th class="r">tries</th>
          <th>answer</th>
          <th>by</th>
        </tr>
      </thead>
      <tbody>
        {(effect.log ?? []).map((change, i) => (
          <tr key={i}>
            <td class="nowrap">
              <Time at={change.at} />
            </td>
            <td class="nowrap">
              <Mark look={effectLook(change.state)} />
            </td>
            <td class="num r">{change.tries}</td>
            <td class="wide-cell">
              {change.state !== "in_flight" &&
                visible([change.lastTry?.status, change.lastTry?.note].filter(Boolean).join(" "))}
            </td>
            <td>{change.keyId ? visible(nameOf(change.keyId)) : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function EndpointsTab() {
  const query = useQuery<EndpointList>("endpoints", "queues", (signal) => get("v1/endpoints", { signal }));
  return (
    <Read query={query}>
      {({ endpoints }) => (
        <>
          <section class="card">
            {endpoints.length === 0 ? (
              <Empty
                title="No endpoint is registered"
                lines={["tenure endpoints create crm https://crm.example.org/hooks"]}
              >
                An endpoint is told what was decided: by default the ends of runs.
              </Empty>
            ) : (
              <EndpointTable endpoints={endpoints} />
            )}
          </section>
          <div class="foot">
            <Cli line="tenure endpoints" />
          </div>
        </>
      )}
    </Read>
  );
}

function pauses({ retry }: Endpoint): string {
  const [least, most] = [span(retry.baseMs), span(retry.capMs)];
  return least === most ? least : `${least} to ${most}`;
}

function EndpointTable({ endpoints }: { endpoints: Endpoint[] }) {
  return (
    <table class="list-table">
      <thead>
        <tr>
          <th>endpoint</th>
          <th>state</th>
          <th class="hide-narrow">address</th>
          <th class="hide-narrow">told of</th>
          <th class="r hide-narrow">tries</th>
          <th class="hide-narrow">pause between tries</th>
        </tr>
      </thead>
      <tbody>
        {endpoints.map((endpoint) => (
          <tr key={endpoint.name}>
            <td class="strong">
              <a data-row href={`effects?endpoint=${encodeURIComponent(endpoint.name)}`}>
                {visible(endpoint.name)}
              </a>
            </td>
            <td>
              {endpoint.state}
              {endpoint.disabledBecause ? `: ${visible(endpoint.disabledBecause)}` : ""}
            </td>
            <td class="wide-cell hide-narrow">
              <code>{visible(endpoint.url)}</code>
            </td>
            <td class="wide-cell hide-narrow">
              {visible(endpoint.types.join(", ")) || "what workers declare"}
            </td>
            <td class="num r hide-narrow">{endpoint.maxTries}</td>
            <td class="nowrap hide-narrow">{pauses(endpoint)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
