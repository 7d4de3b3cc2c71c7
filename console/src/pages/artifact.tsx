/** One artifact of a deployment: what became of it, its fields, and what a person may do about it. */

import { useSignal } from "@preact/signals";
import { get, inPath, post } from "../api/call.js";
import type { Artifact, PauseState, PauseStateList, WorkOrder, WorkOrderList } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import { type Happening, movesOf, nameOfArtifact, storyOf, type Transition } from "../model/topology.js";
import { Card, Time } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Facts, Foot } from "../parts/frame.js";
import { Glyph } from "../parts/glyph.js";
import { PayloadView } from "../parts/payload.js";
import { Read } from "../parts/read.js";
import type { Part } from "./topology-picture.js";

const PAGE = 500;
/** Work orders and pause states that are looked through: the server has no filter by artifact. */
const SEARCHED_MAX = 2000;

interface State {
  artifact: Artifact;
  orders: WorkOrder[];
  pauses: PauseState[];
  isCut: boolean;
}

async function readAll<T>(
  read: (cursor: string | undefined) => Promise<{ items: T[]; cursor?: string | null }>,
): Promise<{ items: T[]; isCut: boolean }> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    items.push(...page.items);
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined && items.length < SEARCHED_MAX);
  return { items, isCut: cursor !== undefined };
}

async function read({ path }: Part, name: string, signal: AbortSignal): Promise<State> {
  const [type = "", ...id] = name.split("/");
  const [artifact, orders, pauses] = await Promise.all([
    get<Artifact>(`${path}/artifacts/${type}/${inPath(id.join("/"))}`, { signal }),
    readAll(async (cursor) => {
      const query = { limit: PAGE, cursor };
      const page = await get<WorkOrderList>(`${path}/workorders`, { query, signal });
      return { items: page.workOrders, cursor: page.cursor };
    }),
    readAll(async (cursor) => {
      const query = { limit: PAGE, cursor };
      const page = await get<PauseStateList>(`${path}/pause-states`, { query, signal });
      return { items: page.pauseStates, cursor: page.cursor };
    }),
  ]);
  return { artifact, orders: orders.items, pauses: pauses.items, isCut: orders.isCut || pauses.isCut };
}

export function ArtifactStory({ artifact, ...part }: Part & { artifact: string }) {
  const query = useQuery<State>(`artifact ${part.name} ${artifact}`, "queues", (signal) =>
    read(part, artifact, signal),
  );
  return <Read query={query}>{(state) => <Shown part={part} state={state} again={query.again} />}</Read>;
}

function Shown({ part, state, again }: { part: Part; state: State; again: () => Promise<void> }) {
  const { artifact } = state;
  const name = nameOfArtifact(artifact);
  const cycles = part.declaration.limits?.cycles;
  return (
    <>
      <div class="head">
        <h2 class="artifact-name">
          <code>{visible(name)}</code>
        </h2>
        <span class="tag">{visible(artifact.status)}</span>
        <span class="sp" />
        <Moves part={part} artifact={artifact} again={again} />
      </div>
      <Facts
        of={[
          ["since", <Time at={artifact.enteredAt} />],
          [
            "work orders since a person decided",
            `${artifact.cycles}${cycles === undefined ? "" : ` of ${cycles}`}`,
          ],
          ["taken by", artifact.reservedBy && <code>{visible(artifact.reservedBy)}</code>],
          ["revision", artifact.revision],
        ]}
      />
      {artifact.passed && (
        <p class="story t-wait">
          The output of <code>{visible(artifact.passed)}</code> passed its gate. A person has to confirm it:
          move the artifact on, or back.
        </p>
      )}
      <div class="two artifact">
        <Card
          title="Story"
          note={state.isCut ? `of the first ${SEARCHED_MAX} work orders and pause states` : "oldest first"}
        >
          <ol class="happenings">
            {storyOf(artifact, state.orders, state.pauses).map((happening) => (
              <HappeningRow key={`${happening.at} ${happening.what}`} happening={happening} />
            ))}
          </ol>
        </Card>
        <Card title="Fields">
          <PayloadView text={artifact.fields} label="fields" />
        </Card>
      </div>
      <Foot lines={[command("artifacts", "show", part.name, artifact.type, artifact.id)]} />
    </>
  );
}

function HappeningRow({ happening }: { happening: Happening }) {
  const { at, look, what, more, runId } = happening;
  return (
    <li>
      <Time at={at} />
      <span class={`t-${look.tone} ink`}>
        <Glyph name={look.glyph} />
      </span>
      <span>
        <b class="strong">{visible(what)}</b>
        {more.map((line) => (
          <span key={line} class="muted">
            {visible(line)}
          </span>
        ))}
      </span>
      {runId && <a href={`runs/${runId}`}>run</a>}
    </li>
  );
}

/** What a person may do about it in its status; the server decides whether this person may. */
function Moves({ part, artifact, again }: { part: Part; artifact: Artifact; again: () => Promise<void> }) {
  const open = useSignal<Transition | undefined>(undefined);
  const moves = movesOf(part.declaration.artifacts[artifact.type], artifact.status);
  return (
    <span class="actions" data-actions>
      {moves.map((move) => (
        <button
          key={`${move.by} ${move.to}`}
          type="button"
          class="btn"
          onClick={() => {
            open.value = move;
          }}
        >
          {move.by === "approval" ? "Approve" : "Move to"} {visible(move.to)}…
        </button>
      ))}
      {open.value && (
        <MoveDialog
          part={part}
          artifact={artifact}
          move={open.value}
          again={again}
          close={() => {
            open.value = undefined;
          }}
        />
      )}
    </span>
  );
}

function MoveDialog(props: {
  part: Part;
  artifact: Artifact;
  move: Transition;
  again: () => Promise<void>;
  close: () => void;
}) {
  const { part, artifact, move } = props;
  const isApproval = move.by === "approval";
  const name = nameOfArtifact(artifact);
  // The revision that was looked at: a change in between is refused, and nothing is decided about what was not seen.
  const revision = artifact.revision;
  return (
    <Dialog
      title={`${isApproval ? "Approve" : "Move"} ${visible(name)}?`}
      act={isApproval ? `Approve ${visible(move.to)}` : `Move to ${visible(move.to)}`}
      close={props.close}
      line={command(
        "artifacts",
        isApproval ? "approve" : "move",
        part.name,
        artifact.type,
        artifact.id,
        move.to,
        "--revision",
        String(revision),
      )}
      run={async () => {
        const verb = isApproval ? "approve" : "transition";
        await post(`${part.path}/artifacts/${artifact.type}/${inPath(artifact.id)}/${verb}`, {
          to: move.to,
          revision,
        });
        await props.again();
      }}
    >
      <p>
        <code>{visible(name)}</code> goes from <b>{visible(artifact.status)}</b> to <b>{visible(move.to)}</b>,
        with its fields as they are. Roles act on the new status at once.
      </p>
      {artifact.reservedBy && (
        <p class="t-halt ink">
          A work order has taken it: <code>{visible(artifact.reservedBy)}</code>.
        </p>
      )}
    </Dialog>
  );
}
