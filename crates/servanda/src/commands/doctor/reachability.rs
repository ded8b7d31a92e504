//! Finds out why a host cannot be reached, and names host, port and cause. "Cannot connect" alone does not tell a wrong name from a closed
//! port or a service that refuses.

use std::{io, time::Duration};

use tokio::net::TcpStream;

/// How long a connection may take to come about.
const CONNECT_MS_MAX: u64 = 3_000;

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostAndPort {
    host: String,
    port: u16,
}

impl HostAndPort {
    /// Reads a URL; none if it names no host, for example a socket file. The part that may hold a password is not read.
    pub(super) fn from_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // With several hosts, the first is tried.
        let first = authority.rsplit('@').next().unwrap_or_default().split(',').next().unwrap_or_default();
        let default = match scheme {
            "https" => 443,
            "http" => 80,
            "postgres" | "postgresql" => 5_432,
            _ => return None,
        };
        let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match first.rsplit_once(':').filter(|(_, port)| is_port(port)) {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (first, default),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty() && !host.starts_with('%')).then(|| Self { host: host.to_owned(), port })
    }

    /// The cause, with the error message of the failed connection.
    pub(super) async fn explain(&self, says: &str) -> String {
        let place = self.to_string();
        let found = match self.cause().await {
            None => "it takes connections, so the other end refused or broke off".to_owned(),
            Some(cause) => cause,
        };
        let named = if says.contains(&place) { String::new() } else { format!("{place}: ") };
        format!("{named}{says} ({place}: {found})")
    }

    /// Why no connection can be made; none if it can.
    pub(super) async fn cause(&self) -> Option<String> {
        let place = (self.host.as_str(), self.port);
        if let Err(error) = tokio::net::lookup_host(place).await {
            return Some(format!("the host `{}` is not known: {error}", self.host));
        }
        let connecting = tokio::time::timeout(Duration::from_millis(CONNECT_MS_MAX), TcpStream::connect(place)).await;
        match connecting {
            Ok(Ok(_)) => None,
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Some(format!("nothing listens on port {} there (connection refused)", self.port))
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => {
                Some(format!("no answer within {} s: it is down, or a firewall is in between", CONNECT_MS_MAX / 1_000))
            }
        }
    }
}

impl std::fmt::Display for HostAndPort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(formatter, "[{host}]:{port}") } else { write!(formatter, "{host}:{port}") }
    }
}

/// What is wrong, with host, port and cause if the URL is known.
pub(super) async fn explained(url: Option<&str>, says: &str) -> String {
    match url.and_then(HostAndPort::from_url) {
        Some(endpoint) => endpoint.explain(says).await,
        None => says.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::HostAndPort;

    #[test]
    fn urls_name_their_host_and_port_and_never_a_password() {
        let table = [
            ("http://127.0.0.1:9/mcp", Some("127.0.0.1:9")),
            ("https://ada:s3cret@mcp.example/x?y=z", Some("mcp.example:443")),
            ("http://[::1]:8080/mcp", Some("[::1]:8080")),
            ("postgres://ada:p@ss:w0rd@db:6543/servanda", Some("db:6543")),
            ("postgresql://db1,db2/servanda", Some("db1:5432")),
            ("postgres:///servanda?host=/run/postgresql", None),
            ("postgres://%2Frun%2Fpostgresql/servanda", None),
            ("stdio", None),
        ];
        for (url, expected) in table {
            assert_eq!(HostAndPort::from_url(url).map(|endpoint| endpoint.to_string()).as_deref(), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn the_cause_is_named() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let endpoint = HostAndPort { host: "127.0.0.1".to_owned(), port };
        assert_eq!(endpoint.cause().await, None);
        drop(listener);
        let told = endpoint.explain("no").await;
        assert!(told.starts_with(&format!("127.0.0.1:{port}: no (")) && told.contains("refused"), "{told}");
        let unknown = HostAndPort { host: "no-such-host.invalid".to_owned(), port: 1 };
        assert!(unknown.cause().await.unwrap().contains("`no-such-host.invalid` is not known"));
    }
}
