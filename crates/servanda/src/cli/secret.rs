//! The arguments of `secret`. A secret's value is never an argument: other users can see command lines, and shells keep them.

use clap::{Args, Subcommand};

/// `secret`.
#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// What to do; without it, the secrets are listed.
    #[command(subcommand)]
    pub command: Option<SecretCommand>,
}

/// What to do about secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set a secret in the encrypted store; its value is read from stdin, or from a prompt that does not show it
    Set {
        /// The secret's name: letters, digits, `.`, `-` and `_`.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the secrets: when each was set and which upstreams get it, never its value
    List,
    /// Remove a secret from the encrypted store
    Rm {
        /// The secret's name.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the public key that verifies statements about calls, as a JWK set
    Jwks,
}
