//! `tenure serve`, and everything else that touches the coordinator: open the store, make sure there is a key,
//! listen, drain, end.
//!
//! Only loopback is served: without TLS a key would be readable on the way.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use coordinator::admit::{NewKey, Role};
use coordinator::{OsEntropy, ServeError, ServeOptions};
use serde::Serialize;
use store::sqlite::{Options, SqliteStore};
use store::{Ahead, Browse, Failure, FailureKind, Store, SystemClock};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Complaint, Ended, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::profile::{self, Profile};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen; only addresses of this machine itself
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Where to keep everything [default: tenure.db in the state directory]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
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
    let server = Server::start(Wishes {
        listen: arguments.listen,
        port_flag: "--listen",
        store: store_path(arguments.store.as_deref())?,
        ahead: if arguments.accept_clock { Ahead::Accept } else { Ahead::Refuse },
        key: key_wish(&arguments)?,
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
    pub(crate) store: PathBuf,
    pub(crate) ahead: Ahead,
    pub(crate) key: KeyWish,
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
}

/// A server that runs inside this process.
pub(crate) struct Server {
    pub(crate) ready: Ready,
    serving: coordinator::Server<SqliteStore>,
    signals: Signals,
}

impl Server {
    pub(crate) async fn start(wishes: Wishes) -> Result<Server, Complaint> {
        if !wishes.listen.ip().is_loopback() {
            return Err(not_loopback(wishes.listen));
        }
        // Before anybody can know that there is a server to be stopped.
        let signals = Signals::listen()?;
        let options =
            Options { ahead: wishes.ahead, ..Options::new(Arc::new(SystemClock::start())) };
        let store = SqliteStore::open(&wishes.store, options).map_err(|f| store_trouble(&f))?;
        let path = store.path().to_owned();
        let (api_key, new_keys) = choose_key(&store, wishes.key).await?;
        let mut options = ServeOptions::new(wishes.listen, path.with_extension("key"));
        options.new_keys = new_keys;
        let serving = coordinator::serve(store, options)
            .await
            .map_err(|error| not_served(error, wishes.port_flag))?;
        let ready = Ready {
            url: format!("http://{}", serving.local_addr()),
            api_key,
            store: format!("sqlite:{}", path.display()),
        };
        Ok(Server { ready, serving, signals })
    }

    /// Serves until SIGINT or SIGTERM, then drains; a second signal does not wait for that. A store that cannot
    /// be trusted any more ends the process, so that a supervisor starts it again from disk.
    pub(crate) async fn until_told(self) -> Ended {
        let Server { serving, mut signals, .. } = self;
        let ended = tokio::select! {
            () = signals.next() => {
                say_draining();
                tokio::select! {
                    ended = serving.shutdown() => ended,
                    () = signals.next() => return Ok(Exit::Interrupted),
                }
            }
            ended = serving.wait() => ended,
        };
        match ended {
            coordinator::Ended::Drained => Ok(Exit::Done),
            coordinator::Ended::Fatal(why) => {
                tracing::error!(why, "the store failed; this process ends to be started again");
                let sentence = format!("the store failed and must be opened again: {why}");
                Err(Complaint::new(Exit::Failed, "store_fatal", sentence)
                    .hint("start the server again; it recovers from what is on disk"))
            }
        }
    }
}

fn say_draining() {
    if std::io::stderr().is_terminal() {
        output::note("draining; once more to stop at once");
    }
    tracing::info!("draining: no new work, what is in hand is finished");
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
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
        Ok(Signals { interrupt, terminate })
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {}, _ = self.terminate.recv() => {} }
    }
}

/// The key people may use, and the keys to be made for that.
async fn choose_key(
    store: &SqliteStore,
    wish: KeyWish,
) -> Result<(Option<String>, Vec<NewKey>), Complaint> {
    let known = store.browse().api_keys().await.map_err(|failure| store_trouble(&failure))?;
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
        format!("{listen} could be reached from other machines, and Tenure speaks plain HTTP");
    Complaint::usage("not_loopback", sentence)
        .hint("listen on 127.0.0.1 or [::1], and put a proxy with TLS in front")
}

fn not_served(error: ServeError, port_flag: &str) -> Complaint {
    match error {
        ServeError::NotLoopback(ip) => not_loopback(SocketAddr::new(ip, 0)),
        ServeError::Listen { address, source } => cannot_listen(address, &source, port_flag),
        ServeError::Keyring(error) => Complaint::new(Exit::Conflict, "keyring", error.to_string())
            .hint(
                "the file signs the tokens of tasks; a new one makes running attempts start again",
            ),
        ServeError::Store(failure) => store_trouble(&failure),
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

/// Where the store lies: `sqlite:PATH` or a plain path from the flag, else from the environment, else the default.
pub(crate) fn store_path(given: Option<&str>) -> Result<PathBuf, Complaint> {
    let environment = store_of_environment();
    let Some(given) = given.or(environment.as_deref()) else { return profile::default_store() };
    let path = given.strip_prefix("sqlite:").unwrap_or(given);
    if path.is_empty() || path.contains("://") {
        let sentence = format!("`{given}` is not a store this version knows");
        return Err(Complaint::usage("unknown_store", sentence).hint("write --store sqlite:PATH"));
    }
    Ok(PathBuf::from(path))
}

/// A store's trouble. What keeps it closed it says itself: a sentence, and after a semicolon the remedy.
pub(crate) fn store_trouble(failure: &Failure) -> Complaint {
    let cause = failure.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
    let what = &failure.what;
    match (failure.kind, what.split_once("; ")) {
        (FailureKind::Closed, Some((sentence, remedy))) => {
            Complaint::new(Exit::Conflict, "store_closed", sentence).hint(remedy)
        }
        (FailureKind::Closed, None) => {
            Complaint::new(Exit::Conflict, "store_closed", format!("{what}{cause}"))
                .hint("give another file with --store sqlite:PATH")
        }
        (FailureKind::Full, _) => {
            let sentence = format!("there is no room left where the store lies ({what})");
            Complaint::new(Exit::Failed, "store_full", sentence).hint("make room and try again")
        }
        _ => Complaint::new(Exit::Failed, "store_failed", format!("the store failed: {what}{cause}"))
            .hint("try again; if it stays, restore a backup or give another file with --store sqlite:PATH"),
    }
}
