//! Follows a guide: its shell blocks run as written, one after the other, in one shell that finds the binary.
//!
//! Every guide whose commands are tested is followed by this. A test gives the blocks one by one, so that it can wait for
//! what a slow reader would see, and checks what each of them printed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::home::{Home, Process};

/// Printed after each block, to separate what they print.
const END_OF_BLOCK: &str = "@@ end of block @@";

/// Printed when a command fails, which ends the shell.
const END_OF_SHELL: &str = "@@ end of shell @@";

/// The shell blocks of a guide, in order.
pub(crate) fn blocks(guide: &'static str) -> Vec<&'static str> {
    fenced(guide, "sh")
}

/// The blocks in this language, in order.
pub(crate) fn fenced(guide: &'static str, language: &str) -> Vec<&'static str> {
    let opening = format!("\n```{language}\n");
    let parts: Vec<&str> = guide.split(opening.as_str()).skip(1).collect();
    parts.into_iter().map(|rest| rest.split_once("\n```").expect("a block has an end").0).collect()
}

/// The commands that go on until they are stopped: each has a separate terminal.
pub(crate) fn terminals(guide: &'static str) -> Vec<&'static str> {
    guide.lines().filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// Starts a coordinator as the guides say, on a free port, and returns the two lines to paste.
pub(crate) fn dev(home: &Home) -> (Process, String) {
    let mut dev = Process::start(home.tenure(&["dev", "--port", "0"]));
    let mut greeting = String::new();
    while !greeting.contains("Ctrl-C") {
        greeting.push_str(&dev.text_line());
    }
    let lines = greeting.lines().filter(|line| line.trim_start().starts_with("export "));
    let pasted: Vec<&str> = lines.collect();
    assert_eq!(pasted.len(), 2, "the guides promise two lines to paste: {greeting}");
    (dev, pasted.join("\n"))
}

/// The terminal of a reader.
pub(crate) struct Reader {
    shell: Process,
}

impl Reader {
    /// A shell with the environment of the binary in this home, and nothing else.
    pub(crate) fn new(home: &Home) -> Reader {
        let binary = home.tenure(&[]);
        let folder = Path::new(binary.get_program()).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.arg("-eu").current_dir(home.path()).stdin(Stdio::piped()).env_clear();
        shell.env("PATH", path);
        shell.envs(binary.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut reader = Reader { shell: Process::start(shell) };
        reader.follow(&format!("trap \"echo; echo '{END_OF_SHELL}'\" EXIT"));
        reader
    }

    /// Runs a block and returns what a terminal would show. A command that fails ends the test.
    pub(crate) fn follow(&mut self, block: &str) -> String {
        let stdin = self.shell.child.stdin.as_mut().expect("the shell reads from here");
        // Variables stay for the next block, and no command reads the rest of the script.
        write!(stdin, "{{\n{block}\n}} </dev/null 2>&1\necho; echo '{END_OF_BLOCK}'\n").unwrap();
        stdin.flush().unwrap();
        let mut printed = String::new();
        loop {
            let line = self.shell.text_line();
            if line.trim_end() == END_OF_BLOCK {
                return printed;
            }
            assert!(
                line.trim_end() != END_OF_SHELL,
                "a command of this failed: {block}\n{printed}"
            );
            printed.push_str(&line);
        }
    }

    /// The value of a variable that a block has set.
    pub(crate) fn variable(&mut self, name: &str) -> String {
        self.follow(&format!("echo \"${name}\"")).trim().to_owned()
    }
}
