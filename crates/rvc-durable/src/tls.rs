//! TLS as every client here speaks it: rustls on ring, the server always verified.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
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
