//! The command line of access: keys, delegation, revocation.

use clap::{Args, Subcommand};

/// `keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    /// What to do; without it, the keys are listed.
    #[command(subcommand)]
    pub command: Option<KeysCommand>,
}

/// What to do about API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make an API key; it is printed once and kept only as a hash
    Create(Box<KeyCreateArgs>),
    /// List the keys: owner, rights and expiry of each
    List,
    /// Make a new root key for agent credentials; older credentials stay valid until they expire, a day at most
    Rotate,
    /// Revoke a key, and everything that was delegated from it
    Revoke {
        /// The key's id, or the beginning of it.
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// `passkeys`.
#[derive(Debug, Args)]
pub(crate) struct PasskeysArgs {
    /// What to do; without it, the passkeys are listed.
    #[command(subcommand)]
    pub command: Option<PasskeysCommand>,
}

/// What to do about people's passkeys.
#[derive(Debug, Subcommand)]
pub(crate) enum PasskeysCommand {
    /// List the passkeys: whose each is, where it is used, and under which key it was registered
    List,
    /// Print the public keys of a person's passkeys, as `approvals verify --passkey` takes them
    Show {
        /// The person, or a passkey's id or the beginning of it.
        #[arg(value_name = "TENANT/PERSON")]
        whose: String,
    },
    /// Revoke a passkey: it signs nothing more, and the sessions that it opened end
    Revoke {
        /// The passkey's id, or the beginning of it.
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// `keys create`.
#[derive(Debug, Args)]
pub(crate) struct KeyCreateArgs {
    /// The tenant that the key is for.
    #[arg(long, value_name = "TENANT")]
    pub tenant: String,
    /// The principal that the key stands for.
    #[arg(long, value_name = "PRINCIPAL")]
    pub principal: String,
    /// What it is for, in your words.
    #[arg(long, value_name = "TEXT")]
    pub label: String,
    /// A group that the principal is in; may be given more than once.
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// When it ends: 12h, 30d; a year at most.
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub expires: String,
    #[command(flatten)]
    pub rights: RightsArgs,
}

/// The rights of a credential. A kind of right that is not given is not limited, except scopes.
#[derive(Debug, Args)]
pub(crate) struct RightsArgs {
    /// A scope that it has; may be given more than once.
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Tools that it is for, by contract names: `company.void_invoice`, `company.*`; may be given more than once.
    #[arg(long = "tool", value_name = "PATTERN")]
    pub tools: Vec<String>,
    /// Resources that its calls may touch: invoice/123, invoice/*; may be given more than once.
    #[arg(long = "resource", value_name = "PATTERN")]
    pub resources: Vec<String>,
    /// The gravest class of calls allowed: `READ_ONLY`, `EPHEMERAL_WRITE`, `LOW_RISK_INTERNAL`, `MEDIUM_RISK_WRITE`, `HIGH_RISK_EXTERNAL`
    /// or `CRITICAL_MUTATION`.
    #[arg(long, value_name = "CLASS")]
    pub ceiling: Option<String>,
    /// The total budget: `read=100,write=5,external=1,financial_micros=2000000,critical=0`.
    #[arg(long, value_name = "LIMITS")]
    pub budget: Option<String>,
}

/// `delegate`.
#[derive(Debug, Args)]
pub(crate) struct DelegateArgs {
    /// The agent that will act.
    #[arg(long, value_name = "NAME", required_unless_present = "offline")]
    pub agent: Option<String>,
    /// The user's tenant, if you grant as the operator, without a credential of the user.
    #[arg(long, value_name = "TENANT", requires = "principal", conflicts_with = "offline")]
    pub tenant: Option<String>,
    /// The user.
    #[arg(long, value_name = "PRINCIPAL", requires = "tenant")]
    pub principal: Option<String>,
    /// A group that the user is in; may be given more than once.
    #[arg(long = "group", value_name = "GROUP", requires = "tenant")]
    pub groups: Vec<String>,
    /// How long it is valid: 15m, 1h; a day at most, and never longer than its parent. By default an hour; offline, as long as its parent.
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<String>,
    /// How many more times it may be delegated.
    #[arg(long, value_name = "NUMBER")]
    pub depth: Option<u8>,
    /// Narrow an agent credential here, without the ledger. The credential itself is enough for that.
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    pub rights: RightsArgs,
}

/// `revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The credential's id, as `servanda explain` and `servanda keys list` show it: key:…, agent:…, token:… or oidc:…; for a key, `key:` may be
    /// left out.
    #[arg(value_name = "CREDENTIAL_ID", required_unless_present = "jti", conflicts_with = "jti")]
    pub credential: Option<String>,
    /// The `jti` of an access token.
    #[arg(long, value_name = "JTI", requires = "issuer")]
    pub jti: Option<String>,
    /// Its issuer.
    #[arg(long, value_name = "ISSUER", requires = "jti")]
    pub issuer: Option<String>,
}
