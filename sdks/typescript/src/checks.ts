/**
 * What programs without a type checker get wrong: a member that does not exist, a number where a span belongs, a function
 * where an object belongs. Each is told where it is written, with what to write instead.
 *
 * A check knows the shape of options and nothing of what they mean: limits are the coordinator's.
 */
import { Setup } from "./errors.js";
import { isSpan } from "./span.js";

/** What is wrong with a value, and what to do; nothing if it is right. */
type Wrong = { detail: string; nextStep: string };
export type Check = (value: unknown, name: string) => Wrong | undefined;

/** A check for every member that there may be. */
export type Shape<T> = { readonly [K in keyof Required<T>]: Check };

export function mustBe(what: string, fits: (value: unknown) => boolean): Check {
  return (value, name) =>
    fits(value) ? undefined : { detail: `\`${name}\` is ${shown(value)}`, nextStep: `pass ${what}` };
}

export const text = mustBe("a text", (value) => typeof value === "string");
export const whole = mustBe("a whole number", Number.isSafeInteger);
export const flag = mustBe("true or false", (value) => typeof value === "boolean");
export const callable = mustBe("a function", (value) => typeof value === "function");
export const anything: Check = () => undefined;
export const atLeastOne = mustBe("a number from 1 on", (value) => typeof value === "number" && value >= 1);
export const span = mustBe("a span with its unit, such as { seconds: 30 }", isSpan);
export const date = mustBe("a valid Date", isDate);
export const spanOrDate = mustBe(
  "a span such as { days: 1 }, or a Date",
  (value) => isSpan(value) || isDate(value),
);
export const signal = mustBe("an AbortSignal", (value) => value instanceof AbortSignal);
export const texts = mustBe(
  "an array of texts",
  (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
);
export const labels = mustBe('an object of texts, such as { customer: "acme" }', (value) =>
  isObject(value) ? Object.values(value).every((label) => typeof label === "string") : false,
);
/** zod and valibot give objects, arktype gives functions. */
export const schema = mustBe(
  "a schema that implements Standard Schema: zod from 3.24 on, valibot from 1.0 on, arktype from 2.0 on",
  (value) =>
    (isObject(value) || typeof value === "function") &&
    isObject((value as Record<string, unknown>)["~standard"]),
);

export function oneOf(...words: string[]): Check {
  return mustBe(`one of ${words.join(", ")}`, (value) => words.includes(value as string));
}

/** An object with members of its own; `example` is one that people write. */
export function members<T>(shape: Shape<T>, example: string): Check {
  return (value, name) => {
    if (!isObject(value))
      return { detail: `\`${name}\` is ${shown(value)}`, nextStep: `pass an object, such as ${example}` };
    return wrongIn(value, shape, `${name}.`);
  };
}

/** Throws if options are none, have a member that does not exist, or one of another type. */
export function checkOptions<T>(what: string, options: unknown, shape: Shape<T>, hints: Hints = {}): void {
  if (options === undefined) return;
  if (!isObject(options) || Array.isArray(options)) {
    throw new Setup(
      `the options of ${what} are ${shown(options)}`,
      `pass an object with ${Object.keys(shape).join(", ")}`,
    );
  }
  const wrong = wrongIn(options, shape, "", hints);
  if (wrong !== undefined) throw new Setup(`the options of ${what}: ${wrong.detail}`, wrong.nextStep);
}

/** What to do instead, by the word that other systems have for it. */
export type Hints = Readonly<Record<string, string>>;

function wrongIn(value: object, shape: Shape<any>, path: string, hints: Hints = {}): Wrong | undefined {
  for (const name of Object.keys(value)) {
    const check = (Object.hasOwn(shape, name) ? shape[name] : undefined) as Check | undefined;
    if (check === undefined) return unknown(name, Object.keys(shape), path, hints);
    const member = (value as Record<string, unknown>)[name];
    const wrong = member === undefined ? undefined : check(member, `${path}${name}`);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function unknown(name: string, known: string[], path: string, hints: Hints): Wrong {
  const near = known.find((word) => areAlike(word, name));
  return {
    detail: `there is no \`${path}${name}\``,
    nextStep:
      hints[name] ?? (near === undefined ? `use one of ${known.join(", ")}` : `did you mean \`${near}\`?`),
  };
}

/** Whether one is a slip of the other: another case, or one letter too many, too few, wrong or swapped. */
function areAlike(one: string, other: string): boolean {
  const [a, b] = [one.toLowerCase(), other.toLowerCase()];
  let start = 0;
  while (start < a.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const isSwapped = left.length === 2 && right === `${left[1]}${left[0]}`;
  return isSwapped || Math.max(left.length, right.length) <= 1;
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function isDate(value: unknown): boolean {
  return value instanceof Date && !Number.isNaN(value.getTime());
}

/** A value in a few words. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === "function") return value.name === "" ? "a function" : `the function \`${value.name}\``;
  if (Array.isArray(value)) return "an array";
  if (value instanceof Promise) return "a promise";
  if (value instanceof Date) return "an invalid Date";
  if (isObject(value)) return "an object";
  return String(value);
}
