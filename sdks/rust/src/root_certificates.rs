//! The root certificates by which a server's certificate is verified.
//!
//! TLS 1.3 with ring, configured here and passed to the HTTP client, so that this crate needs no
//! process-wide setting and changes none of the host program's.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};

use crate::Error;

/// Which root certificates are trusted.
#[derive(Clone, Debug)]
pub(crate) enum RootCertificates {
    /// Plain HTTP: no certificate is checked.
    Unused,
    /// The authorities of the operating system.
    System,
    /// Only these authorities.
    Custom(Arc<RootCertStore>),
}

impl RootCertificates {
    /// The authorities in a PEM text.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<RootCertificates, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| invalid_certificates(&why))?;
            roots.add(certificate).map_err(|why| invalid_certificates(&why))?;
        }
        if roots.is_empty() {
            return Err(invalid_certificates(&"they contain no certificate"));
        }
        Ok(RootCertificates::Custom(Arc::new(roots)))
    }

    pub(crate) fn client_config(&self) -> Result<ClientConfig, Error> {
        let roots = match self {
            RootCertificates::Unused => Arc::new(RootCertStore::empty()),
            RootCertificates::System => Arc::new(system_roots()?),
            RootCertificates::Custom(roots) => roots.clone(),
        };
        let provider = Arc::new(ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|why| Error::Setup(format!("TLS cannot be set up: {why}")))?;
        let mut settings = settings.with_root_certificates(roots).with_no_client_auth();
        settings.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(settings)
    }
}

fn system_roots() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let sentence = "this system has no trusted certificate authority, so no https server can be verified; \
                        name the authorities with TENURE_CA_FILE";
        return Err(Error::Setup(sentence.to_owned()));
    }
    Ok(roots)
}

fn invalid_certificates(why: &dyn std::fmt::Display) -> Error {
    Error::Setup(format!("the authorities are not usable PEM certificates: {why}"))
}
