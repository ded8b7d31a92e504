//! The configuration: one YAML file, `servanda.yaml`, read whole or not at all, and the settings that it means for every crate. An error
//! names file, line and field.
//!
//! Deliberately absent: connecting and serving with these settings, and messages to a person. An error says what is wrong; the binary says
//! what to do next. Permissions that were repaired on the way are returned, not printed.

mod approval_webhooks;
mod approvals;
mod audit;
mod auth;
mod budgets;
mod callbacks;
mod console;
mod credential;
mod error;
pub mod expansion;
mod expected;
pub mod ledger_place;
mod limits;
mod listen;
mod loaded;
mod log;
mod naming;
mod oauth;
mod pins;
mod policy;
mod retention;
pub mod state_folder;
mod telemetry;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_catalog::names::{self, ExposedNaming, NamePolicy};
use servanda_contract::{
    document::{self, DocumentError},
    expectation::Expectations,
    layers::Defaults,
};
use servanda_engine::LONG_WAIT_MS_MAX;
use servanda_gates::budget::Allowance;

pub use approval_webhooks::{ApprovalWebhookConfig, NoticeTrigger, WebhookFormatConfig};
pub use approvals::{ApprovalsConfig, EscalationConfig, PatternConfig};
pub use audit::AuditConfig;
pub use auth::{AuthConfig, AuthMode, IssuerConfig, TenantClaim, TenantConfig};
pub use budgets::BudgetConfig;
pub use callbacks::{CallbackConfig, CallbackTrigger, SigningSecretReference};
pub use console::{ConsoleConfig, OidcConfig, PeopleConfig, SignInConfig};
pub use credential::{CredentialConfig, NamedSecret, SecretPlace, StatementConfig};
pub use error::{CallbackFault, ConfigError};
pub use expected::{ExpectationConfig, TaskConfig};
pub use limits::{DRAIN_MS_MAX, DRAIN_MS_MIN, LimitsConfig};
pub use listen::{ListenError, parse_listen};
pub use loaded::LoadedConfig;
pub use log::{EventLevel, LogConfig, LogFormat};
pub use naming::{NameProfile, NameStyle};
pub use oauth::{ClientAuth, ExchangeConfig, KeyAlgorithm, OauthConfig, OauthFlow};
pub use pins::{AdditivePins, MissingPins, PinsConfig};
pub use policy::{BuiltIn, PolicyConfig, PolicyMode};
pub use retention::{KeptFor, LedgerLimitsConfig, RetentionConfig};
pub use telemetry::{MetricsConfig, TelemetryConfig, TraceProtocol, TracesConfig};

/// The field with an impossible value, and why.
pub(crate) type ConfigFieldFault = (String, String);

/// The version of the file's format.
pub(crate) const CONFIG_VERSION: u32 = 1;
/// The configuration's default path.
pub const CONFIG_FILE: &str = "servanda.yaml";
/// The pins of tools, beside the configuration.
pub const LOCK_FILE: &str = "servanda.lock";

/// The contents of `servanda.yaml`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The version of this file's format.
    pub servanda: u32,
    /// Where the HTTP door listens.
    #[serde(default = "default_listen")]
    pub listen: String,
    /// The folder of the contracts, relative to this file.
    #[serde(default = "default_contracts")]
    pub contracts: PathBuf,
    /// The ledger: a file, relative to this one, or the `postgres://` URL of a database that several gateways share; `${NAME}`
    /// stands for a variable of the environment.
    #[serde(default = "default_ledger")]
    pub ledger: String,
    /// The file that remembers the ledger's identity and position, relative to this one. By default it is beside this one and named like
    /// it, e.g. `servanda.position`. Never in the ledger's own folder: it must not be lost together with the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_file: Option<PathBuf>,
    /// How long the ledger keeps finished calls.
    #[serde(default, skip_serializing_if = "RetentionConfig::is_default")]
    pub retention: RetentionConfig,
    /// How large the ledger may become.
    #[serde(default, skip_serializing_if = "LedgerLimitsConfig::is_default")]
    pub ledger_limits: LedgerLimitsConfig,
    /// The verifiable log.
    #[serde(default, skip_serializing_if = "AuditConfig::is_default")]
    pub audit: AuditConfig,
    /// How tools are named towards agents.
    #[serde(default)]
    pub names: NameStyle,
    /// The provider whose limits tool names keep to: a name that is too long or has other characters gets a hash at its end. Tools that are
    /// renamed by a change of this are still found by their old names.
    #[serde(default, skip_serializing_if = "NameProfile::is_default")]
    pub name_profile: NameProfile,
    /// Defaults for contracts, unless the server's file or the tool's entry says otherwise: parts of a contract, and under `by_class` for
    /// tools of one side-effect class.
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    pub defaults: Defaults,
    /// The MCP servers behind the gateway, by id.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// What to do about tools whose definitions differ from those in `servanda.lock`.
    #[serde(default, skip_serializing_if = "PinsConfig::is_default")]
    pub pins: PinsConfig,
    /// The kinds of tools that a task may use, by the task's name. Clients name their task in `_meta["servanda/task"]`; an undeclared one
    /// is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, TaskConfig>,
    /// The kinds of tools that some calls may use whatever their task is, by the name of the rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expectations: BTreeMap<String, ExpectationConfig>,
    /// How much may be used, by whom and in which period. Critical changes are refused unless a budget allows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetConfig>,
    /// Who may call what.
    #[serde(default, skip_serializing_if = "PolicyConfig::is_default")]
    pub policy: PolicyConfig,
    /// When calls need a person's approval, and from whom.
    #[serde(default, skip_serializing_if = "ApprovalsConfig::is_default")]
    pub approvals: ApprovalsConfig,
    /// The console, beyond what `approvals` says.
    #[serde(default, skip_serializing_if = "ConsoleConfig::is_default")]
    pub console: ConsoleConfig,
    /// Whether to send calls that cannot be repeated although the ledger's database has an asynchronous standby. After a failover the
    /// ledger may then have forgotten that they were sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_lost_commits: bool,
    /// Which credentials callers at the HTTP door need.
    #[serde(default, skip_serializing_if = "AuthConfig::is_default")]
    pub auth: AuthConfig,
    /// The receivers of signed webhooks about the end of long work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callbacks: Vec<CallbackConfig>,
    /// How calls of long-running and async tools are answered.
    #[serde(default, skip_serializing_if = "LongWorkConfig::is_default")]
    pub long_work: LongWorkConfig,
    /// What operators measure.
    #[serde(default, skip_serializing_if = "TelemetryConfig::is_default")]
    pub telemetry: TelemetryConfig,
    /// The gateway's own log.
    #[serde(default, skip_serializing_if = "LogConfig::is_default")]
    pub log: LogConfig,
    /// Size and time limits.
    #[serde(default, skip_serializing_if = "LimitsConfig::is_default")]
    pub limits: LimitsConfig,
}

/// How calls of long-running and async tools are answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LongWorkConfig {
    /// How long a caller waits for the result before it gets a handle instead; null to wait until the end. A caller that supports tasks
    /// gets one at once.
    pub wait_ms_max: Option<u64>,
}

/// One MCP server: a command to start, or a URL. `${VAR}` and `${VAR:-default}` are filled in from the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamConfig {
    /// The program of a stdio server. No shell is involved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables set for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables of the gateway's environment that it inherits, besides PATH, HOME and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_pass: Vec<String>,
    /// The working folder, relative to this file; this file's folder by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The URL of a Streamable HTTP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers sent with every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The credentials that the gateway sends to it, after all decisions and never visible to agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "credential::one_or_many")]
    #[schemars(with = "credential::OneOrManySchema")]
    pub credential: Vec<CredentialConfig>,
    /// The tenants that may use it; all by default. Other tenants cannot see it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tenants: BTreeSet<String>,
}

impl Default for LongWorkConfig {
    fn default() -> Self {
        Self { wait_ms_max: Some(LONG_WAIT_MS_MAX) }
    }
}

impl UpstreamConfig {
    /// How its tokens are obtained, if it gets tokens.
    pub fn oauth(&self) -> Option<&OauthConfig> {
        self.credential.iter().find_map(|credential| credential.oauth.as_ref())
    }
}

impl LongWorkConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// Reads the file's text, without any further check. `file` is used only in errors.
    pub fn from_document(file: &str, text: &str) -> Result<Self, DocumentError> {
        document::read(file, text)
    }

    /// The text of a file.
    pub fn to_document(&self) -> Result<String, DocumentError> {
        document::write(self)
    }

    /// A configuration for a new user, with defaults everywhere else.
    pub fn new(upstreams: BTreeMap<String, UpstreamConfig>) -> Self {
        Self {
            servanda: CONFIG_VERSION,
            listen: default_listen(),
            contracts: default_contracts(),
            ledger: default_ledger(),
            position_file: None,
            retention: RetentionConfig::default(),
            ledger_limits: LedgerLimitsConfig::default(),
            audit: AuditConfig::default(),
            names: NameStyle::default(),
            name_profile: NameProfile::default(),
            defaults: Defaults::default(),
            upstreams,
            pins: PinsConfig::default(),
            tasks: BTreeMap::new(),
            expectations: BTreeMap::new(),
            budgets: BudgetConfig::defaults_for_new_users(),
            policy: PolicyConfig::default(),
            approvals: ApprovalsConfig::default(),
            console: ConsoleConfig::default(),
            accepts_lost_commits: false,
            auth: AuthConfig::default(),
            callbacks: Vec::new(),
            long_work: LongWorkConfig::default(),
            telemetry: TelemetryConfig::default(),
            log: LogConfig::default(),
            limits: LimitsConfig::default(),
        }
    }

    /// What the configuration expects of tools.
    pub fn expectations(&self) -> Expectations {
        expected::expectations(&self.tasks, &self.expectations)
    }

    /// The configured budgets.
    pub fn allowances(&self) -> Arc<[Allowance]> {
        self.budgets.iter().map(|budget| budget.allowance().clone()).collect()
    }

    /// How names and URIs are made.
    pub fn naming(&self) -> ExposedNaming {
        self.names.naming()
    }

    /// How tools are named.
    pub fn name_policy(&self) -> NamePolicy {
        self.name_profile.policy(self.names)
    }

    /// The exposed name of a tool that was never renamed and whose name no other tool had.
    pub fn tool_name(&self, upstream: &str, tool: &str) -> String {
        self.name_policy().name(&names::upstream_tool(upstream, tool)).to_string()
    }
}

fn check(file: &str, config: &Config) -> Result<(), DocumentError> {
    let wrong = |field: &str, reason: String| Err(DocumentError::new(file, field, reason));
    if config.servanda != CONFIG_VERSION {
        return wrong(
            "servanda",
            format!("this servanda reads version {CONFIG_VERSION} of the file, not {}", config.servanda),
        );
    }
    if config.names == NameStyle::Bare && config.upstreams.len() > 1 {
        return wrong("names", "`bare` names are for a single upstream".to_owned());
    }
    let fault = expected::fault(config).or_else(|| auth::fault(config)).or_else(|| policy::fault(config));
    let fault = fault.or_else(|| approvals::fault(config)).or_else(|| console::fault(config));
    let fault = fault.or_else(|| limits::fault(&config.limits)).or_else(|| telemetry::fault(config));
    let fault = fault.or_else(|| log::fault(&config.log));
    if let Some((field, reason)) = fault.or_else(|| credential::fault(config.upstreams.iter())) {
        return wrong(&field, reason);
    }
    for (id, upstream) in &config.upstreams {
        let field = format!("upstreams.{id}");
        if !names::is_upstream_id(id) {
            let reason = "an upstream's id starts with a letter, has letters, digits, `-` and single `_`, at most 32 of them, and is not `servanda`";
            return wrong(&field, reason.to_owned());
        }
        match (&upstream.command, &upstream.url) {
            (Some(_), Some(_)) => return wrong(&field, "has a `command` and a `url`; one of them is meant".to_owned()),
            (None, None) => return wrong(&field, "has neither a `command` nor a `url`".to_owned()),
            (None, Some(_)) if !upstream.args.is_empty() || !upstream.env.is_empty() || upstream.cwd.is_some() => {
                return wrong(&field, "`args`, `env` and `cwd` go with a `command`, not with a `url`".to_owned());
            }
            (Some(_), None) if !upstream.headers.is_empty() => {
                return wrong(&field, "`headers` go with a `url`, not with a `command`".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

fn default_listen() -> String {
    "127.0.0.1:7332".to_owned()
}

fn default_contracts() -> PathBuf {
    PathBuf::from("contracts")
}

fn default_ledger() -> String {
    ".servanda/ledger.db".to_owned()
}
