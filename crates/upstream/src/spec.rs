//! Which server an upstream is, and its limits. Plain values: the configuration supplies them, and no default here is a secret.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// The upstream's name in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UpstreamName(pub String);

/// One configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamSpec {
    /// Its name.
    pub id: UpstreamName,
    /// How it is reached.
    pub transport: Transport,
    /// Its limits.
    pub limits: UpstreamLimits,
}

/// How a server is reached. `Debug` shows no values of environment variables and headers.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks MCP on its standard streams. No shell is involved.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables set for it.
        env: BTreeMap<String, String>,
        /// The gateway's own environment variables that it inherits besides the baseline (`PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`,
        /// `LANG`, `LC_ALL`, `LC_CTYPE`, `TERM`, `TMPDIR`, `TZ`). It inherits nothing else.
        env_pass: Vec<String>,
        /// Its working directory; the gateway's if none.
        cwd: Option<PathBuf>,
    },
    /// A Streamable HTTP endpoint. Redirects are not followed and proxies from the environment are not used.
    Http {
        /// The endpoint.
        url: String,
        /// Headers sent with every request.
        headers: BTreeMap<String, String>,
    },
}

/// Limits for one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// The longest single message it may send.
    pub message_bytes_max: usize,
    /// How long starting it and the handshake may take, and each page of its tool list.
    pub connect_ms_max: u64,
    /// How long it may take to show that it speaks the modern protocol. After that the gateway takes it for a legacy server.
    pub probe_ms_max: u64,
    /// The pause before the third start after two quick deaths; it doubles with each further one.
    pub restart_backoff_ms: u64,
    /// The longest pause.
    pub restart_backoff_ms_max: u64,
    /// How many requests may wait for its answers on one connection. On a connection that users share, one principal may use a quarter of
    /// them and one tenant three quarters. In local mode all callers are one principal, which may use them all.
    pub in_flight_max: usize,
    /// How many pages its tool list may have.
    pub pages_max: usize,
    /// How many tools its list may have.
    pub tools_max: usize,
    /// How many connections to a legacy server may be open for requesters that can be asked something. One principal may use a quarter of
    /// them and one tenant three quarters; in local mode, one client a quarter.
    pub connections_max: usize,
    /// How long such a connection is kept without a request.
    pub connection_idle_ms_max: u64,
    /// How long a client may take to answer one of the server's questions.
    pub input_ms_max: u64,
    /// How many of its resources, and how many of its tasks, may be watched.
    pub watches_max: usize,
    /// How many late answers the gateway waits for at once.
    pub late_answers_max: usize,
    /// How long the gateway waits for an answer after the call's deadline.
    pub late_answer_ms_max: u64,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 16 * 1024 * 1024,
            connect_ms_max: 60_000,
            probe_ms_max: 30_000,
            restart_backoff_ms: 200,
            restart_backoff_ms_max: 30_000,
            in_flight_max: 256,
            pages_max: 1_000,
            tools_max: 10_000,
            connections_max: 32,
            connection_idle_ms_max: 5 * 60 * 1_000,
            input_ms_max: 10 * 60 * 1_000,
            watches_max: 1_024,
            late_answers_max: 64,
            late_answer_ms_max: 5 * 60 * 1_000,
        }
    }
}

impl UpstreamName {
    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UpstreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&str> for UpstreamName {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, env_pass, cwd } => formatter
                .debug_struct("Stdio")
                .field("command", command)
                .field("args_count", &args.len())
                .field("env_names", &env.keys().collect::<Vec<_>>())
                .field("env_pass", env_pass)
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, headers } => formatter
                .debug_struct("Http")
                .field("url", &address_of(url))
                .field("header_names", &headers.keys().collect::<Vec<_>>())
                .finish(),
        }
    }
}

/// Scheme, host and path of a URL. User information and query are left out because they may be secret.
pub(crate) fn address_of(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(url) => {
            let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
            format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or("?"), url.path())
        }
        Err(_) => "an invalid URL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_values() {
        let stdio = Transport::Stdio {
            command: "server".to_owned(),
            args: vec!["--token=s3cret".to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]),
            env_pass: Vec::new(),
            cwd: None,
        };
        let http = Transport::Http {
            url: "https://user:s3cret@example.test:8443/mcp?key=s3cret".to_owned(),
            headers: BTreeMap::from([("authorization".to_owned(), "Bearer s3cret".to_owned())]),
        };
        let shown = format!("{stdio:?} {http:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("https://example.test:8443/mcp"), "{shown}");
        assert!(shown.contains("TOKEN"), "{shown}");
    }
}
