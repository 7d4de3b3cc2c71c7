//! Connections to a server that a test has for itself.

use pgserver::Server;
use tokio_postgres::{Client, NoTls};

/// A session as the administrator of a server.
pub(crate) async fn client(server: &Server) -> Client {
    let address = server.conninfo("postgres");
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The address of a server that listens on a port, with this host name.
pub(crate) fn tcp_url(server: &Server, host: &str) -> String {
    format!("host={host} port={} user=postgres", server.port())
}
