//! `tenure serve`, and everything else that touches the coordinator: open the store, make sure there is a key,
//! listen, drain, end.
//!
//! Without a certificate only loopback is served, unless the operator insists: a key would be readable on
//! the way.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use coordinator::admit::{KeyringError, NewKey, Role};
use coordinator::server::Limits;
use coordinator::{Host, OsEntropy, Plaintext, Retention, ServeError, ServeOptions, TlsFiles};
use serde::Serialize;
use store::{Ahead, Browse, Failure, FailureKind, Store};
use tokio::signal::unix::{SignalKind, signal};

use crate::descriptors;
use crate::exit::{Complaint, Ended, Exit};
use crate::opening::{self, Opened, Serving, StoreAddress};
use crate::output::{self, BOLD, FAINT, Format};
use crate::profile::{self, Profile};
use crate::settings::{self, Settings};
use crate::traces::Exporter;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Remember address and key for the other commands, as `tenure dev` does
    #[arg(long)]
    write_profile: bool,
    /// Make and print another key, although the store has one
    #[arg(long)]
    new_key: bool,
    /// Go on from the stored time although it is far ahead of this machine's clock
    #[arg(long)]
    accept_clock: bool,
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> Ended {
    log(Loudness::Serve);
    let settings = &arguments.settings;
    let server = Server::start(Wishes {
        listen: settings.listen,
        port_flag: "--listen",
        store: opening::store_address(settings.store.as_deref())?,
        ahead: if arguments.accept_clock { Ahead::Accept } else { Ahead::Refuse },
        key: key_wish(&arguments)?,
        tls: tls_files(settings)?,
        plaintext: plaintext(settings),
        metrics_listen: settings.metrics_listen,
        public_url: settings.public_url.clone(),
        retention: retention(settings),
        collector: settings.otlp_endpoint.clone(),
    })
    .await?;
    if arguments.write_profile
        && let Some(key) = &server.ready.api_key
    {
        let profile = Profile { url: server.ready.url.clone(), api_key: key.clone() };
        profile.write(&Profile::path()?)?;
    }
    tracing::info!(url = server.ready.url, store = server.ready.store, "serving");
    match format {
        Format::Json => output::json_line(&server.ready)?,
        Format::People => announce(&server.ready)?,
    }
    server.until_told().await
}

/// Both or neither, wherever each was said.
fn tls_files(settings: &Settings) -> Result<Option<TlsFiles>, Complaint> {
    let files = match (settings.tls_cert.clone(), settings.tls_key.clone()) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let sentence = "a certificate and its private key belong together";
            return Err(Complaint::usage("certificate", sentence)
                .hint("give both --tls-cert and --tls-key, or neither"));
        }
    };
    if files.is_some() && settings.insecure_plaintext {
        let sentence = "a server shows a certificate or speaks plain HTTP, not both";
        return Err(Complaint::usage("certificate", sentence)
            .hint("leave out --tls-cert and --tls-key, or --insecure-plaintext"));
    }
    Ok(files)
}

fn plaintext(settings: &Settings) -> Plaintext {
    if settings.insecure_plaintext { Plaintext::Anywhere } else { Plaintext::OnLoopback }
}

fn retention(settings: &Settings) -> Retention {
    let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Retention::of(settings.retain_for.map(millis), settings.retain_runs)
}

fn key_wish(arguments: &Arguments) -> Result<KeyWish, Complaint> {
    if arguments.new_key {
        return Ok(KeyWish::Another);
    }
    if arguments.write_profile {
        let remembered = Profile::read(&Profile::path()?)?;
        return Ok(KeyWish::OneUnlessKnown(remembered.map(|profile| profile.api_key)));
    }
    Ok(KeyWish::OneIfNone)
}

fn announce(ready: &Ready) -> Result<(), Complaint> {
    output::line(format_args!("{BOLD}Tenure serves at {}{BOLD:#}", ready.url))?;
    output::line(format_args!("{FAINT}store{FAINT:#}  {}", ready.store))?;
    if let Some(url) = &ready.metrics_url {
        output::line(format_args!("{FAINT}scrape{FAINT:#} {url}"))?;
    }
    if let Some(key) = &ready.api_key {
        output::line(format_args!("{FAINT}key{FAINT:#}    {key}"))?;
        output::line("       It may do everything and is shown this once: keep it.")?;
    }
    Ok(())
}

/// What a server is asked to be.
pub(crate) struct Wishes {
    pub(crate) listen: SocketAddr,
    /// The flag that names the port, for the remedy.
    pub(crate) port_flag: &'static str,
    pub(crate) store: StoreAddress,
    pub(crate) ahead: Ahead,
    pub(crate) key: KeyWish,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) plaintext: Plaintext,
    /// Where metrics alone are served, if anywhere.
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) public_url: Option<String>,
    pub(crate) retention: Retention,
    /// Where traces are sent, if anywhere.
    pub(crate) collector: Option<String>,
}

/// Whether a key is made. Only a key that is made now can be shown: the store keeps digests.
pub(crate) enum KeyWish {
    /// Unless the store has one.
    OneIfNone,
    Another,
    /// Unless the store knows the one that is remembered here.
    OneUnlessKnown(Option<String>),
}

/// What a server says when it is ready.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ready {
    pub(crate) url: String,
    /// Only when it was made now, or was remembered: nobody else can know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
    pub(crate) store: String,
    /// Where metrics are without a key, if they have a listener of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics_url: Option<String>,
}

/// A server that runs inside this process.
pub(crate) struct Server {
    pub(crate) ready: Ready,
    serving: Serving,
    signals: Signals,
}

impl Server {
    pub(crate) async fn start(wishes: Wishes) -> Result<Server, Complaint> {
        let beyond_loopback = !wishes.listen.ip().is_loopback();
        if beyond_loopback && wishes.tls.is_none() {
            match wishes.plaintext {
                Plaintext::OnLoopback => return Err(not_loopback(wishes.listen)),
                Plaintext::Anywhere => say_readable(wishes.listen),
            }
        }
        if let Some(open) = wishes.metrics_listen.filter(|it| !it.ip().is_loopback()) {
            say_open(open);
        }
        let spans = wishes.collector.as_deref().map(Exporter::open).transpose()?;
        // Before anybody can know that there is a server to be stopped.
        let signals = Signals::listen()?;
        let opened = opening::open(&wishes.store, wishes.ahead, wishes.listen).await?;
        let (api_key, new_keys) = match &opened {
            Opened::Sqlite(store) => choose_key(store, wishes.key).await,
            Opened::Postgres(store) => choose_key(store, wishes.key).await,
        }
        .map_err(|failure| wishes.store.trouble()(&failure))?;
        let mut options =
            ServeOptions::new(wishes.listen, opening::signing_key_path(&opened).await?);
        options.new_keys = new_keys;
        options.coordinator.retention = wishes.retention;
        options.coordinator.spans = spans.map(|exporter| exporter as _);
        let scheme = if wishes.tls.is_some() { "https" } else { "http" };
        options.callback_base_url = wishes.public_url.clone();
        (options.tls, options.plaintext) = (wishes.tls, wishes.plaintext);
        options.metrics_listen = wishes.metrics_listen;
        if beyond_loopback {
            options.limits = Limits::beyond_loopback();
        }
        options.limits.connections = descriptors::seats(options.limits.connections);
        let store = wishes.store.shown(&opened);
        let serving = match opened {
            Opened::Sqlite(store) => coordinator::serve(store, options).await.map(Serving::Sqlite),
            Opened::Postgres(store) => {
                options.coordinator.host = Host::Task;
                coordinator::serve(store, options).await.map(Serving::Postgres)
            }
        };
        let serving = serving.map_err(|error| match error {
            ServeError::Store(failure) => wishes.store.trouble()(&failure),
            ServeError::Listen { address, source } if Some(address) == wishes.metrics_listen => {
                cannot_listen(address, &source, "--metrics-listen")
            }
            error => not_served(error, wishes.port_flag),
        })?;
        let metrics_url = serving.metrics_addr().map(|address| format!("http://{address}/metrics"));
        let ready = Ready {
            url: wishes
                .public_url
                .unwrap_or_else(|| format!("{scheme}://{}", serving.local_addr())),
            api_key,
            store,
            metrics_url,
        };
        Ok(Server { ready, serving, signals })
    }

    /// Serves until SIGINT or SIGTERM, then drains; a second signal does not wait for that. A store that cannot
    /// be trusted any more ends the process, so that a supervisor starts it again from disk.
    pub(crate) async fn until_told(self) -> Ended {
        let Server { serving, mut signals, .. } = self;
        let told = loop {
            tokio::select! {
                told = signals.any() => match told {
                    Told::Stop => break None,
                    Told::Reload => serving.reload().await,
                },
                ended = serving.wait() => break Some(ended),
            }
        };
        let ended = match told {
            Some(ended) => ended,
            None => {
                say_draining();
                tokio::select! {
                    ended = serving.shutdown() => ended,
                    () = signals.next() => return Ok(Exit::Interrupted),
                }
            }
        };
        match ended {
            coordinator::Ended::Drained => Ok(Exit::Done),
            coordinator::Ended::Fatal(why) => {
                tracing::error!(why, "the store failed; this process ends to be started again");
                let sentence = format!("the store failed and must be opened again: {why}");
                Err(Complaint::new(Exit::Failed, "store_fatal", sentence)
                    .hint("start the server again; it recovers from what is on disk"))
            }
            coordinator::Ended::Outdated(why) => Err(rules_unknown(&why)),
        }
    }
}

fn say_readable(listen: SocketAddr) {
    tracing::warn!(
        %listen,
        "plain HTTP beyond this machine: whoever is on the way can read and use every key"
    );
}

fn say_open(metrics_listen: SocketAddr) {
    tracing::warn!(
        %metrics_listen,
        "metrics beyond this machine without a key: whoever reaches the address can read them"
    );
}

fn say_draining() {
    if std::io::stderr().is_terminal() {
        output::note("draining; once more to stop at once");
    }
    tracing::info!("draining: no new work, what is in hand is finished");
}

/// What a signal asks for.
enum Told {
    Stop,
    Reload,
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Signals, Complaint> {
        let deaf = |error: std::io::Error| {
            Complaint::new(
                Exit::Failed,
                "no_signals",
                format!("cannot listen for signals: {error}"),
            )
        };
        let interrupt = signal(SignalKind::interrupt()).map_err(deaf)?;
        let terminate = signal(SignalKind::terminate()).map_err(deaf)?;
        let hangup = signal(SignalKind::hangup()).map_err(deaf)?;
        Ok(Signals { interrupt, terminate, hangup })
    }

    async fn any(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.terminate.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
    }
}

/// The key people may use, and the keys to be made for that.
async fn choose_key<S: Store>(
    store: &S,
    wish: KeyWish,
) -> Result<(Option<String>, Vec<NewKey>), Failure> {
    let known = store.browse().api_keys().await?;
    let remembered = match wish {
        KeyWish::OneIfNone if !known.is_empty() => return Ok((None, Vec::new())),
        KeyWish::OneIfNone | KeyWish::Another => None,
        KeyWish::OneUnlessKnown(remembered) => remembered,
    };
    // The public part of a key is its second: tnr_<id>_<secret>_<checksum>.
    let id = remembered.as_deref().and_then(|key| key.split('_').nth(1));
    if id.is_some_and(|id| known.iter().any(|key| key.id.as_str() == id)) {
        return Ok((remembered, Vec::new()));
    }
    let key = NewKey::generate(&mut OsEntropy, Default::default(), &Role::ALL);
    Ok((Some(key.text().to_owned()), vec![key]))
}

fn not_loopback(listen: SocketAddr) -> Complaint {
    let sentence =
        format!("{listen} could be reached from other machines, and keys could be read on the way");
    Complaint::usage("not_loopback", sentence).hint(
        "give --tls-cert and --tls-key, or listen on 127.0.0.1; if something in front encrypts, say --insecure-plaintext",
    )
}

fn not_served(error: ServeError, port_flag: &str) -> Complaint {
    match error {
        ServeError::NotLoopback(ip) => not_loopback(SocketAddr::new(ip, 0)),
        ServeError::Listen { address, source } => cannot_listen(address, &source, port_flag),
        ServeError::Tls(error) => Complaint::usage("certificate", error.to_string())
            .hint("--tls-cert names the chain and --tls-key its private key, both as PEM"),
        ServeError::Keyring(error) => keyring_trouble(error),
        ServeError::Store(failure) => store_trouble(&failure),
    }
}

/// Signing keys that cannot be used, with the remedy for each case.
pub(crate) fn keyring_trouble(error: KeyringError) -> Complaint {
    let complaint = |code, remedy: &str| {
        Complaint::new(Exit::Conflict, code, error.to_string()).hint(remedy.to_owned())
    };
    match &error {
        KeyringError::Store(failure) => opening::database_trouble(failure),
        KeyringError::Differs { .. } | KeyringError::NotCopied { .. } => complaint(
            "signing_key_differs",
            "all coordinators of a database need the same file; docs/operate/postgres.md says how to copy it",
        ),
        KeyringError::Occupied { .. } => {
            complaint("store_not_empty", "a move never writes over anything; name an empty place")
        }
        _ => complaint(
            "keyring",
            "the file signs the tokens of tasks; a new one makes running attempts start again",
        ),
    }
}

fn cannot_listen(address: SocketAddr, source: &std::io::Error, port_flag: &str) -> Complaint {
    if source.kind() == std::io::ErrorKind::AddrInUse {
        let sentence = format!("{address} is already in use");
        return Complaint::new(Exit::Conflict, "port_taken", sentence)
            .hint(format!("stop what listens there, or choose another with {port_flag}"));
    }
    Complaint::new(Exit::Failed, "cannot_listen", format!("cannot listen on {address}: {source}"))
        .hint(format!("choose another with {port_flag}"))
}

/// How much a command says of what goes on inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loudness {
    Serve,
    /// A person watches: only what needs them.
    Dev,
}

/// Logs to stderr: text for a person at a terminal, JSON for whoever collects it. RUST_LOG overrides how much.
pub(crate) fn log(loudness: Loudness) {
    let default = match loudness {
        Loudness::Serve => "info",
        Loudness::Dev => "warn",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber in one process is no reason not to serve.
    let _ = if std::io::stderr().is_terminal() {
        base.with_ansi(output::colours()).try_init()
    } else {
        base.json().with_ansi(false).try_init()
    };
}

/// Says where the store lies, for every command that works on one and got no flag.
pub(crate) const STORE_VARIABLE: &str = "TENURE_STORE";

pub(crate) fn store_of_environment() -> Option<String> {
    std::env::var(STORE_VARIABLE).ok().filter(|value| !value.is_empty())
}

/// What was said of where the store lies, if anything: by the flag, the environment or the config file.
pub(crate) fn said_store(given: Option<&str>) -> Result<Option<String>, Complaint> {
    match given.filter(|given| !given.is_empty()) {
        Some(given) => Ok(Some(given.to_owned())),
        None => match store_of_environment() {
            Some(named) => Ok(Some(named)),
            None => settings::store_of_file(),
        },
    }
}

/// Where the store lies: `sqlite:PATH` or a plain path from the flag, else from the environment, else from the
/// config file, else the default.
pub(crate) fn store_path(given: Option<&str>) -> Result<PathBuf, Complaint> {
    let Some(given) = said_store(given)? else { return profile::default_store() };
    if opening::is_postgres(&given) {
        let sentence = "this command works on a SQLite store, and not on a PostgreSQL database";
        return Err(Complaint::usage("sqlite_only", sentence).hint(
            "give a file with --store sqlite:PATH; for a database use PostgreSQL's own tools",
        ));
    }
    let named = given.strip_prefix("sqlite:");
    let path = named.unwrap_or(&given);
    let is_unknown = path.is_empty() || path.contains("://");
    if is_unknown || (named.is_none() && opening::is_nearly_postgres(path)) {
        return Err(unknown_store(&given));
    }
    Ok(PathBuf::from(path))
}

/// What was given may hold a password: no more of it is said than what an address shows.
fn unknown_store(given: &str) -> Complaint {
    let sentence = match given.contains("://") {
        true => {
            format!("`{}` is not a store this version knows", opening::without_password(given))
        }
        false => "what --store says is not a store this version knows".to_owned(),
    };
    Complaint::usage("unknown_store", sentence)
        .hint("write --store sqlite:PATH or --store postgres://USER:PASSWORD@HOST:PORT/DATABASE")
}

/// The store is decided by rules that this binary does not know: no file and no restart would help.
fn rules_unknown(what: &str) -> Complaint {
    let (sentence, remedy) = what.split_once("; ").unwrap_or((what, "start a newer Tenure"));
    Complaint::new(Exit::Conflict, "rules_unknown", sentence).hint(remedy)
}

/// A store's trouble. What keeps it closed it says itself: a sentence, and after a semicolon the remedy.
pub(crate) fn store_trouble(failure: &Failure) -> Complaint {
    let cause = failure.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
    let what = &failure.what;
    match (failure.kind, what.split_once("; ")) {
        (FailureKind::Unfinished, Some((sentence, remedy))) => {
            Complaint::new(Exit::Conflict, "copy_interrupted", sentence).hint(remedy)
        }
        (FailureKind::Closed, Some((sentence, remedy))) => {
            Complaint::new(Exit::Conflict, "store_closed", sentence).hint(remedy)
        }
        (FailureKind::Closed, None) => {
            Complaint::new(Exit::Conflict, "store_closed", format!("{what}{cause}"))
                .hint("give another file with --store sqlite:PATH")
        }
        (FailureKind::UnknownRules, _) => rules_unknown(what),
        (FailureKind::Full, _) => {
            let sentence = format!("there is no room left where the store lies ({what})");
            Complaint::new(Exit::Failed, "store_full", sentence).hint("make room and try again")
        }
        _ => Complaint::new(Exit::Failed, "store_failed", format!("the store failed: {what}{cause}"))
            .hint("try again; if it stays, restore a backup or give another file with --store sqlite:PATH"),
    }
}
