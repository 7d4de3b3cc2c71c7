/** The door: a key, what it is for, and where to get one. */

import { useSignal } from "@preact/signals";
import { get, Problem } from "../api/call.js";
import { asProblem } from "../data/query.js";
import { Cli, Failed } from "../parts/bits.js";
import { begin, credentialsOf, endedBecause, looksLikeKey } from "../session.js";

export function LoginPage() {
  const typed = useSignal("");
  const problem = useSignal<Problem | undefined>(undefined);
  const isBusy = useSignal(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!looksLikeKey(typed.value)) {
      problem.value = new Problem(
        400,
        "not_a_key",
        "This is not an API key",
        "a key begins with `tnr_` and has four parts; copy all of it",
      );
      return;
    }
    isBusy.value = true;
    problem.value = await refusal(typed.value);
    isBusy.value = false;
    if (!problem.value) begin(typed.value);
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
        <label for="key">API key</label>
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
          The key stays in this tab and is sent to this server only. A key to look at everything and to change
          nothing:
        </p>
        <Cli line="tenure keys create --role reader --name my-console" />
      </form>
    </main>
  );
}

/** Why the server does not take the key. A key that may not read runs is still a key. */
async function refusal(secret: string): Promise<Problem | undefined> {
  try {
    await get("v1/runs", { query: { limit: 1 }, headers: credentialsOf(secret) });
    return undefined;
  } catch (error) {
    const problem = asProblem(error);
    if (problem.status === 403) return undefined;
    return problem.status === 401 ? unknown(problem) : problem;
  }
}

/** The server speaks to programs; this is for the person who pasted the key. */
function unknown({ status, code, requestId }: Problem): Problem {
  return new Problem(
    status,
    code,
    "This server does not know this key",
    "it may belong to another server, or it was revoked or has expired; ask for a new one, or make one with the command below",
    requestId,
  );
}
