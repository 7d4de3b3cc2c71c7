//! The binary over TLS: a server with a certificate, and commands that trust it or not.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::home::{Home, Process, wait_until};

/// An authority, and a certificate that it signed for this machine.
struct Certificates {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn certificates(home: &Home, name: &str) -> Certificates {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let subject = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = subject.signed_by(&key, &issuer).unwrap();
    let write = |suffix: &str, text: String| {
        let path = home.path().join(format!("{name}.{suffix}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let certificates = Certificates {
        authority: write("ca", issuer.pem()),
        certificate: write("pem", certificate.pem()),
        key: write("key", key.serialize_pem()),
    };
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&certificates.key, std::fs::Permissions::from_mode(0o600)).unwrap();
    certificates
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

fn serve(home: &Home, certificates: &Certificates) -> Process {
    let mut command =
        home.tenure(&["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"]);
    command
        .env("TENURE_TLS_CERT", &certificates.certificate)
        .env("TENURE_TLS_KEY", &certificates.key);
    let mut server = Process::start(command);
    let url = server.line()["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    server
}

#[test]
fn work_is_done_over_tls_by_who_trusts_the_authority() {
    // X43
    let home = Home::new();
    let (ours, other) = (certificates(&home, "ours"), certificates(&home, "other"));
    let _server = serve(&home, &ours);
    let trust = ["--ca-file", text(&ours.authority)];
    let mut worker = home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]);
    worker.env("TENURE_CA_FILE", &ours.authority);
    let _worker = Process::start(worker);
    let submit = ["submit", "--json", "k", "--queue", "q", "--input", "7", "--wait"];
    let run = home.json(&[&submit[..], &trust[..]].concat());
    assert_eq!((&run["state"], &run["output"]), (&"succeeded".into(), &7.into()), "{run}");
    let doctor = home.run(&[&["doctor"][..], &trust[..]].concat());
    assert!(doctor.stdout.contains("ok    certificate"), "{doctor:?}");
    let refused = home.run(&["queues", "--ca-file", text(&other.authority)]);
    refused.assert_error(6, "not_trusted", "is not trusted", "--ca-file");
    let other_name = home.profile_url().replace("127.0.0.1", "localhost");
    let named = ["queues", "--url", &other_name, "--key", "tnr_x"];
    let refused = home.run(&[&named[..], &trust[..]].concat());
    refused.assert_error(6, "not_trusted", "is not trusted", "a name that is in its certificate");
    let none = home.run(&["queues", "--ca-file", "no-such-file"]);
    assert_eq!(none.code, 2, "{none:?}");
    let plain = home.profile_url().replace("https:", "http:");
    let ran = home.run(&["queues", "--url", &plain, "--key", "tnr_x"]);
    ran.assert_error(6, "speaks_tls", "This port speaks TLS", "https://127.0.0.1");
}

#[test]
fn a_hangup_makes_the_server_read_its_certificate_again() {
    let home = Home::new();
    let (first, second) = (certificates(&home, "first"), certificates(&home, "second"));
    let server = serve(&home, &first);
    let trusts =
        |authority: &std::path::Path| home.run(&["queues", "--ca-file", text(authority)]).code == 0;
    assert!(trusts(&first.authority) && !trusts(&second.authority));
    std::fs::copy(&second.certificate, &first.certificate).unwrap();
    std::fs::copy(&second.key, &first.key).unwrap();
    server.signal("HUP");
    wait_until("the new certificate", || trusts(&second.authority));
    assert!(!trusts(&first.authority));
    // A broken certificate is reported and changes nothing.
    std::fs::write(&first.certificate, "nonsense").unwrap();
    server.signal("HUP");
    wait_until("the complaint", || {
        let doctor = home.run(&["doctor", "--ca-file", text(&second.authority)]);
        doctor.stdout.contains("warn  certificate")
    });
}

#[test]
fn plain_http_beyond_this_machine_needs_a_word() {
    let home = Home::new();
    let open = ["serve", "--listen", "0.0.0.0:0"];
    home.run(&open).assert_error(2, "not_loopback", "0.0.0.0", "--insecure-plaintext");
    let insisting = [&open[..], &["--insecure-plaintext", "--json"]].concat();
    let mut server = Process::start(home.tenure(&insisting));
    assert!(server.line()["url"].as_str().unwrap().starts_with("http://0.0.0.0:"));
    let half = home.run(&["serve", "--tls-cert", "x.pem"]);
    assert!(half.code == 2 && half.stderr.contains("--tls-key"), "{half:?}");
    let none = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", "x.pem", "--tls-key", "x.key"];
    home.run(&[&none[..], &["--store", "sqlite:other.db"]].concat()).assert_error(
        2,
        "certificate",
        "x.pem cannot be read",
        "--tls-key",
    );
}
