//! `servanda secret`: what may be typed. The value of a secret is nothing that can be: command lines are seen by others and
//! kept by shells.

use clap::{Args, Subcommand};

/// `secret`.
#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// What to do; without it, they are listed.
    #[command(subcommand)]
    pub command: Option<SecretCommand>,
}

/// What to do about secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set a secret in the encrypted store; its value is read from stdin, or asked for without showing it
    Set {
        /// What it is called: letters, digits, `.`, `-` and `_`.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the secrets: when each was set and which upstreams are shown it, never what it is
    List,
    /// Remove a secret from the encrypted store
    Rm {
        /// What it is called.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the public key of the statements about calls, as a JWK set
    Jwks,
}
