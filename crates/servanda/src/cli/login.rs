//! The arguments of `login` and `logout`.

use clap::Args;

/// `login`.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The upstream, by its id in the configuration.
    #[arg(value_name = "UPSTREAM")]
    pub upstream: String,
    /// The user to log in; the local user by default.
    #[arg(long, value_name = "TENANT/NAME", value_parser = user)]
    pub user: Option<(String, String)>,
    /// A scope to ask for; may be given more than once. By default, the scopes that the upstream says it needs.
    #[arg(long, value_name = "SCOPE")]
    pub scope: Vec<String>,
    /// The port on this machine that the browser returns to; a free port by default.
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
    /// The user to log out; the local user by default.
    #[arg(long, value_name = "TENANT/NAME", value_parser = user)]
    pub user: Option<(String, String)>,
}

fn user(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('/').filter(|(tenant, name)| !tenant.is_empty() && !name.is_empty());
    named.map(|(tenant, name)| (tenant.to_owned(), name.to_owned())).ok_or_else(|| "write it like acme/ada".to_owned())
}
