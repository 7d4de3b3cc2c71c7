/**
 * Standard Schema (https://standardschema.dev): what zod, valibot, arktype and others implement. Only the part that
 * this SDK calls; the shape is the specification's.
 */
export interface StandardSchemaV1<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<SchemaIssue> };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

/** A value that its schema refuses. `path` is that of the first problem. */
export class SchemaRefused extends Error {
  override readonly name = "SchemaRefused";
  constructor(
    readonly path: string,
    readonly why: string,
  ) {
    super(`${path}: ${why}`);
  }
}

/** The value as its schema reads it. */
export async function validate<T>(schema: StandardSchemaV1<unknown, T>, value: unknown): Promise<T> {
  return accepted(await schema["~standard"].validate(value));
}

/** The same for places that cannot wait; a schema with asynchronous checks is refused there. */
export function validateNow<T>(schema: StandardSchemaV1<unknown, T>, value: unknown): T {
  const result = schema["~standard"].validate(value);
  if (result instanceof Promise)
    throw new SchemaRefused("$", "the schema has asynchronous checks, which cannot run here");
  return accepted(result);
}

function accepted<T>(result: SchemaResult<T>): T {
  if (result.issues === undefined) return result.value;
  const first = result.issues[0];
  const steps = (first?.path ?? []).map((step) => (typeof step === "object" ? step.key : step));
  const path = steps.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`)).join("");
  throw new SchemaRefused(`$${path}`, first?.message ?? "refused by its schema");
}
