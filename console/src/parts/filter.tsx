/** The filter bar: what is filtered is in the address, as chips that can be taken away, and a field that adds one. */

import { useSignal } from "@preact/signals";
import { go, place, withQuery } from "../router.js";

const NAMES = ["kind", "queue", "worker", "label", "category", "since", "children"];
const HINTS: Record<string, string> = {
  kind: "invoice.process",
  queue: "invoices",
  worker: "alice",
  label: "customer=acme",
  category: "USER_CODE",
  since: "15m, 24h or 7d",
  children: "true",
};

/** Why a filter is not one, in words; nothing if it is. */
export function refusal(name: string, value: string): string | undefined {
  if (value === "") return "say what to look for";
  if (name === "since" && !/^\d{1,4}[mhd]$/.test(value)) return "a number with m, h or d, such as 24h";
  if (name === "children" && value !== "true" && value !== "false") return "true or false";
  if (["kind", "queue", "worker"].includes(name) && !/^[A-Za-z0-9._:/-]{1,128}$/.test(value))
    return "letters, digits and . _ : / - only";
  if (name === "category" && !/^(USER_CODE|DATA_QUALITY|INFRASTRUCTURE|CONFIGURATION|TIMEOUT)$/.test(value)) {
    return "USER_CODE, DATA_QUALITY, INFRASTRUCTURE, CONFIGURATION or TIMEOUT";
  }
  return undefined;
}

export function FilterBar() {
  const name = useSignal("kind");
  const value = useSignal("");
  const problem = useSignal<string | undefined>(undefined);
  const query = place.value.query;
  const chosen = [...query].filter(([key]) => NAMES.includes(key));
  const add = (event: Event) => {
    event.preventDefault();
    problem.value = refusal(name.value, value.value.trim());
    if (problem.value) return;
    go(withQuery({ [name.value]: value.value.trim() }));
    value.value = "";
  };
  return (
    <form class="filter" onSubmit={add}>
      {chosen.map(([key, text]) => (
        <a
          key={key + text}
          class="chip on-soft"
          href={withQuery({ [key]: undefined })}
          aria-label={`remove the filter ${key} ${text}`}
        >
          <span class="muted">{key}</span> <bdi>{text}</bdi> ×
        </a>
      ))}
      <label class="vh" for="filter-name">
        Filter by
      </label>
      <select
        id="filter-name"
        value={name.value}
        onChange={(event) => {
          name.value = event.currentTarget.value;
          problem.value = undefined;
        }}
      >
        {NAMES.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
      <label class="vh" for="filter-value">
        Value
      </label>
      <input
        id="filter-value"
        type="text"
        value={value.value}
        placeholder={HINTS[name.value]}
        aria-describedby="filter-problem"
        onInput={(event) => {
          value.value = event.currentTarget.value;
        }}
      />
      <button type="submit" class="btn">
        Filter
      </button>
      <span id="filter-problem" class="t-bad ink" role="status">
        {problem.value ?? ""}
      </span>
    </form>
  );
}
