//! TLS to a real PostgreSQL, with certificates made for the test: what is accepted, what is refused and with
//! which message, and the suite over an encrypted connection. One test function, because a cluster costs more
//! than a case.

use super::{calls, cluster::Cluster, effects, kept::Kept};
use crate::{Ledger, LedgerError, TlsFailure, postgres};

/// Certificates: two issuers; the first one issued a server's, an expired server's and two clients'. The server
/// does not know the second issuer. The expired certificate ended in 2021.
const CERTIFICATES: &str = r#"
issuer() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.pem -days 2 -subj "/CN=$1"; }
signed() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $2.key -out $2.csr -subj "/CN=$3"
    printf "basicConstraints=CA:FALSE\n$4\n" > $2.ext
    touch index.txt; rm -f index.txt*; touch index.txt; echo 'unique_subject = no' > index.txt.attr
    printf "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\nrand_serial=yes\n[p]\ncommonName=supplied\n" > ca.cnf
    openssl ca -batch -config ca.cnf -cert $1.pem -keyfile $1.key -in $2.csr -out $2.pem -notext -extfile $2.ext $5
}
set -e
mkdir certificates && cd certificates
issuer trusted; issuer other
signed trusted server db "subjectAltName=DNS:localhost" "-days 2"
signed trusted expired db "subjectAltName=DNS:localhost" "-startdate 20200101000000Z -enddate 20210101000000Z"
signed trusted client servanda "" "-days 2"
signed other stranger servanda "" "-days 2"
chmod 600 *.key
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgresql_over_tls() {
    let Some(cluster) = Cluster::prepare_with_tcp() else { return };
    cluster.run_shell(&format!("{{ {CERTIFICATES} }} 2>&1"));
    cluster.start_server("primary");
    a_server_without_tls_is_refused(&cluster).await;
    show(&cluster, "server");
    what_is_checked(&cluster).await;
    channels_are_bound(&cluster).await;
    client_certificates(&cluster).await;
    the_suite(&cluster).await;
    show(&cluster, "expired");
    assert!(matches!(refused(&cluster, "sslmode=verify-full").await, TlsFailure::Expired));
    assert!(matches!(refused(&cluster, "sslmode=verify-ca").await, TlsFailure::Expired));
    show(&cluster, "trusted");
    assert!(matches!(refused(&cluster, "sslmode=verify-full").await, TlsFailure::IssuerAsServer));
}

async fn a_server_without_tls_is_refused(cluster: &Cluster) {
    let failure = refused(cluster, "sslmode=require").await;
    assert_eq!(failure, TlsFailure::NotOffered);
    assert!(failure.hint().contains("ssl = on"), "{}", failure.hint());
    connects(&url(cluster, "localhost", "sslmode=disable")).await;
}

async fn what_is_checked(cluster: &Cluster) {
    let (trusted, other) = (root(cluster, "trusted"), root(cluster, "other"));
    for mode in ["verify-full", "require", "verify-ca"] {
        connects(&url(cluster, "localhost", &format!("sslmode={mode}&{trusted}"))).await;
        let TlsFailure::UnknownIssuer { trusted } = refused(cluster, &format!("sslmode={mode}&{other}")).await else {
            panic!("{mode}: another issuer's certificate passed")
        };
        assert!(trusted.contains("other.pem"), "{trusted}");
    }
    // The issuer is a private one that this machine does not know.
    let unknown_here = refused_at(&url(cluster, "localhost", "sslmode=require")).await;
    let untrusted = matches!(&unknown_here, TlsFailure::UnknownIssuer { .. } | TlsFailure::NoSystemRoots);
    assert!(untrusted, "{unknown_here}");
    // The certificate is for `localhost`, not for the address.
    for mode in ["verify-full", "require"] {
        let by_address = url(cluster, "127.0.0.1", &format!("sslmode={mode}&{trusted}"));
        let TlsFailure::OtherName { expected, presented } = refused_at(&by_address).await else {
            panic!("{mode}: another host's certificate passed")
        };
        assert!(expected == "127.0.0.1" && presented.contains("localhost"), "{expected}, {presented}");
    }
    connects(&url(cluster, "127.0.0.1", &format!("sslmode=verify-ca&{trusted}"))).await;
    connects(&url(cluster, "127.0.0.1", "sslmode=no-verify")).await;
    let missing = refused_at(&url(cluster, "localhost", "sslmode=require&sslrootcert=/no/such/file.pem")).await;
    assert!(matches!(&missing, TlsFailure::File { parameter: "sslrootcert", .. }), "{missing}");
}

/// A password is proven on the checked channel, and on no other.
async fn channels_are_bound(cluster: &Cluster) {
    cluster.sql("create role bound login superuser password 'secret'").await;
    let hba = format!("{}/pg_hba.conf", cluster.data("primary"));
    cluster.run_shell(&format!("sed -i '1i host all bound 127.0.0.1/32 scram-sha-256' {hba}"));
    restart(cluster);
    let as_bound = |parameters: String| url(cluster, "bound:secret@localhost", &parameters);
    let trusted = root(cluster, "trusted");
    connects(&as_bound(format!("sslmode=verify-full&{trusted}&channel_binding=require"))).await;
    connects(&as_bound(format!("sslmode=verify-full&{trusted}"))).await;
    let plain = Ledger::connect(&as_bound("sslmode=disable&channel_binding=require".to_owned())).await.unwrap_err();
    assert!(matches!(plain, LedgerError::Connect { .. }), "{plain}");
}

async fn client_certificates(cluster: &Cluster) {
    let hba = format!("{}/pg_hba.conf", cluster.data("primary"));
    let known = cluster.folder().join("certificates/trusted.pem");
    let config = format!("{}/postgresql.conf", cluster.data("primary"));
    cluster.run_shell(&format!(
        "cp {hba} {hba}.before; sed -i '1i hostssl all servanda 127.0.0.1/32 trust clientcert=verify-full' {hba}; \
         echo \"ssl_ca_file = '{}'\" >> {config}",
        known.display()
    ));
    restart(cluster);
    let trusted = root(cluster, "trusted");
    let shown = |name: &str| {
        let file = |ending: &str| cluster.folder().join(format!("certificates/{name}.{ending}")).display().to_string();
        format!("sslmode=verify-full&{trusted}&sslcert={}&sslkey={}", file("pem"), file("key"))
    };
    connects(&url(cluster, "localhost", &shown("client"))).await;
    for parameters in [shown("stranger"), format!("sslmode=verify-full&{trusted}")] {
        let failure = refused_at(&url(cluster, "localhost", &parameters)).await;
        assert!(matches!(&failure, TlsFailure::ClientCertificate(_)), "{parameters}: {failure}");
    }
    cluster.run_shell("chmod 644 certificates/client.key");
    let exposed = refused_at(&url(cluster, "localhost", &shown("client"))).await;
    assert!(matches!(&exposed, TlsFailure::File { parameter: "sslkey", .. }), "{exposed}");
    assert!(exposed.to_string().contains("others may read it"), "{exposed}");
    cluster.run_shell(&format!("mv {hba}.before {hba}"));
    restart(cluster);
}

/// The suite passes over TLS as well, and every connection of a ledger is encrypted.
async fn the_suite(cluster: &Cluster) {
    for (name, case) in effects::CASES.iter().chain(calls::CASES) {
        println!("{name}");
        let schema = cluster.schema().await;
        let schema = schema.rsplit("%3D").next().unwrap();
        let parameters = format!("{}&options=-csearch_path%3D{schema}", root(cluster, "trusted"));
        case(Kept::in_server(url(cluster, "localhost", &format!("sslmode=verify-full&{parameters}"))).await).await;
    }
}

/// Sets the certificate that the server presents from now on.
fn show(cluster: &Cluster, name: &str) {
    let certificates = cluster.folder().join("certificates").display().to_string();
    let settings =
        format!("ssl = on\nssl_cert_file = '{certificates}/{name}.pem'\nssl_key_file = '{certificates}/{name}.key'");
    cluster.run_shell(&format!("echo \"{settings}\" >> {}/postgresql.conf", cluster.data("primary")));
    restart(cluster);
}

fn restart(cluster: &Cluster) {
    cluster.crash("primary");
    cluster.start_server("primary");
}

fn root(cluster: &Cluster, name: &str) -> String {
    format!("sslrootcert={}", cluster.folder().join(format!("certificates/{name}.pem")).display())
}

/// The URL by TCP. `host` may have a user before it.
fn url(cluster: &Cluster, host: &str, parameters: &str) -> String {
    let user = if host.contains('@') { "" } else { "servanda@" };
    format!("postgres://{user}{host}:{}/postgres?hostaddr=127.0.0.1&{parameters}", cluster.port())
}

/// Connects, and checks that TLS is used if and only if the URL asks for it.
async fn connects(url: &str) {
    let encrypted = postgres::is_encrypted(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    assert_eq!(encrypted, !url.contains("sslmode=disable"), "{url}");
}

/// Why connecting by host name fails. If no issuer is named, the one that issued the server's certificate is
/// added.
async fn refused(cluster: &Cluster, parameters: &str) -> TlsFailure {
    let issuer =
        if parameters.contains("sslrootcert") { String::new() } else { format!("&{}", root(cluster, "trusted")) };
    refused_at(&url(cluster, "localhost", &format!("{parameters}{issuer}"))).await
}

async fn refused_at(url: &str) -> TlsFailure {
    match Ledger::connect(url).await {
        Err(LedgerError::Tls { failure, .. }) => failure,
        other => panic!("{url}: {other:?}"),
    }
}
