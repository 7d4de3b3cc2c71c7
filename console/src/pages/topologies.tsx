/** Topologies: where each artifact is, and what its story is. A deployment can be paused, resumed and deleted here. */

import { get, inPath, post } from "../api/call.js";
import type { Deployment, DeploymentList } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import type { Look } from "../model/state.js";
import { declarationOf } from "../model/topology.js";
import { Act } from "../parts/act.js";
import { Card, Digest, Empty, Time } from "../parts/bits.js";
import { Crumb, Facts, Foot, Head, Listing, Tabs } from "../parts/frame.js";
import { Mark } from "../parts/glyph.js";
import { PayloadView } from "../parts/payload.js";
import { Read } from "../parts/read.js";
import { type Column, Table } from "../parts/table.js";
import { go, place } from "../router.js";
import { ArtifactStory } from "./artifact.js";
import { PictureTab } from "./topology-picture.js";
import { ArtifactsTab, ClaimsTab, OrdersTab, PausesTab } from "./topology-tabs.js";

const PAGE = 200;

export function TopologiesPage({ name }: { name: string | undefined }) {
  document.title = "Topologies · Tenure";
  return name ? <DeploymentPage path={name} /> : <DeploymentsList />;
}

const LOOKS: Record<Deployment["state"], Look> = {
  active: { tone: "run", glyph: "run", word: "active" },
  paused: { tone: "retry", glyph: "park", word: "paused" },
  deleted: { tone: "queue", glyph: "cancel", word: "deleted" },
};

const COLUMNS: Array<Column<Deployment>> = [
  ["state", ({ state }) => <Mark look={LOOKS[state]} />, "nowrap"],
  [
    "deployment",
    ({ name }) => (
      <a data-row href={`topologies/${inPath(name)}`}>
        {visible(name)}
      </a>
    ),
    "strong",
  ],
  ["topology", ({ topology }) => visible(topology), "hide-narrow"],
  ["version", ({ version }) => <Digest value={hexOf(version)} short />, "nowrap hide-narrow"],
  ["in force since", ({ appliedAt }) => <Time at={appliedAt} />, "nowrap"],
];

const hexOf = (version: string): string => version.replace(/^sha256:/, "");

function DeploymentsList() {
  const query = useQuery<DeploymentList>("deployments", "queues", (signal) =>
    get("v1/deployments", { query: { limit: PAGE }, signal }),
  );
  return (
    <>
      <Head title="Topologies" note="how artifacts move through roles, gates and people" />
      <Listing
        query={query}
        isEmpty={({ deployments }) => deployments.length === 0}
        empty={
          <Empty
            title="No topology is in force"
            lines={["tenure tour topology", "tenure topology apply topologies/agent-review.yaml"]}
          >
            A topology declares which statuses an artifact has, which work they make, which gates judge the
            output, and when a person is asked.
          </Empty>
        }
      >
        {({ deployments, cursor }) => (
          <>
            <Table isList items={deployments} by={({ name }) => name} columns={COLUMNS} />
            {cursor && <div class="bound muted">the first {deployments.length} by name</div>}
          </>
        )}
      </Listing>
      <Foot lines={["tenure topology list"]} />
    </>
  );
}

const TABS: Array<[string, string]> = [
  ["picture", "Picture"],
  ["artifacts", "Artifacts"],
  ["orders", "Work orders"],
  ["claims", "Claims"],
  ["pauses", "Pause states"],
  ["declaration", "Declaration"],
];

function DeploymentPage({ path }: { path: string }) {
  const query = useQuery<Deployment>(`deployment ${path}`, "queues", (signal) =>
    get(`v1/deployments/${path}`, { signal }),
  );
  return (
    <>
      <Crumb name="Topologies" to="topologies" />
      <Read query={query}>{(deployment) => <Shown deployment={deployment} again={query.again} />}</Read>
    </>
  );
}

function Shown({ deployment, again }: { deployment: Deployment; again: () => Promise<void> }) {
  const { name, state, version, appliedAt } = deployment;
  const declaration = declarationOf(deployment.declaration ?? '{"artifacts":{}}');
  const tab = place.value.query.get("tab") ?? "picture";
  const artifact = place.value.query.get("artifact");
  const props = { path: `v1/deployments/${inPath(name)}`, name, declaration };
  return (
    <>
      <Head title={name} look={LOOKS[state]} note={declaration.about && visible(declaration.about)}>
        <Actions deployment={deployment} again={again} />
      </Head>
      <Facts
        of={[
          ["in force since", <Time at={appliedAt} />],
          ["version", <Digest value={hexOf(version)} short />],
        ]}
      />
      {state === "paused" && (
        <p class="story t-retry">
          Paused: its roles do nothing until it is resumed. What executors have goes on.
        </p>
      )}
      <Tabs tabs={TABS} on={artifact ? "artifacts" : tab} />
      {artifact ? (
        <ArtifactStory key={artifact} {...props} artifact={artifact} />
      ) : (
        <>
          {tab === "artifacts" && <ArtifactsTab {...props} />}
          {tab === "orders" && <OrdersTab {...props} />}
          {tab === "claims" && <ClaimsTab {...props} />}
          {tab === "pauses" && <PausesTab {...props} />}
          {tab === "declaration" && (
            <Card title="Declaration" note="the version in force">
              <PayloadView text={deployment.declaration ?? "null"} label="the declaration" />
            </Card>
          )}
          {!TABS.some(([id], i) => i > 0 && id === tab) && <PictureTab {...props} />}
        </>
      )}
      <Foot lines={[command("topology", "show", name)]} />
    </>
  );
}

type Verb = "pause" | "resume" | "delete";

/** What each verb does, in the words of its dialog. */
const VERBS: Record<Verb, { label: string; act: string; words: string }> = {
  pause: {
    label: "Pause",
    act: "Pause the deployment",
    words:
      "Its roles do nothing more: no event becomes work, and no output is judged. What executors have goes on, and waits to be judged until you resume it.",
  },
  resume: {
    label: "Resume",
    act: "Resume the deployment",
    words: "Its roles work again at once, and begin with what has come meanwhile.",
  },
  delete: {
    label: "Delete",
    act: "Delete the deployment",
    words:
      "The deployment and its artifacts are gone; the runs and their records stay. The server refuses this while a work order is active. This cannot be undone.",
  },
};

function Actions({ deployment, again }: { deployment: Deployment; again: () => Promise<void> }) {
  const { name, state } = deployment;
  const verbs: Verb[] = [state === "paused" ? "resume" : "pause", "delete"];
  return (
    <span class="actions">
      {verbs.map((verb) => {
        const { label, act, words } = VERBS[verb];
        return (
          <Act
            key={verb}
            label={label}
            needs={`deployments.${verb}`}
            title={`${label} ${visible(name)}?`}
            act={act}
            isDanger={verb === "delete"}
            line={command("topology", verb, name)}
            run={async () => {
              await post(`v1/deployments/${inPath(name)}/${verb}`, {});
              if (verb === "delete") go("topologies");
              else await again();
            }}
          >
            <p>{words}</p>
          </Act>
        );
      })}
    </span>
  );
}
