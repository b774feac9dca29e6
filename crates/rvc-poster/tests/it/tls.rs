use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rvc_poster::{BuildError, Endpoint, EventPoster};
use rvc_test::{Logs, ScriptedEndpoint};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tracing::Level;

use crate::support::{progress, seconds, secret, seqs, until};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Serves an endpoint over TLS with a certificate for a name; returns its port.
async fn serve(endpoint: &ScriptedEndpoint, authority: &Authority, name: &str) -> u16 {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = endpoint.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                let endpoint = endpoint.clone();
                tokio::spawn(async move { endpoint.serve(stream).await });
            }
        }
    });
    port
}

fn poster(host: &str, port: u16, trusted: &Authority) -> EventPoster {
    let url = Endpoint::new(&format!("https://{host}:{port}/events"), secret()).unwrap();
    EventPoster::builder("navigation".parse().unwrap(), url)
        .root_certificates(trusted.pem())
        .build()
        .unwrap()
}

#[tokio::test]
async fn events_go_to_an_https_endpoint_whose_certificate_is_good() {
    for (host, name) in [("localhost", "localhost"), ("127.0.0.1", "127.0.0.1")] {
        let endpoint = ScriptedEndpoint::answering([200]);
        let authority = authority();
        let port = serve(&endpoint, &authority, name).await;
        let poster = poster(host, port, &authority);
        for seq in 1..=3 {
            poster.post(progress("nav-1", seq));
        }
        assert!(poster.close(seconds(60.0)).await.is_complete());
        assert_eq!(seqs(&endpoint, "nav-1"), [1, 2, 3]);
        assert_eq!(endpoint.most_open(), 1);
    }
}

#[tokio::test]
async fn an_https_endpoint_with_a_bad_certificate_gets_nothing() {
    let ours = authority();
    let unknown = authority();
    for (name, issuer) in [("localhost", &unknown), ("elsewhere", &ours)] {
        let logs = Logs::capture();
        let endpoint = ScriptedEndpoint::answering([200]);
        let port = serve(&endpoint, issuer, name).await;
        let poster = poster("localhost", port, &ours);
        poster.post(progress("nav-1", 1));
        until(|| !logs.at(Level::WARN).is_empty()).await;

        let error = logs.at(Level::WARN)[0].field("error").unwrap().to_owned();
        assert!(error.contains("certificate"), "{error}");
        assert_eq!(poster.close(seconds(0.0)).await.total(), 1);
        assert!(endpoint.received().is_empty());
    }
}

#[test]
fn a_root_certificate_that_is_none_is_refused() {
    for pem in [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let url = Endpoint::new("https://localhost/", secret()).unwrap();
        let error = EventPoster::builder("navigation".parse().unwrap(), url)
            .root_certificates(pem)
            .build()
            .unwrap_err();
        assert!(matches!(error, BuildError::BadRoot { .. }), "{error}");
    }
}
