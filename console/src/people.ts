/**
 * Who a key belongs to. Records name people by the id of their key; a key that may read the keys (an admin's) lets the console show
 * their names beside it. Without one the beginning of the id is shown, which is what the command line takes too.
 */

import { signal } from "@preact/signals";
import { get } from "./api/call.js";
import type { Keys } from "./api/types.js";

const names = signal<ReadonlyMap<string, string>>(new Map());

/** Keys whose names are read; of the others the id is shown. */
const KEYS_MAX = 1000;

export async function discoverNames(): Promise<void> {
  names.value = new Map();
  const found = new Map<string, string>();
  let after: string | undefined;
  do {
    const page = await get<Keys>("v1/keys", { query: { limit: 200, after } }).catch(() => undefined);
    for (const key of page?.keys ?? []) if (key.name) found.set(key.keyId, key.name);
    after = page?.nextAfter ?? undefined;
  } while (after !== undefined && found.size < KEYS_MAX);
  names.value = found;
}

export const nameOf = (keyId: string): string => names.value.get(keyId) ?? keyId.slice(0, 8);
