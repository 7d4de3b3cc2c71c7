/** The door: a key or a one-time code, what it is for, and where to get one. */

import { useSignal } from "@preact/signals";
import { Problem } from "../api/call.js";
import { logIn } from "../login.js";
import { Cli, Failed } from "../parts/bits.js";
import { codeIn, endedBecause, looksLikeKey } from "../session.js";

export function LoginPage() {
  const typed = useSignal("");
  const problem = useSignal<Problem | undefined>(undefined);
  const isBusy = useSignal(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    const code = codeIn(typed.value);
    if (code === undefined && !looksLikeKey(typed.value)) {
      problem.value = new Problem(
        400,
        "not_a_key",
        "This is not an API key",
        "a key begins with `tnr_` and has four parts; copy all of it",
      );
      return;
    }
    isBusy.value = true;
    problem.value = forPeople(await logIn(code === undefined ? { key: typed.value.trim() } : { code }));
    isBusy.value = false;
  };
  return (
    <main class="login">
      <form class="card pad" onSubmit={submit}>
        <h1>Tenure</h1>
        <p class="soft">Every run, every lease, every reason.</p>
        {endedBecause.value && (
          <p class="notice" role="status">
            {endedBecause.value}.
          </p>
        )}
        <label for="key">API key or one-time code</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder="tnr_…"
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value;
          }}
        />
        {problem.value && <Failed problem={problem.value} />}
        <button type="submit" class="btn primary wide" disabled={isBusy.value || typed.value === ""}>
          Log in
        </button>
        <p class="muted">
          The key is sent to this server once and kept nowhere. In a terminal that has a key, this prints a
          link that logs in by itself:
        </p>
        <Cli line="tenure console" />
        <p class="muted">A key to look at everything and to change nothing:</p>
        <Cli line="tenure keys create --role reader --name my-console" />
      </form>
    </main>
  );
}

/** The server speaks to programs; this is for the person who pasted the key. */
function forPeople(problem: Problem | undefined): Problem | undefined {
  if (problem?.code !== "unauthenticated") return problem;
  const { status, code, requestId } = problem;
  return new Problem(
    status,
    code,
    "This server does not know this key",
    "it may belong to another server, or it was revoked or has expired; ask for a new one, or make one with the command below",
    requestId,
  );
}
