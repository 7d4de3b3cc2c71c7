//! Kills and stops, chosen by a seed: subjects die and freeze, the server dies twice.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use historyck::event::{DOWN, EventKind, Fault, Phase};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::Live;
use super::proxy::Proxy;
use super::server::LiveServer;
use crate::case::{Role, Subject};

const SUBJECTS: usize = 3;
/// Longer than a lease of the workload, so that a frozen worker wakes up without one.
const FROZEN: Duration = Duration::from_secs(5);
const SERVER_DOWN: Duration = Duration::from_millis(700);
const SERVER_KILLS: u32 = 2;
const STOP_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Chaos {
    subjects: Vec<Child>,
    command: Vec<String>,
    proxy: Arc<Proxy>,
    api_key: String,
    state: u64,
}

impl Chaos {
    pub(super) fn start(live: &Live, proxy: &Arc<Proxy>, api_key: &str) -> io::Result<Chaos> {
        let mut chaos = Chaos {
            subjects: Vec::new(),
            command: live.command.clone(),
            proxy: Arc::clone(proxy),
            api_key: api_key.to_owned(),
            state: live.seed,
        };
        for _ in 0..SUBJECTS {
            let subject = chaos.subject()?;
            chaos.subjects.push(subject);
        }
        Ok(chaos)
    }

    fn subject(&self) -> io::Result<Child> {
        let (program, arguments) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let settings = Subject {
            role: Role::Worker,
            concurrency: 8,
            shutdown_timeout_ms: 500,
            processes: 1,
            addresses: 1,
            env: std::collections::BTreeMap::new(),
        };
        let settings = serde_json::to_string(&settings).map_err(io::Error::other)?;
        Command::new(program)
            .args(arguments)
            .env("TENURE_URL", &self.proxy.url)
            .env("TENURE_API_KEY", &self.api_key)
            .env("TENURE_CONFORM", settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// A number below a limit: splitmix64, which any language writes in three lines.
    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    /// Does harm until the time is over.
    pub(super) async fn rage(&mut self, server: &mut LiveServer, time: Duration) -> io::Result<()> {
        let started = Instant::now();
        let mut kills_left = SERVER_KILLS;
        while started.elapsed() < time {
            sleep(Duration::from_millis(500 + self.draw(2000))).await;
            // The server dies after a third and after two thirds.
            let due = time * (SERVER_KILLS + 1 - kills_left) / (SERVER_KILLS + 1);
            if kills_left > 0 && started.elapsed() >= due {
                kills_left -= 1;
                self.kill_server(server).await?;
                continue;
            }
            let place = self.draw(SUBJECTS as u64) as usize;
            match self.draw(2) {
                0 => self.kill(place).await?,
                _ => self.freeze(place).await,
            }
        }
        Ok(())
    }

    async fn kill_server(&mut self, server: &mut LiveServer) -> io::Result<()> {
        let fault = |phase| EventKind::Fault(Fault { fault: DOWN.to_owned(), phase, detail: None });
        self.proxy.note("nemesis", fault(Phase::Begin));
        server.kill().await?;
        sleep(SERVER_DOWN).await;
        server.restart().await?;
        self.proxy.note("nemesis", fault(Phase::End));
        Ok(())
    }

    async fn kill(&mut self, place: usize) -> io::Result<()> {
        signal(&self.subjects[place], Signal::KILL);
        self.subjects[place].wait().await?;
        self.subjects[place] = self.subject()?;
        Ok(())
    }

    async fn freeze(&mut self, place: usize) {
        signal(&self.subjects[place], Signal::STOP);
        sleep(FROZEN).await;
        signal(&self.subjects[place], Signal::CONT);
    }

    /// Ends the subjects as a supervisor does.
    pub(super) async fn stop(&mut self) {
        for subject in &self.subjects {
            signal(subject, Signal::TERM);
        }
        for subject in &mut self.subjects {
            if timeout(STOP_WITHIN, subject.wait()).await.is_err() {
                signal(subject, Signal::KILL);
            }
        }
    }
}

fn signal(subject: &Child, signal: Signal) {
    let group = subject.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        // A process that has ended needs no signal.
        let _ = kill_process_group(group, signal);
    }
}
