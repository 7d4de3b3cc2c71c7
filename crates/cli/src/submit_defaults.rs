//! The operator's defaults of submissions: settings of the server, and a table for each queue and kind in the
//! config file.
//!
//! The values are checked as those of a submission are, by the code that checks submissions.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use coordinator::{FlowDefaults, PolicyDefaults, SubmitDefaults};
use wire::requests::{FlowHold, FlowRate};

use crate::exit::CliError;
use crate::{duration, flow};

/// The table of the config file that has one table for each queue.
pub(crate) const QUEUES: &str = "queues";

/// The table of the config file that has one table for each kind.
pub(crate) const KINDS: &str = "kinds";

/// How many runs may be active at once: of a queue, or of a kind.
const FLOW_LIMIT: &str = "flow-limit";

/// How often runs may start: of a queue, or of a kind.
const FLOW_RATE: &str = "flow-rate";

/// How long submitted runs wait for a newer one, which replaces them: of a queue, or of a kind.
const FLOW_DEBOUNCE: &str = "flow-debounce";

/// How long runs that replace each other may wait together.
const FLOW_DEBOUNCE_MAX: &str = "flow-debounce-max";

/// How long runs hold their slots: `"lease"` or `"life"`.
const FLOW_HOLD: &str = "flow-hold";

/// The keys of flow control.
const FLOW_KEYS: [&str; 5] = [FLOW_LIMIT, FLOW_RATE, FLOW_DEBOUNCE, FLOW_DEBOUNCE_MAX, FLOW_HOLD];

/// The other keys of a queue's table: the settings below without `default-`.
const KEYS: [&str; 6] =
    ["lease", "heartbeat", "cancel-grace", "max-attempts", "lost-max", "stall-after"];

/// More queues than anyone configures by hand; a file with more is something else.
const QUEUES_MAX: usize = 1_000;

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct DefaultSettings {
    /// How long a worker may go without a heartbeat, for runs that do not say [default: 90s]
    #[arg(long, value_name = "SPAN", env = "TENURE_DEFAULT_LEASE", hide_env = true, value_parser = duration::parse)]
    default_lease: Option<Duration>,
    /// Interval between heartbeats, for runs that do not say [default: a third of the lease]
    #[arg(long, value_name = "SPAN", env = "TENURE_DEFAULT_HEARTBEAT", hide_env = true, value_parser = duration::parse)]
    default_heartbeat: Option<Duration>,
    /// How long a worker may take to stop after a cancel, for runs that do not say [default: 30s]
    #[arg(long, value_name = "SPAN", env = "TENURE_DEFAULT_CANCEL_GRACE", hide_env = true, value_parser = duration::parse)]
    default_cancel_grace: Option<Duration>,
    /// Number of failed attempts that ends a run, for runs that do not say [default: 3]
    #[arg(long, value_name = "N", env = "TENURE_DEFAULT_MAX_ATTEMPTS", hide_env = true)]
    default_max_attempts: Option<u32>,
    /// Number of lost workers that ends a run, for runs that do not say [default: 3]
    #[arg(long, value_name = "N", env = "TENURE_DEFAULT_LOST_MAX", hide_env = true)]
    default_lost_max: Option<u32>,
    /// How long an attempt may only send heartbeats before another worker gets the run, for runs that do not say [default: 24h]
    #[arg(long, value_name = "SPAN", env = "TENURE_DEFAULT_STALL_AFTER", hide_env = true, value_parser = duration::parse)]
    default_stall_after: Option<Duration>,
    /// From the config file alone.
    #[arg(skip)]
    pub(crate) tables: TableDefaults,
}

/// The defaults of single queues.
pub(crate) type QueueDefaults = BTreeMap<String, PolicyDefaults>;

/// What the tables of the config file say.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableDefaults {
    pub(crate) queues: QueueDefaults,
    /// How many runs of each kind may be active at once, and how often they may start.
    pub(crate) kinds: KindDefaults,
}

/// The flow keys of single kinds.
pub(crate) type KindDefaults = BTreeMap<String, FlowDefaults>;

impl DefaultSettings {
    /// The defaults of a server; an error for values that no submission may have.
    pub(crate) fn checked(&self) -> Result<SubmitDefaults, CliError> {
        let server = PolicyDefaults {
            lease_ms: self.default_lease.map(millis),
            heartbeat_interval_ms: self.default_heartbeat.map(millis),
            cancel_grace_ms: self.default_cancel_grace.map(millis),
            max_attempts: self.default_max_attempts,
            lost_max: self.default_lost_max,
            stall_after_ms: self.default_stall_after.map(millis),
            flow: FlowDefaults::default(),
        };
        let TableDefaults { queues, kinds } = self.tables.clone();
        let defaults = SubmitDefaults { server, queues, kinds };
        match defaults.check() {
            Ok(()) => Ok(defaults),
            Err((queue, error)) => {
                let is_kind = queue.as_ref().is_some_and(|name| defaults.kinds.contains_key(name));
                let what = if is_kind { "kind" } else { "queue" };
                let of = queue.map_or("the server".to_owned(), |name| format!("{what} {name}"));
                let message = format!("the defaults of {of} cannot be used: {error}");
                Err(CliError::usage("unusable_default", message)
                    .hint("`tenure config` shows where each setting comes from"))
            }
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Reads the table of queues.
pub(crate) fn read_queues(path: &Path, value: &toml::Value) -> Result<QueueDefaults, CliError> {
    let wrong = |why: String| {
        CliError::usage("config_value", format!("{}: {why}", path.display())).hint(format!(
            "write a table [{QUEUES}.NAME] with the keys {}, {}",
            KEYS.join(", "),
            FLOW_KEYS.join(", ")
        ))
    };
    let table = value.as_table().ok_or_else(|| wrong(format!("`{QUEUES}` is not a table")))?;
    if table.len() > QUEUES_MAX {
        return Err(wrong(format!("`{QUEUES}` has more than {QUEUES_MAX} queues")));
    }
    let mut queues = QueueDefaults::new();
    for (queue, value) in table {
        if !wire::names::is_name(queue) {
            return Err(wrong(format!("`{QUEUES}.{queue}` cannot be the name of a queue")));
        }
        let members = value.as_table();
        let members = members.ok_or_else(|| wrong(format!("`{QUEUES}.{queue}` is not a table")))?;
        let mut own = PolicyDefaults::default();
        for (key, value) in members {
            set(&mut own, key, value)
                .map_err(|why| wrong(format!("`{QUEUES}.{queue}.{key}` {why}")))?;
        }
        queues.insert(queue.clone(), own);
    }
    Ok(queues)
}

/// Reads the table of kinds, which have the keys of flow control.
pub(crate) fn read_kinds(path: &Path, value: &toml::Value) -> Result<KindDefaults, CliError> {
    let wrong = |why: String| {
        CliError::usage("config_value", format!("{}: {why}", path.display()))
            .hint(format!("write a table [{KINDS}.NAME] with the keys {}", FLOW_KEYS.join(", ")))
    };
    let table = value.as_table().ok_or_else(|| wrong(format!("`{KINDS}` is not a table")))?;
    if table.len() > QUEUES_MAX {
        return Err(wrong(format!("`{KINDS}` has more than {QUEUES_MAX} kinds")));
    }
    let mut kinds = KindDefaults::new();
    for (kind, value) in table {
        if !wire::names::is_name(kind) {
            return Err(wrong(format!("`{KINDS}.{kind}` cannot be the name of a kind")));
        }
        let members = value.as_table();
        let members = members.ok_or_else(|| wrong(format!("`{KINDS}.{kind}` is not a table")))?;
        let mut own = FlowDefaults::default();
        for (key, value) in members {
            let set = set_flow(&mut own, key, value);
            let set = set.unwrap_or_else(|| Err("is no default of a kind".to_owned()));
            set.map_err(|why| wrong(format!("`{KINDS}.{kind}.{key}` {why}")))?;
        }
        kinds.insert(kind.clone(), own);
    }
    Ok(kinds)
}

/// Reads a key of flow control; `None` if it is none.
fn set_flow(own: &mut FlowDefaults, key: &str, value: &toml::Value) -> Option<Result<(), String>> {
    match key {
        FLOW_LIMIT => Some(number(value).map(|limit| own.limit = Some(limit))),
        FLOW_RATE => Some(rate(value).map(|rate| own.rate = Some(rate))),
        FLOW_DEBOUNCE => Some(span(value).map(|ms| own.debounce_ms = Some(ms))),
        FLOW_DEBOUNCE_MAX => Some(span(value).map(|ms| own.debounce_max_ms = Some(ms))),
        FLOW_HOLD => Some(hold(value).map(|hold| own.hold = Some(hold))),
        _ => None,
    }
}

fn hold(value: &toml::Value) -> Result<FlowHold, String> {
    match value.as_str() {
        Some("lease") => Ok(FlowHold::Lease),
        Some("life") => Ok(FlowHold::Life),
        _ => Err("takes \"lease\" or \"life\"".to_owned()),
    }
}

const fn hold_name(hold: FlowHold) -> &'static str {
    match hold {
        FlowHold::Lease => "lease",
        FlowHold::Life => "life",
    }
}

fn rate(value: &toml::Value) -> Result<FlowRate, String> {
    flow::parse_rate(value.as_str().ok_or("takes a rate in quotes, such as \"10/1s\"")?)
}

fn set(own: &mut PolicyDefaults, key: &str, value: &toml::Value) -> Result<(), String> {
    match key {
        "lease" => own.lease_ms = Some(span(value)?),
        "heartbeat" => own.heartbeat_interval_ms = Some(span(value)?),
        "cancel-grace" => own.cancel_grace_ms = Some(span(value)?),
        "max-attempts" => own.max_attempts = Some(number(value)?),
        "lost-max" => own.lost_max = Some(number(value)?),
        "stall-after" => own.stall_after_ms = Some(span(value)?),
        _ => {
            let set = set_flow(&mut own.flow, key, value);
            return set.unwrap_or_else(|| Err("is no default of a queue".to_owned()));
        }
    }
    Ok(())
}

fn span(value: &toml::Value) -> Result<u64, String> {
    let text = value.as_str().ok_or("takes a span in quotes, such as \"20s\"")?;
    duration::parse(text).map(millis)
}

fn number(value: &toml::Value) -> Result<u32, String> {
    let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| "takes a number".to_owned())
}

/// The rows of `tenure config` for the defaults of queues and kinds: name and value.
pub(crate) fn rows(tables: &TableDefaults) -> Vec<(String, String)> {
    let span = duration::format_exact;
    let row = |queue: &str, key: &str, value: String| (format!("{QUEUES}.{queue}.{key}"), value);
    let of = |(queue, own): (&String, &PolicyDefaults)| {
        let [lease, heartbeat, grace, attempts, lost, stall] = KEYS;
        let rows = [
            own.lease_ms.map(|ms| row(queue, lease, span(ms))),
            own.heartbeat_interval_ms.map(|ms| row(queue, heartbeat, span(ms))),
            own.cancel_grace_ms.map(|ms| row(queue, grace, span(ms))),
            own.max_attempts.map(|count| row(queue, attempts, count.to_string())),
            own.lost_max.map(|count| row(queue, lost, count.to_string())),
            own.stall_after_ms.map(|ms| row(queue, stall, span(ms))),
        ];
        let flow = flow_rows(&format!("{QUEUES}.{queue}"), own.flow);
        rows.into_iter().flatten().chain(flow).collect::<Vec<_>>()
    };
    let of_kind =
        |(kind, own): (&String, &FlowDefaults)| flow_rows(&format!("{KINDS}.{kind}"), *own);
    tables.queues.iter().flat_map(of).chain(tables.kinds.iter().flat_map(of_kind)).collect()
}

fn flow_rows(table: &str, own: FlowDefaults) -> Vec<(String, String)> {
    let limit = own.limit.map(|limit| (format!("{table}.{FLOW_LIMIT}"), limit.to_string()));
    let rate = own.rate.map(|rate| (format!("{table}.{FLOW_RATE}"), flow::format_rate(rate)));
    let spans = [(FLOW_DEBOUNCE, own.debounce_ms), (FLOW_DEBOUNCE_MAX, own.debounce_max_ms)];
    let spans = spans
        .into_iter()
        .filter_map(|(key, ms)| Some((format!("{table}.{key}"), duration::format_exact(ms?))));
    let hold = own.hold.map(|hold| (format!("{table}.{FLOW_HOLD}"), hold_name(hold).to_owned()));
    limit.into_iter().chain(rate).chain(spans).chain(hold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<QueueDefaults, CliError> {
        let table: toml::Table = text.parse().unwrap();
        read_queues(Path::new("tenure.toml"), &table[QUEUES])
    }

    #[test]
    fn a_queue_has_its_own_defaults() {
        let queues = read(
            "[queues.images]\nlease = \"20s\"\nheartbeat = \"5s\"\nlost-max = 5\n[queues.video]\nmax-attempts = 1\ncancel-grace = \"2m\"\nstall-after = \"3d\"",
        )
        .unwrap();
        let images = queues["images"];
        assert_eq!((images.lease_ms, images.heartbeat_interval_ms), (Some(20_000), Some(5_000)));
        assert_eq!((images.lost_max, images.max_attempts), (Some(5), None));
        assert_eq!(queues["video"].cancel_grace_ms, Some(120_000));
        assert_eq!(queues["video"].stall_after_ms, Some(259_200_000));
        let tables = TableDefaults { queues, ..TableDefaults::default() };
        let shown: Vec<String> = rows(&tables).into_iter().map(|(name, _)| name).collect();
        assert_eq!(shown.len(), 6);
        assert_eq!(shown[0], "queues.images.lease");
    }

    #[test]
    fn queues_and_kinds_have_limits() {
        let text = "[queues.images]\nflow-limit = 4\n[kinds.import]\nflow-limit = 2\nflow-rate = \"10/1s\"";
        let kinds = read_kinds_of(text).unwrap();
        let tables = TableDefaults { queues: read(text).unwrap(), kinds };
        let shown = [
            ("queues.images.flow-limit", "4"),
            ("kinds.import.flow-limit", "2"),
            ("kinds.import.flow-rate", "10/1 s"),
        ];
        let shown = shown.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(rows(&tables), shown);
        let refused = read_kinds_of("[kinds.import]\nlease = \"1s\"").unwrap_err();
        assert!(refused.message.contains("`kinds.import.lease` is no default"), "{refused}");
        let kinds = read_kinds_of("[kinds.import]\nflow-limit = 0").unwrap();
        let tables = TableDefaults { kinds, ..TableDefaults::default() };
        let refused = DefaultSettings { tables, ..DefaultSettings::default() }.checked();
        let refused = refused.unwrap_err();
        assert!(refused.message.contains("kind import"), "{refused}");
        let kinds = read_kinds_of("[kinds.order]\nflow-limit = 1\nflow-hold = \"life\"").unwrap();
        let tables = TableDefaults { kinds, ..TableDefaults::default() };
        assert_eq!(rows(&tables)[1], ("kinds.order.flow-hold".to_owned(), "life".to_owned()));
        assert!(DefaultSettings { tables, ..DefaultSettings::default() }.checked().is_ok());
        let refused = read_kinds_of("[kinds.order]\nflow-hold = \"ever\"").unwrap_err();
        assert!(refused.message.contains("takes \"lease\" or \"life\""), "{refused}");
        let kinds = read_kinds_of("[kinds.order]\nflow-hold = \"life\"").unwrap();
        let tables = TableDefaults { kinds, ..TableDefaults::default() };
        let refused = DefaultSettings { tables, ..DefaultSettings::default() }.checked();
        assert!(refused.unwrap_err().message.contains("kind order"));
        let refused = read_kinds_of("[kinds.import]\nflow-rate = \"often\"").unwrap_err();
        assert!(refused.message.contains("`kinds.import.flow-rate`"), "{refused}");
    }

    fn read_kinds_of(text: &str) -> Result<KindDefaults, CliError> {
        let table: toml::Table = text.parse().unwrap();
        read_kinds(Path::new("tenure.toml"), &table[KINDS])
    }

    #[test]
    fn what_cannot_be_used_names_its_key() {
        for (text, what) in [
            ("queues = 1", "`queues` is not a table"),
            ("[queues]\nimages = 1", "`queues.images` is not a table"),
            ("[queues.\"white space\"]", "cannot be the name"),
            ("[queues.a]\nleese = \"1s\"", "`queues.a.leese` is no default"),
            ("[queues.a]\nlease = 20", "takes a span in quotes"),
            ("[queues.a]\nlost-max = \"x\"", "takes a number"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.message.contains(what), "{text}: {refused}");
        }
    }

    #[test]
    fn defaults_are_checked_as_submissions_are() {
        let settings = DefaultSettings {
            default_lease: Some(Duration::from_secs(1)),
            ..DefaultSettings::default()
        };
        let refused = settings.checked().unwrap_err();
        assert_eq!(refused.code, "unusable_default");
        assert!(
            refused.message.contains("the server") && refused.message.contains("leaseMs"),
            "{refused}"
        );
        let queues = read("[queues.a]\nheartbeat = \"5m\"").unwrap();
        let tables = TableDefaults { queues, ..TableDefaults::default() };
        let settings = DefaultSettings { tables, ..DefaultSettings::default() };
        let refused = settings.checked().unwrap_err();
        assert!(refused.message.contains("queue a"), "{refused}");
    }
}
