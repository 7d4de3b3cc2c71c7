/**
 * What an approval is about, in words that the browser can prove: the text whose SHA-256 is the digest that the run asked with.
 *
 * The server sends the content of some approvals. Of others it has only the digest; then the payloads of the run are tried, because
 * most code asks about its input or about what a step made. A digest fits one text only, so a text that fits is the one that is meant.
 */

import type { Approval, Checkpoint, Run } from "../api/types.js";
import { canonical, contentDigest } from "./digest.js";

export interface Content {
  text: string;
  /** Where it was found; nothing if the server sent it as the content. */
  of?: string;
}

export function contentOf(
  approval: Approval,
  run: Run | undefined,
  steps: Checkpoint[],
): Content | undefined {
  if (approval.content) return { text: approval.content };
  if (!approval.digest) return undefined;
  const candidates: Array<[string, string | undefined]> = [
    ["the input of the run", run?.input],
    ...steps.map((step): [string, string | undefined] => [
      `the result of its step ${step.key.replace(/#1$/, "")}`,
      step.result,
    ]),
  ];
  for (const [of, payload] of candidates) {
    if (payload === undefined) continue;
    const text = canonical(payload);
    if (contentDigest(text) === approval.digest) return { text, of };
  }
  return undefined;
}
