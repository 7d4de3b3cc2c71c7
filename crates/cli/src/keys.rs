//! `tenure keys …`: API keys, their roles and their expiry.

use std::time::Duration;

use clap::Subcommand;
use comfy_table::Cell;
use tenure::Client;
use wire::Role;
use wire::admin::{CreateKey, Key, NewKey, RotateSigning, SigningRotated};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::{duration, server};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Create an API key and print it; it is shown only once
    Create(Create),
    /// List API keys without their secrets
    List,
    /// Give an API key a new secret and print it; it is shown only once
    Rotate(Rotate),
    /// Revoke an API key permanently, effective at once
    Revoke(Id),
    /// Sign task tokens with a new key; running work continues
    RotateSigning(RotateSigningKeys),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Role of the key: client, worker, admin or reader; may be repeated
    #[arg(long = "role", value_name = "ROLE", required = true)]
    roles: Vec<Role>,
    /// Name of the key, for people
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The tenant it belongs to [default: the one of the key in use]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The workspace it belongs to [default: the one of the key in use]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,
    /// Queue that the key may submit to, lease from and see; may be repeated [default: every queue]
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// Lifetime of the key, such as 90d or 12h [default: unlimited]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    expires_in: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    id: Id,
    /// How long the old secret stays valid; 0s invalidates it at once
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = duration::parse)]
    overlap: Duration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RotateSigningKeys {
    /// Drop all older keys because one has leaked; running attempts start again
    #[arg(long)]
    emergency: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Id {
    /// The key's id: its second part, or the first column of `tenure keys list`
    #[arg(value_name = "KEY")]
    id: String,
}

pub(crate) async fn run(client: Client, format: Format, verb: Verb) -> CommandResult {
    match verb {
        Verb::Create(create) => {
            let roles = create.roles.clone();
            let made = client.keys().create(roles).with(wanted(create)).await;
            let made = made.map_err(server::cli_error)?;
            show_new(format, &made)?;
        }
        Verb::List => {
            let keys = client.keys().list().await.map_err(server::cli_error)?.keys;
            show_all(format, &keys)?;
        }
        Verb::Rotate(Rotate { id: Id { id }, overlap }) => {
            let rotated = client.keys().rotate(&id).overlap(overlap).await;
            let made = rotated.map_err(server::cli_error)?;
            show_new(format, &made)?;
        }
        Verb::Revoke(Id { id }) => {
            let key = client.keys().revoke(&id).await.map_err(server::cli_error)?;
            match format {
                Format::Json => output::json(&key)?,
                Format::People => output::line(format_args!("{} is revoked", key.key_id))?,
            }
        }
        Verb::RotateSigning(RotateSigningKeys { emergency }) => {
            let how = RotateSigning { emergency: Some(emergency) };
            let rotated = client.keys().rotate_signing().with(how).await;
            let rotated = rotated.map_err(server::cli_error)?;
            show_rotated(format, &rotated)?;
        }
    }
    Ok(Exit::Done)
}

fn show_rotated(format: Format, rotated: &SigningRotated) -> Result<(), CliError> {
    if format == Format::Json {
        return output::json(rotated);
    }
    output::line(format_args!("new task tokens are signed with {}", rotated.kid))?;
    match rotated.previous_until {
        Some(until) => output::note(format_args!("older tokens stay valid until {until}")),
        None => output::note("older tokens are refused; their attempts start again"),
    }
    Ok(())
}

fn wanted(create: Create) -> CreateKey {
    let Create { roles, name, tenant, workspace, queues, expires_in } = create;
    let expires_at = expires_in.map(duration::from_now);
    let queues = Some(queues).filter(|queues| !queues.is_empty());
    CreateKey { name, roles, tenant_id: tenant, workspace_id: workspace, queues, expires_at }
}

fn show_new(format: Format, made: &NewKey) -> Result<(), CliError> {
    if format == Format::Json {
        return output::json(made);
    }
    let key = &made.key;
    output::line(&made.secret)?;
    output::note(format_args!(
        "{BOLD}{}{BOLD:#} may act as {} in {}/{}{}.",
        key.key_id,
        roles(key),
        key.tenant_id,
        key.workspace_id,
        key.queues.as_ref().map_or(String::new(), |it| format!(", queues {}", it.join(", ")))
    ));
    output::note("It is shown only once: store it now.");
    if let Some(until) = key.previous_secret_until {
        output::note(format_args!("{FAINT}The old secret stays valid until {until}.{FAINT:#}"));
    }
    Ok(())
}

fn show_all(format: Format, keys: &[Key]) -> Result<(), CliError> {
    if format == Format::Json {
        return output::json(keys);
    }
    let heads = ["KEY", "NAME", "ROLES", "SCOPE", "QUEUES", "AGE", "LAST USED", "CONDITION"];
    let mut table = output::table(&heads);
    for key in keys {
        table.add_row([
            Cell::new(&key.key_id),
            Cell::new(key.name.as_deref().unwrap_or("-")),
            Cell::new(roles(key)),
            Cell::new(format!("{}/{}", key.tenant_id, key.workspace_id)),
            Cell::new(key.queues.as_ref().map_or("all".to_owned(), |queues| queues.join(","))),
            Cell::new(duration::between(key.created_at, duration::now())),
            Cell::new(last_used(key)),
            Cell::new(status(key)),
        ]);
    }
    output::print_table(&table)
}

fn roles(key: &Key) -> String {
    key.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(",")
}

/// The server records it to the hour.
fn last_used(key: &Key) -> String {
    match key.last_used_at {
        None => "never".to_owned(),
        Some(at) => format!("{} ago", duration::between(at, duration::now())),
    }
}

fn status(key: &Key) -> String {
    let now = duration::now();
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(at)) if at <= now => "expired".to_owned(),
        (None, Some(at)) => format!("until {at}"),
        (None, None) => "good".to_owned(),
    }
}
