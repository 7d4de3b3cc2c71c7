//! The settings of a server, declared once.
//!
//! Every field of [`Settings`] is a flag of `tenure serve`, a variable `TENURE_<NAME>`, a key of
//! the config file and a row of `tenure config`. All four are derived from the parser's own
//! definition, and the tests below compare it with the documentation. A flag wins over the
//! variable, the variable over the file, the file over the default.
//!
//! One-time requests (a new key, a written profile) are not settings and are flags of `serve`.

use std::collections::BTreeMap;
use std::net::{AddrParseError, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches};

use crate::args::Arguments;
use crate::exit::{CliError, Exit};
use crate::submit_defaults::{self, DefaultSettings, TableDefaults};
use crate::{duration, unknown_command};

/// The config file if none is named.
pub(crate) const DEFAULT_FILE: &str = "/etc/tenure/tenure.toml";

/// Names the config file; the one setting that the file itself cannot contain.
const FILE_VARIABLE: &str = "TENURE_CONFIG";
const FILE_ARGUMENT: &str = "config";

/// A config file is a page of text; a larger file is something else.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The commands that take settings.
const COMMANDS_WITH_SETTINGS: [&str; 2] = ["serve", "config"];

/// Runs that ended less than this ago may still be queried.
const RETAIN_MIN: Duration = Duration::from_secs(24 * 3600);

/// Four series for each queue: a larger number belongs into a report, not into a monitoring system.
const METRICS_QUEUES_MAX: i64 = 1_000;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Config file for settings without a flag or variable [default: /etc/tenure/tenure.toml if it exists]
    #[arg(long, value_name = "FILE", env = FILE_VARIABLE, hide_env = true)]
    config: Option<PathBuf>,
    /// Address to listen on; beyond loopback it needs a certificate
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "TENURE_LISTEN",
        hide_env = true,
        default_value = "127.0.0.1:7400",
        value_parser = listen_address
    )]
    pub(crate) listen: SocketAddr,
    /// Certificate with its chain, as PEM; read again when it changes and on SIGHUP
    #[arg(long, value_name = "FILE", env = "TENURE_TLS_CERT", hide_env = true)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", env = "TENURE_TLS_KEY", hide_env = true)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Allow plain HTTP beyond loopback: anyone on the network path can read keys and payloads
    #[arg(long, env = "TENURE_INSECURE_PLAINTEXT", hide_env = true)]
    pub(crate) insecure_plaintext: bool,
    /// Separate address for /metrics, without a key [default: only at --listen, which beyond loopback needs a reader or admin key]
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "TENURE_METRICS_LISTEN",
        hide_env = true,
        value_parser = listen_address
    )]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Number of queues that /metrics lists by name, at most 1000; those that wait longest come first [default: none]
    #[arg(
        long,
        value_name = "N",
        env = "TENURE_METRICS_QUEUES",
        hide_env = true,
        value_parser = clap::value_parser!(u16).range(0..=METRICS_QUEUES_MAX)
    )]
    pub(crate) metrics_queues: Option<u16>,
    /// Seal the records of ended tasks, so that `tenure prove` detects changes to them; costs some ten microseconds of processor time for each task
    #[arg(long, env = "TENURE_SEAL_RECORDS", hide_env = true)]
    pub(crate) seal_records: bool,
    /// Address that workers are told to call, if it differs from --listen
    #[arg(long, value_name = "URL", env = "TENURE_PUBLIC_URL", hide_env = true)]
    pub(crate) public_url: Option<String>,
    /// The store [default: tenure.db in the state directory]
    #[arg(long, value_name = "sqlite:PATH|postgres://…", env = "TENURE_STORE", hide_env = true)]
    pub(crate) store: Option<String>,
    /// Remove runs that ended longer ago than this; at least 24h [default: keep all]
    #[arg(
        long,
        value_name = "SPAN",
        env = "TENURE_RETAIN_FOR",
        hide_env = true,
        value_parser = retain_for
    )]
    pub(crate) retain_for: Option<Duration>,
    /// Keep this many ended runs and remove those submitted before them, but none within 24h of its end [default: keep all]
    #[arg(long, value_name = "N", env = "TENURE_RETAIN_RUNS", hide_env = true)]
    pub(crate) retain_runs: Option<u64>,
    /// OpenTelemetry collector that receives traces, by OTLP over HTTP [default: none]
    #[arg(long, value_name = "URL", env = "TENURE_OTLP_ENDPOINT", hide_env = true)]
    pub(crate) otlp_endpoint: Option<String>,
    /// Ranges of addresses beyond the public Internet that effects may be sent to, separated by commas, such as 10.1.0.0/16 [default: none]
    #[arg(long, value_name = "CIDR", env = "TENURE_ALLOW_PRIVATE_RECEIVERS", hide_env = true)]
    pub(crate) allow_private_receivers: Option<String>,
    #[command(flatten)]
    pub(crate) defaults: DefaultSettings,
}

/// An address to listen on: an IP address with a port, or `localhost:PORT`. Other names are refused, because a name
/// can have several addresses and a server listens on one.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    match text.strip_prefix("localhost:") {
        None => text.parse().map_err(|error: AddrParseError| {
            format!(
                "{error}; give an IP address with a port, such as 127.0.0.1:7400, or localhost:7400"
            )
        }),
        Some(port) => {
            let port: u16 = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
            Ok(localhost(port))
        }
    }
}

/// The IPv4 address of this machine's loopback, or its IPv6 address where there is no other. Clients that are given
/// `localhost` try both.
fn localhost(port: u16) -> SocketAddr {
    let found = ("localhost", port).to_socket_addrs().into_iter().flatten();
    let mut loopback: Vec<SocketAddr> = found.filter(|it| it.ip().is_loopback()).collect();
    loopback.sort_by_key(|address| address.is_ipv6());
    loopback.first().copied().unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn retain_for(text: &str) -> Result<Duration, String> {
    let span = duration::parse(text)?;
    if span < RETAIN_MIN {
        return Err("ended runs are kept for at least 24h; give 24h or more".to_owned());
    }
    Ok(span)
}

/// The command line, completed from the environment and the file.
pub(crate) struct Parsed {
    pub(crate) arguments: Arguments,
    matches: ArgMatches,
    file: Option<ConfigFile>,
}

/// One setting with its effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EffectiveSetting {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) origin: String,
}

/// Parses the command line and, for commands that take settings, the file. Ends the process for
/// `--help` and for a command line that the parser refuses.
pub(crate) fn parse() -> Result<Parsed, CliError> {
    let plain = unknown_command::matches();
    let command_name = plain
        .subcommand_name()
        .and_then(|name| COMMANDS_WITH_SETTINGS.iter().find(|it| **it == name));
    let Some(command_name) = command_name else { return Parsed::of(plain, None) };
    let given = plain.subcommand().and_then(|(_, found)| found.get_one::<PathBuf>(FILE_ARGUMENT));
    let Some(file) = ConfigFile::find(given.map(PathBuf::as_path))? else {
        return Parsed::of(plain, None);
    };
    let layered =
        Arguments::command().mut_subcommand(*command_name, |command| file.apply_defaults(command));
    Parsed::of(layered.get_matches(), Some(file))
}

impl Parsed {
    fn of(matches: ArgMatches, file: Option<ConfigFile>) -> Result<Parsed, CliError> {
        let mut arguments = Arguments::from_arg_matches(&matches)
            .expect("what the parser took is what the definition says");
        if let (Some(crate::args::Command::Serve(serve)), Some(file)) =
            (&mut arguments.command, &file)
        {
            serve.settings_mut().defaults.tables = file.tables.clone();
        }
        arguments.global_args.drop_empty();
        Ok(Parsed { arguments, matches, file })
    }

    /// The defaults of queues and kinds, with the file that they come from.
    pub(crate) fn table_defaults(&self) -> Option<(&TableDefaults, String)> {
        let file = self.file.as_ref()?;
        Some((&file.tables, format!("the file {}", file.path.display())))
    }

    /// Every setting with its value and origin, for a command that takes settings.
    pub(crate) fn settings(&self) -> Vec<EffectiveSetting> {
        let Some((_, matches)) = self.matches.subcommand() else { return Vec::new() };
        let find = |name: String| {
            let id = name.replace('-', "_");
            let raw = matches.get_raw(&id).and_then(|mut values| values.next());
            let value = raw.map(|value| value.to_string_lossy().into_owned());
            let origin = match (matches.value_source(&id), &self.file) {
                (Some(ValueSource::CommandLine), _) => format!("the flag --{name}"),
                (Some(ValueSource::EnvVariable), _) => {
                    format!("the variable {}", variable(&name))
                }
                (_, Some(file)) if file.values.contains_key(&name) => {
                    format!("the file {}", file.path.display())
                }
                _ => "the default".to_owned(),
            };
            EffectiveSetting { name, value, origin }
        };
        names().into_iter().map(find).collect()
    }
}

/// The keys that a file may have, spelled as in the file and after `--`.
fn names() -> Vec<String> {
    let long = |argument: &clap::Arg| argument.get_long().map(str::to_owned);
    definition().get_arguments().filter_map(long).filter(|name| name != FILE_ARGUMENT).collect()
}

fn definition() -> Command {
    Settings::augment_args(Command::new("settings").no_binary_name(true).disable_help_flag(true))
}

fn variable(name: &str) -> String {
    format!("TENURE_{}", name.to_uppercase().replace('-', "_"))
}

/// The store that the file names, for commands that work on a store and take no settings. `given` is the file named
/// on the command line.
pub(crate) fn store_of_file(given: Option<&Path>) -> Result<Option<String>, CliError> {
    let named = std::env::var_os(FILE_VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
    let file = ConfigFile::find(given.or(named.as_deref()))?;
    Ok(file.and_then(|file| file.values.get("store").cloned()))
}

/// A file in which every key is a setting and every value is valid.
#[derive(Debug)]
struct ConfigFile {
    path: PathBuf,
    /// The values as they would be typed after the flag.
    values: BTreeMap<String, String>,
    tables: TableDefaults,
}

impl ConfigFile {
    /// The named file, which must exist, or the one at the default path, if it exists.
    fn find(given: Option<&Path>) -> Result<Option<ConfigFile>, CliError> {
        let usual = Path::new(DEFAULT_FILE);
        match given {
            Some(path) => ConfigFile::read(path).map(Some),
            None if usual.exists() => ConfigFile::read(usual).map(Some),
            None => Ok(None),
        }
    }

    fn read(path: &Path) -> Result<ConfigFile, CliError> {
        let shown = path.display();
        let unreadable = |why: String| {
            CliError::new(Exit::NotFound, "config_unreadable", format!("{shown}: {why}"))
                .hint(format!("name another with --config or {FILE_VARIABLE}"))
        };
        let found = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if found.len() > FILE_BYTES_MAX {
            return Err(unreadable("is too large for a config file".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        ConfigFile::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<ConfigFile, CliError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let message = format!("{} is not TOML: {}", path.display(), error.message());
            CliError::usage("config_syntax", with_line(message, text, error.span()))
        })?;
        let (mut values, mut tables) = (BTreeMap::new(), TableDefaults::default());
        for (key, value) in table {
            if key == submit_defaults::QUEUES {
                tables.queues = submit_defaults::read_queues(path, &value)?;
                continue;
            }
            if key == submit_defaults::KINDS {
                tables.kinds = submit_defaults::read_kinds(path, &value)?;
                continue;
            }
            let value = check(path, &key, &value)?;
            values.extend(value.map(|value| (key, value)));
        }
        Ok(ConfigFile { path: path.to_owned(), values, tables })
    }

    /// Sets the file's values as defaults: below flags and variables.
    fn apply_defaults(&self, command: Command) -> Command {
        self.values.iter().fold(command, |command, (name, value)| {
            // The parser keeps references for the life of the process, and there is only one file.
            let value: &'static str = Box::leak(value.clone().into_boxed_str());
            command.mut_arg(name.replace('-', "_"), |argument| argument.default_value(value))
        })
    }
}

fn with_line(message: String, text: &str, span: Option<std::ops::Range<usize>>) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else { return message };
    format!("{message} (line {})", before.lines().count().max(1))
}

/// A value as it would be typed; `None` for a switch that is off.
fn check(path: &Path, key: &str, value: &toml::Value) -> Result<Option<String>, CliError> {
    let shown = path.display();
    let Some(argument) = argument(key) else { return Err(unknown(path, key)) };
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    let wrong = |why: &str| {
        CliError::usage("config_value", format!("{shown}: `{key}` {why}"))
            .hint("`tenure serve --help` says what each setting takes")
    };
    let text = match (value, is_switch) {
        (toml::Value::Boolean(on), true) => return Ok(on.then(|| "true".to_owned())),
        (_, true) => return Err(wrong("takes true or false")),
        (toml::Value::String(text), false) => text.clone(),
        (toml::Value::Integer(number), false) => number.to_string(),
        (_, false) => return Err(wrong("takes a string in quotes or a number")),
    };
    match definition().try_get_matches_from([format!("--{key}={text}")]) {
        Ok(_) => Ok(Some(text)),
        Err(error) => {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            let why = why.unwrap_or_else(|| "it is not a valid value".to_owned());
            Err(wrong(&format!("is `{text}`, but {why}")))
        }
    }
}

fn argument(key: &str) -> Option<clap::Arg> {
    let is_it = |argument: &&clap::Arg| argument.get_long() == Some(key) && key != FILE_ARGUMENT;
    definition().get_arguments().find(is_it).cloned()
}

fn unknown(path: &Path, key: &str) -> CliError {
    let likeness = |name: &String| (strsim::jaro_winkler(name, key) * 1000.0) as u32;
    let nearest = names().into_iter().max_by_key(likeness).expect("there are settings");
    let message = format!("{}: unknown setting `{key}`", path.display());
    CliError::usage("unknown_setting", message)
        .hint(format!("did you mean `{nearest}`? `tenure config` lists them all"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/operate/config.md");
    const EXAMPLE: &str = include_str!("../../../deploy/tenure.toml");

    fn read(text: &str) -> Result<ConfigFile, CliError> {
        ConfigFile::parse(Path::new("tenure.toml"), text)
    }

    #[test]
    fn every_setting_has_a_variable_of_its_own_name() {
        for argument in definition().get_arguments() {
            let long = argument.get_long().expect("settings have long flags");
            let env = argument.get_env().and_then(|env| env.to_str());
            assert_eq!(env, Some(variable(long).as_str()), "--{long}");
            assert_eq!(argument.get_id().as_str(), long.replace('-', "_"));
        }
    }

    #[test]
    fn the_page_and_the_example_name_every_setting() {
        for name in names() {
            let row = format!("| `{name}` | `--{name}` | `{}` |", variable(&name));
            assert!(PAGE.contains(&row), "docs/operate/config.md has no row that begins {row}");
            let line = EXAMPLE.lines().find(|line| {
                let line = line.trim_start_matches('#').trim_start();
                line.split_once(" = ").is_some_and(|(key, _)| key == name)
            });
            assert!(line.is_some(), "deploy/tenure.toml does not show {name}");
        }
    }

    #[test]
    fn the_example_can_be_used_as_it_is_and_with_everything_switched_on() {
        assert!(read(EXAMPLE).unwrap().values.contains_key("store"));
        let all: String = EXAMPLE
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|it| it.contains(" = ")).unwrap_or(line))
            .flat_map(|line| [line, "\n"])
            .collect();
        let file = read(&all).unwrap();
        let missing: Vec<String> =
            names().into_iter().filter(|name| !file.values.contains_key(name)).collect();
        assert_eq!(missing, ["insecure-plaintext"], "which the example has switched off");
    }

    #[test]
    fn localhost_is_an_address_to_listen_on() {
        let address = listen_address("localhost:7400").unwrap();
        assert!(address.ip().is_loopback() && address.port() == 7400, "{address}");
        assert_eq!(listen_address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for wrong in ["localhost", "localhost:x", "localhost:70000", "example.com:80", "7400"] {
            assert!(listen_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let refused = read("retain-fro = \"30d\"").unwrap_err();
        assert_eq!(refused.code, "unknown_setting");
        assert!(refused.message.contains("`retain-fro`"), "{refused:?}");
        assert!(refused.hint.unwrap().contains("`retain-for`"));
        // The file cannot name itself, and has no tables but those of queues and kinds.
        assert_eq!(read("config = \"x\"").unwrap_err().code, "unknown_setting");
        assert_eq!(read("[server]\nlisten = \"x\"").unwrap_err().code, "unknown_setting");
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_with_its_key() {
        for (text, what) in [
            ("listen = \"nowhere\"", "socket address"),
            ("metrics-listen = \"9100\"", "socket address"),
            ("retain-for = \"1h\"", "24h"),
            ("retain-runs = \"many\"", "digit"),
            ("insecure-plaintext = \"yes\"", "true or false"),
            ("store = true", "quotes"),
        ] {
            let refused = read(text).unwrap_err();
            assert_eq!(refused.code, "config_value", "{text}");
            assert!(refused.message.contains(what), "{text}: {}", refused.message);
        }
        let broken = read("listen = \"127.0.0.1:1\"\nstore =").unwrap_err();
        assert_eq!(broken.code, "config_syntax");
        assert!(broken.message.contains("line 2"), "{broken:?}");
    }
}
