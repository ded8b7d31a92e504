//! What people may type about logins.

use clap::Args;

/// `login`.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The upstream, by its id in the configuration.
    #[arg(value_name = "UPSTREAM")]
    pub upstream: String,
    /// For whom; the local user if not said.
    #[arg(long, value_name = "TENANT/NAME", value_parser = user)]
    pub user: Option<(String, String)>,
    /// A scope to ask for; may be given more than once. If not said, what the upstream says it needs.
    #[arg(long, value_name = "SCOPE")]
    pub scope: Vec<String>,
    /// The port on this machine that the browser comes back to; a free one if not said.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// How long to wait for the browser, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 600_000)]
    pub timeout_ms: u64,
}

/// `logout`.
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The upstream, by its id in the configuration.
    #[arg(value_name = "UPSTREAM")]
    pub upstream: String,
    /// For whom; the local user if not said.
    #[arg(long, value_name = "TENANT/NAME", value_parser = user)]
    pub user: Option<(String, String)>,
}

fn user(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('/').filter(|(tenant, name)| !tenant.is_empty() && !name.is_empty());
    named.map(|(tenant, name)| (tenant.to_owned(), name.to_owned())).ok_or_else(|| "write it like acme/ada".to_owned())
}
