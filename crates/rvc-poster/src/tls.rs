//! TLS for https endpoints: rustls on ring, with the system's root certificates.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Host;

use crate::BuildError;

/// Trusts the system's roots and these PEM files' certificates.
pub(crate) fn client_config(extra_roots: &[Vec<u8>]) -> Result<ClientConfig, BuildError> {
    let mut roots = RootCertStore::empty();
    // One broken certificate on a system does not make the others useless.
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    for pem in extra_roots {
        add_pem(&mut roots, pem)?;
    }
    if roots.is_empty() {
        return Err(BuildError::NoRoots);
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The name that the endpoint's certificate must have.
pub(crate) fn server_name(host: &Host<String>) -> Result<ServerName<'static>, BuildError> {
    match host {
        Host::Domain(name) => {
            ServerName::try_from(name.clone()).map_err(|_| BuildError::NoServerName(name.clone()))
        }
        Host::Ipv4(ip) => Ok(ServerName::IpAddress((*ip).into())),
        Host::Ipv6(ip) => Ok(ServerName::IpAddress((*ip).into())),
    }
}

fn add_pem(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), BuildError> {
    let bad = |reason: String| BuildError::BadRoot { reason };
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| bad(error.to_string()))?;
        found = true;
    }
    if found {
        Ok(())
    } else {
        Err(bad("it holds no certificate".to_owned()))
    }
}
