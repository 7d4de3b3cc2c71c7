//! How the database is reached: which servers the address names, and in which order they are tried.
//!
//! Each host of the address has a separate configuration. The first host that takes writes is used, as the driver
//! does it. But if an old primary keeps running beside the one that took over, both take writes. Then the one with
//! the later timeline is tried first, as soon as the failover watch has seen it
//! ([`crate::postgres::failover::failover_watch`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Error, Socket};

use super::tls::{self, Connector, Encrypted};
use crate::failure::{Failure, FailureKind};
use crate::postgres::Options;

/// Timeout for getting a connection, new or from the pool.
pub(in crate::postgres) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The driver's future that reads and writes the socket of a client.
pub(in crate::postgres) type Driver = Connection<Socket, Encrypted>;

#[derive(Clone)]
pub(in crate::postgres) struct ServerList {
    /// One for each host of the address, in its order.
    hosts: Arc<[Config]>,
    /// The host to try first, shared by all clones of this list.
    first: Arc<AtomicUsize>,
    pub(in crate::postgres) connector: Connector,
    pub(in crate::postgres) link: LinkSecurity,
}

impl ServerList {
    pub(in crate::postgres) fn of(url: &str, options: &Options) -> Result<Self, Failure> {
        let (address, tls_settings) = tls::split(url)?;
        let mut config = configure(&address, options)?;
        config.ssl_mode(tls_settings.mode.driver_mode());
        let link = LinkSecurity {
            mode: tls_settings.mode,
            is_local: config.get_hosts().iter().all(is_local),
        };
        let (hosts, first) = (split_hosts(&config).into(), Arc::default());
        Ok(Self { hosts, first, connector: tls_settings.connector()?, link })
    }

    /// Opens a session on the first server that takes writes.
    pub(in crate::postgres) async fn connect(&self) -> Result<(Client, Driver), Error> {
        let (first, count) = (self.first.load(Ordering::SeqCst), self.hosts.len());
        let mut tried = self.hosts[first].connect(self.connector.clone()).await;
        for next in 1..count {
            if tried.is_ok() {
                break;
            }
            tried = self.hosts[(first + next) % count].connect(self.connector.clone()).await;
        }
        tried
    }

    /// How many servers the address names.
    pub(in crate::postgres) fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Opens a session on one of them, even if it is read-only.
    pub(in crate::postgres) async fn connect_to(
        &self,
        host: usize,
    ) -> Result<(Client, Driver), Error> {
        let mut config = self.hosts[host].clone();
        config.target_session_attrs(TargetSessionAttrs::Any);
        config.connect(self.connector.clone()).await
    }

    /// Makes this host the first to try from now on.
    pub(in crate::postgres) fn prefer(&self, host: usize) {
        if self.first.swap(host, Ordering::SeqCst) != host {
            tracing::warn!(host, "preferring another server of the address");
        }
    }
}

/// Splits an address into one configuration per host. An address that cannot be split stays whole: the driver reports
/// what is wrong.
fn split_hosts(config: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    let is_regular =
        fits(hosts.len()) && fits(addresses.len()) && (ports.len() <= 1 || fits(ports.len()));
    if count <= 1 || !is_regular {
        return vec![config.clone()];
    }
    let of = |n: usize| {
        let port = ports.get(n).or(ports.first()).copied();
        one_host(config, hosts.get(n), addresses.get(n).copied(), port)
    };
    (0..count).map(of).collect()
}

/// The same configuration for a single host. The driver offers no way to remove a host.
fn one_host(
    config: &Config,
    host: Option<&Host>,
    address: Option<IpAddr>,
    port: Option<u16>,
) -> Config {
    let mut one = Config::new();
    match host {
        Some(Host::Tcp(name)) => drop(one.host(name)),
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    if let Some(address) = address {
        one.hostaddr(address);
    }
    if let Some(port) = port {
        one.port(port);
    }
    copy_optional_settings(config, &mut one);
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

fn copy_optional_settings(from: &Config, to: &mut Config) {
    if let Some(user) = from.get_user() {
        to.user(user);
    }
    if let Some(password) = from.get_password() {
        to.password(password);
    }
    if let Some(name) = from.get_dbname() {
        to.dbname(name);
    }
    if let Some(options) = from.get_options() {
        to.options(options);
    }
    if let Some(name) = from.get_application_name() {
        to.application_name(name);
    }
    if let Some(timeout) = from.get_connect_timeout() {
        to.connect_timeout(*timeout);
    }
    if let Some(timeout) = from.get_tcp_user_timeout() {
        to.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = from.get_keepalives_interval() {
        to.keepalives_interval(interval);
    }
    if let Some(retries) = from.get_keepalives_retries() {
        to.keepalives_retries(retries);
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address: Option<IpAddr> = name.parse().ok();
            name == "localhost" || address.is_some_and(|address| address.is_loopback())
        }
    }
}

/// Whether traffic to the database could be intercepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSecurity {
    pub mode: tls::Mode,
    /// The server is on this machine.
    pub is_local: bool,
}

impl LinkSecurity {
    /// What is not guaranteed, with the remedy after a colon; `None` if traffic cannot be intercepted.
    pub fn warning(&self) -> Option<&'static str> {
        if self.is_local {
            return None;
        }
        match self.mode {
            tls::Mode::Disable | tls::Mode::Prefer => Some(
                "anyone on the network path to the database can read and change the traffic: add \
                 sslmode=verify-full and sslrootcert=FILE to the address",
            ),
            tls::Mode::Require => Some(
                "the database's certificate is not checked, so anyone on the network path can impersonate it: \
                 set sslmode=verify-full in the address",
            ),
            tls::Mode::VerifyCa => Some(
                "the name in the database's certificate is not checked, so the holder of any certificate of that \
                 authority can impersonate it: set sslmode=verify-full in the address",
            ),
            tls::Mode::VerifyFull => None,
        }
    }
}

const NO_ADDRESS: &str = "the store's address is not a PostgreSQL address; write \
    postgres://USER:PASSWORD@HOST:PORT/DATABASE, with @, : and / in a password as %40, %3A and %2F";

fn configure(url: &str, options: &Options) -> Result<Config, Failure> {
    let mut config: Config = url
        .parse()
        .map_err(|error: Error| Failure::new(FailureKind::Closed, NO_ADDRESS).because(error))?;
    config
        .application_name(format!("tenure {}", options.name))
        .connect_timeout(CONNECT_TIMEOUT)
        .keepalives_idle(Duration::from_secs(10))
        .tcp_user_timeout(Duration::from_secs(20))
        // Of several hosts, only the one that takes writes is used; this follows a failover.
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(address: &str) -> Vec<Config> {
        split_hosts(&configure(address, &Options::new("check")).unwrap())
    }

    #[test]
    fn an_address_of_several_hosts_is_one_for_each_and_else_the_same() {
        let rest = "user=me password=secret dbname=d options='-c jit=off' keepalives_interval=7 \
            keepalives_retries=3 sslmode=require sslnegotiation=direct channel_binding=require";
        let both = each(&format!("host=a,/b port=1,2 {rest}"));
        let alone = [format!("host=a port=1 {rest}"), format!("host=/b port=2 {rest}")];
        let alone = alone.map(|address| configure(&address, &Options::new("check")).unwrap());
        assert!(both == alone, "{both:?}\n{alone:?}");
    }

    #[test]
    fn one_port_is_everybodys_and_what_does_not_fit_stays_whole() {
        let ports = |address: &str| -> Vec<Vec<u16>> {
            each(address).iter().map(|one| one.get_ports().to_vec()).collect()
        };
        assert_eq!(ports("host=a,b,c port=7 user=me"), [[7], [7], [7]]);
        assert_eq!(ports("host=a,b,c port=7,8 user=me"), [[7, 8]]);
        assert_eq!(ports("host=a user=me"), [Vec::<u16>::new()]);
    }
}
