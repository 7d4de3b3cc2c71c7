//! `tenure config`: the effective settings and the origin of each.
//!
//! For the server a flag wins over the environment, that over the config file, and that over the
//! default. For the commands that talk to a server, the profile that `tenure dev` wrote takes the
//! place of the file. This command calls no server and prints no secret.

use clap::CommandFactory;
use clap::parser::ValueSource;
use comfy_table::Cell;
use serde::Serialize;

use crate::args::{Arguments as Everything, GlobalArgs};
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::{self, StoreAddress};
use crate::output::{self, Format};
use crate::profile::{Connection, DEFAULT_URL, Profile};
use crate::settings::{EffectiveSetting, Parsed, Settings};
use crate::submit_defaults;

/// The flags of `serve`, so that one can see what they would change.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Setting {
    setting: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    origin: String,
}

pub(crate) fn run(format: Format, parsed: &Parsed) -> CommandResult {
    let mut settings = client_settings(&parsed.arguments.global_args)?;
    settings.extend(server_settings(parsed)?);
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

fn client_settings(global_args: &GlobalArgs) -> Result<Vec<Setting>, CliError> {
    let path = Profile::path()?;
    let profile = Profile::read(&path)?;
    let file = format!("the profile {}", path.display());
    let (url, url_from) = match (&global_args.url, &profile) {
        (Some(url), _) => (url.clone(), given("url", "--url", "TENURE_URL")),
        (None, Some(profile)) => (profile.url.clone(), file.clone()),
        (None, None) => (DEFAULT_URL.to_owned(), "the default".to_owned()),
    };
    // Chosen as in every command: the profile's key is sent only to the profile's server.
    let key = Connection::choose(global_args.url.as_deref(), global_args.key.as_deref()).ok();
    let key_from = match (&global_args.key, &key) {
        (Some(_), _) => given("key", "--key", "TENURE_API_KEY"),
        (None, Some(_)) => file,
        (None, None) => "no flag, no variable, no profile for this server".to_owned(),
    };
    let authorities = global_args.ca_file.as_ref();
    let ca_from = match authorities {
        Some(_) => given("ca_file", "--ca-file", "TENURE_CA_FILE"),
        None => "the default".to_owned(),
    };
    let setting = |name: &str, value, origin| Setting { setting: name.to_owned(), value, origin };
    Ok(vec![
        setting("url", Some(url), url_from),
        setting("key", key.map(|found| public_part(&found.key)), key_from),
        setting("ca-file", authorities.map(|file| file.display().to_string()), ca_from),
    ])
}

fn server_settings(parsed: &Parsed) -> Result<Vec<Setting>, CliError> {
    let mut settings = Vec::new();
    for EffectiveSetting { name, value, origin } in parsed.settings() {
        if name != "store" {
            settings.push(Setting { setting: name, value, origin });
            continue;
        }
        let address = open_store::store_address(value.as_deref())?;
        let (store, key, key_origin) = match &address {
            StoreAddress::Sqlite(path) => (
                format!("sqlite:{}", path.display()),
                path.with_extension("key"),
                "beside the store",
            ),
            StoreAddress::Postgres(url) => (
                open_store::redact_password(url),
                open_store::shared_signing_key_of("*")?,
                "the state directory, one for each database",
            ),
        };
        settings.push(Setting { setting: name, value: Some(store), origin });
        settings.push(Setting {
            setting: "signing key".to_owned(),
            value: Some(key.display().to_string()),
            origin: key_origin.to_owned(),
        });
    }
    if let Some((tables, origin)) = parsed.table_defaults() {
        for (setting, value) in submit_defaults::rows(tables) {
            settings.push(Setting { setting, value: Some(value), origin: origin.clone() });
        }
    }
    Ok(settings)
}

/// Whether a value came from a flag or from the environment; only the parser knows.
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

/// `tnr_<id>_…`: identifies the key without revealing it.
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
