/** The jump field: an id, a worker, a kind, a label or a page. */

import { useSignal } from "@preact/signals";
import { PAGES } from "../map.js";
import { go } from "../router.js";

interface Target {
  words: string;
  to: string;
}

/** Where a text may lead, best first. */
export function targets(typed: string): Target[] {
  const text = typed.trim();
  if (text === "") return [];
  const found: Target[] = [];
  if (/^(run|task)_[0-9A-Z]{10,}$/i.test(text)) found.push({ words: `open ${text}`, to: `runs/${text}` });
  for (const { name, to } of PAGES)
    if (name.toLowerCase().startsWith(text.toLowerCase()))
      found.push({ words: `page ${name.toLowerCase()}`, to });
  if (/^appr_/.test(text)) found.push({ words: `open approval ${text}`, to: `inbox/${text}` });
  if (/^eff_/.test(text)) found.push({ words: `open effect ${text}`, to: `effects/${text}` });
  const label = text.match(/^([^:=\s]+)[:=](.+)$/);
  const value = encodeURIComponent(text);
  if (label)
    found.push({
      words: `runs with the label ${label[1]}=${label[2]}`,
      to: `runs?label=${encodeURIComponent(`${label[1]}=${label[2]}`)}`,
    });
  if (/^[A-Za-z0-9._:/-]+$/.test(text)) {
    found.push({ words: `runs of the kind ${text}`, to: `runs?kind=${value}` });
    found.push({ words: `runs of the worker ${text}`, to: `runs?worker=${value}` });
    found.push({ words: `runs of the queue ${text}`, to: `runs?queue=${value}` });
  }
  return found;
}

export function Jump() {
  const typed = useSignal("");
  const at = useSignal(0);
  const found = targets(typed.value);
  const leave = (to: string) => {
    typed.value = "";
    (document.activeElement as HTMLElement | null)?.blur();
    go(to);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") at.value = Math.min(found.length - 1, at.value + 1);
    else if (event.key === "ArrowUp") at.value = Math.max(0, at.value - 1);
    else if (event.key === "Enter" && found[at.value]) leave(found[at.value]!.to);
    else if (event.key === "Escape") typed.value = "";
    else return;
    event.preventDefault();
  };
  return (
    <div class="jump">
      <svg
        width="14"
        height="14"
        viewBox="0 0 14 14"
        fill="none"
        stroke="currentColor"
        stroke-width="1.500"
        aria-hidden="true"
      >
        <circle cx="6" cy="6" r="4.200" />
        <path d="M9.200 9.200L13 13" />
      </svg>
      <input
        id="jump"
        type="text"
        role="combobox"
        aria-label="Jump to a run, worker, label or page"
        aria-expanded={found.length > 0}
        aria-controls="jump-list"
        aria-activedescendant={found.length > 0 ? `jump-${at.value}` : undefined}
        placeholder="Run, worker, label or page"
        autocomplete="off"
        spellcheck={false}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={onKey}
        onBlur={() => {
          typed.value = "";
        }}
      />
      <kbd aria-hidden="true">/</kbd>
      <div id="jump-list" role="listbox" aria-label="Targets" hidden={found.length === 0}>
        {found.map((target, i) => (
          <div
            key={target.to + target.words}
            id={`jump-${i}`}
            role="option"
            aria-selected={i === at.value}
            onMouseDown={() => leave(target.to)}
          >
            {target.words}
          </div>
        ))}
      </div>
    </div>
  );
}
