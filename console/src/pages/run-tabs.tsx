/** Steps, payloads, effects, children, record and the raw answer of a run. */

import { useSignal } from "@preact/signals";
import { get, runIdOf } from "../api/call.js";
import type { Checkpoint, Children, Effect, Record_, Run } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { payloadDigest } from "../model/digest.js";
import { visible } from "../model/shown.js";
import { effectLook, fence, outcomeLook, stateLook } from "../model/state.js";
import { ms, span } from "../model/time.js";
import { Card, Digest, Empty, Failed, Loading, Time } from "../parts/bits.js";
import { Glyph, Mark } from "../parts/glyph.js";
import { PayloadView } from "../parts/payload.js";

export function StepsTab({ steps }: { steps: Checkpoint[] }) {
  if (steps.length === 0) {
    return (
      <section class="card">
        <Empty title="No recorded steps">
          A durable function records what it has done. This run is not one, or has recorded nothing yet.
        </Empty>
      </section>
    );
  }
  return (
    <Card title="Steps" note="what the run has recorded; a new attempt replays it instead of doing it again">
      <table>
        <thead>
          <tr>
            <th class="r">number</th>
            <th>key</th>
            <th>outcome</th>
            <th>attempt</th>
            <th>recorded</th>
            <th>spent</th>
            <th>result</th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <StepRow key={step.number} step={step} />
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function StepRow({ step }: { step: Checkpoint }) {
  const isOpen = useSignal(false);
  const spend = step.spend
    ? [
        step.spend.tokens && `${step.spend.tokens} tokens`,
        step.spend.toolCalls && `${step.spend.toolCalls} calls`,
      ]
        .filter(Boolean)
        .join(", ")
    : "";
  return (
    <>
      <tr>
        <td class="num r">{step.number}</td>
        <td class="strong">{visible(step.key)}</td>
        <td>
          <Mark look={outcomeLook(step.outcome === "STARTED" ? undefined : step.outcome)} />
        </td>
        <td class="num">{step.attempt ?? "–"}</td>
        <td>
          <Time at={step.recordedAt} />
        </td>
        <td class="muted">{spend}</td>
        <td class="wide-cell">
          {step.error && <span class="t-bad ink">{visible(step.error.message)}</span>}
          {step.result !== undefined && (
            <button
              type="button"
              class="link mono clip"
              aria-expanded={isOpen.value}
              onClick={() => {
                isOpen.value = !isOpen.value;
              }}
            >
              {visible(step.result.slice(0, 90))}
              {step.result.length > 90 ? "…" : ""}
            </button>
          )}
        </td>
      </tr>
      {isOpen.value && step.result !== undefined && (
        <tr>
          <td colSpan={7}>
            <PayloadView text={step.result} label={`result of ${step.key}`} />
          </td>
        </tr>
      )}
    </>
  );
}

export function PayloadsTab({ run }: { run: Run }) {
  return (
    <div class="two">
      <Card title="Input" note={run.input === undefined ? "" : "as it was submitted"}>
        {run.input === undefined ? (
          <p class="pad-x muted">{run.plan ? "The steps of the plan have inputs of their own." : "None."}</p>
        ) : (
          <PayloadView text={run.input} label="input" />
        )}
      </Card>
      <Card title="Output" note={run.output === undefined ? "" : "as it was reported"}>
        {run.output === undefined ? (
          <p class="pad-x muted">{run.completedAt ? "None." : "The run has not ended."}</p>
        ) : (
          <PayloadView text={run.output} label="output" />
        )}
      </Card>
      {run.error && (
        <Card
          title={<span class="t-bad ink">{visible(run.error.reason)}</span>}
          note={run.error.category ?? ""}
          class="whole"
        >
          <p class="pad-x">{visible(run.error.message)}</p>
          {run.error.stackTrace && <pre class="pad-x stack">{visible(run.error.stackTrace)}</pre>}
        </Card>
      )}
    </div>
  );
}

export function EffectsTab({ effects, run }: { effects: Effect[]; run: Run }) {
  if (effects.length === 0) {
    return (
      <section class="card">
        <Empty title="No effects">
          An effect is a call to another system that is decided with a step and delivered until it arrived.{" "}
          {visible(run.kind)} has declared none.
        </Empty>
      </section>
    );
  }
  return (
    <Card title="Effects" note="decided with the run's records, delivered in order">
      <table>
        <thead>
          <tr>
            <th>state</th>
            <th>type</th>
            <th>endpoint</th>
            <th class="r">tries</th>
            <th>decided</th>
            <th>settled</th>
            <th>last answer</th>
          </tr>
        </thead>
        <tbody>
          {effects.map((effect) => (
            <tr key={effect.effectId}>
              <td>
                <Mark look={effectLook(effect.state)} />
              </td>
              <td class="strong">{visible(effect.type)}</td>
              <td>{visible(effect.endpoint)}</td>
              <td class="num r">{effect.tries}</td>
              <td>
                <Time at={effect.decidedAt} />
              </td>
              <td>
                <Time at={effect.settledAt} />
              </td>
              <td class="wide-cell">
                {effect.lastTry?.status ?? ""} {visible(effect.lastTry?.note ?? "")}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

export function ChildrenTab({ run }: { run: Run }) {
  const query = useQuery<Children>(`children ${run.runId}`, "run", (signal) =>
    get(`v1/runs/${run.runId}/children`, { query: { limit: 200 }, signal }),
  );
  const list = query.data.value;
  if (!list)
    return query.problem.value ? <Failed problem={query.problem.value} again={query.again} /> : <Loading />;
  if (list.children.length === 0)
    return (
      <section class="card">
        <Empty title="No children">This run has started no other tasks.</Empty>
      </section>
    );
  return (
    <Card title="Children" note="tasks that the run has started, in order">
      <table>
        <thead>
          <tr>
            <th>state</th>
            <th>key</th>
            <th>kind</th>
            <th>queue</th>
            <th>started</th>
          </tr>
        </thead>
        <tbody>
          {list.children.map((child) => (
            <tr key={child.taskId}>
              <td>
                <Mark look={stateLook(child.state)} />
              </td>
              <td>
                <a data-row href={`runs/${runIdOf(child.taskId)}`}>
                  {visible(child.key)}
                </a>
              </td>
              <td>{visible(child.kind)}</td>
              <td>{visible(child.queue)}</td>
              <td>
                <Time at={child.startedAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

export function RecordTab({ run }: { run: Run }) {
  const query = useQuery<Record_>(`record ${run.runId}`, undefined, (signal) =>
    get(`v1/runs/${run.runId}/record`, { query: { limit: 200 }, signal }),
  );
  const record = query.data.value;
  if (!record)
    return query.problem.value ? (
      <Failed problem={query.problem.value} again={query.again} />
    ) : (
      <Loading rows={8} />
    );
  return (
    <>
      <Card
        title="Record"
        note="what is sealed about this run, and what this browser computed again from the payloads it shows"
      >
        <dl class="kv pad-b">
          <Check
            name="input"
            claimed={record.inputDigest}
            text={run.plan ? undefined : run.input}
            because={
              run.plan ? "the run has a plan: its digest covers the steps" : "the input is not here any more"
            }
          />
          {record.outputDigest && (
            <Check
              name="output"
              claimed={record.outputDigest}
              text={run.output}
              because="the output is not here any more"
            />
          )}
          <div>
            <dt>record</dt>
            <dd>
              <Digest value={record.digest} />{" "}
              <span class="muted">
                over {record.decisions ?? "all"} decisions; <code>tenure prove {run.runId}</code> checks the
                chain and its seal
              </span>
            </dd>
          </div>
          <div>
            <dt>took</dt>
            <dd>{span(record.durationMs)}</dd>
          </div>
        </dl>
      </Card>
      <Card title="Attempts" note="as they are sealed">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
        <table tabIndex={0}>
          <thead>
            <tr>
              <th class="r">attempt</th>
              <th>outcome</th>
              <th>owner</th>
              <th class="r">fence</th>
              <th>granted</th>
              <th class="r">held for</th>
              <th>reason</th>
              <th>report</th>
            </tr>
          </thead>
          <tbody>
            {record.attempts.map((attempt) => (
              <tr key={attempt.attempt}>
                <td class="num r">{attempt.attempt}</td>
                <td>
                  <Mark look={outcomeLook(attempt.outcome)} />
                </td>
                <td>{visible(attempt.owner)}</td>
                <td class="num r" title={String(attempt.fence)}>
                  {fence(attempt.fence)}
                </td>
                <td>
                  <Time at={attempt.grantedAt} />
                </td>
                <td class="num r">{span(ms(attempt.endedAt)! - ms(attempt.grantedAt)!)}</td>
                <td class="muted">{attempt.reason ?? ""}</td>
                <td>
                  {attempt.reportDigest ? (
                    <Digest value={attempt.reportDigest} short />
                  ) : (
                    <span class="muted">none</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
    </>
  );
}

/** A digest of the record beside the one that was computed here. */
function Check({
  name,
  claimed,
  text,
  because,
}: {
  name: string;
  claimed: string;
  text: string | undefined;
  because: string;
}) {
  const computed = text === undefined ? undefined : payloadDigest(text);
  const isSame = computed === claimed;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <Digest value={claimed} />{" "}
        {computed === undefined && <span class="muted">not computed here: {because}</span>}
        {computed !== undefined && isSame && (
          <span class="t-ok ink check">
            <Glyph name="ok" /> computed here, the same
          </span>
        )}
        {computed !== undefined && !isSame && (
          <strong class="t-bad ink check" role="alert">
            <Glyph name="bad" /> the payload that is shown has another digest: <Digest value={computed} />
          </strong>
        )}
      </dd>
    </div>
  );
}

export function RawTab({ run }: { run: Run }) {
  // Payloads are text here; the other tab has them as they were sent.
  return (
    <Card title="Raw" note="the answer of the server; payloads as text">
      <PayloadView text={JSON.stringify(run)} label="run" />
    </Card>
  );
}
