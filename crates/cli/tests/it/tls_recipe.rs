//! The recipe for TLS with a private authority, run as printed: from an empty folder to a command that is answered.

use std::process::{Command, Stdio};

use crate::home::{Home, Process};

const PAGE: &str = include_str!("../../../../docs/operate/install.md");

/// The shell blocks of the section about TLS: the certificates, the server, its clients.
fn blocks() -> [&'static str; 3] {
    let section = PAGE.split_once("\n## TLS\n").unwrap().1.split_once("\n## ").unwrap().0;
    let fenced = section.split("\n```sh\n").skip(1);
    let blocks = fenced.map(|rest| rest.split_once("\n```").expect("a block has an end").0);
    blocks.collect::<Vec<_>>().try_into().expect("each of three blocks has its part here")
}

/// A shell in the home, with the home's `tenure` on its path.
fn shell(home: &Home, script: &str) -> Command {
    let ours = home.tenure(&[]);
    let program = std::path::Path::new(ours.get_program());
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-eu", "-c", script]).current_dir(home.path()).stdin(Stdio::null());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    shell
}

fn run(home: &Home, script: &str) -> String {
    let ran = shell(home, script).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{script}\n{stdout}{stderr}");
    format!("{stdout}{stderr}")
}

#[test]
fn the_recipe_for_a_private_authority_leads_to_an_answer() {
    let home = Home::new();
    let [certificates, serve, clients] = blocks();
    run(&home, certificates);
    // As printed, with a free port; the address that others are told stays as it is.
    let serve = serve.replace("0.0.0.0:7400", "0.0.0.0:0");
    let mut server = Process::start(shell(&home, &format!("exec {serve}")));
    assert_eq!(server.text_line(), "Tenure serves at https://tenure.example.org:7400\n");
    let key = loop {
        if let Some(key) = server.text_line().strip_prefix("key    ") {
            break key.trim().to_owned();
        }
    };
    let port = listening_port(&server);
    for name in ["127.0.0.1", "localhost"] {
        let address = format!("https://{name}:{port}");
        let clients =
            clients.replace("https://tenure.example.org:7400", &address).replace("tnr_…", &key);
        let said = run(&home, &clients);
        assert_eq!(said, "no tasks are waiting or running\n".repeat(2), "{name}");
    }
    // Without the authority the server is not trusted, so the recipe's last file is what counts.
    let url = format!("https://127.0.0.1:{port}");
    let refused = home.run(&["queues", "--url", &url, "--key", &key]);
    refused.assert_error(6, "not_trusted", "is not trusted", "--ca-file");
}

/// The port of a server that was told to listen on any; it prints only the address for others.
fn listening_port(server: &Process) -> u16 {
    let process = format!("/proc/{}", server.child.id());
    let files = std::fs::read_dir(format!("{process}/fd")).unwrap().filter_map(Result::ok);
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let ours: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let table = std::fs::read_to_string(format!("{process}/net/tcp")).unwrap();
    // Columns: number, local address, remote address, state (0A is listening), …, inode.
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut listening = rows.filter(|row| row[3] == "0A");
    let row = listening.find(|row| ours.contains(&format!("socket:[{}]", row[9])));
    let address = row.expect("it listens")[1];
    let (_, port) = address.split_once(':').expect("an address has a port");
    u16::from_str_radix(port, 16).unwrap()
}
