//! A server that ends in every way a server can, and comes back on the same store and address.

use std::net::TcpListener;

use tenure::{Client, Retries};
use tokio::sync::watch;

use crate::home::{Home, Process};

use super::chance::Chance;

/// Below the ports that systems give to outgoing connections: nobody takes ours while it is free.
const FIRST_PORT: u64 = 20_000;
const PORTS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Up,
    /// Announced before the blow falls, so that whoever then gets no answer knows why.
    Down,
}

pub(crate) struct Phoenix<'h> {
    home: &'h Home,
    process: Process,
    listen: String,
    api_key: String,
    presence: watch::Sender<Presence>,
}

impl<'h> Phoenix<'h> {
    pub(crate) fn start(home: &'h Home, chance: &mut Chance) -> Phoenix<'h> {
        let listen = free_address(chance);
        let mut process = Process::start(serve(home, &listen));
        let ready = process.line();
        let api_key = ready["apiKey"].as_str().expect("a new store gets a key").to_owned();
        Phoenix { home, process, listen, api_key, presence: watch::Sender::new(Presence::Up) }
    }

    /// A client that never repeats a call by itself: the test wants to see every silence.
    pub(crate) fn client(&self) -> Client {
        let url = format!("http://{}", self.listen);
        Client::new(&url, &self.api_key).unwrap().with_retries(Retries::NONE)
    }

    pub(crate) fn presence(&self) -> watch::Receiver<Presence> {
        self.presence.subscribe()
    }

    pub(crate) fn kill_and_restart(&mut self) {
        self.presence.send_replace(Presence::Down);
        self.process.child.kill().unwrap();
        self.process.child.wait().unwrap();
        self.rise();
    }

    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Stops it where it stands, and returns when not one of its threads runs any more.
    pub(crate) async fn freeze(&self) {
        self.process.signal("STOP");
        while !self.is_frozen() {
            tokio::task::yield_now().await;
        }
    }

    fn is_frozen(&self) -> bool {
        let threads = format!("/proc/{}/task", self.process.child.id());
        let threads = std::fs::read_dir(threads).expect("the server lives");
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name may hold anything, so the state is what follows its last parenthesis.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    /// Asks it to stop; it may still be talking when this returns.
    pub(crate) fn terminate(&self) {
        self.presence.send_replace(Presence::Down);
        self.process.signal("TERM");
    }

    pub(crate) fn exit_code(&mut self) -> i32 {
        self.process.exit_code()
    }

    pub(crate) fn rise(&mut self) {
        self.process = Process::start(serve(self.home, &self.listen));
        self.process.line();
        self.presence.send_replace(Presence::Up);
    }

    /// Stops the server for good and looks at what it leaves.
    pub(crate) fn bury_and_verify(mut self) -> serde_json::Value {
        self.terminate();
        assert_eq!(self.exit_code(), 0);
        self.home.json(&["verify", "--json"])
    }
}

fn serve(home: &Home, listen: &str) -> std::process::Command {
    let mut command = home.tenure(&["serve", "--json", "--listen", listen]);
    command.env("RUST_LOG", "warn");
    command
}

fn free_address(chance: &mut Chance) -> String {
    loop {
        let address = format!("127.0.0.1:{}", FIRST_PORT + chance.below(PORTS));
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}
