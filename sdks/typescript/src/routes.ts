/** Paths and queries, and the calls that every resource makes. */
import type { Call, Calls } from "./calls.js";
import { write } from "./json.js";
import { orSetup } from "./payload.js";

/** `?a=1&b=2` of the members that have a value. */
export function queryOf(members: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

/** A path of segments, each of them escaped. */
export function pathOf(...segments: string[]): string {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
}

/** Something below one path of the API. */
export abstract class Resource {
  constructor(
    private readonly calls: Calls,
    protected readonly base: string,
  ) {}

  protected read<T>(path = "", query: Record<string, unknown> = {}): Promise<T> {
    return this.calls.json({ method: "GET", path: `${this.base}${path}${queryOf(query)}` });
  }

  protected send<T>(path: string, body?: object): Promise<T> {
    return this.sendTo(`${this.base}${path}`, body);
  }

  /** Sends to a path of its own, or with bounds of its own. */
  protected async sendTo<T>(
    path: string,
    body: object | undefined,
    bounds: Pick<Call, "retries" | "waitMs"> = {},
  ): Promise<T> {
    const text = body === undefined ? undefined : orSetup(`what goes to ${path}`, () => write(body));
    return this.calls.json({ method: "POST", path, body: text, ...bounds });
  }

  /** Follows a cursor for as long as its reader wants more. */
  protected async *pages<P extends { cursor?: string | null | undefined }, T>(
    path: string,
    query: Record<string, unknown>,
    items: (page: P) => T[],
  ): AsyncGenerator<T> {
    let cursor: string | null | undefined;
    do {
      const page: P = await this.read(path, { ...query, cursor });
      yield* items(page);
      cursor = page.cursor;
    } while (cursor);
  }
}
