//! `tenure dev`: a development server that saves its address and key for other terminals.

use std::net::{Ipv4Addr, SocketAddr};

use coordinator::{Plaintext, Retention, SubmitDefaults};
use store::ClockAhead;

use crate::exit::{CliError, CommandResult};
use crate::open_store::{self, StoreAddress};
use crate::output::{self, BOLD, FAINT, Format};
use crate::profile::{self, Profile};
use crate::serve::{self, KeyPolicy, ReadyMessage, Server, ServerOptions};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Port to listen on, on loopback only; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 7400)]
    port: u16,
    /// The store [default: tenure.db in the state directory]
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    store: Option<String>,
    /// Accept a stored time that is far ahead of this machine's clock
    #[arg(long)]
    accept_clock: bool,
    /// OpenTelemetry collector that receives traces, by OTLP over HTTP [default: none]
    #[arg(long, value_name = "URL", env = "TENURE_OTLP_ENDPOINT", hide_env = true)]
    otlp_endpoint: Option<String>,
}

/// A receiver on this machine can be tried without any setting: so is everything else that a developer runs here.
const LOOPBACK: &str = "127.0.0.0/8,::1/128";

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    serve::log(serve::LogMode::Dev);
    let path = Profile::path()?;
    // A profile that cannot be read is replaced, as its own error message advises.
    let remembered = Profile::read(&path).ok().flatten();
    let mut server = Server::start(ServerOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port)),
        port_flag: "--port",
        store: store(arguments.store)?,
        ahead: if arguments.accept_clock { ClockAhead::Accept } else { ClockAhead::Refuse },
        key: KeyPolicy::unless_known(remembered.as_ref()),
        tls: None,
        plaintext: Plaintext::OnLoopback,
        metrics_listen: None,
        metrics_queues: 0,
        has_console: true,
        seal_records: true,
        public_url: None,
        retention: Retention::FOR_EVER,
        collector: arguments.otlp_endpoint,
        submit_defaults: SubmitDefaults::default(),
        receivers: serve::receivers(Some(LOOPBACK))?,
    })
    .await?;
    let api_key = server.ready.api_key.clone().expect("dev asks for a key it can show");
    Profile::remember(&path, &server.ready.url, &api_key)?;
    server.add_console_link(&api_key);
    match format {
        Format::Json => output::json_line(&server.ready)?,
        Format::People => greet(&server.ready, &api_key, &path)?,
    }
    server.run_until_signal().await
}

/// Ignores the config file: it belongs to a service, and this server is a playground.
fn store(given: Option<String>) -> Result<StoreAddress, CliError> {
    match given.or_else(serve::store_of_environment) {
        Some(given) => open_store::store_address(Some(&given)),
        None => profile::default_store().map(StoreAddress::Sqlite),
    }
}

fn greet(ready: &ReadyMessage, key: &str, profile: &std::path::Path) -> Result<(), CliError> {
    let (url, store, me) = (&ready.url, &ready.store, output::program_name());
    let console = ready.console_url.as_deref().unwrap_or("is not served");
    output::line(format_args!(
        "{BOLD}Tenure is ready at {url}{BOLD:#}
{FAINT}console{FAINT:#}  {console}
         (this link logs in once, within five minutes; `{me} console` makes another)
{FAINT}store{FAINT:#}    {store}
{FAINT}profile{FAINT:#}  {} (address and key, so that the commands below need no flags)

{BOLD}In a second terminal{BOLD:#} {FAINT}any program can be a worker; this one returns its input{FAINT:#}
  {me} work --queue demo --exec cat

{BOLD}In a third terminal{BOLD:#} {FAINT}submit, wait, read the output{FAINT:#}
  {me} submit hello --queue demo --input '{{\"name\":\"Ada\"}}' --wait
  {me} runs list

{BOLD}For curl and for SDKs{BOLD:#}
  export TENURE_URL={url}
  export TENURE_API_KEY={key}

Ctrl-C stops the server; the store is kept.",
        profile.display()
    ))
}
