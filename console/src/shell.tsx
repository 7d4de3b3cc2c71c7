/** The frame around every page: rail, header, live mark, keys; and which page an address shows. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { mayRead, refusalOf } from "./access.js";
import type { Problem } from "./api/call.js";
import { asOf, isLive } from "./data/feed.js";
import { useQuery } from "./data/query.js";
import { startKeys } from "./keys.js";
import { logOut } from "./login.js";
import { entryOf, isOffered, type MapEntry, offered } from "./map.js";
import { visible } from "./model/shown.js";
import { clock, clockTime, NEXT_STYLE, timeStyle } from "./model/time.js";
import { AuditPage } from "./pages/audit.js";
import { EffectsPage } from "./pages/effects.js";
import { HealthPage } from "./pages/health.js";
import { InboxPage } from "./pages/inbox.js";
import { KeysPage } from "./pages/keys.js";
import { LimitsPage } from "./pages/limits.js";
import { LoginPage } from "./pages/login.js";
import { OverviewPage } from "./pages/overview.js";
import { QueuesPage } from "./pages/queues.js";
import { RunPage } from "./pages/run.js";
import { RunsPage } from "./pages/runs.js";
import { SchedulesPage } from "./pages/schedules.js";
import { TopologiesPage } from "./pages/topologies.js";
import { Asked } from "./parts/act.js";
import { Empty, Failed } from "./parts/bits.js";
import { Head } from "./parts/frame.js";
import { HelpDialog } from "./parts/help.js";
import { Jump } from "./parts/jump.js";
import { discoverNames, nameOf } from "./people.js";
import { Rail } from "./rail.js";
import { place } from "./router.js";
import { person } from "./session.js";
import { NEXT_THEME, theme } from "./theme.js";

export function App() {
  if (person.value === undefined) {
    return (
      <main class="login">
        <p class="soft" role="status">
          Asking the server who you are…
        </p>
      </main>
    );
  }
  if (person.value === null) return <LoginPage />;
  return <Shell key={person.value.keyId} />;
}

function Shell() {
  const isHelpOpen = useSignal(false);
  useEffect(() => {
    void discoverNames();
    return startKeys({
      help: () => {
        isHelpOpen.value = true;
      },
    });
  }, []);
  const page = offered().length > 0 ? <Page /> : <NoAccess />;
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <Rail />
      <div class="page">
        <Header />
        <main id="main" tabIndex={-1}>
          {page}
        </main>
      </div>
      <Asked />
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
      title="This key may read nothing that the console shows"
      lines={["tenure keys create --role reader --name my-console"]}
    >
      The console needs a key with the role reader, client or admin, or approver for the Inbox alone.
    </Empty>
  );
}

function Page() {
  const [first, second, third] = place.value.path;
  const entry = entryOf(first);
  if (!entry)
    return (
      <Empty title="There is no such page">
        The address names no page of the console. <a href="./">Go to the first page</a>.
      </Empty>
    );
  return isOffered(entry) ? show(entry, second, third) : <Forbidden key={entry.to} entry={entry} />;
}

function show({ to }: MapEntry, second: string | undefined, third: string | undefined) {
  switch (to) {
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
    case "topologies":
      return <TopologiesPage key={second} name={second} />;
    case "limits":
      return <LimitsPage />;
    case "audit":
      return <AuditPage />;
    case "keys":
      return <KeysPage />;
    case "health":
      return <HealthPage />;
    default:
      return <OverviewPage />;
  }
}

/** A page that exists and that this key may not read: what it needs, and who asks. */
function Forbidden({ entry }: { entry: MapEntry }) {
  document.title = `${entry.name} · Tenure`;
  const { keyId } = person.value!;
  // The address was opened on purpose: the server says what it needs.
  const refusal = useQuery<Problem | undefined>(entry.to, undefined, () => refusalOf(entry.needs[0]));
  return (
    <>
      <Head title={entry.name} />
      {refusal.data.value && <Failed problem={refusal.data.value} />}
      <p class="soft">
        You are logged in with the key <code>{visible(nameOf(keyId))}</code>. Log out and in again with
        another key to see this page.
      </p>
    </>
  );
}

function Header() {
  const who = person.value;
  const isUtc = timeStyle.value === "utc";
  return (
    <header class="top">
      {mayRead("runs") && <Jump />}
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
      {who && (
        <span class="soft scope">
          {who.tenantId} / {who.workspaceId}
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
          <button type="button" class="link" onClick={() => void logOut()}>
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
