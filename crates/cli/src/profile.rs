//! Which server to use and with which key: flags, then the environment, then the profile file.
//!
//! `tenure dev` writes the profile, so that a second terminal needs no flags. The file holds a
//! secret and is readable by its owner only. The CLI sends its key only to the server that the
//! profile names: a `--url` that names another server needs a separate key.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{CliError, Exit};

pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7400";
/// Readable by the owner only: the file holds a key.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Servers that a profile remembers. More than anybody starts; a file that grows without bound is a mistake.
const SERVERS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Profile {
    /// The server that was started last, which commands use unless they name another.
    pub(crate) url: String,
    pub(crate) api_key: String,
    /// Servers that were started before, the last one first, each with its key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Entry>,
}

/// A server and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    url: String,
    api_key: String,
}

/// A server and a key for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Connection {
    /// Chooses from the flag or the environment variable, then from the profile.
    pub(crate) fn choose(url: Option<&str>, key: Option<&str>) -> Result<Connection, CliError> {
        let profile = Profile::read(&Profile::path()?)?;
        choose_from(url, key, profile.as_ref())
    }

    /// Only the address, chosen in the same way: for a program whose callers have keys of their own.
    pub(crate) fn choose_url(url: Option<&str>) -> Result<String, CliError> {
        let profile = Profile::read(&Profile::path()?)?;
        Ok(url_from(url, profile.as_ref()).trim_end_matches('/').to_owned())
    }
}

fn url_from<'a>(url: Option<&'a str>, profile: Option<&'a Profile>) -> &'a str {
    url.or(profile.map(|profile| profile.url.as_str())).unwrap_or(DEFAULT_URL)
}

fn choose_from(
    url: Option<&str>,
    key: Option<&str>,
    profile: Option<&Profile>,
) -> Result<Connection, CliError> {
    let chosen = url_from(url, profile);
    let remembered = profile.and_then(|profile| profile.key_for(chosen));
    let key = key.or(remembered).ok_or_else(|| no_key(chosen))?;
    Ok(Connection { url: chosen.trim_end_matches('/').to_owned(), key: key.to_owned() })
}

fn no_key(url: &str) -> CliError {
    CliError::new(Exit::Denied, "no_key", format!("there is no API key for {url}"))
        .hint("start `tenure dev` once, which saves a key, or set --key or TENURE_API_KEY")
}

fn same(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = url.trim_end_matches('/').replace("//localhost", "//127.0.0.1");
        url.replace("//[::1]", "//127.0.0.1")
    };
    plain(one) == plain(other)
}

impl Profile {
    /// Remembers a server as the one that was started last, beside those that the file already names. A file that
    /// cannot be read is replaced, as its own error message advises.
    pub(crate) fn remember(path: &Path, url: &str, api_key: &str) -> Result<(), CliError> {
        let before = Profile::read(path).ok().flatten();
        let mut others: Vec<Entry> = before.into_iter().flat_map(Profile::into_entries).collect();
        others.retain(|entry| !same(&entry.url, url));
        others.truncate(SERVERS_MAX - 1);
        Profile { url: url.to_owned(), api_key: api_key.to_owned(), others }.write(path)
    }

    fn into_entries(self) -> impl Iterator<Item = Entry> {
        let Profile { url, api_key, others } = self;
        std::iter::once(Entry { url, api_key }).chain(others)
    }

    /// The key that is remembered for a server.
    pub(crate) fn key_for(&self, url: &str) -> Option<&str> {
        if same(&self.url, url) {
            return Some(&self.api_key);
        }
        self.others.iter().find(|entry| same(&entry.url, url)).map(|entry| entry.api_key.as_str())
    }

    /// All remembered keys, that of the last server first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().map(|entry| entry.api_key.as_str());
        std::iter::once(self.api_key.as_str()).chain(others)
    }

    pub(crate) fn path() -> Result<PathBuf, CliError> {
        Ok(folder("XDG_CONFIG_HOME", ".config")?.join("profile.json"))
    }

    pub(crate) fn read(path: &Path) -> Result<Option<Profile>, CliError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(path, "read", &error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            let message = format!("the profile {} is not valid: {error}", path.display());
            CliError::usage("profile_invalid", message)
                .hint("delete the file; `tenure dev` writes a new one")
        })
    }

    /// Replaces the file atomically, so that a reader never sees half of it.
    fn write(&self, path: &Path) -> Result<(), CliError> {
        let parent = path.parent().expect("the profile lies in a folder");
        make_folder(parent)?;
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        let text = serde_json::to_string_pretty(self).expect("strings always serialize");
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE)
            .open(&draft)
            .and_then(|mut file| {
                file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
                writeln!(file, "{text}")
            })
            .and_then(|()| fs::rename(&draft, path));
        written.map_err(|error| unusable(path, "write", &error))
    }
}

/// The store's path unless `--store` says otherwise.
pub(crate) fn default_store() -> Result<PathBuf, CliError> {
    Ok(folder("XDG_STATE_HOME", ".local/state")?.join("tenure.db"))
}

/// Creates a folder that only its owner can read, with all its parents.
pub(crate) fn make_folder(path: &Path) -> Result<(), CliError> {
    let made = fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path);
    made.map_err(|error| unusable(path, "create", &error))
}

fn folder(variable: &str, below_home: &str) -> Result<PathBuf, CliError> {
    let base = match env::var_os(variable).filter(|value| Path::new(value).is_absolute()) {
        Some(base) => PathBuf::from(base),
        None => env::home_dir()
            .filter(|home| !home.as_os_str().is_empty())
            .ok_or_else(|| {
                CliError::usage("no_home", "cannot determine the home directory")
                    .hint(format!("set HOME or {variable}"))
            })?
            .join(below_home),
    };
    Ok(base.join("tenure"))
}

fn unusable(path: &Path, verb: &str, error: &std::io::Error) -> CliError {
    let message = format!("cannot {verb} {}: {error}", path.display());
    CliError::new(Exit::Failed, "file_unusable", message)
        .hint("check that the folder exists, belongs to you and has free space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let (url, api_key) = ("http://127.0.0.1:7401".to_owned(), "remembered".to_owned());
        Profile { url, api_key, others: Vec::new() }
    }

    #[test]
    fn every_server_keeps_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        // As a version wrote it that remembered one server.
        fs::write(&path, r#"{"url": "http://127.0.0.1:1", "apiKey": "one"}"#).unwrap();
        Profile::remember(&path, "http://127.0.0.1:2", "two").unwrap();
        Profile::remember(&path, "http://127.0.0.1:3", "three").unwrap();
        Profile::remember(&path, "http://localhost:2/", "two again").unwrap();
        let read = Profile::read(&path).unwrap().unwrap();
        assert_eq!(
            (read.url.as_str(), read.api_key.as_str()),
            ("http://localhost:2/", "two again")
        );
        let keys: Vec<&str> = read.keys().collect();
        assert_eq!(keys, ["two again", "three", "one"]);
        let chosen = choose_from(Some("http://[::1]:3"), None, Some(&read)).unwrap();
        assert_eq!(chosen.key, "three");
        for port in 100..100 + 2 * SERVERS_MAX {
            Profile::remember(&path, &format!("http://127.0.0.1:{port}"), "x").unwrap();
        }
        assert_eq!(Profile::read(&path).unwrap().unwrap().keys().count(), SERVERS_MAX);
    }

    #[test]
    fn what_is_given_wins_over_what_is_remembered() {
        let chosen = choose_from(None, None, Some(&profile())).unwrap();
        assert_eq!(
            (chosen.url.as_str(), chosen.key.as_str()),
            ("http://127.0.0.1:7401", "remembered")
        );
        let chosen = choose_from(None, Some("given"), Some(&profile())).unwrap();
        assert_eq!(chosen.key, "given");
        let chosen = choose_from(None, Some("given"), None).unwrap();
        assert_eq!(chosen.url, DEFAULT_URL);
    }

    #[test]
    fn the_remembered_key_goes_to_its_own_server_only() {
        let same = choose_from(Some("http://localhost:7401/"), None, Some(&profile())).unwrap();
        assert_eq!(same.key, "remembered");
        let other = choose_from(Some("http://127.0.0.1:9999"), None, Some(&profile()));
        assert_eq!(other.unwrap_err().code, "no_key");
    }

    #[test]
    fn the_file_is_for_its_owner_only_even_if_it_was_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenure").join("profile.json");
        profile().write(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        profile().write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
        assert_eq!(Profile::read(&path).unwrap(), Some(profile()));
        assert_eq!(Profile::read(&folder.path().join("none")).unwrap(), None);
    }

    #[test]
    fn a_broken_profile_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        fs::write(&path, "{").unwrap();
        let cli_error = Profile::read(&path).unwrap_err();
        assert_eq!(cli_error.code, "profile_invalid");
        assert!(cli_error.hint.unwrap().contains("delete the file"));
    }
}
