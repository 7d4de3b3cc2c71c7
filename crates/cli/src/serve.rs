//! `tenure serve`, and everything else that starts a coordinator: open the store, make sure that a
//! key exists, listen, drain, exit.
//!
//! Without a certificate the server listens only on loopback, unless the operator insists:
//! otherwise keys would cross the network in plain text.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use coordinator::admit::{KeyringError, NewKey, Role};
use coordinator::server::{Egress, Limits, parse_receivers};
use coordinator::{
    OsEntropy, Plaintext, Retention, ServeError, ServeOptions, SubmitDefaults, TlsFiles, engines,
};
use serde::Serialize;
use store::{Browse, ClockAhead, Failure, FailureKind, Store};
use tokio::signal::unix::{SignalKind, signal};

use crate::console;
use crate::descriptors;
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::{self, OpenStore, StoreAddress};
use crate::output::{self, BOLD, FAINT, Format};
use crate::profile::{self, Profile};
use crate::settings::{self, Settings};
use crate::traces::Exporter;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Save address and key in the profile for the other commands, as `tenure dev` does
    #[arg(long)]
    write_profile: bool,
    /// Create and print another key even if the store has one
    #[arg(long)]
    new_key: bool,
    /// Accept a stored time that is far ahead of this machine's clock
    #[arg(long)]
    accept_clock: bool,
    /// Do not serve the console at /console
    #[arg(long)]
    no_console: bool,
}

impl Arguments {
    /// For what only the config file says.
    pub(crate) fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    log(LogMode::Serve);
    let settings = &arguments.settings;
    let server = Server::start(ServerOptions {
        listen: settings.listen,
        port_flag: "--listen",
        store: open_store::store_address(settings.store.as_deref())?,
        ahead: if arguments.accept_clock { ClockAhead::Accept } else { ClockAhead::Refuse },
        key: key_policy(&arguments)?,
        tls: tls_files(settings)?,
        plaintext: plaintext(settings),
        metrics_listen: settings.metrics_listen,
        metrics_queues: settings.metrics_queues.unwrap_or(0).into(),
        has_console: !arguments.no_console,
        seal_records: settings.seal_records,
        public_url: settings.public_url.clone(),
        retention: retention(settings),
        collector: settings.otlp_endpoint.clone(),
        submit_defaults: settings.defaults.checked()?,
        receivers: receivers(settings.allow_private_receivers.as_deref())?,
    })
    .await?;
    let mut kept_in = None;
    if arguments.write_profile
        && let Some(key) = &server.ready.api_key
    {
        let path = Profile::path()?;
        Profile::remember(&path, &server.ready.url, key)?;
        kept_in = Some(path);
    }
    tracing::info!(url = server.ready.url, store = server.ready.store, "serving");
    match format {
        Format::Json => output::json_line(&server.ready)?,
        Format::People => announce(&server.ready, kept_in.as_deref())?,
    }
    server.run_until_signal().await
}

/// Both files or neither, whether set by flag, variable or config file.
fn tls_files(settings: &Settings) -> Result<Option<TlsFiles>, CliError> {
    let files = match (settings.tls_cert.clone(), settings.tls_key.clone()) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let message = "only one of certificate and private key is set";
            return Err(CliError::usage("certificate", message)
                .hint("give both --tls-cert and --tls-key, or neither"));
        }
    };
    if files.is_some() && settings.insecure_plaintext {
        let message = "a certificate and plain HTTP exclude each other";
        return Err(CliError::usage("certificate", message)
            .hint("omit --tls-cert and --tls-key, or --insecure-plaintext"));
    }
    Ok(files)
}

/// Ranges that effects may be sent to, separated by commas.
pub(crate) fn receivers(ranges: Option<&str>) -> Result<Egress, CliError> {
    let ranges = ranges.into_iter().flat_map(|ranges| ranges.split(','));
    let ranges: Vec<String> = ranges.map(|range| range.trim().to_owned()).collect();
    parse_receivers(&ranges).map_err(|range| {
        let message = format!("`{range}` is not a range of addresses");
        CliError::usage("receivers", message)
            .hint("give an address and the length of its prefix, such as 10.1.0.0/16 or ::1/128")
    })
}

fn plaintext(settings: &Settings) -> Plaintext {
    if settings.insecure_plaintext { Plaintext::Anywhere } else { Plaintext::OnLoopback }
}

fn retention(settings: &Settings) -> Retention {
    let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Retention::of(settings.retain_for.map(millis), settings.retain_runs)
}

fn key_policy(arguments: &Arguments) -> Result<KeyPolicy, CliError> {
    if arguments.new_key {
        return Ok(KeyPolicy::Always);
    }
    if arguments.write_profile {
        let remembered = Profile::read(&Profile::path()?)?;
        return Ok(KeyPolicy::unless_known(remembered.as_ref()));
    }
    Ok(KeyPolicy::IfNone)
}

/// `kept_in` is the profile that has the key.
fn announce(ready: &ReadyMessage, kept_in: Option<&Path>) -> Result<(), CliError> {
    output::line(format_args!("{BOLD}Tenure serves at {}{BOLD:#}", ready.url))?;
    output::line(format_args!("{FAINT}store{FAINT:#}  {}", ready.store))?;
    if let Some(url) = &ready.metrics_url {
        output::line(format_args!("{FAINT}scrape{FAINT:#} {url}"))?;
    }
    if let Some(key) = &ready.api_key {
        output::line(format_args!("{FAINT}key{FAINT:#}    {key}"))?;
        output::line(match kept_in {
            Some(path) => format!("       It has all roles. {} has it, too.", path.display()),
            None => "       It has all roles and is shown only once: store it now.".to_owned(),
        })?;
    }
    Ok(())
}

/// The options of a server.
pub(crate) struct ServerOptions {
    pub(crate) listen: SocketAddr,
    /// The flag that sets the port, for the error message.
    pub(crate) port_flag: &'static str,
    pub(crate) store: StoreAddress,
    pub(crate) ahead: ClockAhead,
    pub(crate) key: KeyPolicy,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) plaintext: Plaintext,
    /// Separate address for metrics, if any.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// How many queues metrics list by name.
    pub(crate) metrics_queues: usize,
    /// Whether the console is served.
    pub(crate) has_console: bool,
    /// Whether the records of ended tasks are sealed.
    pub(crate) seal_records: bool,
    pub(crate) public_url: Option<String>,
    pub(crate) retention: Retention,
    /// The collector that receives traces, if any.
    pub(crate) collector: Option<String>,
    /// What a submission means where it says nothing.
    pub(crate) submit_defaults: SubmitDefaults,
    /// Where effects may be sent besides the public Internet.
    pub(crate) receivers: Egress,
}

/// When to create a key. Only a key created now can be shown: the store keeps digests.
pub(crate) enum KeyPolicy {
    /// If the store has none.
    IfNone,
    Always,
    /// If the store knows none of the remembered ones.
    UnlessKnown(Vec<String>),
}

impl KeyPolicy {
    pub(crate) fn unless_known(profile: Option<&Profile>) -> Self {
        let keys = profile.into_iter().flat_map(Profile::keys).map(str::to_owned);
        KeyPolicy::UnlessKnown(keys.collect())
    }
}

/// What a server prints when it is ready.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadyMessage {
    pub(crate) url: String,
    /// Only if the key was created now or was remembered: the store cannot return it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
    pub(crate) store: String,
    /// The address of the metrics that need no key, if they have a separate listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics_url: Option<String>,
    /// Logs a browser in to the console once, with the key above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) console_url: Option<String>,
}

/// A server that runs inside this process.
pub(crate) struct Server {
    pub(crate) ready: ReadyMessage,
    serving: coordinator::Server,
    signals: Signals,
}

impl Server {
    pub(crate) async fn start(given: ServerOptions) -> Result<Server, CliError> {
        let beyond_loopback = !given.listen.ip().is_loopback();
        if beyond_loopback && given.tls.is_none() {
            match given.plaintext {
                Plaintext::OnLoopback => return Err(not_loopback(given.listen)),
                Plaintext::Anywhere => warn_plaintext(given.listen),
            }
        }
        if let Some(open) = given.metrics_listen.filter(|it| !it.ip().is_loopback()) {
            warn_open_metrics(open);
        }
        let spans = given.collector.as_deref().map(Exporter::open).transpose()?;
        // Registered before anyone can know that there is a server to stop.
        let signals = Signals::listen()?;
        let opened = open_store::open(&given.store, given.ahead, given.listen).await?;
        let (api_key, new_keys) = match &opened {
            OpenStore::Sqlite(store) => choose_key(store, given.key).await,
            OpenStore::Postgres(store) => choose_key(store, given.key).await,
        }
        .map_err(|failure| given.store.error_mapper()(&failure))?;
        let mut options =
            ServeOptions::new(given.listen, open_store::signing_key_path(&opened).await?);
        options.new_keys = new_keys;
        options.submit_defaults = given.submit_defaults;
        options.receivers = given.receivers;
        options.coordinator.retention = given.retention;
        options.coordinator.spans = spans.map(|exporter| exporter as _);
        let scheme = if given.tls.is_some() { "https" } else { "http" };
        options.callback_base_url = given.public_url.clone();
        (options.tls, options.plaintext) = (given.tls, given.plaintext);
        options.metrics_listen = given.metrics_listen;
        options.metrics_queues = given.metrics_queues;
        options.has_console = given.has_console;
        options.seal_records = given.seal_records;
        if beyond_loopback {
            options.limits = Limits::beyond_loopback();
        }
        options.limits.connections = descriptors::connection_limit(options.limits.connections);
        let store = given.store.display_name(&opened);
        let serving = match opened {
            OpenStore::Sqlite(store) => engines::serve_sqlite(store, options).await,
            OpenStore::Postgres(store) => engines::serve_postgres(store, options).await,
        };
        let serving = serving.map_err(|error| match error {
            ServeError::Store(failure) => given.store.error_mapper()(&failure),
            ServeError::Listen { address, source } if Some(address) == given.metrics_listen => {
                cannot_listen(address, &source, "--metrics-listen")
            }
            error => serve_error(error, given.port_flag),
        })?;
        let metrics_url = serving.metrics_addr().map(|address| format!("http://{address}/metrics"));
        let ready = ReadyMessage {
            url: given.public_url.unwrap_or_else(|| format!("{scheme}://{}", serving.local_addr())),
            api_key,
            store,
            metrics_url,
            console_url: None,
        };
        Ok(Server { ready, serving, signals })
    }

    /// Adds a link that logs a browser in to the console once, as the holder of this key.
    pub(crate) fn add_console_link(&mut self, api_key: &str) {
        let path = self.serving.console_link(api_key);
        self.ready.console_url = path.map(|path| console::url(&self.ready.url, &path));
    }

    /// Serves until SIGINT or SIGTERM, then drains; a second signal exits at once. A store that can
    /// no longer be trusted ends the process, so that a supervisor restarts it from disk.
    pub(crate) async fn run_until_signal(self) -> CommandResult {
        let Server { serving, mut signals, .. } = self;
        let requested = loop {
            tokio::select! {
                requested = signals.any() => match requested {
                    SignalAction::Stop => break None,
                    SignalAction::Reload => open_store::reload(&serving).await,
                },
                ended = serving.wait() => break Some(ended),
            }
        };
        let ended = match requested {
            Some(ended) => ended,
            None => {
                announce_drain();
                tokio::select! {
                    ended = serving.shutdown() => ended,
                    () = signals.next() => return Ok(Exit::Interrupted),
                }
            }
        };
        match ended {
            coordinator::StopReason::Drained => Ok(Exit::Done),
            coordinator::StopReason::Fatal(why) => {
                tracing::error!(
                    why,
                    "the store failed; stopping so that a supervisor can restart this process"
                );
                let message = format!("the store failed and must be opened again: {why}");
                Err(CliError::new(Exit::Failed, "store_fatal", message)
                    .hint("start the server again; it recovers from what is on disk"))
            }
            coordinator::StopReason::Outdated(why) => Err(rules_unknown(&why)),
        }
    }
}

fn warn_plaintext(listen: SocketAddr) {
    tracing::warn!(
        %listen,
        "serving plain HTTP beyond loopback: anyone on the network path can read and use every key"
    );
}

fn warn_open_metrics(metrics_listen: SocketAddr) {
    tracing::warn!(
        %metrics_listen,
        "serving metrics beyond loopback without a key: anyone who reaches the address can read them"
    );
}

fn announce_drain() {
    if std::io::stderr().is_terminal() {
        output::note("draining; press Ctrl-C again to stop at once");
    }
    tracing::info!("draining: accepting no new work, finishing requests in progress");
}

/// The action that a signal requests.
enum SignalAction {
    Stop,
    Reload,
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Signals, CliError> {
        let failed = |error: std::io::Error| {
            CliError::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
        };
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let hangup = signal(SignalKind::hangup()).map_err(failed)?;
        Ok(Signals { interrupt, terminate, hangup })
    }

    async fn any(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
    }
}

/// Chooses the key to print, and the keys to create for that.
async fn choose_key<S: Store>(
    store: &S,
    policy: KeyPolicy,
) -> Result<(Option<String>, Vec<NewKey>), Failure> {
    let known = store.browse().administration().await?.api_keys;
    let remembered = match policy {
        KeyPolicy::IfNone if !known.is_empty() => return Ok((None, Vec::new())),
        KeyPolicy::IfNone | KeyPolicy::Always => Vec::new(),
        KeyPolicy::UnlessKnown(remembered) => remembered,
    };
    // The public part of a key is its second: tnr_<id>_<secret>_<checksum>.
    let is_known = |text: &String| {
        let id = text.split('_').nth(1);
        id.is_some_and(|id| known.iter().any(|key| key.id.as_str() == id))
    };
    if let Some(remembered) = remembered.into_iter().find(is_known) {
        return Ok((Some(remembered), Vec::new()));
    }
    let key = NewKey::generate(&mut OsEntropy, Default::default(), &FIRST_KEY);
    Ok((Some(key.text().to_owned()), vec![key]))
}

/// What the first key of a server may do: everything. It reads as client and administrator, so it is no reader, too.
const FIRST_KEY: [Role; 4] = [Role::Client, Role::Worker, Role::Admin, Role::Approver];

fn not_loopback(listen: SocketAddr) -> CliError {
    let message =
        format!("{listen} is reachable from other machines, which could read keys on the network");
    CliError::usage("not_loopback", message).hint(
        "give --tls-cert and --tls-key, or listen on 127.0.0.1; if a proxy in front encrypts, pass --insecure-plaintext",
    )
}

fn serve_error(error: ServeError, port_flag: &str) -> CliError {
    match error {
        ServeError::NotLoopback(ip) => not_loopback(SocketAddr::new(ip, 0)),
        ServeError::Listen { address, source } => cannot_listen(address, &source, port_flag),
        ServeError::Tls(error) => CliError::usage("certificate", error.to_string())
            .hint("--tls-cert names the chain and --tls-key its private key, both as PEM"),
        ServeError::Keyring(error) => keyring_error(error),
        ServeError::Store(failure) => store_error(&failure),
    }
}

/// Signing keys that cannot be used, with the remedy for each case.
pub(crate) fn keyring_error(error: KeyringError) -> CliError {
    let cli_error = |code, remedy: &str| {
        CliError::new(Exit::Conflict, code, error.to_string()).hint(remedy.to_owned())
    };
    match &error {
        KeyringError::Store(failure) => open_store::database_error(failure),
        KeyringError::Differs { .. } | KeyringError::NotCopied { .. } => cli_error(
            "signing_key_differs",
            "all coordinators of a database need the same file; docs/operate/postgres.md says how to copy it",
        ),
        KeyringError::Occupied { .. } => {
            cli_error("store_not_empty", "nothing is overwritten; name an empty destination")
        }
        _ => cli_error(
            "keyring",
            "the file signs task tokens; with a new one running attempts start again",
        ),
    }
}

pub(crate) fn cannot_listen(
    address: SocketAddr,
    source: &std::io::Error,
    port_flag: &str,
) -> CliError {
    if source.kind() == std::io::ErrorKind::AddrInUse {
        let message = format!("{address} is already in use");
        return CliError::new(Exit::Conflict, "port_taken", message).hint(format!(
            "stop the program that listens there, or choose another with {port_flag}"
        ));
    }
    CliError::new(Exit::Failed, "cannot_listen", format!("cannot listen on {address}: {source}"))
        .hint(format!("choose another with {port_flag}"))
}

/// How much a command logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogMode {
    Serve,
    /// For a person who watches: only what needs attention.
    Dev,
}

/// Logs to stderr: text on a terminal, JSON otherwise. RUST_LOG overrides the level.
pub(crate) fn log(log_mode: LogMode) {
    let default = match log_mode {
        LogMode::Serve => "info",
        LogMode::Dev => "warn",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber in one process does not prevent serving.
    let _ = if std::io::stderr().is_terminal() {
        base.with_ansi(output::colours()).try_init()
    } else {
        base.json().with_ansi(false).try_init()
    };
}

/// The environment variable that names the store, for every command that works on one and got no
/// flag.
pub(crate) const STORE_VARIABLE: &str = "TENURE_STORE";

pub(crate) fn store_of_environment() -> Option<String> {
    std::env::var(STORE_VARIABLE).ok().filter(|value| !value.is_empty())
}

/// The store's address as given by the flag, the environment or the config file, if any.
pub(crate) fn configured_store(
    given: Option<&str>,
    config: Option<&Path>,
) -> Result<Option<String>, CliError> {
    match given.filter(|given| !given.is_empty()) {
        Some(given) => Ok(Some(given.to_owned())),
        None => match store_of_environment() {
            Some(named) => Ok(Some(named)),
            None => settings::store_of_file(config),
        },
    }
}

/// The store's path: `sqlite:PATH` or a plain path from the flag, else from the environment, else
/// from the config file, else the default.
pub(crate) fn store_path(given: Option<&str>) -> Result<PathBuf, CliError> {
    sqlite_path(configured_store(given, None)?)
}

/// The path of a configured SQLite store, or the default.
pub(crate) fn sqlite_path(configured: Option<String>) -> Result<PathBuf, CliError> {
    let Some(given) = configured else { return profile::default_store() };
    if open_store::is_postgres(&given) {
        let message = "this command works on a SQLite store, not on a PostgreSQL database";
        return Err(CliError::usage("sqlite_only", message)
            .hint("give a file with --store sqlite:PATH; for a database use PostgreSQL's tools"));
    }
    let named = given.strip_prefix("sqlite:");
    let path = named.unwrap_or(&given);
    let is_unknown = path.is_empty() || path.contains("://");
    if is_unknown || (named.is_none() && open_store::looks_like_postgres(path)) {
        return Err(unknown_store(&given));
    }
    Ok(PathBuf::from(path))
}

/// The given text may hold a password, so the message shows no more than a printable address does.
fn unknown_store(given: &str) -> CliError {
    let message = match given.contains("://") {
        true => {
            format!(
                "`{}` is not a store that this version supports",
                open_store::redact_password(given)
            )
        }
        false => "the value of --store is not a store that this version supports".to_owned(),
    };
    CliError::usage("unknown_store", message)
        .hint("write --store sqlite:PATH or --store postgres://USER:PASSWORD@HOST:PORT/DATABASE")
}

/// The store uses rules that this binary does not know: no file and no restart would help.
fn rules_unknown(what: &str) -> CliError {
    let (message, remedy) = what.split_once("; ").unwrap_or((what, "start a newer Tenure"));
    CliError::new(Exit::Conflict, "rules_unknown", message).hint(remedy)
}

/// An error of the store. Its message says why it stays closed: a sentence, and after a semicolon
/// the remedy.
pub(crate) fn store_error(failure: &Failure) -> CliError {
    let cause = failure.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
    let what = &failure.what;
    match (failure.kind, what.split_once("; ")) {
        (FailureKind::Unfinished, Some((message, remedy))) => {
            CliError::new(Exit::Conflict, "copy_interrupted", message).hint(remedy)
        }
        (FailureKind::Exists, Some((message, remedy))) => {
            CliError::new(Exit::Conflict, "file_exists", message).hint(remedy)
        }
        (FailureKind::Closed | FailureKind::InUse, Some((message, remedy))) => {
            CliError::new(Exit::Conflict, "store_closed", message).hint(remedy)
        }
        (FailureKind::Closed, None) => {
            CliError::new(Exit::Conflict, "store_closed", format!("{what}{cause}"))
                .hint("give another file with --store sqlite:PATH")
        }
        (FailureKind::UnknownRules, _) => rules_unknown(what),
        (FailureKind::Full, _) => {
            let message = format!("no disk space is left for the store ({what})");
            CliError::new(Exit::Failed, "store_full", message).hint("free some space and try again")
        }
        _ => CliError::new(Exit::Failed, "store_failed", format!("the store failed: {what}{cause}"))
            .hint("try again; if it persists, restore a backup or give another file with --store sqlite:PATH"),
    }
}
