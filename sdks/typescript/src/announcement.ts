/**
 * What a worker says about itself with its first poll: its build, and its kinds with the schemas of their inputs.
 *
 * It is a description for people and for `tenure submit --check`; it grants nothing and filters nothing, except for runs that
 * stay with a build. What does not fit into the coordinator's limits is left out.
 */
import { createHash } from "node:crypto";

import { Setup } from "./errors.js";
import type { StandardSchemaV1 } from "./schema.js";
import type { Task } from "./task.js";
import type { Builds } from "./wire.js";

/** The coordinator's limits of an announcement. */
const BYTES_MAX = 128 * 1024;
const SCHEMA_BYTES_MAX = 16 * 1024;
const SCHEMA_DEPTH_MAX = 32;
const NAME = /^[A-Za-z0-9._:/-]{1,128}$/;
const ID_DIGITS = 32;

export interface Announcement {
  id: string;
  /** The member `announce` of a poll, as JSON. */
  text: string;
}

/** The part of the Standard JSON Schema interface that is called. */
interface WithJsonSchema {
  readonly jsonSchema?: { input?(options: { target: "draft-2020-12" }): unknown };
}

export function announcementOf(tasks: Iterable<Task>, buildId: string | undefined): Announcement {
  if (buildId !== undefined && !NAME.test(buildId)) {
    throw new Setup(
      `\`${buildId}\` is no build id`,
      "set TENURE_BUILD_ID to letters, digits and . _ : / - (up to 128)",
    );
  }
  const kinds = [...tasks].map(({ kind, code }) => ({
    kind,
    builds: code?.type === "durable" ? code.builds : undefined,
    inputSchema: schemaOf(code?.schema),
  }));
  const pinned = kinds.find(({ builds }) => builds !== undefined);
  if (pinned !== undefined && buildId === undefined) {
    throw new Setup(
      `\`${pinned.kind}\` says which builds may continue its runs, but this worker has no build`,
      "set TENURE_BUILD_ID",
    );
  }
  const full = textOf(buildId, kinds);
  const text =
    full.length <= BYTES_MAX
      ? full
      : textOf(
          buildId,
          kinds.map(({ kind, builds }) => ({ kind, builds })),
        );
  const id = createHash("sha256").update(text).digest("hex").slice(0, ID_DIGITS);
  return { id, text: `{"id":"${id}",${text.slice(1)}` };
}

function textOf(
  buildId: string | undefined,
  kinds: ReadonlyArray<{ kind: string; builds: Builds | undefined; inputSchema?: unknown }>,
) {
  return JSON.stringify({ buildId, kinds });
}

/** The JSON Schema of what a function reads, where its library can give one that the coordinator takes. */
function schemaOf(schema: StandardSchemaV1 | undefined): object | undefined {
  if (schema === undefined) return undefined;
  try {
    const { jsonSchema } = schema["~standard"] as WithJsonSchema;
    const made = jsonSchema?.input?.({ target: "draft-2020-12" });
    const isObject = typeof made === "object" && made !== null && !Array.isArray(made);
    if (!isObject || depthOf(made) > SCHEMA_DEPTH_MAX) return undefined;
    return Buffer.byteLength(JSON.stringify(made)) <= SCHEMA_BYTES_MAX ? made : undefined;
  } catch {
    // A schema with transformations may have no such form.
    return undefined;
  }
}

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}
