//! The connection to the database is encrypted, and the server's identity is verified.

use std::path::{Path, PathBuf};

use pgserver::{Server, give_to_server_user};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use store::postgres::tls::Mode;
use store::{Failure, FailureKind, PostgresStore, Store};
use storetest::Database;

use super::crowded::questions_that_are_given_up_end;
use super::options;
use super::private::{client, tcp_url};

/// A certificate authority and the certificates it signed, as files.
struct TestCertificates {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl TestCertificates {
    fn new() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem())
            .unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn authority(&self) -> String {
        self.path("ca.pem").display().to_string()
    }

    /// A certificate with its key, as `NAME.pem` and `NAME.key`.
    fn vouch(&self, name: &str, common: &str, hosts: &[&str], usage: ExtendedKeyUsagePurpose) {
        self.write(name, common, hosts, |params| params.extended_key_usages = vec![usage]);
    }

    /// A certificate of a database server, with some changes.
    fn vouch_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        self.write(name, "a database", &["localhost"], change);
    }

    fn write(
        &self,
        name: &str,
        common: &str,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// A server with a certificate for `localhost`, which requires one from the user `certified`.
fn server(certificates: &TestCertificates) -> Server {
    certificates.vouch("server", "a database", &["localhost"], ExtendedKeyUsagePurpose::ServerAuth);
    showing(certificates)
}

/// The same with whatever certificate file is in place.
fn showing(certificates: &TestCertificates) -> Server {
    let prepare = |data: &Path| {
        for (name, kept) in
            [("server.pem", "server.crt"), ("server.key", "server.key"), ("ca.pem", "root.crt")]
        {
            std::fs::copy(certificates.path(name), data.join(kept)).unwrap();
            give_to_server_user(&data.join(kept)).unwrap();
        }
        let rules = "local all all trust\n\
            hostssl all certified 127.0.0.1/32 cert\n\
            host all all 127.0.0.1/32 trust\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    };
    let encrypted = Server::builder().set("ssl", "on").set("ssl_ca_file", "root.crt");
    encrypted.without_fsync().on_a_port().prepare(prepare).start().unwrap()
}

async fn open(url: &str) -> Result<PostgresStore, Failure> {
    PostgresStore::open(url, options(None)).await
}

/// How many connections of stores are encrypted, and how many are not.
async fn encrypted(server: &Server) -> (i64, i64) {
    let sql = "SELECT count(*) FILTER (WHERE s.ssl), count(*) FILTER (WHERE NOT s.ssl) \
        FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name LIKE 'tenure %'";
    let row = client(server).await.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_database_that_was_meant_is_believed() {
    // X43: the right name from a known authority passes; another name or an unknown authority does not.
    let (certificates, others) = (TestCertificates::new(), TestCertificates::new());
    let server = server(&certificates);
    let at = |host: &str, mode: &str, authority: &str| {
        format!("{} sslmode={mode} sslrootcert={authority}", tcp_url(&server, host))
    };
    let store = open(&at("localhost", "verify-full", &certificates.authority())).await.unwrap();
    assert!(store.is_direct().await.unwrap(), "encrypted, and yet nobody in between");
    assert!(matches!(encrypted(&server).await, (1.., 0)));
    assert_eq!((store.link().mode, store.link().warning()), (Mode::VerifyFull, None));
    store.writer().await.unwrap();

    let wrong_name =
        open(&at("127.0.0.1", "verify-full", &certificates.authority())).await.err().unwrap();
    assert_eq!(wrong_name.kind, FailureKind::Untrusted, "{wrong_name:?}");
    assert!(wrong_name.what.contains("another name"), "{wrong_name:?}");
    open(&at("127.0.0.1", "verify-ca", &certificates.authority())).await.unwrap();
    for mode in ["verify-ca", "verify-full", "require"] {
        let unknown = open(&at("localhost", mode, &others.authority())).await.err().unwrap();
        assert_eq!(unknown.kind, FailureKind::Untrusted, "{mode}: {unknown:?}");
        assert!(unknown.what.contains("sslrootcert"), "{mode}: {unknown:?}");
    }
    let missing = open(&at("localhost", "verify-full", "/none.pem")).await.err().unwrap();
    assert_eq!(missing.kind, FailureKind::Closed, "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_believed_says_why() {
    // X43: what `openssl req -x509` makes, which is a CA certificate, and an expired one.
    let certificates = TestCertificates::new();
    let refused = async |certificates: &TestCertificates| {
        let server = showing(certificates);
        let authority = certificates.authority();
        let url = tcp_url(&server, "localhost");
        open(&format!("{url} sslmode=verify-full sslrootcert={authority}")).await.err().unwrap()
    };
    certificates
        .vouch_with("server", |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let of_authority = refused(&certificates).await;
    assert_eq!(of_authority.kind, FailureKind::Untrusted, "{of_authority:?}");
    assert!(of_authority.what.contains("CA:FALSE"), "{of_authority:?}");
    certificates.vouch_with("server", |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
    let expired = refused(&certificates).await;
    assert_eq!(expired.kind, FailureKind::Untrusted, "{expired:?}");
    assert!(expired.what.contains("has expired"), "{expired:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_does_what_its_name_says() {
    // `disable` uses plain text; `prefer` and `require` encrypt without verifying the server.
    let certificates = TestCertificates::new();
    let server = server(&certificates);
    let plain = open(&format!("{} sslmode=disable", tcp_url(&server, "127.0.0.1"))).await.unwrap();
    assert!(plain.is_direct().await.unwrap());
    assert!(matches!(encrypted(&server).await, (0, 1..)));
    assert_eq!(plain.link().warning(), None, "nobody listens inside a machine");
    let preferred = open(&tcp_url(&server, "127.0.0.1")).await.unwrap();
    assert!(preferred.is_direct().await.unwrap());
    assert!(matches!(encrypted(&server).await, (1.., 1..)));
    let required =
        open(&format!("{} sslmode=require", tcp_url(&server, "127.0.0.1"))).await.unwrap();
    assert!(required.is_direct().await.unwrap(), "whatever the way, nobody stands on it");
    assert!(matches!(encrypted(&server).await, (2.., 1..)));
    drop((plain, preferred, required));

    certificates.vouch("client", "certified", &[], ExtendedKeyUsagePurpose::ClientAuth);
    client(&server).await.batch_execute("CREATE ROLE certified LOGIN SUPERUSER").await.unwrap();
    let bare = format!(
        "host=localhost port={} user=certified dbname=postgres sslmode=verify-full sslrootcert={}",
        server.port(),
        certificates.authority()
    );
    assert!(open(&bare).await.is_err(), "without a certificate");
    let key = certificates.path("client.key");
    let with = format!(
        "{bare} sslcert={} sslkey={}",
        certificates.path("client.pem").display(),
        key.display()
    );
    open(&with).await.unwrap();
    assert!(open(&format!("{bare} sslkey={}", key.display())).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_encrypt_is_refused_where_that_is_required() {
    // X43: no silent fallback to plain text.
    let database = Database::create();
    let refused = open(&format!("{} sslmode=require", database.url())).await.err().unwrap();
    assert_eq!(refused.kind, FailureKind::Untrusted, "{refused:?}");
    assert!(refused.what.contains("does not support TLS"), "{refused:?}");
    open(&format!("{} sslmode=prefer", database.url())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_given_up_over_an_encrypted_way_too() {
    // F44: the cancel request uses the TLS mode of the address.
    let certificates = TestCertificates::new();
    let server = server(&certificates);
    let address = tcp_url(&server, "localhost");
    let url = format!("{address} sslmode=verify-full sslrootcert={}", certificates.authority());
    let store = open(&url).await.unwrap();
    let (admin, other) = (client(&server).await, client(&server).await);
    questions_that_are_given_up_end(&store, &admin, &other).await;
}
