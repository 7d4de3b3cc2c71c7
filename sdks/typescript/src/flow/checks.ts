/** What durable functions without a type checker get wrong. The error stops the attempt where the code is wrong. */
import {
  anything,
  checkOptions,
  isObject,
  members,
  mustBe,
  oneOf,
  type Shape,
  schema,
  shown,
  span,
  text,
  texts,
  whole,
} from "../checks.js";
import { Setup } from "../errors.js";
import { MAP_OPTIONS, RUN_HINTS } from "../option-checks.js";
import type { RunOptions } from "../options.js";
import { isTask } from "../task.js";
import type { ApprovalOptions } from "./kinds.js";
import { Operation } from "./operation.js";
import type { Effect, Retry, StepOptions } from "./step.js";

export const APPROVAL_OPTIONS: Shape<ApprovalOptions> = {
  subject: text,
  quorum: whole,
  roles: texts,
  keys: texts,
  within: span,
  default: oneOf("APPROVED", "REJECTED"),
  about: anything,
  aboutDigest: text,
  content: anything,
};

const tries = members<Retry>({ tries: whole, base: span, cap: span }, "{ tries: 5, base: { seconds: 1 } }");

const STEP_OPTIONS: Shape<StepOptions> = {
  retry: (value, name) => (typeof value === "number" ? whole(value, name) : tries(value, name)),
  timeout: span,
  input: anything,
  onError: oneOf("abort", "continue", "retry"),
};

const STEP_HINTS = {
  retries: "pass `retry`: a number of tries, or { tries, base, cap }",
  attempts: "pass `retry`: a number of tries, or { tries, base, cap }",
  maxAttempts: "pass `retry`: a number of tries, or { tries, base, cap }",
};

const EFFECT: Shape<Effect> = { endpoint: text, type: text, body: anything, aggregate: text, key: text };

const operation = mustBe(
  "what `flow.step`, `flow.call` and the like return",
  (value) => value instanceof Operation,
);

export function checkName(what: string, name: unknown): void {
  if (typeof name === "string") return;
  throw new Setup(
    `the name of a ${what} is ${shown(name)}`,
    `pass a name first: \`flow.${what}("name", …)\``,
  );
}

export function checkStep(name: unknown, work: unknown, options: unknown): void {
  checkName("step", name);
  if (typeof work !== "function") {
    const given = work instanceof Promise ? "a promise, whose work has begun already" : shown(work);
    throw new Setup(
      `the work of step \`${name}\` is ${given}`,
      `pass a function, which is called once: \`flow.step("${name}", () => charge(order))\``,
    );
  }
  checkOptions(`step \`${name}\``, options, STEP_OPTIONS, STEP_HINTS);
}

export function checkSignal(name: unknown, given: unknown): void {
  checkName("signal", name);
  const wrong = given === undefined ? undefined : schema(given, "schema");
  if (wrong !== undefined)
    throw new Setup(
      `signal \`${name}\`: ${wrong.detail}`,
      `${wrong.nextStep}; a limit of time is \`.within({ days: 7 })\``,
    );
}

export function checkEffect(name: unknown, effect: unknown): void {
  checkName("effect", name);
  checkOptions(`effect \`${name}\``, effect ?? {}, EFFECT);
  const { endpoint, type } = (effect ?? {}) as Partial<Effect>;
  if (endpoint === undefined || type === undefined)
    throw new Setup(
      `effect \`${name}\` has no endpoint or no type`,
      'pass { endpoint: "crm", type: "order.paid", body }',
    );
}

export function checkCall(task: unknown): void {
  if (isTask(task)) return;
  const nextStep =
    typeof task === "string"
      ? `name it with its queue: \`kind("${task}", { queue: "…" })\``
      : "pass what `task()`, `durable()` or `kind()` returned; work of this function belongs into `flow.step`";
  throw new Setup(`flow.call was given ${shown(task)}`, nextStep);
}

export function checkMap(items: unknown, options: unknown): void {
  if (!Array.isArray(items))
    throw new Setup(`flow.map was given ${shown(items)} as its items`, "pass an array");
  checkOptions<RunOptions & { max?: number }>("flow.map", options, MAP_OPTIONS, {
    ...RUN_HINTS,
    concurrency: "pass `max`",
  });
}

export function checkBranch(name: unknown, code: unknown): void {
  checkName("branch", name);
  if (typeof code !== "function")
    throw new Setup(
      `the code of branch \`${name}\` is ${shown(code)}`,
      "pass a function: `async (flow) => …`",
    );
}

export function checkMembers(what: string, given: unknown): void {
  if (!Array.isArray(given))
    throw new Setup(`flow.${what} was given ${shown(given)}`, `pass an array: \`flow.${what}([…])\``);
  for (const [place, member] of given.entries()) {
    const wrong = operation(member, `[${place}]`);
    if (wrong !== undefined) throw new Setup(`flow.${what}: ${wrong.detail}`, wrong.nextStep);
  }
}

export function checkRace(given: unknown): void {
  if (!isObject(given) || Array.isArray(given) || given instanceof Operation)
    throw new Setup(
      `flow.any was given ${shown(given)}`,
      'give each a name: `flow.any({ go: flow.signal("go"), late: … })`',
    );
  for (const [name, member] of Object.entries(given)) {
    const wrong = operation(member, name);
    if (wrong !== undefined) throw new Setup(`flow.any: ${wrong.detail}`, wrong.nextStep);
  }
}
