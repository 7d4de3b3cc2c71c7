/** Keys: who may enter, as what, and who did last. A key can be revoked here; one that is made or rotated shows its secret in the terminal alone. */

import { get, post } from "../api/call.js";
import type { Key, Keys } from "../api/types.js";
import { type Pages, readPages } from "../data/pages.js";
import { useQuery } from "../data/query.js";
import { command } from "../model/command.js";
import { visible } from "../model/shown.js";
import type { Look } from "../model/state.js";
import { clock, ms } from "../model/time.js";
import { Act } from "../parts/act.js";
import { Empty, Time } from "../parts/bits.js";
import { Chips, Foot, Head, Listing } from "../parts/frame.js";
import { Mark } from "../parts/glyph.js";
import { type Column, Table } from "../parts/table.js";
import { place } from "../router.js";
import { person } from "../session.js";

const PAGE = 500;
/** Keys that are read; a list for people ends long before. */
const KEYS_MAX = 2000;

const GOOD: Look = { tone: "ok", glyph: "ok", word: "in force" };
const ROTATED: Look = { tone: "retry", glyph: "retry", word: "two secrets" };
const EXPIRED: Look = { tone: "queue", glyph: "park", word: "expired" };
const REVOKED: Look = { tone: "bad", glyph: "cancel", word: "revoked" };

/** Whether a key lets its holder in. */
export function keyLook(key: Key, now: number): Look {
  if (key.revokedAt) return REVOKED;
  if ((ms(key.expiresAt) ?? Infinity) <= now) return EXPIRED;
  return (ms(key.previousSecretUntil) ?? 0) > now ? ROTATED : GOOD;
}

const CHOICES: Array<[string, Look]> = [
  ["in-force", GOOD],
  ["expired", EXPIRED],
  ["revoked", REVOKED],
];

/** Whether a key is shown under a choice; a key with two secrets is in force. */
export function isShown(key: Key, state: string, now: number): boolean {
  const look = keyLook(key, now);
  if (state === "in-force") return look === GOOD || look === ROTATED;
  return state === "" || look.word === state;
}

async function readAll(signal: AbortSignal): Promise<Pages<Key>> {
  const all = await readPages(KEYS_MAX, async (after) => {
    const page = await get<Keys>("v1/keys", { query: { limit: PAGE, after }, signal });
    return [page.keys, page.nextAfter];
  });
  // The newest first: the key that was just made is the one that is looked for.
  all.items.sort((a, b) => ms(b.createdAt)! - ms(a.createdAt)!);
  return all;
}

export function KeysPage() {
  document.title = "Keys · Tenure";
  const state = place.value.query.get("state") ?? "";
  const query = useQuery<Pages<Key>>("keys", "operate", readAll);
  const shown = ({ items }: Pages<Key>) => items.filter((key) => isShown(key, state, clock.value));
  return (
    <>
      <Head
        title="Keys"
        note="who may enter, and as what; a secret is shown to its holder once, never here"
      />
      <Chips label="State" name="state" choices={CHOICES} />
      <Listing
        query={query}
        isEmpty={(all) => shown(all).length === 0}
        empty={
          <Empty title="No key matches" lines={["tenure keys create --role reader --name my-console"]}>
            A key is made for one program or person, with the least roles that it needs.
          </Empty>
        }
      >
        {(all) => (
          <>
            <Table isList items={shown(all)} by={(key) => key.keyId} columns={columns(query.again)} />
            {all.isCut && <div class="bound muted">the first {all.items.length} keys by id</div>}
          </>
        )}
      </Listing>
      <Foot
        lines={[
          "tenure keys list",
          "tenure keys create --role reader --name my-console",
          "tenure keys rotate KEY --overlap 24h",
        ]}
      />
    </>
  );
}

const isOwn = (key: Key) => key.keyId === person.value?.keyId;

const columns = (again: () => Promise<void>): Array<Column<Key>> => [
  ["state", (key) => <Mark look={keyLook(key, clock.value)} />, "nowrap"],
  [
    "key",
    (key) => (
      <>
        {key.name && <b class="strong">{visible(key.name)} </b>}
        <code class="soft">{key.keyId}</code> {isOwn(key) && <span class="tag">yours</span>}
        <span class="show-narrow">{key.roles.join(", ")}</span>
      </>
    ),
    "wide-cell",
  ],
  ["roles", ({ roles }) => roles.join(", "), "hide-narrow"],
  ["scope", ({ tenantId, workspaceId }) => visible(`${tenantId} / ${workspaceId}`), "hide-narrow"],
  [
    "queues",
    ({ queues }) => (queues ? visible(queues.join(", ")) : <span class="muted">all</span>),
    "wide-cell hide-narrow",
  ],
  ["last used", ({ lastUsedAt }) => <Time at={lastUsedAt} />, "nowrap hide-narrow"],
  ["ends", (key) => <Ends of={key} />, "nowrap hide-narrow"],
  ["", (key) => !key.revokedAt && <Revoke of={key} again={again} />, "r"],
];

/** When it let its holder in for the last time, or will. */
function Ends({ of: { revokedAt, expiresAt, previousSecretUntil } }: { of: Key }) {
  if (revokedAt ?? expiresAt) return <Time at={revokedAt ?? expiresAt} />;
  if ((ms(previousSecretUntil) ?? 0) > clock.value)
    return (
      <>
        old secret <Time at={previousSecretUntil} />
      </>
    );
  return <span class="muted">never</span>;
}

function Revoke({ of: key, again }: { of: Key; again: () => Promise<void> }) {
  return (
    <Act
      label="Revoke"
      needs="keys.revoke"
      about={key.name ?? key.keyId}
      title={`Revoke ${visible(key.name ?? key.keyId)}?`}
      act="Revoke the key"
      isDanger
      line={command("keys", "revoke", key.keyId)}
      run={async () => {
        await post(`v1/keys/${key.keyId}/revoke`, {});
        if (!isOwn(key)) await again();
      }}
    >
      <p>
        The key <code>{key.keyId}</code> with the roles <b>{key.roles.join(", ")}</b> is refused from now on,
        by every coordinator within a second. This cannot be undone; the audit keeps its id.
      </p>
      {key.roles.includes("worker") && (
        <p>
          Its workers get nothing new. What they hold goes on under their task tokens until the leases end.
        </p>
      )}
      {isOwn(key) && (
        <p class="t-bad ink">This is the key that you are logged in with: it ends this session.</p>
      )}
    </Act>
  );
}
