//! What is installed with the binary: completions, manual pages, the unit, the dashboard.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::home::{Home, Process};

fn deployed(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn every_shell_is_told_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = home.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{ran:?}");
        for command in ["backup", "explain", "doctor"] {
            assert!(ran.stdout.contains(command), "{command} for {shell}");
        }
    }
    let script = home.run(&["completions", "bash"]).stdout;
    std::fs::write(home.path().join("script"), script).unwrap();
    let checked = std::process::Command::new("bash")
        .args(["-n", "script"])
        .current_dir(home.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn there_is_a_page_for_the_program_and_for_each_command() {
    let home = Home::new();
    assert_eq!(home.run(&["man", "pages/man1"]).code, 0);
    let page = |name: &str| -> PathBuf { home.path().join("pages/man1").join(name) };
    for name in ["tenure.1", "tenure-backup.1", "tenure-runs-cancel.1"] {
        let text = std::fs::read_to_string(page(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(text.contains(".TH "), "{name} is a manual page");
    }
}

/// Names as a scraper stores them: counters end in `_total`, histograms have three series.
fn exposed(home: &Home) -> BTreeSet<String> {
    let profile: Value = serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let address = profile["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    kinds
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "histogram" => format!("{name}_bucket"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect()
}

/// The metric names in the tables of the operators' page.
fn documented() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, rest)| match rest.contains("| histogram |") {
        true => format!("{name}_bucket"),
        false => name.to_owned(),
    })
    .collect()
}

/// The metric names in the alerts that the page suggests.
fn alerted() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    page.lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .flat_map(metrics_in)
        .collect()
}

fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("tenure_")).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_page_show_exactly_what_the_server_exposes() {
    let home = Home::new();
    let mut command =
        home.tenure(&["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"]);
    command.env("TENURE_METRICS_QUEUES", "10");
    let mut server = Process::start(command);
    server.line();
    home.submit(&["k", "--queue", "without-a-worker"]);
    // A failure, a retry, an end and a limit, so that every labelled counter has a value.
    let _worker =
        Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "false"]));
    let id = home.submit(&["k", "--queue", "q", "--max-attempts", "2", "--retry-base-ms", "1"]);
    home.ended(&id);
    home.run(&["limits", "set", "default", "--unfinished-runs", "0"]);
    assert_ne!(home.run(&["submit", "k", "--queue", "q"]).code, 0);
    let dashboard: Value = serde_json::from_str(&deployed("grafana/tenure.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let expressions = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown: BTreeSet<String> =
        expressions.flat_map(|target| metrics_in(target["expr"].as_str().unwrap())).collect();
    let exposed = exposed(&home);
    assert_eq!(shown, exposed);
    assert_eq!(documented(), exposed);
    assert!(!alerted().is_empty() && alerted().is_subset(&exposed), "{:?}", alerted());
}

#[test]
fn the_unit_starts_the_server_with_flags_it_knows_and_waits_for_its_drain() {
    let unit = deployed("systemd/tenure.service");
    let start =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/tenure ")).unwrap();
    let home = Home::new();
    // The file as it is installed, except for the port and the folder of this test.
    let store = format!("sqlite:{}", home.path().join("tenure.db").display());
    let settings = deployed("tenure.toml")
        .replace("127.0.0.1:7400", "127.0.0.1:0")
        .replace("sqlite:/var/lib/tenure/tenure.db", &store);
    std::fs::write(home.path().join("tenure.toml"), settings).unwrap();
    let arguments: Vec<&str> = start
        .split(' ')
        .map(|argument| match argument {
            "/etc/tenure/tenure.toml" => "tenure.toml",
            other => other,
        })
        .chain(["--json"])
        .collect();
    let mut server = Process::start(home.tenure(&arguments));
    let ready = server.line();
    assert_eq!((ready["url"].is_string(), &ready["store"]), (true, &store.into()));
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    for setting in [
        "Type=exec",
        "DynamicUser=yes",
        "StateDirectory=tenure",
        "ProtectSystem=strict",
        "TimeoutStopSec=30s",
    ] {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
}

/// The words of a Dockerfile's instruction that is a JSON list, such as `CMD ["serve"]`.
fn listed(image: &str, instruction: &str) -> Vec<String> {
    let line = image.lines().find_map(|line| line.strip_prefix(instruction));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no {instruction}"))).unwrap()
}

/// The variables that the image sets.
fn variables(image: &str) -> Vec<(&str, &str)> {
    let lines = image.lines().filter_map(|line| line.strip_prefix("ENV "));
    lines.map(|line| line.split_once('=').expect("a name and a value")).collect()
}

#[test]
fn the_image_names_only_settings_that_exist() {
    let image = deployed("docker/Dockerfile");
    let help = Home::new().run(&["serve", "--help"]).stdout;
    let flags: BTreeSet<&str> =
        help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
    assert_eq!(listed(&image, "ENTRYPOINT "), ["/usr/bin/tenure"]);
    let command = listed(&image, "CMD ");
    assert_eq!(command[0], "serve");
    for flag in command.iter().filter(|word| word.starts_with("--")) {
        assert!(flags.contains(flag.as_str()), "{flag}");
    }
    let settings = variables(&image);
    let ours = settings.iter().filter_map(|(name, _)| name.strip_prefix("TENURE_"));
    let ours: Vec<String> =
        ours.map(|name| format!("--{}", name.to_lowercase().replace('_', "-"))).collect();
    assert!(ours.contains(&"--listen".to_owned()) && ours.contains(&"--store".to_owned()));
    for flag in ours {
        assert!(flags.contains(flag.as_str()), "{flag}");
    }
}

#[test]
fn the_image_can_be_reached_from_outside_with_the_key_it_prints() {
    let (home, image) = (Home::new(), deployed("docker/Dockerfile"));
    let state = home.path().join("volume");
    std::fs::create_dir_all(state.join("tenure")).unwrap();
    let mut command = home.tenure(&[]);
    command.args(listed(&image, "CMD ")).arg("--json");
    for (name, value) in variables(&image) {
        let value = value.replace("/var/lib", state.to_str().unwrap()).replace(":7400", ":0");
        command.env(name, value);
    }
    let mut server = Process::start(command);
    let ready = server.line();
    // All addresses of the container, of which this test can try one.
    let url = ready["url"].as_str().unwrap().replace("0.0.0.0", "127.0.0.1");
    assert_ne!(ready["url"], url.as_str(), "it listens on every address");
    let key = ready["apiKey"].as_str().expect("the first start prints a key");
    assert_eq!(home.run(&["queues", "--url", &url, "--key", key]).code, 0);
    home.run(&["queues", "--url", &url, "--key", "tnr_x"]).assert_error(
        5,
        "unauthenticated",
        "",
        "",
    );
    assert!(state.join("tenure/tenure.db").is_file(), "the store is on the volume");
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}
