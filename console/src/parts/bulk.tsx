/** Cancels or retries what a filter finds: first it is said what, then it is done to exactly these, and at the end what was refused. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { may } from "../access.js";
import { get, type Problem, post } from "../api/call.js";
import type { RunList } from "../api/types.js";
import { asProblem } from "../data/query.js";
import {
  carryOut,
  collect,
  isOffered,
  type Picked,
  type Preview,
  type Progress,
  RUNS_MAX,
  tally,
  type Verb,
} from "../model/bulk.js";
import { visible } from "../model/shown.js";
import { now } from "../model/time.js";
import { Failed, Time } from "./bits.js";

const WORDS = {
  cancel: {
    button: "Cancel all…",
    title: "Cancel these runs?",
    act: "Cancel",
    does: "Runs that wait end at once. Running ones are asked to stop. This cannot be undone; what was recorded stays.",
    done: "cancelled, or asked to stop",
  },
  retry: {
    button: "Retry all…",
    title: "Retry these runs?",
    act: "Retry",
    does: "Each is submitted once more as a new run with the same input and settings. The old ones stay as they are.",
    done: "retried",
  },
} as const;

const SHOWN = 10;

/** The buttons beside a list. `asked` makes the query of the API from the filters of the page. */
export function BulkActions(props: {
  filter: URLSearchParams;
  asked: (at: number) => URLSearchParams;
  again: () => Promise<void>;
}) {
  const open = useSignal<Verb | undefined>(undefined);
  const verbs = (["cancel", "retry"] as const).filter(
    (verb) => may(`runs.${verb}`) && isOffered(verb, props.filter),
  );
  return (
    <span class="actions">
      {verbs.map((verb) => (
        <button
          key={verb}
          type="button"
          class={`btn ${verb === "cancel" ? "danger" : ""}`}
          onClick={() => {
            open.value = verb;
          }}
        >
          {WORDS[verb].button}
        </button>
      ))}
      {open.value && (
        <BulkDialog
          verb={open.value}
          asked={props.asked(now())}
          close={() => {
            open.value = undefined;
            void props.again();
          }}
        />
      )}
    </span>
  );
}

function BulkDialog({ verb, asked, close }: { verb: Verb; asked: URLSearchParams; close: () => void }) {
  const element = useRef<HTMLDialogElement>(null);
  const stop = useRef(new AbortController());
  const found = useSignal(0);
  const preview = useSignal<Preview | undefined>(undefined);
  const at = useSignal(0);
  const progress = useSignal<Progress | undefined>(undefined);
  const isBusy = useSignal(false);
  const problem = useSignal<Problem | undefined>(undefined);
  useEffect(() => {
    element.current?.showModal();
    const reading = new AbortController();
    const read = (query: URLSearchParams) => get<RunList>("v1/runs", { query, signal: reading.signal });
    collect(verb, asked, read, (count) => {
      found.value = count;
    })
      .then((all) => {
        at.value = now();
        preview.value = all;
      })
      .catch((error) => {
        if (!reading.signal.aborted) problem.value = asProblem(error);
      });
    return () => {
      reading.abort();
      stop.current.abort();
    };
  }, []);
  const act = async (run: Picked) => {
    // As the command line: whoever retries a run, it is retried once.
    const idempotencyKey = verb === "retry" ? `retry-of-${run.runId}` : undefined;
    await post(`v1/runs/${run.runId}/${verb}`, {}, { idempotencyKey });
  };
  const start = async (event: Event) => {
    event.preventDefault();
    const before = progress.value;
    const runs = before ? before.left : preview.value!.runs;
    stop.current = new AbortController();
    isBusy.value = true;
    await carryOut(runs, act, stop.current.signal, (next) => {
      progress.value = {
        ...next,
        done: next.done + (before?.done ?? 0),
        refused: [...(before?.refused ?? []), ...next.refused],
      };
    });
    isBusy.value = false;
  };
  const words = WORDS[verb];
  const left = progress.value ? progress.value.left.length : (preview.value?.runs.length ?? 0);
  return (
    <dialog ref={element} onClose={close} aria-labelledby="bulk-title" class="bulk">
      <form onSubmit={start}>
        <h2 id="bulk-title">{words.title}</h2>
        {problem.value && <Failed problem={problem.value} />}
        {!preview.value && !problem.value && (
          <p role="status">Collecting the runs: {found.value} so far. Nothing is done yet.</p>
        )}
        {preview.value && !progress.value && (
          <Picture preview={preview.value} at={at.value} does={words.does} />
        )}
        {progress.value && (
          <Standing progress={progress.value} all={preview.value!.runs.length} done={words.done} />
        )}
        <footer>
          {isBusy.value ? (
            <button type="button" class="btn" onClick={() => stop.current.abort()}>
              Stop
            </button>
          ) : (
            <button type="button" class="btn" onClick={() => element.current?.close()}>
              {progress.value ? "Close" : "Back"}
            </button>
          )}
          {(left > 0 || isBusy.value) && (
            <button
              type="submit"
              class={`btn ${verb === "cancel" ? "danger solid" : "primary"}`}
              disabled={isBusy.value || !preview.value}
            >
              {isBusy.value ? "…" : progress.value ? `Go on with ${left}` : `${words.act} ${left} runs`}
            </button>
          )}
        </footer>
      </form>
    </dialog>
  );
}

function Picture({ preview, at, does }: { preview: Preview; at: number; does: string }) {
  const { runs, isCut, before } = preview;
  if (runs.length === 0)
    return (
      <p>
        No run matches that this could be done to.{" "}
        {before > 0 && `${before} were retried before; retry one again from its own page.`}
      </p>
    );
  return (
    <>
      <p>
        <b>
          {runs.length} {runs.length === 1 ? "run" : "runs"}
        </b>
        , found <Time at={at} />: {words(tally(runs, "state"))}. What is submitted from now on is not touched.{" "}
        {does}
      </p>
      <p class="soft">
        Kinds: {words(tally(runs, "kind"))}. Queues: {words(tally(runs, "queue"))}.
      </p>
      {isCut && (
        <p class="t-halt ink">
          More match: these are the newest {RUNS_MAX} of each state in turn. Repeat it for the others.
        </p>
      )}
      {before > 0 && <p class="soft">{before} more are left out: they were retried before.</p>}
      <ul>
        {runs.slice(0, SHOWN).map((run) => (
          <li key={run.runId}>
            <code>{run.runId}</code> {visible(run.kind)} on {visible(run.queue)}, {run.state}
          </li>
        ))}
        {runs.length > SHOWN && <li class="muted">and {runs.length - SHOWN} more</li>}
      </ul>
    </>
  );
}

const MOST = 4;

/** `12 queued, 3 running`; of many, the largest and how many others. */
function words(counts: Array<[string, number]>): string {
  const shown = counts.slice(0, MOST).map(([name, count]) => `${count} ${visible(name)}`);
  const rest = counts.length - shown.length;
  return shown.join(", ") + (rest > 0 ? ` and ${rest} others` : "");
}

function Standing({ progress, all, done }: { progress: Progress; all: number; done: string }) {
  const { refused, left, problem } = progress;
  return (
    <>
      <progress max={all} value={all - left.length} aria-label="How far it is" />
      <p role="status">
        <b>{progress.done}</b> {done}
        {refused.length > 0 && `, ${refused.length} refused`}
        {left.length > 0 && `, ${left.length} not tried yet`}.
      </p>
      {problem && <Failed problem={problem} deed="do" />}
      {refused.length > 0 && (
        <ul>
          {refused.slice(0, SHOWN).map(({ run, problem }) => (
            <li key={run.runId}>
              <a href={`runs/${run.runId}`}>{run.runId}</a>: {problem.message || problem.title}
            </li>
          ))}
          {refused.length > SHOWN && <li class="muted">and {refused.length - SHOWN} more</li>}
        </ul>
      )}
    </>
  );
}
