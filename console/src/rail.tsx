/** The rail of pages; on a narrow screen a bar at the bottom, with the pages that have no place there behind "More". */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { mayRead } from "./access.js";
import { get } from "./api/call.js";
import type { ApprovalList } from "./api/types.js";
import { useQuery } from "./data/query.js";
import { entryOf, type MapEntry, offered } from "./map.js";
import { place } from "./router.js";

export function Rail() {
  const pages = offered();
  const first = pages.filter(({ group }) => group === undefined);
  const rest = pages.filter(({ group }) => group !== undefined);
  return (
    <nav class="rail" aria-label="Pages">
      <a class="brand" href="./">
        <Brand />
        <span>Tenure</span>
      </a>
      {first.map((entry) => (
        <Entry key={entry.to} entry={entry}>
          {entry.to === "inbox" && <Waiting />}
        </Entry>
      ))}
      {rest.length > 0 && <Rest pages={rest} />}
    </nav>
  );
}

function Rest({ pages }: { pages: MapEntry[] }) {
  const isOpen = useSignal(false);
  const here = entryOf(place.value.path[0]);
  const close = () => {
    isOpen.value = false;
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") close();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  useEffect(close, [place.value]);
  return (
    <>
      <button
        type="button"
        class={`more ${here?.group ? "on" : ""}`}
        aria-expanded={isOpen.value}
        aria-controls="more-pages"
        onClick={() => {
          isOpen.value = !isOpen.value;
        }}
      >
        <Icon path="M3 8h.01M8 8h.01M13 8h.01" width={2.4} />
        {here?.group ? here.name : "More"}
      </button>
      <div id="more-pages" class={isOpen.value ? "rest open" : "rest"}>
        {(["Work", "Operate"] as const).map((group) => {
          const entries = pages.filter((entry) => entry.group === group);
          return (
            entries.length > 0 && (
              <div key={group}>
                <div class="group">{group}</div>
                {entries.map((entry) => (
                  <Entry key={entry.to} entry={entry} />
                ))}
              </div>
            )
          );
        })}
      </div>
    </>
  );
}

/** How many approvals wait for a decision. */
function Waiting() {
  const may = mayRead("approvals");
  const inbox = useQuery<ApprovalList>(`rail-inbox ${may}`, "inbox", async (signal) =>
    may ? get("v1/approvals", { query: { state: "pending", limit: 100 }, signal }) : { approvals: [] },
  );
  const waiting = inbox.data.value?.approvals.length ?? 0;
  if (waiting === 0) return null;
  return (
    <span class="badge ask">
      {waiting}
      <span class="vh"> waiting</span>
    </span>
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

function Entry({ entry, children }: { entry: MapEntry; children?: ComponentChildren }) {
  const isOn = entryOf(place.value.path[0]) === entry;
  return (
    <a
      href={entry.to === "" ? "./" : entry.to}
      class={isOn ? "on" : ""}
      aria-current={isOn ? "page" : undefined}
    >
      <Icon path={entry.icon} />
      {entry.name}
      {children}
    </a>
  );
}

function Icon({ path, width = 1.4 }: { path: string; width?: number }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width={width}
      stroke-linecap="round"
      aria-hidden="true"
    >
      <path d={path} />
    </svg>
  );
}
