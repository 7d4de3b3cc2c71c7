//! The runs that clients submit: drawn from the seed, in the wire format.

use serde_json::{Map, Value, json};
use wire::Time;

use crate::clock::EPOCH_MS;
use crate::options::RunOptions;
use crate::rng::SimRng;

/// How soon a deadline may come.
const DEADLINE_MS: (u64, u64) = (1_000, 25_000);
const ATTEMPT_LIMIT_MS: (u64, u64) = (1_000, 6_000);

/// An attempt may go without progress for as long as this many of the longest leases: a worker that says how far it is with
/// each heartbeat is never suspected.
const STALL_LEASES: u64 = 2;

/// Starts the tag of a scope; a semicolon ends it.
const SCOPE_TAG: &str = "mark-of:";

#[derive(Clone, Debug)]
pub(crate) struct RunSpec {
    pub(crate) key: Option<String>,
    /// The submission's body without its key.
    pub(crate) body: Value,
}

impl RunSpec {
    /// `name` is unique in the world; `now` is true time.
    pub(crate) fn draw(rng: &mut SimRng, options: &RunOptions, name: &str, now: u64) -> Self {
        let mut body = Map::new();
        let mut put = |member: &str, value: Value| drop(body.insert(member.to_owned(), value));
        put("kind", json!("work"));
        put("queue", json!(queue(rng.between(0, options.queues - 1))));
        put("input", json!({ "name": name }));
        put("leaseMs", json!(rng.between(options.lease_ms.0, options.lease_ms.1)));
        put("maxAttempts", json!(rng.between(1, 4)));
        put("lostMax", json!(rng.between(1, 5)));
        put("cancelGraceMs", json!(rng.between(options.grace_ms.0, options.grace_ms.1)));
        let base = rng.between(0, 800);
        put("retry", json!({ "baseMs": base, "capMs": base + rng.between(0, 3_000) }));
        let at = |range: (u64, u64), rng: &mut SimRng| {
            let millis = now + rng.between(range.0, range.1);
            json!(Time::from_ms(EPOCH_MS + millis as i64).to_string())
        };
        if rng.chance(options.delayed) {
            put("runAt", at(options.delay_ms, rng));
        }
        if rng.chance(options.deadline) {
            let is_past = options.past_deadline > 0 && rng.chance(options.past_deadline);
            let range = if is_past { (0, 0) } else { DEADLINE_MS };
            put("deadline", at(range, rng));
        }
        if rng.chance(options.attempt_limit) {
            let limit = rng.between(ATTEMPT_LIMIT_MS.0, ATTEMPT_LIMIT_MS.1);
            put("resources", json!({ "timeoutMs": limit }));
        }
        if rng.chance(options.priorities) {
            put("priority", json!(rng.between(0, 10)));
        }
        if options.flow_keys > 0 {
            put("flow", flow(rng, options));
        }
        if options.stall {
            // A cancel that no client asked for would surprise the model of a task.
            let after = STALL_LEASES * options.lease_ms.1;
            put("stall", json!({ "afterMs": after, "action": "requeue" }));
        }
        let key = (!rng.chance(options.without_key)).then(|| format!("key-{name}"));
        Self { key, body: Value::Object(body) }
    }

    /// Adds the scope's tag to the input, so that leaked data can be traced to its scope.
    pub(crate) fn tagged(mut self, scope: &str) -> Self {
        self.body["input"]["mark"] = json!(format!("{SCOPE_TAG}{scope};"));
        self
    }

    /// A different run under the same key.
    pub(crate) fn with_other_input(&self) -> Self {
        let mut other = self.clone();
        other.body["input"] = json!({ "name": "another" });
        other
    }

    /// A digest of the submission: equal submissions have equal digests.
    pub(crate) fn digest(&self) -> String {
        self.body.to_string()
    }
}

/// A flow key. All runs of a key have its terms.
fn flow(rng: &mut SimRng, options: &RunOptions) -> Value {
    let number = rng.between(0, options.flow_keys - 1);
    let (key, limit) = (format!("flow-{number}"), 1 + number % 3);
    let hold = if rng.chance(options.flow_life) { "life" } else { "lease" };
    match options.flow_rates {
        true => json!({ "key": key, "limit": limit + 1, "rate": { "count": limit, "perMs": 700 } }),
        false => json!({ "key": key, "limit": limit, "hold": hold }),
    }
}

/// The scopes whose tags appear in a text.
pub(crate) fn scope_tags(text: &str) -> Vec<String> {
    let found = text.split(SCOPE_TAG).skip(1).filter_map(|rest| rest.split(';').next());
    found.map(str::to_owned).collect()
}

pub(crate) fn queue(number: u64) -> String {
    format!("q{number}")
}
