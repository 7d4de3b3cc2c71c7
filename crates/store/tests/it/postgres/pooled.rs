//! Through a pooler in transaction mode: each transaction may meet another session of the database, and hints
//! are lost on the way.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use store::conformance::driver::{caller, key_of};
use store::conformance::reports::{report, succeeded};
use store::conformance::{Between, Driver, Fixture};
use store::postgres::{Notify, Options};
use store::{ManualClock, PostgresStore, Store, Writers};
use verdict::Scope;

use super::private::give;
use super::server::{Database, is_root};
use crate::differential::compare;
use crate::differential::seen::Coverage;
use crate::memory::Memory;

/// A pooler before the shared server, with two sessions for everybody.
struct Pooler {
    process: Child,
    folder: tempfile::TempDir,
    database: Database,
}

impl Pooler {
    fn start() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        give(folder.path());
        let database = Database::create();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let settings = format!(
            "[databases]\n* = host={}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {}\n\
             listen_port = 6432\nauth_type = any\nlogfile = {}\npool_mode = transaction\n\
             default_pool_size = 2\nmax_client_conn = 100\n\
             ignore_startup_parameters = extra_float_digits\n",
            database.folder().display(),
            folder.path().display(),
            path("log"),
        );
        let settings = settings
            .replace("* = host=", &format!("* = user=postgres dbname={} host=", database.name()));
        std::fs::write(path("pgbouncer.ini"), settings).unwrap();
        give(&PathBuf::from(path("pgbouncer.ini")));
        let mut command = Command::new("/usr/sbin/pgbouncer");
        if is_root() {
            command.args(["-u", "postgres"]);
        }
        command.arg(path("pgbouncer.ini")).current_dir("/");
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = quiet.spawn().expect("pgbouncer is installed");
        let socket = folder.path().join(".s.PGSQL.6432");
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            std::thread::yield_now();
        }
        Self { process, folder, database }
    }

    fn url(&self) -> String {
        format!("host={} port=6432 user=postgres dbname=any", self.folder.path().display())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.process.kill().expect("it is ours");
        self.process.wait().expect("it ends");
    }
}

struct Pooled(Pooler);

impl Fixture for Pooled {
    type Store = PostgresStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> PostgresStore {
        self.0.database.settle().await;
        let clock = Some(clock as Arc<dyn store::Clock>);
        let options = Options { clock, notify: Notify::On, ..Options::new("pooled") };
        PostgresStore::open(&self.0.url(), options).await.expect("the store opens")
    }
}

#[test]
fn a_random_life_through_a_pooler_is_the_same() {
    // F45, R-24: the same answers and rows as the engine in memory gives.
    let mut coverage = Coverage::default();
    for seed in 5_000_000..5_000_002 {
        compare(seed, Memory::new(Writers::One), Pooled(Pooler::start()), &mut coverage);
    }
    assert!(coverage.granted() > 5, "{coverage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_flows_through_a_pooler_without_hints() {
    // F45, S2-104: two coordinators, two sessions for all of their connections, no state between transactions.
    let pooler = Pooler::start();
    let url = pooler.url();
    let other = PostgresStore::open(&url, Options::new("other")).await.unwrap();
    let mut driver = Driver::start(Pooled(pooler), Between::Nothing).await;
    let scope = Scope::new("acme", "main");
    for n in 0..40 {
        let submission = driver.submission(&scope, "pooled").with_key(&format!("k{n}"));
        driver.submit(submission).await;
        let leased = driver.lease(&scope, "pooled", 1).await;
        let answer =
            driver.about(&key_of(&leased[0]), report(&caller(&leased[0]), succeeded())).await;
        assert!(!matches!(answer, verdict::Answer::Refused(_)), "{answer:?}");
    }
    let report = store::verify::verify(other.browse()).await.unwrap();
    assert_eq!((report.tasks, report.findings), (40, Vec::new()));
}
