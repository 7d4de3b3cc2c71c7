/** Reads the pages of a list one after the other, up to a bound. */

export interface Pages<T> {
  items: T[];
  /** Whether there is more than was read. */
  isCut: boolean;
}

/** `read` gives the items of one page and the cursor of the next one. */
export async function readPages<T>(
  most: number,
  read: (cursor: string | undefined) => Promise<[items: T[], cursor: string | null | undefined]>,
): Promise<Pages<T>> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const [page, next] = await read(cursor);
    items.push(...page);
    cursor = next ?? undefined;
  } while (cursor !== undefined && items.length < most);
  return { items, isCut: cursor !== undefined };
}
