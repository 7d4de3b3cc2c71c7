/** The frame of every page: rail, header, live mark, keys; and which page an address shows. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { access, discoverAccess } from "./access.js";
import { get } from "./api/call.js";
import type { ApprovalList } from "./api/types.js";
import { asOf, isLive } from "./data/feed.js";
import { useQuery } from "./data/query.js";
import { startKeys } from "./keys.js";
import { visible } from "./model/shown.js";
import { clock, clockTime, NEXT_STYLE, timeStyle } from "./model/time.js";
import { EffectsPage } from "./pages/effects.js";
import { InboxPage } from "./pages/inbox.js";
import { LoginPage } from "./pages/login.js";
import { OverviewPage } from "./pages/overview.js";
import { QueuesPage } from "./pages/queues.js";
import { RunPage } from "./pages/run.js";
import { RunsPage } from "./pages/runs.js";
import { SchedulesPage } from "./pages/schedules.js";
import { Empty } from "./parts/bits.js";
import { HelpDialog } from "./parts/help.js";
import { Jump } from "./parts/jump.js";
import { discoverNames, nameOf } from "./people.js";
import { place } from "./router.js";
import { end, person } from "./session.js";
import { NEXT_THEME, theme } from "./theme.js";

export function App() {
  if (person.value === null) return <LoginPage />;
  return <Shell key={person.value.keyId} />;
}

const ICONS: Record<string, string> = {
  Overview: "M2 8h3l2-5 3 9 2-4h3",
  Runs: "M2 3.500h12M2 8h9M2 12.500h6",
  Inbox: "M2 9l2-6h8l2 6v4H2zM2 9h4l1 2h2l1-2h4",
  Queues: "M3 3h10v3H3zM3 8h10v1H3zM3 11h10v1H3z",
  Schedules: "M2.500 4h11v9.500h-11zM2.500 7h11M5 2v3M11 2v3",
  Effects: "M2 8h8M7 4.500l3.500 3.500L7 11.500M13 3v10",
};

function Shell() {
  const isHelpOpen = useSignal(false);
  useEffect(() => {
    void discoverAccess();
    void discoverNames();
    return startKeys({
      help: () => {
        isHelpOpen.value = true;
      },
    });
  }, []);
  const { isKnown, mayReadRuns, mayReadApprovals } = access.value;
  const page = mayReadRuns || mayReadApprovals ? <Page /> : <NoAccess />;
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <Rail />
      <div class="page">
        <Header />
        <main id="main" tabIndex={-1}>
          {isKnown && page}
        </main>
      </div>
      {isHelpOpen.value && (
        <HelpDialog
          close={() => {
            isHelpOpen.value = false;
          }}
        />
      )}
    </div>
  );
}

function NoAccess() {
  return (
    <Empty
      title="This key may read neither runs nor approvals"
      lines={["tenure keys create --role reader --name my-console"]}
    >
      The console needs a key with the role reader or client, or approver for the Inbox alone.
    </Empty>
  );
}

function Page() {
  const [first, second, third] = place.value.path;
  if (!access.value.mayReadRuns) return <InboxPage item={first === "inbox" ? second : undefined} />;
  switch (first) {
    case undefined:
      return <OverviewPage />;
    case "runs":
      return second ? <RunPage key={second} id={second} tab={third ?? "timeline"} /> : <RunsPage />;
    case "inbox":
      return <InboxPage item={second} />;
    case "queues":
      return <QueuesPage name={second} />;
    case "schedules":
      return <SchedulesPage name={second} />;
    case "effects":
      return <EffectsPage id={second} />;
    default:
      return (
        <Empty title="There is no such page">
          The address names no page of the console. <a href="./">Go to the overview</a>.
        </Empty>
      );
  }
}

function Rail() {
  const { mayReadRuns, mayReadApprovals, mayReadSchedules, mayReadEffects } = access.value;
  const inbox = useQuery<ApprovalList>(`rail-inbox ${mayReadApprovals}`, "inbox", async (signal) =>
    access.value.mayReadApprovals
      ? get("v1/approvals", { query: { state: "pending", limit: 100 }, signal })
      : { approvals: [] },
  );
  const waiting = inbox.data.value?.approvals.length ?? 0;
  return (
    <nav class="rail" aria-label="Pages">
      <a class="brand" href="./">
        <Brand />
        <span>Tenure</span>
      </a>
      {mayReadRuns && <Entry name="Overview" to="" />}
      {mayReadRuns && <Entry name="Runs" to="runs" />}
      {mayReadApprovals && (
        <Entry name="Inbox" to="inbox">
          {waiting > 0 && (
            <span class="badge ask">
              {waiting}
              <span class="vh"> waiting</span>
            </span>
          )}
        </Entry>
      )}
      {mayReadRuns && <div class="group">Work</div>}
      {mayReadRuns && <Entry name="Queues" to="queues" />}
      {mayReadRuns && mayReadSchedules && <Entry name="Schedules" to="schedules" />}
      {mayReadRuns && mayReadEffects && <Entry name="Effects" to="effects" />}
    </nav>
  );
}

function Brand() {
  return (
    <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">
      <rect class="t-queue fill" x="1" y="4" width="11" height="5" rx="2.500" />
      <rect class="t-run fill" x="9" y="13" width="12" height="5" rx="2.500" />
      <path class="t-retry stroke" d="M12 6.500h2.200c2.400 0-.9 9 0 9" stroke-width="1.800" />
    </svg>
  );
}

function Entry({ name, to, children }: { name: string; to: string; children?: ComponentChildren }) {
  const isOn = (place.value.path[0] ?? "") === to;
  return (
    <a href={to === "" ? "./" : to} class={isOn ? "on" : ""} aria-current={isOn ? "page" : undefined}>
      <svg
        width="16"
        height="16"
        viewBox="0 0 16 16"
        fill="none"
        stroke="currentColor"
        stroke-width="1.400"
        aria-hidden="true"
      >
        <path d={ICONS[name]} />
      </svg>
      {name}
      {children}
    </a>
  );
}

function Header() {
  const who = person.value;
  const { tenant, workspace } = access.value;
  const isUtc = timeStyle.value === "utc";
  return (
    <header class="top">
      {access.value.mayReadRuns && <Jump />}
      <span class="sp" />
      <Live />
      <button
        type="button"
        class="plain num"
        title="Switch between relative, local and UTC times (t)"
        onClick={() => {
          timeStyle.value = NEXT_STYLE[timeStyle.value];
        }}
      >
        {isUtc ? "UTC " : timeStyle.value === "local" ? "local " : ""}
        {clockTime(clock.value, clock.value, isUtc)}
      </button>
      {tenant && (
        <span class="soft scope">
          {tenant} / {workspace}
        </span>
      )}
      <button
        type="button"
        class="plain"
        title="Theme"
        onClick={() => {
          theme.value = NEXT_THEME[theme.value];
        }}
      >
        <span class="vh">Theme: </span>
        {theme.value}
      </button>
      {who && (
        <span class="who">
          <span class="ava" aria-hidden="true">
            {nameOf(who.keyId).slice(0, 1).toUpperCase()}
          </span>
          <code title={`your key, ${who.keyId}`}>{visible(nameOf(who.keyId))}</code>
          <button type="button" class="link" onClick={() => end("You are logged out")}>
            log out
          </button>
        </span>
      )}
    </header>
  );
}

function Live() {
  if (isLive.value) {
    return (
      <span class="live">
        <i />
        live
      </span>
    );
  }
  return (
    <span class="live stale" role="status">
      <i />
      as of {clockTime(asOf.value, asOf.value, timeStyle.value === "utc")}, connecting
    </span>
  );
}
