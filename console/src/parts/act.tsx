/**
 * A button that says what it would do before it does it. What was said when the dialog opened is what is done: the page behind it
 * is read again meanwhile, and neither changes the dialog nor takes it away.
 */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { may } from "../access.js";
import { place } from "../router.js";
import { Dialog, type DialogProps } from "./dialog.js";

type Question = Omit<DialogProps, "close">;

const asked = signal<Question | undefined>(undefined);

const close = () => {
  asked.value = undefined;
};

interface Props extends Question {
  /** The word on the button that opens the dialog. */
  label: string;
  /** The right that it takes; a key without it is not offered the button. */
  needs: string;
  /** What a row's button is about, for those who do not see the row. */
  about?: string;
}

export function Act({ label, about, needs, ...question }: Props) {
  if (!may(needs)) return null;
  return (
    <span data-actions>
      <button
        type="button"
        class={`btn ${question.isDanger ? "danger" : ""}`}
        aria-label={about && `${label} ${about}…`}
        onClick={() => {
          asked.value = question;
        }}
      >
        {label}…
      </button>
    </span>
  );
}

/** The dialog that an {@link Act} opened; the shell has one place for it. Another page ends it. */
export function Asked() {
  useEffect(close, [place.value]);
  return asked.value ? <Dialog {...asked.value} close={close} /> : null;
}
