//! `tenure completions` and `tenure man`: shell completions and pages for `man`, generated from the
//! definition that the parser uses.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};

const NAME: &str = "tenure";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArguments {
    /// The folder to write the pages to; created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the script; where to install it depends on the shell.
pub(crate) fn run(arguments: &Arguments) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut definition(), NAME, &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}

/// Writes one page for the program and one for each command.
pub(crate) fn man(format: Format, arguments: &ManArguments) -> CommandResult {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(definition(), folder))
        .map_err(|error| unwritable(folder, &error))?;
    if format == Format::People {
        let shown = folder.display();
        output::note(format_args!("read one with `man -l {shown}/{NAME}.1`"));
    }
    Ok(Exit::Done)
}

fn definition() -> clap::Command {
    crate::args::Arguments::command()
}

fn unwritable(folder: &Path, error: &std::io::Error) -> CliError {
    let message = format!("cannot write to {}: {error}", folder.display());
    CliError::new(Exit::Failed, "file_unusable", message)
        .hint("name a folder that you can write to")
}
