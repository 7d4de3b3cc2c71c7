/**
 * The session of the browser: how calls are authorised, and the one place that knows it.
 *
 * The key is kept for this tab only (`sessionStorage`), is sent to the console's own server and to nothing else, and is forgotten
 * when the server refuses it. No other module sees it.
 */

import { signal } from "@preact/signals";

const STORED = "tenure.session";

export interface Person {
  /** The id of the key, which is what the audit names. */
  keyId: string;
}

/** Who is logged in; `undefined` before the first answer, `null` if nobody is. */
export const person = signal<Person | null>(null);

/** Why the last session ended, for the login page. */
export const endedBecause = signal<string>("");

let key = "";

/** A key looks like `tnr_<id>_<secret>_<check>`. The server decides whether it is one; this only finds typing errors. */
export function looksLikeKey(text: string): boolean {
  return /^tnr_[0-9a-z]+_[0-9a-z]+_[0-9a-z]+$/i.test(text.trim());
}

export function restore(): void {
  const stored = sessionStorage.getItem(STORED);
  if (stored) begin(stored);
}

export function begin(secret: string): void {
  key = secret.trim();
  sessionStorage.setItem(STORED, key);
  endedBecause.value = "";
  person.value = { keyId: key.split("_")[1] ?? "" };
}

export function end(because = ""): void {
  key = "";
  sessionStorage.removeItem(STORED);
  endedBecause.value = because;
  person.value = null;
}

/** What every call carries. */
export function credentials(): Record<string, string> {
  return key === "" ? {} : { authorization: `Bearer ${key}` };
}

/** The same for a key that is only tried. */
export function credentialsOf(secret: string): Record<string, string> {
  return { authorization: `Bearer ${secret.trim()}` };
}
