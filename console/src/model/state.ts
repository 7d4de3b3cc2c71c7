/** Tone, glyph and word of everything that has a state. Shape and word carry the meaning; colour only repeats it. */

export type Tone = "ok" | "run" | "wait" | "queue" | "retry" | "bad" | "halt" | "refused";
export type GlyphName = Tone | "park" | "cancel" | "take" | "step" | "skip";

export interface Look {
  tone: Tone;
  glyph: GlyphName;
  word: string;
}

const look = (tone: Tone, word: string, glyph: GlyphName = tone): Look => ({ tone, glyph, word });

const STATES: Record<string, Look> = {
  queued: look("queue", "queued"),
  running: look("run", "running"),
  retry: look("retry", "retry"),
  waiting: look("wait", "waiting"),
  succeeded: look("ok", "succeeded"),
  failed: look("bad", "failed"),
  halted: look("halt", "halted"),
  cancelled: look("queue", "cancelled", "cancel"),
  blocked: look("queue", "blocked", "park"),
  skipped: look("queue", "skipped", "skip"),
};

/** States of a run, in the order in which they are offered as filters. */
export const STATE_NAMES = Object.keys(STATES);

export function stateLook(state: string): Look {
  return STATES[state] ?? look("queue", state);
}

export function isEnded(state: string): boolean {
  return ["succeeded", "failed", "halted", "cancelled", "skipped"].includes(state);
}

const OUTCOMES: Record<string, Look> = {
  SUCCEEDED: look("ok", "succeeded"),
  FAILED: look("bad", "failed"),
  CANCELLED: look("queue", "cancelled", "cancel"),
  LOST: look("retry", "lost: lease expired"),
  UNDELIVERED: look("retry", "never started"),
  REVOKED: look("halt", "revoked"),
  RELEASED: look("queue", "given back"),
  SUSPENDED: look("wait", "suspended"),
  DIVERGED: look("halt", "diverged"),
};

/** How an attempt ended; `undefined` is one that has not. */
export function outcomeLook(outcome: string | undefined): Look {
  if (outcome === undefined) return look("run", "running");
  return OUTCOMES[outcome] ?? look("queue", outcome.toLowerCase());
}

const EFFECTS: Record<string, Look> = {
  queued: look("queue", "queued"),
  pending: look("run", "pending"),
  in_flight: look("run", "in flight"),
  delivered: look("ok", "delivered"),
  unknown: look("halt", "unknown"),
  dead: look("bad", "dead"),
};

export function effectLook(state: string): Look {
  return EFFECTS[state] ?? look("queue", state);
}

/** A fence as `epoch.version`: what people compare is the small number. */
export function fence(value: number): string {
  return `${Math.floor(value / 2 ** 32)}.${value % 2 ** 32}`;
}
