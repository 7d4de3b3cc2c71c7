/** One artifact of a deployment: what became of it, its fields, and what a person may do about it. */

import { get, Problem, post } from "../api/call.js";
import type {
  Artifact,
  ArtifactList,
  PauseState,
  PauseStateList,
  WorkOrder,
  WorkOrderList,
} from "../api/types.js";
import { readPages } from "../data/pages.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import { type Happening, movesOf, nameOfArtifact, storyOf, type Transition } from "../model/topology.js";
import { Act } from "../parts/act.js";
import { Card, Time } from "../parts/bits.js";
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

/** An artifact by `TYPE/ID`. The server has no path for an id with a slash, so such a one is looked for in the list. */
async function find(path: string, name: string, signal: AbortSignal): Promise<Artifact> {
  const [type = "", ...rest] = name.split("/");
  const of = `${path}/artifacts/${type}`;
  if (rest.length < 2) return get<Artifact>(`${of}/${rest[0]}`, { signal });
  const { items } = await readPages(SEARCHED_MAX, async (cursor) => {
    const page = await get<ArtifactList>(of, { query: { limit: PAGE, cursor }, signal });
    return [page.artifacts, page.cursor];
  });
  const found = items.find((artifact) => nameOfArtifact(artifact) === name);
  if (found) return found;
  const message = `none of the first ${items.length} artifacts of the type is named ${name}`;
  throw new Problem(404, "artifact_not_found", "There is no such artifact", message);
}

async function read({ path }: Part, name: string, signal: AbortSignal): Promise<State> {
  const [artifact, orders, pauses] = await Promise.all([
    find(path, name, signal),
    readPages(SEARCHED_MAX, async (cursor) => {
      const query = { limit: PAGE, cursor };
      const page = await get<WorkOrderList>(`${path}/workorders`, { query, signal });
      return [page.workOrders, page.cursor];
    }),
    readPages(SEARCHED_MAX, async (cursor) => {
      const query = { limit: PAGE, cursor };
      const page = await get<PauseStateList>(`${path}/pause-states`, { query, signal });
      return [page.pauseStates, page.cursor];
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
  const moves = movesOf(part.declaration.artifacts[artifact.type], artifact.status);
  if (artifact.id.includes("/"))
    return <span class="muted">An id with a slash has no path in the API: it cannot be moved.</span>;
  return (
    <span class="actions">
      {moves.map((move) => (
        <Move key={`${move.by} ${move.to}`} part={part} artifact={artifact} move={move} again={again} />
      ))}
    </span>
  );
}

function Move(props: { part: Part; artifact: Artifact; move: Transition; again: () => Promise<void> }) {
  const { part, artifact, move } = props;
  const { type, id, revision } = artifact;
  const [verb, words, route] =
    move.by === "approval" ? ["approve", "Approve", "approve"] : ["move", "Move to", "transition"];
  const name = nameOfArtifact(artifact);
  // The revision that was looked at: a change in between is refused, and nothing is decided about what was not seen.
  const to = visible(move.to);
  return (
    <Act
      label={`${words} ${to}`}
      needs={`deployments.artifacts.${route}`}
      title={`${words} ${to}?`}
      act={`${words} ${to}`}
      line={command("artifacts", verb, part.name, type, id, move.to, "--revision", String(revision))}
      run={async () => {
        await post(`${part.path}/artifacts/${type}/${id}/${route}`, { to: move.to, revision });
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
    </Act>
  );
}
