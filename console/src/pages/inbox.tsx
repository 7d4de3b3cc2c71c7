/** Inbox: what waits for a person, with everything needed to decide, and a decision that is bound to what was shown. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { may, mayRead } from "../access.js";
import { get, type Problem, post, runIdOf } from "../api/call.js";
import type { Approval, ApprovalDecided, ApprovalList, Run, Steps } from "../api/types.js";
import { asProblem, useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { type Content, contentOf } from "../model/content.js";
import { contentDigest } from "../model/digest.js";
import { tableRows, visible } from "../model/shown.js";
import { type Look, stateLook } from "../model/state.js";
import { clock, ms, relative, roughly } from "../model/time.js";
import { Cli, Digest, Empty, Failed, Loading, Time } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Glyph, Pill } from "../parts/glyph.js";
import { PayloadView } from "../parts/payload.js";
import { nameOf } from "../people.js";
import { place } from "../router.js";
import { person } from "../session.js";

export function InboxPage({ item }: { item: string | undefined }) {
  const which = place.value.query.get("show") === "closed" ? "closed" : "pending";
  const query = useQuery<ApprovalList>(`inbox ${which}`, "inbox", (signal) =>
    get("v1/approvals", { query: { state: which, limit: 100 }, signal }),
  );
  const list = query.data.value?.approvals ?? [];
  const chosen = item ?? list[0]?.approvalId;
  document.title = "Inbox · Tenure";
  return (
    <>
      <div class={`head ${item ? "hide-narrow" : ""}`}>
        <h1>Inbox</h1>
        <span class="soft">what waits for a person</span>
      </div>
      <nav class={`chips ${item ? "hide-narrow" : ""}`} aria-label="Which">
        <a
          class={`chip ${which === "pending" ? "on" : ""}`}
          aria-current={which === "pending" ? "true" : undefined}
          href="inbox"
        >
          Open{which === "pending" && query.data.value ? ` ${list.length}` : ""}
        </a>
        <a
          class={`chip ${which === "closed" ? "on" : ""}`}
          aria-current={which === "closed" ? "true" : undefined}
          href="inbox?show=closed"
        >
          Decided
        </a>
      </nav>
      {query.problem.value && <Failed problem={query.problem.value} again={query.again} />}
      {!query.data.value && !query.problem.value && <Loading rows={5} />}
      {query.data.value && list.length === 0 && !item && <Nothing which={which} />}
      {(list.length > 0 || item) && (
        <div class={`split ${item ? "with-item" : ""}`}>
          <section class={`card list ${item ? "hide-narrow" : ""}`} aria-label="Approvals">
            {list.map((approval) => (
              <Item key={approval.approvalId} approval={approval} isOn={approval.approvalId === chosen} />
            ))}
          </section>
          {chosen && <ApprovalCard key={chosen} id={chosen} changed={query.again} />}
        </div>
      )}
    </>
  );
}

function Nothing({ which }: { which: string }) {
  return (
    <section class="card">
      <Empty
        title={which === "pending" ? "Nothing waits for a person" : "Nothing has been decided yet"}
        lines={which === "pending" ? ["tenure tour approval"] : []}
      >
        A run that needs a decision asks for it here, with what is to be decided. It waits without a worker
        and without a process.
      </Empty>
    </section>
  );
}

function Item({ approval, isOn }: { approval: Approval; isOn: boolean }) {
  const look = approvalLook(approval);
  const query = place.value.query.toString();
  return (
    <a
      class={`item ${isOn ? "on" : ""}`}
      data-row
      aria-current={isOn ? "true" : undefined}
      href={`inbox/${approval.approvalId}${query ? `?${query}` : ""}`}
    >
      <span class={`t-${look.tone} ink`}>
        <Glyph name={look.glyph} size={14} />
      </span>
      <b>{visible(approval.subject ?? approval.key)}</b>
      <span class="muted nowrap">{roughly(clock.value - ms(approval.openedAt)!)}</span>
      <span class="under muted">
        {approved(approval)} of {approval.quorum} approved
        {approval.state === "pending" && approval.expiresAt
          ? `, expires ${relative(ms(approval.expiresAt)!, clock.value)}`
          : ""}
        {approval.outcome ? `, ${approval.outcome}` : ""}
      </span>
    </a>
  );
}

const approved = (approval: Approval) => approval.votes.filter((vote) => vote.decision === "APPROVED").length;

function approvalLook(approval: Approval): Look {
  if (approval.state === "pending") {
    const missing = approval.quorum - approved(approval);
    return {
      tone: "wait",
      glyph: "wait",
      word: `waits for ${missing} ${approved(approval) > 0 ? "more " : ""}${missing === 1 ? "person" : "people"}`,
    };
  }
  if (approval.outcome === "APPROVED") return { ...stateLook("succeeded"), word: "approved" };
  if (approval.outcome === "REJECTED") return { ...stateLook("failed"), word: "rejected" };
  return { tone: "queue", glyph: "cancel", word: (approval.outcome ?? "closed").toLowerCase() };
}

interface Asked {
  approval: Approval;
  content: Content | undefined;
  kind: string | undefined;
}

/** Reads an approval and what it is about; what was found once is not looked for again. */
async function readAsked(id: string, known: Asked | undefined, signal: AbortSignal): Promise<Asked> {
  const approval = await get<Approval>(`v1/approvals/${id}`, { signal });
  if (known && (known.content !== undefined || !approval.digest)) return { ...known, approval };
  const optional = <T,>(reading: Promise<T>): Promise<T | undefined> => reading.catch(() => undefined);
  const run = mayRead("runs")
    ? await optional(get<Run>(`v1/runs/${runIdOf(approval.taskId)}`, { signal }))
    : undefined;
  const mayHaveSteps = run?.durable && !approval.content;
  const steps = mayHaveSteps
    ? await optional(
        get<Steps>(`v1/runs/${runIdOf(approval.taskId)}/steps`, { query: { limit: 200 }, signal }),
      )
    : undefined;
  return { approval, content: contentOf(approval, run, steps?.steps ?? []), kind: run?.kind };
}

function ApprovalCard({ id, changed }: { id: string; changed: () => Promise<void> }) {
  const known = useSignal<Asked | undefined>(undefined);
  const query = useQuery<Asked>(`approval ${id}`, "inbox", async (signal) => {
    known.value = await readAsked(id, known.value, signal);
    return known.value;
  });
  const { approval, content, kind } = query.data.value ?? {};
  if (!approval) {
    return (
      <section class="card pad">
        {query.problem.value ? (
          <Failed problem={query.problem.value} again={query.again} />
        ) : (
          <Loading rows={8} />
        )}
      </section>
    );
  }
  const look = approvalLook(approval);
  const both = async () => {
    await Promise.all([query.again(), changed()]);
  };
  return (
    <section class="card pad approval" aria-label="Approval">
      <a class="back" href="inbox">
        ‹ Inbox
      </a>
      <div class="lead">
        <Pill look={look} />
        <span class="muted">
          asked <Time at={approval.openedAt} /> by{" "}
          {mayRead("runs") ? <a href={`runs/${approval.runId}`}>{visible(kind ?? "its run")}</a> : "a run"}
        </span>
      </div>
      <h2 class="question">
        <bdi>{visible(approval.subject ?? approval.key)}</bdi>
      </h2>
      <Standing approval={approval} />
      <Decision key={content?.text} approval={approval} content={content} changed={both} />
    </section>
  );
}

function Standing({ approval }: { approval: Approval }) {
  const votes = approval.votes;
  return (
    <div class="standing">
      <div class={votes.length > 0 ? "t-ok edge" : ""}>
        <span class="muted">
          {approved(approval)} of {approval.quorum} approved
        </span>
        {votes.length === 0 && <span>no decision yet</span>}
        {votes.map((vote) => (
          <span key={vote.keyId}>
            <b title={vote.keyId}>{visible(nameOf(vote.keyId))}</b>{" "}
            {vote.decision === "APPROVED" ? "approved" : <b class="t-bad ink">rejected</b>}
            {vote.comment ? (
              <>
                : <bdi>“{visible(vote.comment)}”</bdi>
              </>
            ) : (
              ""
            )}
          </span>
        ))}
      </div>
      <div>
        <span class="muted">without a decision</span>
        <span>
          {approval.expiresAt ? (
            <>
              {(approval.default ?? "expired").toLowerCase()} <Time at={approval.expiresAt} />
            </>
          ) : (
            "the run waits for up to 30 days, then it fails"
          )}
        </span>
      </div>
      <div>
        <span class="muted">one rejection rejects</span>
        <span>
          {approval.quorum === 1
            ? "one approval lets the run go on"
            : `${approval.quorum} approvals let the run go on`}
        </span>
      </div>
    </div>
  );
}

type Bound = { state: "same" | "different" | "unseen" | "nothing"; computed?: string };

/** Whether what is shown is what the run asked about. */
export function bound(approval: Approval, content: Content | undefined): Bound {
  if (!approval.digest) return { state: "nothing" };
  if (content === undefined) return { state: "unseen" };
  const computed = contentDigest(content.text);
  return { state: computed === approval.digest ? "same" : "different", computed };
}

function Decision({
  approval,
  content,
  changed,
}: {
  approval: Approval;
  content: Content | undefined;
  changed: () => Promise<void>;
}) {
  const isTable = useSignal(true);
  const isRendered = useSignal(false);
  const checked = bound(approval, content);
  useEffect(() => {
    isRendered.value = true;
  }, []);
  const rows = content ? tableRows(content.text) : undefined;
  return (
    <>
      {content && (
        <div class="doc">
          <header>
            <b>What you approve</b>
            {content.of && <span class="muted">{visible(content.of)}</span>}
            <span class="sp" />
            {rows && (
              <>
                <button
                  type="button"
                  class="link"
                  aria-pressed={isTable.value}
                  onClick={() => {
                    isTable.value = true;
                  }}
                >
                  as table
                </button>
                <button
                  type="button"
                  class="link"
                  aria-pressed={!isTable.value}
                  onClick={() => {
                    isTable.value = false;
                  }}
                >
                  as JSON
                </button>
              </>
            )}
          </header>
          {rows && isTable.value ? (
            <table>
              <tbody>
                {rows.map(([name, value]) => (
                  <tr key={name}>
                    <th scope="row">
                      <bdi>{visible(name)}</bdi>
                    </th>
                    <td>
                      <bdi>{visible(value)}</bdi>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <PayloadView text={content.text} label="what you approve" />
          )}
        </div>
      )}
      <Binding approval={approval} checked={checked} />
      {approval.state === "pending" && may("approvals.decide") && (
        <Decide approval={approval} checked={checked} isRendered={isRendered.value} changed={changed} />
      )}
    </>
  );
}

function Binding({ approval, checked }: { approval: Approval; checked: Bound }) {
  switch (checked.state) {
    case "same":
      return (
        <p class="binding t-ok">
          <Glyph name="ok" size={15} />
          <span>
            Your decision is bound to exactly this text. Computed here from what is shown:{" "}
            <Digest value={approval.digest!} short />, the same as the run asked for.
          </span>
        </p>
      );
    case "different":
      return (
        <p class="binding t-bad" role="alert">
          <Glyph name="bad" size={15} />
          <span>
            <b>Do not decide.</b> What is shown has the digest <Digest value={checked.computed!} short />, and
            the run asked about <Digest value={approval.digest!} short />.
          </span>
        </p>
      );
    case "unseen":
      return (
        <p class="binding t-halt">
          <Glyph name="halt" size={15} />
          <span>
            The run asked about something with the digest <Digest value={approval.digest!} short /> that the
            server does not have. Paste its digest below after you have looked at it elsewhere.
          </span>
        </p>
      );
    default:
      return (
        <p class="binding t-queue">
          <Glyph name="queue" size={15} />
          <span>The run asks this question without content: you decide about the sentence above.</span>
        </p>
      );
  }
}

interface DecideProps {
  approval: Approval;
  checked: Bound;
  isRendered: boolean;
  changed: () => Promise<void>;
}

function Decide({ approval, checked, isRendered, changed }: DecideProps) {
  const comment = useSignal("");
  const pasted = useSignal("");
  const isRejecting = useSignal(false);
  const isBusy = useSignal(false);
  const problem = useSignal<Problem | undefined>(undefined);
  const digest =
    checked.state === "unseen"
      ? pasted.value.trim()
      : checked.state === "same"
        ? checked.computed
        : undefined;
  const isReady =
    isRendered &&
    checked.state !== "different" &&
    (checked.state !== "unseen" || /^[0-9a-f]{64}$/.test(digest ?? ""));
  const send = async (decision: "APPROVED" | "REJECTED") => {
    await post<ApprovalDecided>(`v1/approvals/${approval.approvalId}/decide`, {
      decision,
      comment: comment.value.trim() || undefined,
      digest,
    });
    await changed();
  };
  const approve = async () => {
    isBusy.value = true;
    problem.value = undefined;
    try {
      await send("APPROVED");
    } catch (error) {
      problem.value = asProblem(error);
    }
    isBusy.value = false;
  };
  const line = (verb: string) =>
    command(
      "approvals",
      verb,
      approval.approvalId,
      ...(digest ? ["--digest", digest] : []),
      ...(comment.value ? ["--comment", comment.value] : []),
    );
  return (
    <div class="decide">
      {checked.state === "unseen" && (
        <div class="field">
          <label for="digest">Digest of what you have looked at</label>
          <input
            id="digest"
            type="text"
            class="mono"
            spellcheck={false}
            value={pasted.value}
            onInput={(event) => {
              pasted.value = event.currentTarget.value;
            }}
          />
        </div>
      )}
      <label class="vh" for="comment">
        Comment
      </label>
      <textarea
        id="comment"
        placeholder="Comment: why you decide so"
        maxLength={1000}
        value={comment.value}
        onInput={(event) => {
          comment.value = event.currentTarget.value;
        }}
      />
      {problem.value && <Failed problem={problem.value} deed="do" />}
      <div class="decide-foot" data-actions>
        <button type="button" class="btn go" disabled={!isReady || isBusy.value} onClick={approve}>
          Approve
        </button>
        <button
          type="button"
          class="btn no danger"
          disabled={!isReady || isBusy.value}
          onClick={() => {
            isRejecting.value = true;
          }}
        >
          Reject…
        </button>
        <span class="muted">
          You decide as <b>{visible(nameOf(person.value?.keyId ?? ""))}</b>. It is recorded and cannot be
          taken back.
        </span>
      </div>
      <Cli line={line("approve")} />
      {isRejecting.value && (
        <Dialog
          title="Reject?"
          act="Reject it"
          isDanger
          close={() => {
            isRejecting.value = false;
          }}
          line={line("reject")}
          run={() => send("REJECTED")}
        >
          <p>
            One rejection rejects, whatever others have decided. The run is told and decides what follows.
            This cannot be taken back.
          </p>
          {comment.value.trim() === "" && (
            <p class="muted">You have written no comment: a reason helps the one who asked.</p>
          )}
        </Dialog>
      )}
    </div>
  );
}
