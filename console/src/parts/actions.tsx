/** What can be done about a run. Each dialog says what will happen, shows the command, and can be repeated without doing it twice. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { may } from "../access.js";
import { post } from "../api/call.js";
import type { Run, RunAccepted } from "../api/types.js";
import { canRunAgain, submissionOf } from "../model/again.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import { isEnded } from "../model/state.js";
import { go } from "../router.js";
import { Dialog } from "./dialog.js";

type Action = "cancel" | "retry" | "continue" | "signal" | "resume" | "again";

const WORDS: Record<Action, string> = {
  cancel: "Cancel…",
  retry: "Retry…",
  continue: "Continue…",
  signal: "Send signal…",
  resume: "Resume…",
  again: "Run again…",
};

const NEEDS: Record<Action, string> = {
  cancel: "runs.cancel",
  retry: "runs.retry",
  continue: "runs.fork",
  signal: "runs.signals",
  resume: "runs.resume",
  again: "runs.write",
};

/** What the state of a run allows. The server decides; this only leaves out what it would refuse for certain. */
export function possible(run: Run): Action[] {
  if (!isEnded(run.state)) {
    const actions: Action[] = ["cancel"];
    if (run.durable) actions.unshift("signal");
    if (run.durable?.waiting?.diverged) actions.unshift("resume");
    return actions;
  }
  const hasRecords = (run.durable?.steps ?? 0) > 0;
  const again: Action[] = canRunAgain(run) ? ["again"] : [];
  if (run.state === "succeeded") return again;
  return hasRecords ? ["continue", "retry", ...again] : ["retry", ...again];
}

export function Actions({ run, again }: { run: Run; again: () => Promise<void> }) {
  const open = useSignal<Action | undefined>(undefined);
  const close = () => {
    open.value = undefined;
  };
  const props = { run, close, again };
  const offered = possible(run).filter((action) => may(NEEDS[action]));
  return (
    <span class="actions" data-actions>
      {offered.map((action, i) => (
        <button
          key={action}
          type="button"
          class={`btn ${action === "cancel" ? "danger" : i === 0 && isEnded(run.state) ? "primary" : ""}`}
          onClick={() => {
            open.value = action;
          }}
        >
          {WORDS[action]}
        </button>
      ))}
      {open.value === "cancel" && <CancelDialog {...props} />}
      {open.value === "retry" && <RetryDialog {...props} />}
      {open.value === "continue" && <ContinueDialog {...props} />}
      {open.value === "signal" && <SignalDialog {...props} />}
      {open.value === "resume" && <ResumeDialog {...props} />}
      {open.value === "again" && <AgainDialog {...props} />}
    </span>
  );
}

interface Props {
  run: Run;
  close: () => void;
  again: () => Promise<void>;
}

function Field({ id, label, children }: { id: string; label: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
    </div>
  );
}

function CancelDialog({ run, close, again }: Props) {
  const reason = useSignal("");
  const isForced = useSignal(false);
  const children = run.durable?.liveChildren ?? 0;
  return (
    <Dialog
      title="Cancel this run?"
      act={isForced.value ? "Revoke the lease now" : "Cancel the run"}
      isDanger
      close={close}
      line={command(
        "runs",
        "cancel",
        run.runId,
        ...(reason.value ? ["--reason", reason.value] : []),
        isForced.value && "--force",
      )}
      run={async () => {
        await post(`v1/runs/${run.runId}/cancel`, {
          reason: reason.value || undefined,
          force: isForced.value || undefined,
        });
        await again();
      }}
    >
      <p>
        {run.lease ? (
          isForced.value ? (
            <>
              The lease of <b>{visible(run.lease.owner)}</b> is revoked at once; its report will be refused.
              What its program does outside goes on until it notices.
            </>
          ) : (
            <>
              <b>{visible(run.lease.owner)}</b> is asked to stop and has{" "}
              {Math.round((run.cancelGraceMs ?? 30_000) / 1000)} s to clean up. Then the lease is revoked.
            </>
          )
        ) : (
          <>No worker has it now, so it ends at once as cancelled.</>
        )}
        {children > 0 && ` Its ${children} running children are cancelled too.`} This cannot be undone; what
        was recorded stays.
      </p>
      <Field id="reason" label="Reason, which the worker is told">
        <input
          id="reason"
          type="text"
          maxLength={200}
          value={reason.value}
          onInput={(event) => {
            reason.value = event.currentTarget.value;
          }}
        />
      </Field>
      {run.lease && (
        <label class="tick-box">
          <input
            type="checkbox"
            checked={isForced.value}
            onChange={(event) => {
              isForced.value = event.currentTarget.checked;
            }}
          />{" "}
          by force, without asking the worker
        </label>
      )}
    </Dialog>
  );
}

function RetryDialog({ run, close }: Props) {
  const hasRecords = (run.durable?.steps ?? 0) > 0;
  return (
    <Dialog
      title="Retry this run?"
      act="Submit it once more"
      close={close}
      line={command("runs", "retry", run.runId, hasRecords && "--from-scratch")}
      run={async (idempotencyKey) => {
        const made = await post<RunAccepted>(
          `v1/runs/${run.runId}/retry`,
          hasRecords ? { fromScratch: true } : {},
          { idempotencyKey },
        );
        go(`runs/${made.runId}`);
      }}
    >
      <p>
        A <b>new run</b> of <code>{visible(run.kind)}</code> is submitted to <code>{visible(run.queue)}</code>{" "}
        with the same input and settings. This one stays as it is, and names its successor.
      </p>
      {hasRecords && (
        <p class="t-halt ink">
          It recorded {run.durable!.steps} steps. A retry does all of them again; “Continue” goes on after
          them.
        </p>
      )}
    </Dialog>
  );
}

function ContinueDialog({ run, close }: Props) {
  const tokens = useSignal("");
  const limit = run.budget?.limits.tokens ?? undefined;
  const isExhausted = run.error?.reason === "BUDGET_EXHAUSTED";
  const isReady = tokens.value === "" ? !isExhausted || limit === undefined : /^\d{1,15}$/.test(tokens.value);
  return (
    <Dialog
      title="Continue this run?"
      act="Continue as a new run"
      close={close}
      isReady={isReady}
      line={command(
        "runs",
        "continue",
        run.runId,
        ...(tokens.value ? ["--budget", `tokens=${tokens.value}`] : []),
      )}
      run={async (idempotencyKey) => {
        const budget = tokens.value ? { tokens: Number(tokens.value) } : undefined;
        const made = await post<RunAccepted>(`v1/runs/${run.runId}/fork`, { budget }, { idempotencyKey });
        go(`runs/${made.runId}`);
      }}
    >
      <p>
        A <b>new run</b> takes over the {run.durable?.steps} recorded steps and goes on after them. Nothing
        that was recorded is done again. This run stays as it is.
      </p>
      {limit !== undefined && (
        <Field
          id="tokens"
          label={`Tokens that it may use; the old limit was ${limit}${isExhausted ? ", and is used up" : ""}`}
        >
          <input
            id="tokens"
            type="text"
            inputMode="numeric"
            value={tokens.value}
            onInput={(event) => {
              tokens.value = event.currentTarget.value.trim();
            }}
          />
        </Field>
      )}
    </Dialog>
  );
}

function SignalDialog({ run, close, again }: Props) {
  const awaited = run.durable?.waiting?.wait?.for.find((item) => item.signal)?.signal ?? "";
  const name = useSignal(awaited);
  const value = useSignal("null");
  const problem = invalid(value.value);
  return (
    <Dialog
      title="Send a signal?"
      act="Send it"
      close={close}
      isReady={name.value !== "" && problem === undefined}
      line={command(
        "runs",
        "signal",
        run.runId,
        name.value || "NAME",
        ...(value.value === "null" ? [] : ["--data", value.value]),
      )}
      run={async (idempotencyKey) => {
        await post(
          `v1/runs/${run.runId}/signals`,
          { name: name.value, payload: JSON.parse(value.value) },
          { idempotencyKey },
        );
        await again();
      }}
    >
      <p>The value is recorded for this run and kept until the run takes it. It is taken once.</p>
      <Field id="name" label={awaited ? `Name; the run waits for ${awaited}` : "Name"}>
        <input
          id="name"
          type="text"
          maxLength={128}
          value={name.value}
          onInput={(event) => {
            name.value = event.currentTarget.value.trim();
          }}
        />
      </Field>
      <Field id="value" label="Value, as JSON">
        <textarea
          id="value"
          rows={4}
          spellcheck={false}
          value={value.value}
          aria-invalid={problem !== undefined}
          onInput={(event) => {
            value.value = event.currentTarget.value;
          }}
        />
      </Field>
      {problem && (
        <p class="t-bad ink" role="status">
          {problem}
        </p>
      )}
    </Dialog>
  );
}

function ResumeDialog({ run, close, again }: Props) {
  return (
    <Dialog
      title="Resume this run?"
      act="Resume it"
      close={close}
      line={command("runs", "resume", run.runId)}
      run={async () => {
        await post(`v1/runs/${run.runId}/resume`, {});
        await again();
      }}
    >
      <p>
        Its code did not match what it had recorded, so it stopped before doing anything. Resume it after code
        was deployed that matches; otherwise it stops again at the same place.
      </p>
    </Dialog>
  );
}

function AgainDialog({ run, close }: Props) {
  const input = useSignal(run.input ?? "null");
  const problem = invalid(input.value);
  return (
    <Dialog
      title="Run it again?"
      act="Submit a new run"
      close={close}
      isReady={problem === undefined}
      line={command("submit", run.kind, "--queue", run.queue, "--input", input.value)}
      run={async (idempotencyKey) => {
        const made = await post<RunAccepted>("v1/runs", submissionOf(run, JSON.parse(input.value)), {
          idempotencyKey,
        });
        go(`runs/${made.runId}`);
      }}
    >
      <p>
        A <b>new run</b> of <code>{visible(run.kind)}</code> is submitted to <code>{visible(run.queue)}</code>{" "}
        with this input and the settings of this one, but no deadline. It does its work again, outside too,
        and nothing links the two.
      </p>
      <Field id="input" label="Input, as JSON">
        <textarea
          id="input"
          rows={8}
          spellcheck={false}
          value={input.value}
          aria-invalid={problem !== undefined}
          onInput={(event) => {
            input.value = event.currentTarget.value;
          }}
        />
      </Field>
      {problem && (
        <p class="t-bad ink" role="status">
          {problem}
        </p>
      )}
    </Dialog>
  );
}

/** Why a text cannot be sent as JSON from here. */
export function invalid(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch (error) {
    return error instanceof Error ? error.message : "this is no JSON";
  }
  const integers = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").match(/\d{16,}/g) ?? [];
  if (integers.some((digits) => !Number.isSafeInteger(Number(digits))))
    return "a number beyond 2^53 would be rounded here: use the command line";
  return undefined;
}
