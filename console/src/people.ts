/**
 * Who a key belongs to. Records name people by the id of their key; a key that may read the keys (an admin's) lets the console show
 * their names beside it. Without one the beginning of the id is shown, which is what the command line takes too.
 */

import { signal } from "@preact/signals";
import { mayRead } from "./access.js";
import { get } from "./api/call.js";
import type { Keys } from "./api/types.js";
import { readPages } from "./data/pages.js";
import { person } from "./session.js";

const names = signal<ReadonlyMap<string, string>>(new Map());

/** Keys whose names are read; of the others the id is shown. */
const KEYS_MAX = 1000;

export async function discoverNames(): Promise<void> {
  const own = person.value;
  names.value = new Map(own?.name ? [[own.keyId, own.name]] : []);
  if (!mayRead("keys")) return;
  const { items } = await readPages(KEYS_MAX, async (after) => {
    const page = await get<Keys>("v1/keys", { query: { limit: 200, after } }).catch(() => undefined);
    return [page?.keys ?? [], page?.nextAfter];
  });
  names.value = new Map(items.flatMap(({ keyId, name }) => (name ? [[keyId, name]] : [])));
}

export const nameOf = (keyId: string): string => names.value.get(keyId) ?? keyId.slice(0, 8);
