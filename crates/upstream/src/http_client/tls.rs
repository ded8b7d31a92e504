//! TLS as a client: the system's certificates decide which servers are trusted, and HTTP/2 is preferred.

use std::sync::{Arc, OnceLock};

use rustls::{
    ClientConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::ServerName,
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::error::{HttpError, chain};

/// Shared by all hosts: the certificates are many, and are read once.
static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();

/// TLS with one host.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl Tls {
    /// The first call reads the system's certificates.
    pub(super) fn new(host: &str) -> Result<Self, HttpError> {
        let not_made = |error: &dyn std::error::Error| HttpError::NotConnected(format!("TLS: {}", chain(error)));
        let config = if let Some(config) = CONFIG.get() {
            Arc::clone(config)
        } else {
            let made = Arc::new(configured().map_err(|error| not_made(&error))?);
            Arc::clone(CONFIG.get_or_init(|| made))
        };
        let host = ServerName::try_from(host.to_owned()).map_err(|error| not_made(&error))?;
        Ok(Self { connector: TlsConnector::from(config), host })
    }

    /// Does the TLS handshake. Cancel safe: only the connection is lost.
    pub(super) async fn connect(&self, tcp: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.host.clone(), tcp).await
    }
}

fn configured() -> Result<ClientConfig, rustls::Error> {
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_platform_verifier()?.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").field("host", &self.host).finish_non_exhaustive()
    }
}
