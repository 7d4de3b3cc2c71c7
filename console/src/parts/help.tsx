/** All keys in one dialog. */

import { useEffect, useRef } from "preact/hooks";
import { offered } from "../map.js";

const KEYS: Array<[string, string]> = [
  ["/", "jump to a run, a worker, a label or a page"],
  ["j  k", "next and previous row"],
  ["Enter", "open the row"],
  [".", "actions of this page"],
  ["t", "times: relative, local, UTC"],
  ["?", "this list"],
];

/** `g` and a letter, for each page that the key may read. */
const pages = (): [string, string] => [
  "g then a letter",
  offered()
    .map(({ key, name }) => `${key} ${name.toLowerCase()}`)
    .join(", "),
];

export function HelpDialog({ close }: { close: () => void }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} onClose={close} aria-labelledby="help-title">
      <form method="dialog">
        <h2 id="help-title">Keys</h2>
        <table>
          <tbody>
            {[...KEYS, pages()].map(([key, what]) => (
              <tr key={key}>
                <td>
                  <kbd>{key}</kbd>
                </td>
                <td>{what}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <p class="muted">No key acts without a dialog that says what will happen.</p>
        <footer>
          <button type="submit" class="btn primary">
            Close
          </button>
        </footer>
      </form>
    </dialog>
  );
}
