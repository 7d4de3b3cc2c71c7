/** Queues: which one waits, since when, and who polls it; workers, leases and flow keys as tabs. */

import { useSignal } from "@preact/signals";
import { may } from "../access.js";
import { get, inPath, post } from "../api/call.js";
import type { Queues, RunList, Workers } from "../api/types.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { type QueueRow, queueRows } from "../model/queues.js";
import { visible } from "../model/shown.js";
import { clock, ms, now, roughly, span } from "../model/time.js";
import { Card, Empty, Time } from "../parts/bits.js";
import { Dialog } from "../parts/dialog.js";
import { Crumb, Foot, Head, Tabs } from "../parts/frame.js";
import { Glyph } from "../parts/glyph.js";
import { Read } from "../parts/read.js";
import { nameOf } from "../people.js";
import { place } from "../router.js";
import { FlowKeysCard } from "./flow-keys.js";
import { LeaseRow } from "./overview.js";

const TABS: Array<[string, string]> = [
  ["queues", "Queues"],
  ["workers", "Workers"],
  ["leases", "Leases"],
  ["flow", "Flow keys"],
];

export function QueuesPage({ name }: { name: string | undefined }) {
  const tab = place.value.query.get("tab") ?? "queues";
  const only = name?.replaceAll("~", "/");
  document.title = "Queues · Tenure";
  return (
    <>
      {only && <Crumb name="Queues" to="queues" />}
      <Head title={only ?? "Queues"} />
      <Tabs
        tabs={TABS.map(([id, title]) => [id, only && id === "queues" ? "Queue" : title])}
        on={TABS.some(([id]) => id === tab) ? tab : "queues"}
      />
      {tab === "workers" && <WorkersTab only={only} />}
      {tab === "leases" && <LeasesTab only={only} />}
      {tab === "flow" && <FlowKeysCard />}
      {!["workers", "leases", "flow"].includes(tab) && <QueuesTab only={only} />}
    </>
  );
}

function QueuesTab({ only }: { only: string | undefined }) {
  const query = useQuery<QueueRow[]>("queues", "queues", async (signal) => {
    const [queues, workers] = await Promise.all([
      get<Queues>("v1/queues", { signal }),
      get<Workers>("v1/workers", { query: { limit: 1000 }, signal }),
    ]);
    return queueRows(queues.queues, workers.workers, now());
  });
  return (
    <Read query={query}>
      {(all) => {
        const rows = only === undefined ? all : all.filter((row) => row.queue === only);
        if (rows.length === 0) {
          return (
            <section class="card">
              <Empty
                title={only ? "Nothing waits or runs in this queue" : "No queue has work or a worker"}
                lines={[
                  command("work", "--queue", only ?? "demo", "--exec", "cat"),
                  command("submit", "hello", "--queue", only ?? "demo", "--wait"),
                ]}
              >
                A queue exists as soon as a run names it or a worker polls it.
              </Empty>
            </section>
          );
        }
        return (
          <>
            {rows.map((row) => (
              <QueueCard key={row.queue} row={row} again={query.again} />
            ))}
            <Foot lines={["tenure queues"]} />
          </>
        );
      }}
    </Read>
  );
}

function QueueCard({ row, again }: { row: QueueRow; again: () => Promise<void> }) {
  const open = useSignal<"pause" | "resume" | undefined>(undefined);
  const close = () => {
    open.value = undefined;
  };
  const verb = row.pause ? "resume" : "pause";
  return (
    <section class="card queue" aria-label={row.queue}>
      <div class="queue-head">
        <span
          class={`t-${row.isStarving ? "bad" : row.pause ? "retry" : row.running > 0 ? "run" : "queue"} ink`}
        >
          <Glyph
            name={row.isStarving ? "bad" : row.pause ? "park" : row.running > 0 ? "run" : "queue"}
            size={14}
          />
        </span>
        <h2>
          <a data-row href={`queues/${inPath(row.queue)}`}>
            {visible(row.queue)}
          </a>
        </h2>
        <span class="sp" />
        {may(`queues.${verb}`) && (
          <button
            type="button"
            class="btn"
            onClick={() => {
              open.value = verb;
            }}
          >
            {row.pause ? "Resume…" : "Pause…"}
          </button>
        )}
        <a class="btn" href={`runs?queue=${encodeURIComponent(row.queue)}`}>
          Runs
        </a>
      </div>
      {row.isStarving && (
        <p class="t-bad ink">
          <b>No worker polls this queue.</b> {row.ready} {row.ready === 1 ? "run waits" : "runs wait"} for one
          since {roughly(row.oldestMs ?? 0)}.
        </p>
      )}
      {row.pause && (
        <p class="t-retry ink">
          Paused by <b title={row.pause.pausedBy}>{visible(nameOf(row.pause.pausedBy))}</b>{" "}
          <Time at={row.pause.pausedAt} />
          {row.pause.reason ? (
            <>
              : <bdi>“{visible(row.pause.reason)}”</bdi>
            </>
          ) : (
            ""
          )}
          . Nothing is leased from it; what runs goes on.
        </p>
      )}
      <dl class="numbers">
        <Count name="waiting" value={row.ready} />
        <Count name="running" value={row.running} />
        <Count name="delayed" value={row.delayed} />
        <Count name="parked" value={row.parked ?? 0} />
        <Count name="oldest" value={row.oldestMs === undefined ? "–" : span(row.oldestMs)} />
        <Count name="polls" value={row.polls} />
        <div>
          <dt>workers</dt>
          <dd>
            {row.workers.length === 0
              ? "none"
              : row.workers.slice(0, 6).map((worker) => (
                  <a key={worker} class="tag" href={`runs?worker=${encodeURIComponent(worker)}`}>
                    {visible(worker)}
                  </a>
                ))}
            {row.workers.length > 6 && ` and ${row.workers.length - 6} more`}
          </dd>
        </div>
      </dl>
      {open.value && <PauseDialog row={row} verb={open.value} close={close} again={again} />}
    </section>
  );
}

function Count({ name, value }: { name: string; value: number | string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="num">{value}</dd>
    </div>
  );
}

function PauseDialog({
  row,
  verb,
  close,
  again,
}: {
  row: QueueRow;
  verb: "pause" | "resume";
  close: () => void;
  again: () => Promise<void>;
}) {
  const reason = useSignal("");
  const isPause = verb === "pause";
  return (
    <Dialog
      title={isPause ? `Pause ${row.queue}?` : `Resume ${row.queue}?`}
      act={isPause ? "Pause the queue" : "Resume the queue"}
      isDanger={isPause}
      close={close}
      line={command(
        "queues",
        verb,
        row.queue,
        ...(isPause && reason.value ? ["--reason", reason.value] : []),
      )}
      run={async () => {
        await post(
          `v1/queues/${inPath(row.queue)}/${verb}`,
          isPause ? { reason: reason.value || undefined } : {},
        );
        await again();
      }}
    >
      {isPause ? (
        <>
          <p>
            Nothing more is leased from <code>{visible(row.queue)}</code>: {row.ready} waiting runs stay where
            they are. {row.running} running ones go on, and so do submits, cancels and deadlines.
          </p>
          <div class="field">
            <label for="reason">Reason, for people who wonder why nothing runs</label>
            <input
              id="reason"
              type="text"
              maxLength={200}
              value={reason.value}
              onInput={(event) => {
                reason.value = event.currentTarget.value;
              }}
            />
          </div>
        </>
      ) : (
        <p>
          Workers get tasks from <code>{visible(row.queue)}</code> again at once: {row.ready} wait.
        </p>
      )}
    </Dialog>
  );
}

function WorkersTab({ only }: { only: string | undefined }) {
  const query = useQuery<Workers>("workers", "queues", (signal) =>
    get("v1/workers", { query: { limit: 1000 }, signal }),
  );
  return (
    <Read query={query}>
      {(all) => {
        const workers = all.workers.filter(
          (worker) =>
            only === undefined ||
            worker.polls.some((poll) => poll.queues.includes(only)) ||
            worker.leases.some((lease) => lease.queue === only),
        );
        if (workers.length === 0)
          return (
            <section class="card">
              <Empty
                title="No worker polls or holds a lease"
                lines={[command("work", "--queue", only ?? "demo", "--exec", "cat")]}
              >
                A worker appears here with its first poll.
              </Empty>
            </section>
          );
        return (
          <Card
            title="Workers"
            note={`${workers.length}, as ${all.coordinators} ${all.coordinators === 1 ? "coordinator sees" : "coordinators see"} them`}
          >
            <table>
              <thead>
                <tr>
                  <th>worker</th>
                  <th>polls for</th>
                  <th class="r">leases</th>
                  <th class="r">oldest lease</th>
                  <th class="r">next expiry</th>
                  <th class="r">last heartbeat</th>
                </tr>
              </thead>
              <tbody>
                {workers.map((worker) => {
                  const leases = worker.leases;
                  const count = leases.reduce((sum, lease) => sum + lease.count, 0);
                  const least = (times: number[]) =>
                    times.length === 0 ? "" : roughly(Math.abs(clock.value - Math.min(...times)));
                  return (
                    <tr key={worker.workerId}>
                      <td>
                        <a data-row href={`runs?worker=${encodeURIComponent(worker.workerId)}`}>
                          {visible(worker.workerId)}
                        </a>
                      </td>
                      <td class="wide-cell">
                        {worker.polls.length === 0 ? (
                          <span class="muted">busy, or gone</span>
                        ) : (
                          worker.polls
                            .map((poll) =>
                              visible(
                                poll.queues.join(", ") +
                                  (poll.kinds?.length ? ` (${poll.kinds.join(", ")})` : ""),
                              ),
                            )
                            .join("; ")
                        )}
                      </td>
                      <td class="num r">{count}</td>
                      <td class="num r">{least(leases.map((lease) => ms(lease.oldestAcquiredAt)!))}</td>
                      <td class="num r">{least(leases.map((lease) => ms(lease.nextExpiresAt)!))}</td>
                      <td class="num r">
                        {leases.length === 0
                          ? ""
                          : roughly(
                              clock.value - Math.max(...leases.map((lease) => ms(lease.latestHeartbeatAt)!)),
                            )}
                      </td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </Card>
        );
      }}
    </Read>
  );
}

function LeasesTab({ only }: { only: string | undefined }) {
  const query = useQuery<RunList>(`leases ${only ?? ""}`, "runs", (signal) =>
    get("v1/runs", { query: { state: "running", queue: only, limit: 200, children: true }, signal }),
  );
  return (
    <Read query={query}>
      {(list) => {
        const held = list.runs
          .filter((run) => run.lease)
          .sort((a, b) => ms(a.lease!.expiresAt)! - ms(b.lease!.expiresAt)!);
        if (held.length === 0)
          return (
            <section class="card">
              <Empty title="No lease is held">
                A lease says which worker may do and report a task, and until when.
              </Empty>
            </section>
          );
        return (
          <Card title="Leases" note={`${held.length}${list.nextCursor ? " of more" : ""}, by expiry`}>
            <table>
              <thead>
                <tr>
                  <th>run</th>
                  <th>worker</th>
                  <th class="r">ends in</th>
                  <th>
                    <span class="vh">share of the lease</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {held.map((run) => (
                  <LeaseRow key={run.runId} run={run} />
                ))}
              </tbody>
            </table>
          </Card>
        );
      }}
    </Read>
  );
}
