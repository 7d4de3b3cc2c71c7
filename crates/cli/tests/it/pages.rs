//! The operators' pages, run as written: every command is executed, and its output is compared with
//! what the page shows.
//!
//! The comparison is loose: ids, times, sizes, ports and folders differ from run to run. An id on
//! the page stands for the one that was printed in its place, there and in every later command.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use tenure::Client;
use tenure::wire::Time;
use tenure::wire::answers::Envelope;
use tenure::wire::requests::{LeaseRequest, Started};

use crate::home::{Home, Process, wait_until};
use crate::operate_backup::stop;

const PAGES: [(&str, &str); 14] = [
    ("backup", include_str!("../../../../docs/operate/backup.md")),
    ("bulk", include_str!("../../../../docs/operate/bulk.md")),
    ("config", include_str!("../../../../docs/operate/config.md")),
    ("doctor", include_str!("../../../../docs/operate/doctor.md")),
    ("explain", include_str!("../../../../docs/operate/explain.md")),
    ("identity", include_str!("../../../../docs/operate/identity.md")),
    ("install", include_str!("../../../../docs/operate/install.md")),
    ("metrics", include_str!("../../../../docs/operate/metrics.md")),
    ("moving", include_str!("../../../../docs/operate/moving.md")),
    ("pausing", include_str!("../../../../docs/operate/pausing.md")),
    ("postgres", include_str!("../../../../docs/operate/postgres.md")),
    ("../../README", include_str!("../../../../README.md")),
    ("retention", include_str!("../../../../docs/operate/retention.md")),
    ("scaling", include_str!("../../../../docs/operate/scaling.md")),
];

/// Commands that no test can run, and why.
const NOT_RUN: [(&str, &str, &str); 16] = [
    ("../../README", "cargo ", "builds everything"),
    ("../../README", "tenure dev", "is tested with other ports"),
    ("../../README", "tenure work", "is tested with other ports"),
    ("../../README", "tenure submit", "is tested with other ports"),
    ("../../README", "tenure runs", "is tested with other ports"),
    ("../../README", "tenure bench", "takes minutes"),
    ("../../README", "tenure tour", "is tested apart"),
    ("install", "install ", "writes into the system"),
    ("install", "systemctl ", "needs systemd"),
    ("install", "journalctl ", "needs systemd"),
    ("install", "docker ", "needs a container engine"),
    ("install", "tenure completions zsh", "writes where zsh looks"),
    ("moving", "tenure serve ", "goes on"),
    ("retention", "tenure serve ", "goes on"),
    ("retention", "tenure prune --store sqlite:srv/tenure.db --older-than 7d", "needs a week"),
    ("retention", "tenure verify ", "shows what a week leaves"),
];

/// Commands whose output is ordered by random ids.
const IN_NO_ORDER: [&str; 1] = ["tenure keys list"];

/// Integers up to this are counts that must match; larger ones are process ids, epochs and the
/// like.
const COUNT_MAX: u64 = 1_000;

struct Step {
    command: String,
    shown: Vec<String>,
}

/// A page that is executed in a home.
struct PageRun<'h> {
    home: &'h Home,
    page: &'static str,
    blocks: std::vec::IntoIter<Vec<Step>>,
    /// The value here for a text of the page.
    stands_for: BTreeMap<String, String>,
    /// Lines with these texts depend on the machine and are not compared.
    apart: &'static [&'static str],
}

impl<'h> PageRun<'h> {
    fn of(home: &'h Home, page: &'static str) -> PageRun<'h> {
        let text = PAGES.iter().find(|(name, _)| *name == page).expect("a page of the list").1;
        let blocks: Vec<Vec<Step>> = blocks(text)
            .into_iter()
            .map(|steps| steps.into_iter().filter(|step| !is_excused(page, step)).collect())
            .filter(|steps: &Vec<Step>| !steps.is_empty())
            .collect();
        let blocks = blocks.into_iter();
        PageRun { home, page, blocks, stands_for: BTreeMap::new(), apart: &[] }
    }

    fn stands_for(&mut self, shown: &str, here: &str) {
        self.stands_for.insert(shown.to_owned(), here.to_owned());
    }

    /// Runs the next block and compares its output.
    fn block(&mut self) {
        let steps = self.blocks.next().unwrap_or_else(|| panic!("{} has no more", self.page));
        for step in steps {
            let printed = self.run(&step.command);
            let shown: Vec<&str> = self.compared(step.shown.iter().map(String::as_str));
            let here: Vec<&str> = self.compared(printed.lines());
            assert!(
                self.are_alike(&step.command, &shown, here),
                "docs/operate/{}.md shows of `{}`\n{}\n\nand it printed\n{printed}",
                self.page,
                step.command,
                step.shown.join("\n")
            );
        }
    }

    /// Runs the next block without comparing its output; its last command keeps running and is
    /// returned.
    fn begins(&mut self) -> Process {
        let mut steps = self.blocks.next().unwrap_or_else(|| panic!("{} has no more", self.page));
        let last = steps.pop().expect("a block has a command");
        for Step { command, .. } in steps {
            self.run(&format!("set -e\n{command}\necho done"))
                .ends_with("done\n")
                .then_some(())
                .expect("it worked");
        }
        self.start(last)
    }

    /// Starts a command that keeps running, and waits until it has printed what the page shows.
    fn start(&mut self, step: Step) -> Process {
        let mut process = Process::start(self.shell(&format!("exec {}", step.command)));
        for shown in &step.shown {
            let here = process.text_line();
            assert!(self.is_alike(shown, &here), "{}: {shown} is {here}", self.page);
        }
        process
    }

    /// Whether all lines match, in the same order if there is one.
    fn are_alike(&mut self, command: &str, shown: &[&str], mut here: Vec<&str>) -> bool {
        if shown.len() != here.len() {
            return false;
        }
        let has_order = !IN_NO_ORDER.contains(&command);
        for line in shown {
            let within = if has_order { 1 } else { here.len() };
            let known = self.stands_for.clone();
            let found = (0..within).find(|n| {
                self.stands_for.clone_from(&known);
                self.is_alike(line, here[*n])
            });
            match found {
                Some(n) => here.remove(n),
                None => return false,
            };
        }
        true
    }

    fn end(mut self) {
        assert!(self.blocks.next().is_none(), "{} has blocks that nobody follows", self.page);
    }

    fn compared<'l>(&self, lines: impl Iterator<Item = &'l str>) -> Vec<&'l str> {
        let is_apart = |line: &str| self.apart.iter().any(|word| line.contains(word));
        lines.filter(|line| !line.trim().is_empty() && !is_apart(line)).collect()
    }

    fn run(&self, command: &str) -> String {
        let output = self.shell(&format!("exec 2>&1\n{command}")).output();
        String::from_utf8(output.expect("there is a bash").stdout).unwrap()
    }

    /// A shell in the reader's home, with `tenure` on its path.
    fn shell(&self, command: &str) -> Command {
        let mut command = command.to_owned();
        for (shown, here) in &self.stands_for {
            command = command.replace(shown, here);
        }
        let ours = self.home.tenure(&[]);
        let folder = std::path::Path::new(ours.get_program()).parent().unwrap();
        let path = std::env::join_paths(
            std::iter::once(folder.to_owned())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]).current_dir(self.home.path());
        shell.stdin(Stdio::null());
        for (name, value) in ours.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.env("PATH", path.unwrap());
        shell
    }

    /// Whether two lines match, word by word.
    fn is_alike(&mut self, shown: &str, here: &str) -> bool {
        let (shown, here): (Vec<&str>, Vec<&str>) =
            (shown.split_whitespace().collect(), here.split_whitespace().collect());
        let next_is_unit =
            |words: &[&str], n: usize| words.get(n + 1).is_some_and(|it| is_unit(it));
        shown.len() == here.len()
            && shown.iter().zip(&here).enumerate().all(|(n, (one, other))| {
                // A process id can be any number, even a small one.
                let is_process = n > 0 && (shown[n - 1], here[n - 1]) == ("process", "process");
                let is_measured = is_process || (next_is_unit(&shown, n) && next_is_unit(&here, n));
                one == other || self.is_same_thing(bare(one), bare(other), is_measured)
            })
    }

    fn is_same_thing(&mut self, shown: &str, here: &str, is_measured: bool) -> bool {
        if is_id(shown) && is_id(here) {
            let known = self.stands_for.entry(shown.to_owned()).or_insert(here.to_owned());
            return known == here;
        }
        let both = |is_it: fn(&str) -> bool| is_it(shown) && is_it(here);
        let is_number = |text: &str| text.parse::<f64>().is_ok();
        let last = |text: &str| text.rsplit('/').next().map(str::to_owned);
        shown == here
            || self.stands_for.get(shown).is_some_and(|known| known == here)
            || both(is_time)
            || both(is_unit)
            || both(is_key)
            || both(is_worker)
            || both(is_key_file)
            || both(|word| is_hex(word, 64))
            || both(|word| matches!(word, "ahead" | "behind"))
            || (both(|word| word.starts_with("http://127.0.0.1:")))
            || (both(|word| word.contains('/')) && last(shown) == last(here))
            || (is_number(shown) && is_number(here) && is_measured)
            || both(|word| word.parse::<u64>().is_ok_and(|number| number > COUNT_MAX))
    }
}

fn is_excused(page: &str, step: &Step) -> bool {
    NOT_RUN.iter().any(|(of, command, _)| *of == page && step.command.starts_with(command))
}

/// The commands of a page, block by block, with the output that it shows for each.
fn blocks(text: &str) -> Vec<Vec<Step>> {
    let fenced = text.split("\n```console\n").skip(1);
    fenced.map(|rest| steps(rest.split_once("\n```").expect("a block has an end").0)).collect()
}

fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step { command: command.to_owned(), shown: Vec::new() })
            }
            (None, Some(step)) if goes_on => step.command.push_str(&format!("\n{line}")),
            (None, Some(step)) => step.shown.push(line.to_owned()),
            (None, None) => panic!("a block begins with a command: {line}"),
        }
        goes_on = line.ends_with('\\');
    }
    steps
}

/// A word without surrounding punctuation.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| "`'\"(),;:.".contains(c))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Ids of runs, tasks and keys: the same text means the same thing on the whole page.
fn is_id(word: &str) -> bool {
    let is_ulid = |text: &str| text.len() == 26 && text.bytes().all(|b| b.is_ascii_alphanumeric());
    ["run_", "task_"].iter().any(|prefix| word.strip_prefix(prefix).is_some_and(is_ulid))
        || is_hex(word, 16)
}

/// A secret, which a page does not show in full.
fn is_key(word: &str) -> bool {
    word.starts_with("tnr_")
}

/// A name with a part that is random for each start.
fn is_worker(word: &str) -> bool {
    word.rsplit_once('-').is_some_and(|(_, drawn)| is_hex(drawn, 12))
}

/// The key file of a database, whose name is random for each database.
fn is_key_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let id = name.strip_prefix("postgres-").and_then(|name| name.strip_suffix(".key"));
    id.is_some_and(|id| is_hex(id, 32))
}

fn is_time(word: &str) -> bool {
    word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T'
}

fn is_unit(word: &str) -> bool {
    matches!(bare(word), "ms" | "s" | "min" | "h" | "d" | "B" | "KiB" | "MiB" | "GiB" | "TiB")
}

/// A server whose store is at the path that the pages use.
fn serve(home: &Home) -> Process {
    std::fs::create_dir_all(home.path().join("srv")).unwrap();
    let mut server = Process::start(home.tenure(&[
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--write-profile",
        "--store",
        "sqlite:srv/tenure.db",
    ]));
    server.line();
    server
}

fn client(home: &Home) -> Client {
    let profile: serde_json::Value =
        serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let text = |name: &str| profile[name].as_str().unwrap().to_owned();
    Client::new(&text("url"), &text("apiKey")).unwrap()
}

/// A worker that leases a task and makes one call.
async fn hold(home: &Home, queue: &str, worker: &str) -> Envelope {
    let client = client(home);
    let request = LeaseRequest {
        worker_id: worker.to_owned(),
        queues: vec![queue.to_owned()],
        max: 1,
        wait_ms: Some(20_000),
        ..LeaseRequest::default()
    };
    let envelope = client.lease(&request).await.unwrap().leases.remove(0);
    let worker_id = worker.to_owned();
    let started = Started { attempt: envelope.attempt, worker_id, started_at: None };
    client.started(&envelope.task_id, &envelope.task_token, &started).await.unwrap();
    envelope
}

#[test]
fn the_page_about_backups_is_true() {
    let home = Home::new();
    let server = serve(&home);
    home.submit(&["k", "--queue", "q"]);
    home.submit(&["k", "--queue", "q"]);
    let mut page = PageRun::of(&home, "backup");
    page.block();
    page.block();
    page.block();
    stop(server);
    page.block();
    page.end();
}

#[test]
fn the_page_about_many_runs_is_true() {
    let home = Home::new();
    let _server = serve(&home);
    for _ in 0..3 {
        home.submit(&["resize", "--queue", "images", "--label", "team=a"]);
    }
    home.submit(&["resize", "--queue", "images", "--label", "team=b"]);
    let runs = "{\"input\": {\"photo\": 1}}\n\
        {\"input\": {\"photo\": 2}, \"priority\": 5, \"labels\": {\"team\": \"a\"}}\n\
        {\"input\": {\"photo\": 3}, \"leaseMs\": 1}\n";
    std::fs::write(home.path().join("runs.ndjson"), runs).unwrap();
    let mut page = PageRun::of(&home, "bulk");
    page.block();
    page.block();
    page.block();
    page.end();
}

#[test]
fn the_page_about_pausing_is_true() {
    let home = Home::new();
    let _server = serve(&home);
    home.submit(&["send", "--queue", "mail"]);
    let mut page = PageRun::of(&home, "pausing");
    page.block();
    page.end();
}

#[test]
fn the_page_about_settings_is_true() {
    let home = Home::new();
    std::fs::write(home.path().join("tenure.toml"), "retain-fro = \"30d\"\n").unwrap();
    let mut page = PageRun::of(&home, "config");
    page.block();
    page.block();
    page.end();
}

#[test]
fn the_page_about_the_doctor_is_true() {
    let home = Home::new();
    let server = serve(&home);
    let mut page = PageRun::of(&home, "doctor");
    // The resources of this machine vary.
    page.apart = &["disk  ", "open files  ", "ulimit", "free some space"];
    page.block();
    stop(server);
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(home.path().join("srv/tenure.key"), readable).unwrap();
    page.block();
    page.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_waiting_runs_is_true() {
    let home = Home::new();
    let _server = serve(&home);
    let mut page = PageRun::of(&home, "explain");
    home.submit(&["resize", "--queue", "images"]);
    let second = home.submit(&["resize", "--queue", "images"]);
    page.stands_for("run_01M7EQKFW130GTYMPQ4GQPDX8F", &second);
    page.block();
    let now = home.json(&["explain", &second, "--json"])["serverTime"].as_str().unwrap().to_owned();
    let in_an_hour = Time::from_ms(now.parse::<Time>().unwrap().as_ms() + 3_600_000).to_string();
    let later = ["report", "--queue", "later", "--delay", "10m", "--deadline", &in_an_hour];
    let later = home.submit(&later);
    page.stands_for("run_01M7EQKFVH8224QZT3C7JTS670", &later);
    page.block();
    home.submit(&["paint", "--queue", "pixels", "--lease-ms", "3600000"]);
    let held = hold(&home, "pixels", "pixel-0123456789ab").await;
    page.stands_for("run_01M7EQMR948GXQVJNMEE6FR9FV", &held.run_id);
    page.block();
    page.end();
}

#[test]
fn the_page_about_keys_and_limits_is_true() {
    let home = Home::new();
    let _server = serve(&home);
    let used = || home.json(&["keys", "list", "--json"])[0]["lastUsedAt"].is_string();
    wait_until("the first key was used", used);
    let mut page = PageRun::of(&home, "identity");
    page.block();
    page.block();
    page.block();
    let url = home.profile_url();
    let address = url.strip_prefix("http://").unwrap();
    let mut anonymous = TcpStream::connect(address).unwrap();
    let request = format!("GET /v1/runs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    std::io::Write::write_all(&mut anonymous, request.as_bytes()).unwrap();
    anonymous.read_to_string(&mut String::new()).unwrap();
    wait_until("the refusal is written down", || home.run(&["audit"]).stdout.contains("anonymous"));
    page.block();
    page.block();
    page.block();
    page.end();
}

#[test]
fn the_page_about_installing_is_true() {
    let home = Home::new();
    for folder in [".local/share/bash-completion/completions", ".config/fish/completions"] {
        std::fs::create_dir_all(home.path().join(folder)).unwrap();
    }
    let mut page = PageRun::of(&home, "install");
    page.block();
    page.end();
}

#[test]
fn the_page_about_metrics_is_true() {
    let home = Home::new();
    let _server = serve(&home);
    let _worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    let run = home.submit(&["k", "--queue", "q"]);
    assert_eq!(home.ended(&run)["state"], "succeeded");
    let mut page = PageRun::of(&home, "metrics");
    page.stands_for("http://127.0.0.1:7400", &home.profile_url());
    page.block();
    page.end();
}

#[test]
fn the_page_about_forgetting_is_true() {
    let home = Home::new();
    stop(serve(&home));
    let mut page = PageRun::of(&home, "retention");
    page.block();
    page.end();
}

#[test]
fn the_pages_about_a_database_are_true() {
    // S3-24: the whole store into a database, and from a dump of it into another, each in a new
    // epoch.
    let (home, database) =
        (Home::new(), pgserver::Server::builder().without_fsync().start().unwrap());
    database.sql("postgres", "CREATE DATABASE tenure").unwrap();
    let here = format!("postgres@{}:{}", database.host(), database.port());
    let server = serve(&home);
    for _ in 0..3 {
        home.submit(&["k", "--queue", "q"]);
    }
    stop(server);
    let mut page = PageRun::of(&home, "moving");
    page.stands_for("tenure@db.example.com", &here);
    // A slow machine prints progress lines.
    page.apart = &["copied 3", "compared 3"];
    page.block();
    page.block();
    page.end();
    let mut page = PageRun::of(&home, "scaling");
    page.stands_for("postgres@db.example.com", &here);
    page.block();
    page.block();
    page.end();
}

/// The statements that the page about several coordinators gives to an administrator.
fn administrators_statements() -> Vec<&'static str> {
    let text = PAGES.iter().find(|(name, _)| *name == "postgres").expect("it is in the list").1;
    let (_, rest) = text.split_once("\n```sql\n").expect("it has such a block");
    rest.split_once("\n```").expect("a block has an end").0.lines().collect()
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

#[test]
fn the_page_about_several_coordinators_is_true() {
    // S2-104: by a user that has only the rights that the page tells an administrator to grant.
    let (home, database) = (Home::new(), pgserver::Server::builder().start().unwrap());
    for sql in ["CREATE ROLE tenure LOGIN", "CREATE DATABASE tenure"] {
        database.sql("postgres", sql).unwrap();
    }
    for sql in administrators_statements() {
        database.sql("tenure", sql).unwrap();
    }
    let mut page = PageRun::of(&home, "postgres");
    page.stands_for("db.example.com", &format!("{}:{}", database.host(), database.port()));
    page.stands_for("127.0.0.1:7400", "127.0.0.1:0");
    page.stands_for("127.0.0.1:7401", "127.0.0.1:0");
    page.stands_for("mill", &host_name());
    page.apart =
        &["  profile  ", "  server  ", "-> start", "  database  ", "  open files  ", "ulimit"];
    let (first, second) = (page.begins(), page.begins());
    page.block();
    page.block();
    page.end();
    stop(second);
    stop(first);
}

#[test]
fn the_front_page_leads_into_a_database() {
    let (home, database) =
        (Home::new(), pgserver::Server::builder().without_fsync().start().unwrap());
    database.sql("postgres", "CREATE DATABASE tenure").unwrap();
    let server = serve(&home);
    home.submit(&["k", "--queue", "q"]);
    stop(server);
    let mut page = PageRun::of(&home, "../../README");
    let here = format!("postgres@{}:{}", database.host(), database.port());
    page.stands_for("tenure@db.example.com", &here);
    page.stands_for("sqlite:tenure.db", "sqlite:srv/tenure.db");
    let mut serving = page.begins();
    assert!(serving.text_line().starts_with("Tenure serves at http://127.0.0.1:"));
    page.end();
    stop(serving);
}
