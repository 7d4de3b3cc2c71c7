//! `tenure config`: which settings count here, and where each comes from.
//!
//! The order is the same everywhere: a flag, then the environment, then the profile that `tenure dev`
//! wrote, then the default. Nothing is asked of a server, and no secret is shown.

use clap::CommandFactory;
use clap::parser::ValueSource;
use comfy_table::Cell;
use serde::Serialize;

use crate::args::{Arguments as Everything, Everywhere};
use crate::exit::{Ended, Exit};
use crate::output::{self, Format};
use crate::profile::{Connection, DEFAULT_URL, Profile};
use crate::serve::{self, STORE_VARIABLE};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A store, as the commands take it that work on one
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Setting {
    setting: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    origin: String,
}

pub(crate) fn run(format: Format, everywhere: &Everywhere, arguments: &Arguments) -> Ended {
    let settings = settings(everywhere, arguments)?;
    if format == Format::Json {
        output::json(&settings)?;
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["SETTING", "VALUE", "FROM"]);
    for Setting { setting, value, origin } in &settings {
        let value = value.as_deref().unwrap_or("none");
        table.add_row([Cell::new(setting), Cell::new(value), Cell::new(origin)]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

fn settings(
    everywhere: &Everywhere,
    arguments: &Arguments,
) -> Result<Vec<Setting>, crate::exit::Complaint> {
    let path = Profile::path()?;
    let profile = Profile::read(&path)?;
    let file = format!("the profile {}", path.display());
    let (url, url_from) = match (&everywhere.url, &profile) {
        (Some(url), _) => (url.clone(), given("url", "--url", "TENURE_URL")),
        (None, Some(profile)) => (profile.url.clone(), file.clone()),
        (None, None) => (DEFAULT_URL.to_owned(), "the default".to_owned()),
    };
    // Chosen as every command does: the profile's key goes to the profile's server only.
    let key = Connection::choose(everywhere.url.as_deref(), everywhere.key.as_deref()).ok();
    let key_from = match (&everywhere.key, &key) {
        (Some(_), _) => given("key", "--key", "TENURE_API_KEY"),
        (None, Some(_)) => file,
        (None, None) => "no flag, no variable, no profile for this server".to_owned(),
    };
    let store_from = match (&arguments.store, serve::store_of_environment()) {
        (Some(_), _) => "the flag --store".to_owned(),
        (None, Some(_)) => variable(STORE_VARIABLE),
        (None, None) => "the default".to_owned(),
    };
    let store = serve::store_path(arguments.store.as_deref())?;
    let signing_key = store.with_extension("key");
    Ok(vec![
        Setting { setting: "url", value: Some(url), origin: url_from },
        Setting {
            setting: "key",
            value: key.map(|found| public_part(&found.key)),
            origin: key_from,
        },
        Setting {
            setting: "store",
            value: Some(format!("sqlite:{}", store.display())),
            origin: store_from,
        },
        Setting {
            setting: "signing key",
            value: Some(signing_key.display().to_string()),
            origin: "beside the store".to_owned(),
        },
    ])
}

/// Whether a value came by a flag or by the environment; only the parser knows.
fn given(argument: &str, flag: &str, name: &str) -> String {
    let matches = Everything::command().get_matches();
    let source = matches.subcommand().and_then(|(_, found)| found.value_source(argument));
    match source {
        Some(ValueSource::EnvVariable) => variable(name),
        _ => format!("the flag {flag}"),
    }
}

fn variable(name: &str) -> String {
    format!("the variable {name}")
}

/// `tnr_<id>_…`: names the key without being it.
fn public_part(key: &str) -> String {
    match key.splitn(3, '_').collect::<Vec<_>>()[..] {
        ["tnr", id, _] => format!("tnr_{id}_…"),
        _ => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_and_not_shown() {
        assert_eq!(public_part("tnr_abc_secret_check"), "tnr_abc_…");
        assert_eq!(public_part("something else"), "…");
    }
}
