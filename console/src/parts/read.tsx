/** What a query has read, or why it has not; old data stay below a problem. */

import type { ComponentChildren } from "preact";
import type { Query } from "../data/query.js";
import { Failed, Loading } from "./bits.js";

export function Read<T>({ query, children }: { query: Query<T>; children: (data: T) => ComponentChildren }) {
  const { data, problem } = query;
  return (
    <>
      {problem.value && <Failed problem={problem.value} again={query.again} />}
      {data.value === undefined && !problem.value && <Loading rows={6} />}
      {data.value !== undefined && children(data.value)}
    </>
  );
}
