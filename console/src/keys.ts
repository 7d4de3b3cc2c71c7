/** Keys: `/` jump, `j` `k` move, `g` and a letter for pages, `t` time style, `?` help. No key acts without a dialog. */

import { PAGES } from "./map.js";
import { NEXT_STYLE, timeStyle } from "./model/time.js";
import { go } from "./router.js";

const TARGETS = new Map(PAGES.map(({ key, to }) => [key, to]));

/** How long `g` waits for its letter. */
const CHORD_MS = 1200;

export function startKeys({ help }: { help: () => void }): () => void {
  let chordUntil = 0;
  const onKey = (event: KeyboardEvent) => {
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
    if (performance.now() < chordUntil) {
      chordUntil = 0;
      const page = TARGETS.get(event.key);
      if (page !== undefined) return act(event, () => go(page));
    }
    switch (event.key) {
      case "/":
        return act(event, () => document.getElementById("jump")?.focus());
      case "?":
        return act(event, help);
      case "t":
        return act(event, () => {
          timeStyle.value = NEXT_STYLE[timeStyle.value];
        });
      case "g":
        chordUntil = performance.now() + CHORD_MS;
        return;
      case "j":
        return act(event, () => move(1));
      case "k":
        return act(event, () => move(-1));
      case ".":
        return act(event, () =>
          document.querySelector<HTMLElement>("[data-actions] button:not(:disabled)")?.focus(),
        );
      default:
        return;
    }
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

function act(event: Event, what: () => void): void {
  event.preventDefault();
  what();
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.matches("input, textarea, select") || target.closest("dialog") !== null)
  );
}

/** Moves the focus among the rows of the page. */
function move(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next =
    rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
