//! The queries of reads. Like bodies, they refuse unknown members.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{ErrorCategory, State, Time};

/// `GET /v1/runs?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListRuns {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub kind: Option<String>,
    /// A label and its value, written `name=value`, or a label with any value, written `name`. May be repeated: all
    /// of them must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    #[cfg_attr(feature = "openapi", param(max_items = 32, required = false))]
    pub label: Vec<String>,
    /// Only runs that were submitted at this instant or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub since: Option<Time>,
    /// Only runs that were submitted before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub until: Option<Time>,
    /// Only runs whose lease this worker holds, or whose latest attempt it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker: Option<String>,
    /// Only runs that ended with a failure of this category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, pattern = "^(USER_CODE|DATA_QUALITY|INFRASTRUCTURE|CONFIGURATION|TIMEOUT)$"))]
    pub category: Option<ErrorCategory>,
    /// Whether to list tasks that other tasks started too; only runs when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Bodies to bring along, separated by commas: `input`, `output`, `stackTrace`. Without them a list leaves
    /// them out; a single run always has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(pattern = "^(input|output|stackTrace)(,(input|output|stackTrace)){0,2}$")
    )]
    pub include: Option<String>,
}

/// A label that [`ListRuns::label`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelQuery<'a> {
    pub name: &'a str,
    /// `None`: any value.
    pub value: Option<&'a str>,
}

impl LabelQuery<'_> {
    /// Reads `name=value` or `name`.
    pub fn of(text: &str) -> LabelQuery<'_> {
        match text.split_once('=') {
            Some((name, value)) => LabelQuery { name, value: Some(value) },
            None => LabelQuery { name: text, value: None },
        }
    }
}

/// What [`ListRuns::include`] names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Included {
    pub input: bool,
    pub output: bool,
    pub stack_trace: bool,
}

impl Included {
    /// `None` for a list that names anything else.
    pub fn read(list: &str) -> Option<Self> {
        let mut included = Self::default();
        for name in list.split(',') {
            match name {
                "input" => included.input = true,
                "output" => included.output = true,
                "stackTrace" => included.stack_trace = true,
                _ => return None,
            }
        }
        Some(included)
    }
}

/// `GET /v1/workers?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListWorkers {
    /// Only workers after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `GET /v1/kinds?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListKinds {
    /// Only this kind, with its schemas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub kind: Option<String>,
    /// Only kinds after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub after: Option<String>,
    /// Rows of one kind stay together, so a page may have more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `GET /v1/flow-keys?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListFlowKeys {
    /// Only this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub key: Option<String>,
    /// Only keys after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `POST /v1/runs?waitMs=`: answer when the run has ended, or after this time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct WaitMs {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 30000))]
    pub wait_ms: Option<u64>,
}

/// `GET /v1/runs/{runId}?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct GetRun {
    /// Answer when the run has ended, or after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 30000))]
    pub wait_ms: Option<u64>,
    /// Bring at most this many descendants along, as a tree; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 0, maximum = 1000))]
    pub tree: Option<u32>,
}

/// `GET /v1/tasks/{taskId}/checkpoints?…`, and the same for the steps and children of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct RecordsQuery {
    /// Only what has a larger number: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 0, maximum = 4294967295i64))]
    pub after: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `GET /v1/runs/{runId}/history?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct HistoryQuery {
    /// Only entries after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 0, maximum = 9007199254740991i64))]
    pub after: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// How long to wait while there is nothing new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 30000))]
    pub wait_ms: Option<u64>,
}

/// `GET /v1/runs/{runId}/logs?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct LogsQuery {
    /// Only lines after this one: the `nextAfter` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `GET /v1/runs/{runId}/record?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct RecordQuery {
    /// Only attempts after this one: the `nextAfter` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 0, maximum = 4294967295i64))]
    pub after: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// Accepts a text as a list of one. A query has one text for each repetition of a parameter.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(OneOrMore)
}

struct OneOrMore;

impl<'de> de::Visitor<'de> for OneOrMore {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Vec<String>, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))
    }
}
