/** A dialog that says what will happen before anything does. It can be repeated safely: one opening is one idempotency key. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Problem } from "../api/call.js";
import { asProblem } from "../data/query.js";
import { Cli, Failed } from "./bits.js";

export interface DialogProps {
  title: string;
  children: ComponentChildren;
  /** The word on the button that acts. */
  act: string;
  isDanger?: boolean;
  line?: string;
  isReady?: boolean;
  run: (idempotencyKey: string) => Promise<void>;
  close: () => void;
}

export function Dialog(props: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const key = useRef(`console-${randomId()}`);
  const problem = useSignal<Problem | undefined>(undefined);
  const isBusy = useSignal(false);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    problem.value = undefined;
    try {
      await props.run(key.current);
      props.close();
    } catch (error) {
      problem.value = asProblem(error);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <dialog ref={element} onClose={props.close} aria-labelledby="dialog-title">
      <form onSubmit={submit}>
        <h2 id="dialog-title">{props.title}</h2>
        {props.children}
        {props.line && <Cli line={props.line} />}
        {problem.value && <Failed problem={problem.value} deed="do" />}
        <footer>
          <button type="button" class="btn" onClick={() => element.current?.close()}>
            Back
          </button>
          <button
            type="submit"
            class={`btn ${props.isDanger ? "danger solid" : "primary"}`}
            disabled={isBusy.value || props.isReady === false}
            aria-busy={isBusy.value}
          >
            {/* The word stays: a narrower button would move "Back" under the second click of a double one. */}
            {props.act}
          </button>
        </footer>
      </form>
    </dialog>
  );
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}
