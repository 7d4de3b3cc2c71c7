//! TLS towards receivers: certificates are verified for the name in the URL.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// The authorities that may vouch for a receiver.
#[derive(Clone, Debug)]
pub enum Roots {
    /// Those of the operating system. If it has none, every receiver is refused.
    System,
    /// Only these, as PEM.
    Pem(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authorities for receivers are not usable: {0}")]
pub struct RootsError(String);

impl Roots {
    pub(crate) fn connector(&self) -> Result<TlsConnector, RootsError> {
        let failed = |why: &dyn std::fmt::Display| RootsError(why.to_string());
        let provider = Arc::new(ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| failed(&why))?;
        let mut settings = settings.with_root_certificates(self.store()?).with_no_client_auth();
        settings.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(settings)))
    }

    fn store(&self) -> Result<RootCertStore, RootsError> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Self::Pem(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|why| RootsError(why.to_string()))?;
                    roots.add(certificate).map_err(|why| RootsError(why.to_string()))?;
                }
            }
        }
        Ok(roots)
    }
}
