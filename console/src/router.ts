/** Addresses: a path below the base of the page, and a query that holds every filter, so that an address can be shared. */

import { signal } from "@preact/signals";

export interface Place {
  /** Segments behind the base: `["runs", "run_01…"]`. */
  path: string[];
  query: URLSearchParams;
}

/** The server refuses longer addresses. */
export const ADDRESS_MAX = 4096;

/** Where the console lives: the page's base, which the server wrote into it. */
export const base = (): string => new URL(".", document.baseURI).pathname;

export function placeOf(address: URL | Location, root: string): Place {
  const below = address.pathname.startsWith(root) ? address.pathname.slice(root.length) : "";
  return { path: below.split("/").filter(Boolean), query: new URLSearchParams(address.search) };
}

export const place = signal<Place>({ path: [], query: new URLSearchParams() });

export function startRouter(): void {
  const read = () => {
    place.value = placeOf(location, base());
  };
  addEventListener("popstate", read);
  addEventListener("click", onClick);
  read();
}

/** Goes to an address relative to the base. */
export function go(to: string, { replace = false } = {}): void {
  const url = new URL(to === "" ? "./" : to, document.baseURI);
  if (url.href.length > ADDRESS_MAX) return;
  if (url.href !== location.href) history[replace ? "replaceState" : "pushState"](null, "", url.href);
  const isOther = placeOf(url, base()).path.join("/") !== place.value.path.join("/");
  place.value = placeOf(url, base());
  if (isOther && !replace) scrollTo(0, 0);
}

/** The same page with other filters; empty ones are left out. */
export function withQuery(changes: Record<string, string | undefined>, from: Place = place.value): string {
  const query = new URLSearchParams(from.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return from.path.join("/") + (text === "" ? "" : `?${text}`);
}

/** Links stay in the page, unless the reader asked for another tab. */
function onClick(event: MouseEvent): void {
  if (
    event.defaultPrevented ||
    event.button !== 0 ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!link || link.hasAttribute("target")) return;
  // Links inside drawings are no HTML elements, so the address is taken from the attribute.
  const url = new URL(link.getAttribute("href")!, document.baseURI);
  if (url.origin !== location.origin || !url.pathname.startsWith(base())) return;
  event.preventDefault();
  go(url.href);
}
