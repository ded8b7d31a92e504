//! TLS to PostgreSQL: which issuers are trusted, what is checked of a certificate, and what the client
//! presents.
//!
//! Files are read for every connection, so that renewed certificates are used without a restart; connections
//! are few. Deliberately not here: which connections use TLS, which `address` decides.

mod failure;
mod verifier;

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::verifier::NoHostnameVerifier;
use crate::tls_failure::TlsFailure;

/// The protocol name that PostgreSQL expects if TLS starts directly.
const ALPN: &[u8] = b"postgresql";
/// The most bytes that are read from a certificate or key file.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The requirements on a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsRequirements {
    pub(super) checks: CertificateChecks,
    pub(super) roots: TlsTrustedRoots,
    pub(super) identity: Option<ClientIdentity>,
}

/// What of the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertificateChecks {
    /// That a trusted issuer made it for the named host.
    IssuerAndName,
    /// That a trusted issuer made it, for any host.
    Issuer,
    /// Nothing, as the operator asked.
    Nothing,
}

/// Which issuers are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TlsTrustedRoots {
    /// Those of this machine.
    System,
    /// Those of a PEM file, and no others.
    File(PathBuf),
}

/// What the client presents to a server that asks for a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientIdentity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl TlsRequirements {
    /// Reads the files and makes the driver's TLS connector. Blocks while it reads.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, TlsFailure> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsFailure::handshake)?;
        let builder = match self.checks {
            CertificateChecks::IssuerAndName => builder.with_webpki_verifier(self.verifier(&provider)?),
            CertificateChecks::Issuer => {
                let verifier = NoHostnameVerifier::issued_by(self.roots.read()?, &provider);
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            CertificateChecks::Nothing => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(NoHostnameVerifier::unchecked(&provider)))
            }
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certificates, key) = identity.read()?;
                let unusable = |error: rustls::Error| TlsFailure::file("sslkey", &identity.key, &error);
                builder.with_client_auth_cert(certificates, key).map_err(unusable)?
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, TlsFailure> {
        let roots = Arc::new(self.roots.read()?);
        let built = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
        built.map_err(|error| TlsFailure::Handshake(error.to_string()))
    }
}

impl TlsTrustedRoots {
    /// The trusted issuers, for messages.
    fn in_words(&self) -> String {
        match self {
            Self::System => "an issuer that this machine trusts".to_owned(),
            Self::File(path) => format!("an issuer in `{}` (sslrootcert)", path.display()),
        }
    }

    fn read(&self) -> Result<RootCertStore, TlsFailure> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::System => {
                // Some systems have certificates in their store that cannot be read; the others still count.
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    return Err(TlsFailure::NoSystemRoots);
                }
            }
            Self::File(path) => {
                for certificate in certificates("sslrootcert", path)? {
                    roots.add(certificate).map_err(|error| TlsFailure::file("sslrootcert", path, &error))?;
                }
            }
        }
        Ok(roots)
    }
}

impl ClientIdentity {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsFailure> {
        let certificates = certificates("sslcert", &self.certificate)?;
        let unusable = |error: &dyn std::fmt::Display| TlsFailure::file("sslkey", &self.key, error);
        let about = std::fs::metadata(&self.key).map_err(|error| unusable(&error))?;
        // As in libpq: root's key may be readable by root's group, any other key only by its owner.
        let exposed = if about.uid() == 0 { 0o037 } else { 0o077 };
        if about.mode() & exposed != 0 {
            return Err(unusable(&format_args!("others may read it (mode {:o}); chmod 600", about.mode() & 0o777)));
        }
        let text = servanda_files::read(&self.key, FILE_BYTES_MAX).map_err(|error| unusable(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| unusable(&error))?;
        Ok((certificates, key))
    }
}

/// The certificates of a PEM file; a file without any is an error.
fn certificates(parameter: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFailure> {
    let unusable = |error: rustls::pki_types::pem::Error| TlsFailure::file(parameter, path, &error);
    let text = servanda_files::read(path, FILE_BYTES_MAX).map_err(|error| TlsFailure::file(parameter, path, &error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(unusable)?;
    if found.is_empty() {
        return Err(TlsFailure::file(parameter, path, &"it has no certificate in PEM"));
    }
    Ok(found)
}
