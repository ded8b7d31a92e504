//! What the address parser makes of URLs and `keyword=value` pairs.

use super::{CertificateChecks, ClientIdentity, PostgresAddress, TlsRequirements, TlsTrustedRoots};
use crate::LedgerError;

const CHECKED: TlsRequirements =
    TlsRequirements { checks: CertificateChecks::IssuerAndName, roots: TlsTrustedRoots::System, identity: None };

#[test]
fn tls_is_checked_between_machines_and_optional_on_this_one() {
    let from = |path: &str| TlsTrustedRoots::File(path.into());
    let identity = Some(ClientIdentity { certificate: "/c/client.pem".into(), key: "/c/client.key".into() });
    let table = [
        ("postgres://ada:pw@localhost/x", None),
        ("postgres://ada:pw@127.0.0.1/x?sslmode=prefer", None),
        ("postgres:///x?host=%2Frun%2Fpostgresql", None),
        ("postgres://ada:pw@db.example.com/x?sslmode=disable", None),
        ("postgres://ada:pw@db.example.com/x", Some(CHECKED)),
        ("postgres://ada:pw@localhost/x?sslmode=require", Some(CHECKED)),
        ("postgres://ada:pw@db.example.com/x?sslmode=require&sslrootcert=system", Some(CHECKED)),
        ("postgres://ada:p?w@db.example.com/x?sslmode=verify-full", Some(CHECKED)),
        (
            "postgres://db/x?sslmode=verify-ca&sslrootcert=%2Fc%2Fca.pem&user=ada",
            Some(TlsRequirements { checks: CertificateChecks::Issuer, roots: from("/c/ca.pem"), ..CHECKED }),
        ),
        ("postgres://db/x?sslmode=no-verify", Some(TlsRequirements { checks: CertificateChecks::Nothing, ..CHECKED })),
        (
            "postgres://db/x?sslrootcert=/c/ca.pem&sslcert=/c/client.pem&sslkey=/c/client.key",
            Some(TlsRequirements { roots: from("/c/ca.pem"), identity: identity.clone(), ..CHECKED }),
        ),
        ("host=localhost user=ada", None),
        ("host=db user=ada sslmode = 'verify-full'  sslrootcert='/c/it\\'s.pem' dbname=x", {
            Some(TlsRequirements { roots: from("/c/it's.pem"), ..CHECKED })
        }),
    ];
    for (text, tls) in table {
        let address = PostgresAddress::read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(address.tls, tls, "{text}");
    }
}

#[test]
fn parameters_other_than_tls_reach_the_driver() {
    for text in [
        "postgres://ada:p%40w@db:5433/x?sslmode=require&application_name=a%20b&options=-csearch_path%3Ds",
        "user=ada password='p@w' sslmode=require host=db port=5433 application_name='a b' dbname=x options=-csearch_path=s",
    ] {
        let config = PostgresAddress::read(text).unwrap().config;
        assert_eq!(config.get_user(), Some("ada"));
        assert_eq!(config.get_password(), Some(&b"p@w"[..]));
        assert_eq!((config.get_dbname(), config.get_ports()), (Some("x"), &[5433][..]));
        assert_eq!(config.get_application_name(), Some("a b"));
        assert_eq!(config.get_options(), Some("-csearch_path=s"));
        assert_eq!(config.get_ssl_mode(), tokio_postgres::config::SslMode::Require);
    }
    let by_address = PostgresAddress::read("postgres:///x?hostaddr=10.0.0.1").unwrap().config;
    assert_eq!(by_address.get_hosts(), [tokio_postgres::config::Host::Tcp("10.0.0.1".to_owned())]);
}

#[test]
fn a_text_that_would_protect_less_than_it_says_is_refused_without_repeating_a_secret() {
    let table = [
        ("postgres://u:hunter2@10.0.0.1/x?sslmode=prefer", "let the server choose"),
        ("postgres://u:hunter2@10.0.0.1/x?sslmode=allow", "let the server choose"),
        ("postgres://u:hunter2@localhost/x?sslmode=verify_full", "is one of disable"),
        ("postgres://u:hunter2@localhost/x?sslmode=hunter2", "is one of disable"),
        ("postgres://u:hunter2@localhost/x?sslrootcert=/c/ca.pem", "would go without TLS"),
        ("postgres://u:hunter2@db/x?sslmode=disable&sslcert=/c/a.pem", "would go without TLS"),
        ("postgres://u:hunter2@db/x?sslrootcert=ca.pem", "`sslrootcert` is not an absolute path"),
        ("postgres://u:hunter2@db/x?sslcert=/c/a.pem", "belong together"),
        ("postgres://u:hunter2@db/x?sslmode=no-verify&sslrootcert=/c/ca.pem", "leave one of them out"),
        ("postgres:///x?host=/run/postgresql&sslmode=require", "Unix socket"),
        ("postgres://u:hunter2@db/x?sslpassword=hunter2", "`sslpassword` is not supported"),
        ("host=db password=hunter2 sslcrl=/c/crl.pem", "`sslcrl` is not supported"),
        ("postgres://u:hunter2@localhost:99999/x", "unknown option"),
        ("host=db password='hunter2", "unknown option"),
        ("not a url hunter2", "unknown option"),
    ];
    for (text, says) in table {
        let error = PostgresAddress::read(text).unwrap_err();
        assert!(matches!(error, LedgerError::Url(_)) && error.to_string().contains(says), "{text}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
