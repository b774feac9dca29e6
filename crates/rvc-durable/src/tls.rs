//! TLS as every client here speaks it: rustls on ring, the server always verified.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore, crypto};

/// A client that trusts the system's root certificates and `roots`.
pub(crate) fn client(roots: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in roots {
        trusted.add(certificate)?;
    }
    let provider = Arc::new(crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth())
}

/// The certificates of a PEM file; one at least, or the reason why not.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("the text holds no PEM certificate".to_owned());
    }
    Ok(certificates)
}
