//! Finds out which TLS failure the driver, rustls or a file reports.

use std::{error::Error, fmt, path::Path};

use rustls::CertificateError;

use super::TlsRequirements;
use crate::tls_failure::TlsFailure;

impl TlsFailure {
    pub(super) fn file(parameter: &'static str, path: &Path, reason: &dyn fmt::Display) -> Self {
        Self::File { parameter, path: path.display().to_string(), reason: reason.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
    pub(super) fn handshake(error: rustls::Error) -> Self {
        Self::Handshake(error.to_string())
    }

    /// Why an attempt to connect failed, if TLS was the reason.
    pub(in crate::postgres) fn from_connect_error(
        error: &tokio_postgres::Error,
        terms: &TlsRequirements,
    ) -> Option<Self> {
        let client_certificate =
            |error: &&tokio_postgres::error::DbError| error.message().contains("client certificate");
        if let Some(said) = error.as_db_error().filter(client_certificate) {
            return Some(Self::ClientCertificate(said.message().to_owned()));
        }
        let source = error.source()?;
        if source.to_string() == "server does not support TLS" {
            return Some(Self::NotOffered);
        }
        let inside = source.downcast_ref::<std::io::Error>()?.get_ref()?;
        Some(Self::from_rustls(inside.downcast_ref::<rustls::Error>()?, terms))
    }

    fn from_rustls(error: &rustls::Error, terms: &TlsRequirements) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::from_certificate_error(error, terms),
            // With TLS 1.3 a server that does not accept the client says so after the handshake.
            rustls::Error::AlertReceived(alert) => Self::ClientCertificate(format!("{alert:?}")),
            other => Self::Handshake(other.to_string()),
        }
    }

    fn from_certificate_error(error: &CertificateError, terms: &TlsRequirements) -> Self {
        match error {
            CertificateError::UnknownIssuer => Self::UnknownIssuer { trusted: terms.roots.in_words() },
            CertificateError::NotValidForNameContext { expected, presented } => {
                let presented = if presented.is_empty() { "no host".to_owned() } else { presented.join(", ") };
                Self::OtherName { expected: expected.to_str().into_owned(), presented }
            }
            CertificateError::NotValidForName => {
                Self::OtherName { expected: "the host".to_owned(), presented: "another".to_owned() }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => Self::IssuerAsServer,
            other => Self::Handshake(format!("the server's certificate cannot be used: {other}")),
        }
    }
}
