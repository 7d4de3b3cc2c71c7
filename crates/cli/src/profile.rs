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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Profile {
    pub(crate) url: String,
    pub(crate) api_key: String,
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
}

fn choose_from(
    url: Option<&str>,
    key: Option<&str>,
    profile: Option<&Profile>,
) -> Result<Connection, CliError> {
    let chosen = url.or(profile.map(|p| p.url.as_str())).unwrap_or(DEFAULT_URL);
    let same_server = profile.filter(|p| same(&p.url, chosen));
    let key = key.or(same_server.map(|p| p.api_key.as_str())).ok_or_else(|| no_key(chosen))?;
    Ok(Connection { url: chosen.trim_end_matches('/').to_owned(), key: key.to_owned() })
}

fn no_key(url: &str) -> CliError {
    CliError::new(Exit::Denied, "no_key", format!("there is no API key for {url}"))
        .hint("start `tenure dev` once, which saves a key, or set --key or TENURE_API_KEY")
}

fn same(one: &str, other: &str) -> bool {
    let plain = |url: &str| url.trim_end_matches('/').replace("//localhost", "//127.0.0.1");
    plain(one) == plain(other)
}

impl Profile {
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
    pub(crate) fn write(&self, path: &Path) -> Result<(), CliError> {
        let parent = path.parent().expect("the profile lies in a folder");
        make_folder(parent)?;
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        let text = serde_json::to_string_pretty(self).expect("two strings always serialize");
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
        Profile { url: "http://127.0.0.1:7401".to_owned(), api_key: "remembered".to_owned() }
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
