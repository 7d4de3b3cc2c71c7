//! Whether the program of a worker can be run, asked before the worker leases anything.
//!
//! A worker without its program would fail every task of a queue within moments, so it refuses to
//! start. If the program disappears later, the worker stops and hands back what it holds
//! ([`ProgramGone`]).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::exit::{CliError, Exit};

/// The bits of a file's mode of which at least one is set if anyone may execute it.
const EXECUTE_BITS: u32 = 0o111;

/// The error number of a file that is executable but no program: an empty script without an
/// interpreter, a program for another machine.
const NO_PROGRAM: i32 = rustix::io::Errno::NOEXEC.raw_os_error();

/// How much of a script's first line Linux reads.
const FIRST_LINE_BYTES_MAX: u64 = 256;

/// Refuses a program that does not exist or is not executable, and says what to do.
pub(crate) fn check(exec: &str) -> Result<(), CliError> {
    match find(exec) {
        Found::Executable(path) => check_interpreter(&path),
        Found::NotExecutable(path) => {
            let shown = path.display();
            let message = format!("the program {shown} is not executable");
            Err(CliError::usage("program_not_executable", message)
                .hint(format!("make it executable with `chmod +x {shown}`")))
        }
        Found::Folder(path) => {
            let message = format!("{} is a folder, not a program", path.display());
            Err(CliError::usage("program_not_executable", message)
                .hint("name the program inside it"))
        }
        Found::Nowhere => Err(not_found(exec)),
    }
}

/// Refuses a script whose first line names an interpreter that cannot be run. The system reports it as if the script
/// were missing.
fn check_interpreter(script: &Path) -> Result<(), CliError> {
    let Some(interpreter) = interpreter(script) else { return Ok(()) };
    if matches!(look_at(Path::new(&interpreter)), Found::Executable(_)) {
        return Ok(());
    }
    let shown = script.display();
    let message = format!(
        "the program {shown} cannot be run: its first line names {}, which is not an executable program",
        interpreter.escape_debug()
    );
    let hint = match interpreter.ends_with('\r') {
        true => format!("write {shown} with Unix line ends, for example with `dos2unix {shown}`"),
        false => format!("correct the first line of {shown}, or install the interpreter"),
    };
    Err(CliError::usage("program_not_executable", message).hint(hint))
}

/// The interpreter that the first line of a script names, if it has such a line and can be read.
fn interpreter(script: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(script).ok()?.take(FIRST_LINE_BYTES_MAX).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.split([' ', '\t']).find(|word| !word.is_empty()).map(str::to_owned)
}

enum Found {
    Executable(PathBuf),
    NotExecutable(PathBuf),
    Folder(PathBuf),
    Nowhere,
}

/// Searches as the system does: a name without a slash in the folders of PATH.
fn find(exec: &str) -> Found {
    if exec.contains('/') {
        return look_at(Path::new(exec));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut unusable = Found::Nowhere;
    for folder in std::env::split_paths(&folders) {
        match look_at(&folder.join(exec)) {
            Found::Executable(path) => return Found::Executable(path),
            Found::NotExecutable(path) => unusable = Found::NotExecutable(path),
            // The system passes over folders when it searches.
            Found::Folder(_) | Found::Nowhere => {}
        }
    }
    unusable
}

fn look_at(path: &Path) -> Found {
    match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => Found::Folder(path.to_owned()),
        Ok(file) if file.permissions().mode() & EXECUTE_BITS != 0 => {
            Found::Executable(path.to_owned())
        }
        Ok(_) => Found::NotExecutable(path.to_owned()),
        Err(_) => Found::Nowhere,
    }
}

fn not_found(exec: &str) -> CliError {
    let message = match exec.contains('/') {
        true => format!("there is no program `{exec}`"),
        false => format!("there is no program `{exec}` in the folders of PATH"),
    };
    CliError::usage("program_not_found", message).hint(hint_for(exec))
}

fn hint_for(exec: &str) -> String {
    let mut words = exec.split_whitespace();
    let (first, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>().join(" "));
    if !rest.is_empty() && matches!(find(first), Found::Executable(_)) {
        return format!(
            "--exec takes the program alone; give its arguments after two dashes: --exec {first} -- {rest}"
        );
    }
    let beside = format!("./{exec}");
    if !exec.contains('/') && !matches!(look_at(Path::new(&beside)), Found::Nowhere) {
        return format!("to run the file in this folder, write --exec {beside}");
    }
    "check the spelling; a path is relative to the folder in which the worker starts".to_owned()
}

/// Whether a program that could not be started will not start for the next task either. Other
/// errors, such as too many processes, pass.
pub(crate) fn is_unusable(error: &io::Error) -> bool {
    let is_gone = matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    );
    is_gone || error.raw_os_error() == Some(NO_PROGRAM)
}

/// Set once the program can no longer be run, with the reason.
#[derive(Debug)]
pub(crate) struct ProgramGone(watch::Sender<Option<String>>);

impl ProgramGone {
    pub(crate) fn new() -> ProgramGone {
        ProgramGone(watch::Sender::new(None))
    }

    pub(crate) fn set(&self, why: &str) {
        self.0.send_if_modified(|gone| {
            let is_first = gone.is_none();
            gone.get_or_insert_with(|| why.to_owned());
            is_first
        });
    }

    /// Completes when the program is gone.
    pub(crate) async fn wait(&self) {
        // The sender is `self`, so it cannot be dropped meanwhile.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// The error that the worker ends with.
    pub(crate) fn error(&self) -> Option<CliError> {
        let why = self.0.borrow().clone()?;
        let message = format!("{why}; the worker has stopped and handed back its tasks");
        let error = CliError::new(Exit::Failed, "program_gone", message);
        Some(error.hint("put the program back and start the worker again; no run has failed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(exec: &str) -> (String, String) {
        let error = check(exec).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        (error.code, error.hint.unwrap())
    }

    #[test]
    fn a_program_is_found_by_its_name_or_by_its_path() {
        assert!(check("sh").is_ok());
        assert!(check("/bin/sh").is_ok());
    }

    #[test]
    fn what_is_no_program_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.sh");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let (code, hint) = refused(file.to_str().unwrap());
        assert_eq!(code, "program_not_executable");
        assert!(hint.contains("chmod +x"), "{hint}");
        let (code, _) = refused(folder.path().to_str().unwrap());
        assert_eq!(code, "program_not_executable");
        let (code, hint) = refused("no-such-program-anywhere");
        assert_eq!(code, "program_not_found");
        assert!(hint.contains("spelling"), "{hint}");
    }

    #[test]
    fn a_script_needs_an_interpreter_that_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.sh");
        let write = |first: &str| {
            std::fs::write(&file, format!("{first}\necho 1\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
            file.to_str().unwrap().to_owned()
        };
        for first in ["#!/bin/sh", "#! /usr/bin/env  sh", "#!/bin/sh -e", "echo 0"] {
            assert!(check(&write(first)).is_ok(), "{first}");
        }
        let (code, hint) = refused(&write("#!/no/such/interpreter -x"));
        assert_eq!(code, "program_not_executable");
        assert!(hint.contains("first line"), "{hint}");
        let (_, hint) = refused(&write("#!/bin/sh\r"));
        assert!(hint.contains("Unix line ends"), "{hint}");
    }

    #[test]
    fn a_program_with_arguments_in_one_word_is_explained() {
        let (code, hint) = refused("cat -n  -s");
        assert_eq!(code, "program_not_found");
        assert!(hint.contains("--exec cat -- -n -s"), "{hint}");
        let (_, hint) = refused("no-such-program -n");
        assert!(hint.contains("spelling"), "{hint}");
    }

    #[test]
    fn only_an_error_that_stays_makes_a_program_unusable() {
        for errno in [2, 13, 20, 8] {
            assert!(is_unusable(&io::Error::from_raw_os_error(errno)), "{errno}");
        }
        for errno in [11, 12, 24] {
            assert!(!is_unusable(&io::Error::from_raw_os_error(errno)), "{errno}");
        }
    }

    #[tokio::test]
    async fn the_first_reason_is_the_one_that_is_told() {
        let gone = ProgramGone::new();
        assert!(gone.error().is_none());
        gone.set("cannot run `x`: one");
        gone.set("cannot run `x`: two");
        gone.wait().await;
        let error = gone.error().unwrap();
        assert!(error.message.contains("one") && error.exit == Exit::Failed, "{error}");
    }
}
