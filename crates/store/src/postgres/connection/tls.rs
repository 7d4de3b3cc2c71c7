//! TLS to the database: the settings of an address, and a connector that applies them.
//!
//! The parameters are libpq's: `sslmode` (`disable`, `prefer`, `require`, `verify-ca`, `verify-full`), `sslrootcert`,
//! `sslcert` and `sslkey`. Only `verify-full` authenticates the server; the weaker modes exist because databases are
//! deployed with them. The protocol is TLS 1.3.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::failure::{Failure, FailureKind};

/// Stands in for an invalid host name where the name is not checked.
const PLACEHOLDER_NAME: &str = "database.invalid";

const NO_AUTHORITY: &str = "no certificate authority was found that could verify the database; name a file \
    with one in the address: sslrootcert=FILE";

/// How the connection to the database is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    Disable,
    /// Encrypted if the server supports it; the server is not authenticated.
    #[default]
    Prefer,
    /// Encrypted; the server is not authenticated.
    Require,
    /// The certificate must be signed by a known authority.
    VerifyCa,
    /// The certificate must also be for the host name in the address.
    VerifyFull,
}

impl Mode {
    const ALL: [(&str, Mode); 5] = [
        ("disable", Mode::Disable),
        ("prefer", Mode::Prefer),
        ("require", Mode::Require),
        ("verify-ca", Mode::VerifyCa),
        ("verify-full", Mode::VerifyFull),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("prefer", |(name, _)| name)
    }

    pub(in crate::postgres) const fn driver_mode(self) -> SslMode {
        match self {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

/// The TLS settings of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::postgres) struct TlsSettings {
    pub(in crate::postgres) mode: Mode,
    /// The trusted authorities; `None` or `system` for those of the machine.
    root: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Removes the TLS parameters from an address, because the driver does not know most of them.
pub(in crate::postgres) fn split(address: &str) -> Result<(String, TlsSettings), Failure> {
    let mut tls_settings = TlsSettings::default();
    let is_url = address.contains("://");
    let (head, tail, separator) = match (is_url, address.split_once('?')) {
        (true, Some((head, query))) => (head, query, '&'),
        (true, None) => return Ok((address.to_owned(), tls_settings)),
        (false, _) => ("", address, ' '),
    };
    let mut kept = Vec::new();
    for pair in tail.split(separator) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = if is_url { decoded(value) } else { value.trim_matches('\'').to_owned() };
        if !tls_settings.take(name, &value)? {
            kept.push(pair);
        }
    }
    let kept = kept.join(&separator.to_string());
    let joint = if head.is_empty() || kept.is_empty() { "" } else { "?" };
    Ok((format!("{head}{joint}{kept}"), tls_settings))
}

/// Decodes `%2F` and the like.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl TlsSettings {
    /// Whether this parameter of an address is a TLS setting; if so, stores it.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, Failure> {
        let path = Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty());
        match name {
            "sslmode" => {
                let known = Mode::ALL.iter().find(|(name, _)| *name == value);
                let (_, mode) = known.ok_or_else(|| {
                    let what = format!(
                        "sslmode={value} is unknown; use disable, prefer, require, verify-ca or verify-full"
                    );
                    Failure::new(FailureKind::Closed, what)
                })?;
                self.mode = *mode;
            }
            "sslrootcert" => self.root = path.filter(|path| path != Path::new("system")),
            "sslcert" => self.certificate = path,
            "sslkey" => self.key = path,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A connector that applies these settings.
    pub(in crate::postgres) fn connector(&self) -> Result<Connector, Failure> {
        let provider = Arc::new(ring::default_provider());
        let verifier = self.verifier(&provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable("TLS 1.3 is not available", error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| unusable("sslcert and sslkey do not match", error))?,
            _ => {
                let what = "a client certificate needs its key; give both sslcert and sslkey";
                return Err(Failure::new(FailureKind::Closed, what));
            }
        };
        Ok(Connector { config: Arc::new(config), mode: self.mode })
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<Verifier>, Failure> {
        // As in libpq: a configured root is used, even if the mode does not require a check.
        let is_checked = matches!(self.mode, Mode::VerifyCa | Mode::VerifyFull)
            || (self.mode == Mode::Require && self.root.is_some());
        let authorities = if is_checked {
            let roots = self.roots()?;
            if roots.is_empty() {
                return Err(Failure::new(FailureKind::Closed, NO_AUTHORITY));
            }
            let roots = Arc::new(roots);
            let built =
                WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
            Some(built.map_err(|error| unusable("no trusted authority was found", error))?)
        } else {
            None
        };
        let name =
            if self.mode == Mode::VerifyFull { NameCheck::Compared } else { NameCheck::Ignored };
        Ok(Arc::new(Verifier { authorities, name, provider: provider.clone() }))
    }

    fn roots(&self) -> Result<RootCertStore, Failure> {
        let mut roots = RootCertStore::empty();
        let found = match &self.root {
            Some(path) => certificates(path)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(found);
        Ok(roots)
    }
}

fn unusable(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(FailureKind::Closed, what).because(error)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|error| not_pem(path, "certificate", error))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| not_pem(path, "private key", error))
}

fn not_pem(path: &Path, what: &str, error: rustls::pki_types::pem::Error) -> Failure {
    let path = path.display();
    match error {
        rustls::pki_types::pem::Error::Io(error) => {
            let what =
                format!("{path} cannot be read; check the path in the address, and its mode");
            Failure::new(FailureKind::Closed, what).because(error)
        }
        error => {
            let what = format!("{path} is not PEM with a {what} in it; name one in the address");
            Failure::new(FailureKind::Closed, what).because(error)
        }
    }
}

/// Whether the certificate must be for the name in the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameCheck {
    Compared,
    Ignored,
}

#[derive(Debug)]
struct Verifier {
    /// `None` to accept any certificate.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    name: NameCheck,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        match authorities.verify_server_cert(end, between, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.name == NameCheck::Ignored => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes connections as the address requires. Cheap to clone.
#[derive(Clone)]
pub(in crate::postgres) struct Connector {
    config: Arc<ClientConfig>,
    mode: Mode,
}

/// The next connection, to one host.
pub(in crate::postgres) struct Connect {
    config: Arc<ClientConfig>,
    name: Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError>,
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Encrypted;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connect, io::Error> {
        let name = ServerName::try_from(host.to_owned()).or_else(|error| match self.mode {
            Mode::VerifyFull => Err(error),
            _ => ServerName::try_from(PLACEHOLDER_NAME),
        });
        Ok(Connect { config: self.config.clone(), name })
    }
}

impl TlsConnect<Socket> for Connect {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let name = self.name.map_err(io::Error::other)?;
            let encrypted = TlsConnector::from(self.config).connect(name, stream).await?;
            Ok(Encrypted(Box::new(encrypted)))
        })
    }
}

/// An encrypted connection, with the traits that the driver requires.
pub(in crate::postgres) struct Encrypted(Box<TlsStream<Socket>>);

impl tokio_postgres::tls::TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}

/// Why a handshake was refused, as a sentence with its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum TlsRefusal {
    /// The sentence is complete.
    Known(&'static str),
    /// Only the underlying cause says what is wrong.
    Unknown(&'static str),
}

impl TlsRefusal {
    pub(in crate::postgres) fn failure(
        self,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Failure {
        match self {
            TlsRefusal::Known(what) => Failure::new(FailureKind::Untrusted, what),
            TlsRefusal::Unknown(what) => Failure::new(FailureKind::Untrusted, what).because(error),
        }
    }
}

/// `None` for any other error.
pub(in crate::postgres) fn tls_refusal(
    error: &(dyn std::error::Error + 'static),
) -> Option<TlsRefusal> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("server does not support TLS") {
            let what = "the database does not support TLS; enable it there (ssl = on), or set \
                sslmode=disable if you trust the network";
            return Some(TlsRefusal::Known(what));
        }
        if let Some(refused) = error.downcast_ref::<rustls::Error>() {
            return Some(refusal(refused));
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = inner.map(|inner| inner as _).or_else(|| error.source());
    }
    None
}

fn refusal(error: &rustls::Error) -> TlsRefusal {
    let rustls::Error::InvalidCertificate(wrong) = error else {
        return TlsRefusal::Unknown(
            "the TLS handshake with the database failed; check its TLS settings, and sslcert",
        );
    };
    TlsRefusal::Known(match wrong {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the database has a certificate for another name; use that name in the \
             address, or give the database a certificate for this one"
        }
        // An authority of the same name with another key did not sign the certificate either.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no known authority signed the database's certificate; name the authority that \
             did with sslrootcert=FILE"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the database's certificate has expired; give the database a new one"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the database's certificate is not valid yet; check the clocks of both machines"
        }
        // The library has no variant for this error, and it is what `openssl req -x509` produces.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the database uses the certificate of an authority; create one for the database that the \
             authority signs and that is not an authority (basicConstraints CA:FALSE)"
        }
        _ => {
            return TlsRefusal::Unknown(
                "the database's certificate is not trusted; check it and sslrootcert",
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_encryption_leaves_the_address() {
        let (rest, tls_settings) = split(
            "postgres://u:p%40@a,b/db?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fca.pem",
        )
        .expect("it is well said");
        assert_eq!(rest, "postgres://u:p%40@a,b/db?connect_timeout=3");
        assert_eq!(
            (tls_settings.mode, tls_settings.root),
            (Mode::VerifyFull, Some("/ca.pem".into()))
        );
        let (rest, tls_settings) =
            split("host=/tmp user=me sslmode=disable").expect("it is well said");
        assert_eq!((rest.as_str(), tls_settings.mode), ("host=/tmp user=me", Mode::Disable));
        let (rest, tls_settings) =
            split("postgres://a/db?sslrootcert=system").expect("it is well said");
        assert_eq!((rest.as_str(), tls_settings), ("postgres://a/db", TlsSettings::default()));
        assert!(split("postgres://a/db?sslmode=sure").is_err());
    }
}
