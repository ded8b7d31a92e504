//! Why TLS to the database failed, and what to do about it, for the operator who reads the error.
//!
//! Deliberately not here: finding out which failure it is, which the PostgreSQL store does.

/// Why TLS to the database failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsFailure {
    /// The server does not offer TLS.
    #[error("the server does not speak TLS")]
    NotOffered,
    /// No trusted authority issued the server's certificate.
    #[error("the server's certificate was not issued by {trusted}")]
    UnknownIssuer {
        /// The issuers that are trusted.
        trusted: String,
    },
    /// The certificate was issued for another host.
    #[error("the server's certificate is not for {expected}, it is for {presented}")]
    OtherName {
        /// The host of the connection.
        expected: String,
        /// The hosts of the certificate.
        presented: String,
    },
    /// The certificate has expired.
    #[error("the server's certificate has expired")]
    Expired,
    /// The certificate is not valid yet.
    #[error("the server's certificate is not valid yet")]
    NotYetValid,
    /// The server presents an issuer's certificate as its own.
    #[error("the server's certificate is an issuer's own certificate and cannot be a server's")]
    IssuerAsServer,
    /// The server requires a client certificate, or another one than it was given.
    #[error("the server did not accept the client's certificate: {0}")]
    ClientCertificate(String),
    /// This machine trusts no issuer at all.
    #[error("this machine has no certificates of issuers that it trusts")]
    NoSystemRoots,
    /// A file of certificates or keys cannot be used.
    #[error("`{path}` ({parameter}) cannot be used: {reason}")]
    File {
        /// The parameter that names the file.
        parameter: &'static str,
        /// Where it is.
        path: String,
        /// Why.
        reason: String,
    },
    /// Anything else.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
}

impl TlsFailure {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOffered => {
                "set `ssl = on` and a certificate in the server's postgresql.conf, or say `sslmode=disable` if the network \
                 is trusted"
            }
            Self::UnknownIssuer { .. } => {
                "name the issuer's certificate: `sslrootcert=/path/ca.pem` in the URL; `openssl s_client -starttls postgres \
                 -connect HOST:5432` shows who issued the server's"
            }
            Self::OtherName { .. } => {
                "connect by a name of the certificate (its subjectAltName; a common name alone does not count), or say \
                 `sslmode=verify-ca` if any server of that issuer will do"
            }
            Self::Expired => "renew the server's certificate and reload PostgreSQL; check this machine's clock",
            Self::NotYetValid => "check the clocks of both machines",
            Self::IssuerAsServer => {
                "make a certificate for the server, signed by the issuer, with `basicConstraints=CA:FALSE` and the host's \
                 name in subjectAltName"
            }
            Self::ClientCertificate(_) => {
                "name a certificate that the server's `ssl_ca_file` trusts: `sslcert=/path/client.pem&sslkey=/path/client.key`"
            }
            Self::NoSystemRoots => {
                "install the system's certificates (ca-certificates), or name the issuer's: `sslrootcert=/path/ca.pem`"
            }
            Self::File { .. } => {
                "use a PEM file that this user can read; only its owner may read a key file (`chmod 600`)"
            }
            Self::Handshake(_) => "the server's log says more; PostgreSQL writes it with `log_connections = on`",
        }
    }
}
