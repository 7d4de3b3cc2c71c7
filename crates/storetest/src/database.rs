//! The PostgreSQL server that all tests share, with a separate database for each.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, mpsc};

use pgserver::Shared;
use tokio_postgres::NoTls;

static SERVER: LazyLock<Shared> = LazyLock::new(|| {
    let shared = Shared::find_or_start(env!("CARGO_MANIFEST_DIR"));
    shared.unwrap_or_else(|failure| panic!("{failure}"))
});

/// The database of one test, dropped with this value.
pub struct Database {
    name: String,
    url: String,
}

impl Database {
    pub fn create() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let name = format!("t_{}_{number}", std::process::id());
        administer(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        administer(format!("CREATE DATABASE {name}"));
        let url = SERVER.conninfo(&name);
        Self { name, url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the server's socket is.
    pub fn folder(&self) -> PathBuf {
        SERVER.folder().to_owned()
    }

    /// The address through another folder with the server's socket.
    pub fn url_through(&self, folder: &str) -> String {
        format!("host={folder} user=postgres dbname={}", self.name)
    }

    /// Terminates every session of this database, as a restart of the server would.
    pub async fn end_all_connections(&self) {
        administer(format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
    }

    /// Waits until no transaction is open in this database.
    pub async fn settle(&self) {
        let (client, connection) =
            tokio_postgres::connect(&self.url, NoTls).await.expect("it is up");
        let connection = tokio::spawn(connection);
        let open = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() \
            AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        while !client.query(open, &[]).await.expect("it answers").is_empty() {
            tokio::task::yield_now().await;
        }
        drop(client);
        connection.await.expect("the connection's task ends").expect("it ends well");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        administer(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Runs one statement on the server, on a separate thread: callers may be inside a runtime.
fn administer(sql: String) {
    let url = SERVER.conninfo("postgres");
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&url, NoTls).await.expect("it is up");
            let connection = tokio::spawn(connection);
            client.batch_execute(&sql).await.expect("the server does what it is told");
            drop(client);
            connection.await.expect("the connection's task ends").expect("it ends well");
        });
        done.send(()).expect("somebody waits");
    });
    wait.recv().expect("the thread has not panicked");
}
