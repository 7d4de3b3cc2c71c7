/**
 * What can be said of something that code threw, which may be anything: an error with causes, a text, an object, nothing.
 *
 * Nothing here throws. Properties that libraries add to their errors are left out: they may hold keys and tokens.
 */

/** More causes, or errors of an aggregate, tell people nothing new. */
const CAUSES_MAX = 4;

/** One line for people: the error and what caused it. */
export function describe(thrown: unknown): string {
  try {
    return described(thrown, CAUSES_MAX);
  } catch {
    // A getter or a proxy of the code threw.
    return `${NO_ERROR}: a value that cannot be read`;
  }
}

const NO_ERROR = "what was thrown is no Error";

function described(thrown: unknown, depth: number): string {
  if (!isErrorLike(thrown)) return `${NO_ERROR}: ${valueText(thrown)}`;
  const name = typeof thrown.name === "string" && thrown.name !== "" ? thrown.name : "Error";
  const { message } = thrown;
  const own = message === "" ? name : `${name}: ${message}`;
  if (depth === 0) return own;
  const inside = errorsIn(thrown).map((error) => described(error, depth - 1));
  const more = (thrown.errors?.length ?? 0) - inside.length;
  if (more > 0) inside.push(`${more} more`);
  const cause = thrown.cause === undefined ? "" : `; caused by ${described(thrown.cause, depth - 1)}`;
  return `${own}${inside.length === 0 ? "" : ` [${inside.join("; ")}]`}${cause}`;
}

interface ErrorLike {
  name?: unknown;
  message: string;
  stack?: unknown;
  cause?: unknown;
  errors?: readonly unknown[];
}

/** An error of another realm is no instance of this one's `Error`. */
function isErrorLike(thrown: unknown): thrown is ErrorLike {
  if (typeof thrown !== "object" || thrown === null) return false;
  const { message, stack } = thrown as Partial<ErrorLike>;
  return typeof message === "string" && (thrown instanceof Error || typeof stack === "string");
}

function errorsIn({ errors }: ErrorLike): readonly unknown[] {
  return Array.isArray(errors) ? errors.slice(0, CAUSES_MAX) : [];
}

/** A value in a few words. */
function valueText(value: unknown): string {
  if (typeof value === "string") return value === "" ? "an empty text" : value;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

/** The stacks of an error, of the errors in it, and of what caused it; nothing if there is none. */
export function stacksOf(thrown: unknown): string | undefined {
  try {
    return stacks(thrown, CAUSES_MAX) || undefined;
  } catch {
    return undefined;
  }
}

function stacks(thrown: unknown, depth: number): string {
  if (!isErrorLike(thrown)) return "";
  const own = typeof thrown.stack === "string" ? thrown.stack : "";
  if (depth === 0) return own;
  const inside = errorsIn(thrown).map((error) => prefixed("With", stacks(error, depth - 1)));
  const cause = thrown.cause === undefined ? "" : prefixed("Caused by", stacks(thrown.cause, depth - 1));
  return [own, ...inside, cause].filter((text) => text !== "").join("\n");
}

function prefixed(word: string, stack: string): string {
  return stack === "" ? "" : `${word}: ${stack}`;
}
