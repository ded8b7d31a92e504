//! The configuration: one YAML file, `servanda.yaml`, read whole or not at all. An error names file, line and field, and
//! nothing is started.

mod auth;
mod budgets;
mod callbacks;
mod credential;
pub(crate) mod expansion;
mod expected;
pub(crate) mod ledger_place;
mod limits;
mod naming;
mod oauth;
mod pins;
mod policy;
mod retention;
pub(crate) mod state_folder;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
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
use servanda_upstream::{Transport, UpstreamName, UpstreamSpec};

pub(crate) use auth::{AuthConfig, AuthMode};
pub(crate) use budgets::BudgetConfig;
pub(crate) use credential::{CredentialConfig, NamedSecret, SecretPlace, StatementConfig};
pub(crate) use expected::{ExpectationConfig, TaskConfig};
pub(crate) use limits::{DRAIN_MS_MIN, LimitsConfig};
pub(crate) use naming::{NameProfile, NameStyle};
pub(crate) use oauth::{ClientAuth, KeyAlgorithm, OauthConfig, OauthFlow};
pub(crate) use pins::PinsConfig;
pub(crate) use policy::{PolicyConfig, PolicyMode};
pub(crate) use retention::{LedgerLimitsConfig, RetentionConfig};

use self::{
    callbacks::CallbackConfig,
    expansion::{expand, unset},
    ledger_place::LedgerPlace,
    state_folder::STATE_FOLDER,
};
use crate::{failure::CommandFailure, files};

/// The version of the file's format.
pub(crate) const CONFIG_VERSION: u32 = 1;
/// The configuration's default path.
pub(crate) const CONFIG_FILE: &str = "servanda.yaml";
/// How many parent folders are searched for a configuration to suggest.
const FOLDERS_ABOVE_MAX: usize = 16;

/// The pins of tools, beside the configuration.
pub(crate) const LOCK_FILE: &str = "servanda.lock";

/// The contents of `servanda.yaml`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
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
    /// Size and time limits.
    #[serde(default, skip_serializing_if = "LimitsConfig::is_default")]
    pub limits: LimitsConfig,
}

/// How calls of long-running and async tools are answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LongWorkConfig {
    /// How long a caller waits for the result before it gets a handle instead; null to wait until the end. A caller that supports tasks
    /// gets one at once.
    pub wait_ms_max: Option<u64>,
}

/// One MCP server: a command to start, or a URL. `${VAR}` and `${VAR:-default}` are filled in from the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamConfig {
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

/// A configuration and the folder its paths are relative to.
#[derive(Debug, Clone)]
pub(crate) struct LoadedConfig {
    /// The contents.
    pub config: Config,
    /// The folder that contains the file.
    pub folder: PathBuf,
    /// The file itself.
    pub file: PathBuf,
    /// Whether the default folder of policies existed: a gateway that started with it does not continue without it.
    pub had_policies: bool,
}

impl Default for LongWorkConfig {
    fn default() -> Self {
        Self { wait_ms_max: Some(LONG_WAIT_MS_MAX) }
    }
}

impl UpstreamConfig {
    /// How its tokens are obtained, if it gets tokens.
    pub(crate) fn oauth(&self) -> Option<&OauthConfig> {
        self.credential.iter().find_map(|credential| credential.oauth.as_ref())
    }
}

impl LongWorkConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// A configuration for a new user, with defaults everywhere else.
    pub(crate) fn new(upstreams: BTreeMap<String, UpstreamConfig>) -> Self {
        Self {
            servanda: CONFIG_VERSION,
            listen: default_listen(),
            contracts: default_contracts(),
            ledger: default_ledger(),
            position_file: None,
            retention: RetentionConfig::default(),
            ledger_limits: LedgerLimitsConfig::default(),
            names: NameStyle::default(),
            name_profile: NameProfile::default(),
            defaults: Defaults::default(),
            upstreams,
            pins: PinsConfig::default(),
            tasks: BTreeMap::new(),
            expectations: BTreeMap::new(),
            budgets: BudgetConfig::defaults_for_new_users(),
            policy: PolicyConfig::default(),
            accepts_lost_commits: false,
            auth: AuthConfig::default(),
            callbacks: Vec::new(),
            long_work: LongWorkConfig::default(),
            limits: LimitsConfig::default(),
        }
    }

    /// What the configuration expects of tools.
    pub(crate) fn expectations(&self) -> Expectations {
        expected::expectations(&self.tasks, &self.expectations)
    }

    /// The configured budgets.
    pub(crate) fn allowances(&self) -> Arc<[Allowance]> {
        self.budgets.iter().map(|budget| budget.allowance().clone()).collect()
    }

    /// How names and URIs are made.
    pub(crate) fn naming(&self) -> ExposedNaming {
        self.names.naming()
    }

    /// How tools are named.
    pub(crate) fn name_policy(&self) -> NamePolicy {
        self.name_profile.policy(self.names)
    }

    /// The exposed name of a tool that was never renamed and whose name no other tool had.
    pub(crate) fn tool_name(&self, upstream: &str, tool: &str) -> String {
        self.name_policy().name(&names::upstream_tool(upstream, tool)).to_string()
    }
}

/// The configuration in the nearest parent folder, as a relative path.
fn config_above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let above = here.ancestors().skip(1).take(FOLDERS_ABOVE_MAX).enumerate();
    above
        .filter(|(_, folder)| folder.join(CONFIG_FILE).is_file())
        .map(|(number, _)| PathBuf::from("../".repeat(number + 1)).join(CONFIG_FILE))
        .next()
}

impl LoadedConfig {
    /// Reads and checks the configuration at `file`.
    pub(crate) fn read(file: &Path) -> Result<Self, CommandFailure> {
        let text = files::read_text(file, files::TEXT_BYTES_MAX).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let failure = CommandFailure::bad_input(format!("there is no `{}`", file.display()));
                let above = if file == Path::new(CONFIG_FILE) { config_above() } else { None };
                if let Some(above) = above {
                    let (above, folder) = (above.display(), above.parent().unwrap_or(&above).display());
                    failure.hint(format!("there is one at {above}: add `--config {above}`, or change to {folder}"))
                } else if file == Path::new(CONFIG_FILE) {
                    failure.hint("run `servanda init` in a folder with a .mcp.json, or try `servanda demo`")
                } else {
                    failure.hint("check the path given with --config or SERVANDA_CONFIG")
                }
            }
            _ => CommandFailure::bad_input(format!("cannot read `{}`: {error}", file.display())),
        })?;
        let shown = file.display().to_string();
        let config: Config = document::read(&shown, &text).map_err(|error| bad_document(&error))?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let loaded = Self { config, folder: folder.to_owned(), file: file.to_owned(), had_policies: false };
        loaded.check()?;
        state_folder::guard(&loaded.folder)?;
        Ok(loaded)
    }

    /// Checks that the format alone cannot express.
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        check(&self.file.display().to_string(), &self.config).map_err(|error| bad_document(&error))
    }

    /// The contracts' folder.
    pub(crate) fn contracts_folder(&self) -> PathBuf {
        self.beside(&self.config.contracts)
    }

    /// The place of the ledger. Links inside the configuration's folder are refused, because a repository may contain them. Only the owner
    /// may use the files.
    pub(crate) fn ledger_place(&self) -> Result<LedgerPlace, CommandFailure> {
        let position_file = self.position_file();
        let named = self.config.position_file.as_deref().unwrap_or(Path::new(""));
        state_folder::require_own(&self.folder, named, &position_file)?;
        let ledger = LedgerPlace::parse(&self.config.ledger, position_file, |file| self.beside(Path::new(file)));
        let ledger = ledger.map_err(|failure| failure.at(&self.file, "ledger"))?;
        if let Some(file) = ledger.file() {
            state_folder::require_own(&self.folder, Path::new(&self.config.ledger), file)?;
        }
        ledger.make_private()?;
        Ok(ledger)
    }

    /// The position file: beside the configuration and named like it, unless it names another.
    fn position_file(&self) -> PathBuf {
        let named = self.config.position_file.as_deref().map(|file| self.beside(file));
        named.unwrap_or_else(|| self.file.with_extension("position"))
    }

    /// The lock file with the pins.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.beside(Path::new(LOCK_FILE))
    }

    /// The folder for the gateway's own files.
    pub(crate) fn state_folder(&self) -> PathBuf {
        self.beside(Path::new(STATE_FOLDER))
    }

    /// Resolves a path of the configuration relative to its file; shown without a leading `./`.
    pub(crate) fn beside(&self, path: &Path) -> PathBuf {
        if self.folder == Path::new(".") { path.to_owned() } else { self.folder.join(path) }
    }

    /// The address of the HTTP door. Fails if it is reachable from other machines and callers need no credential.
    pub(crate) fn listen(&self) -> Result<SocketAddr, CommandFailure> {
        let address = parse_listen(&self.config.listen);
        let address = address.and_then(|address| self.require_guarded(address).map(|()| address));
        address.map_err(|failure| failure.at(&self.file, "listen"))
    }

    /// The settings of an upstream.
    pub(crate) fn upstream(&self, id: &str, upstream: &UpstreamConfig) -> Result<UpstreamSpec, CommandFailure> {
        self.upstream_filled(id, upstream, &expand)
    }

    /// The same with variables filled in by the caller.
    pub(crate) fn upstream_filled(
        &self,
        id: &str,
        upstream: &UpstreamConfig,
        expanded: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<UpstreamSpec, CommandFailure> {
        let file = self.file.display().to_string();
        let filled = |field: &str, text: &str| {
            expanded(text).map_err(|reason| {
                let failure = bad_document(&DocumentError::new(&file, &format!("upstreams.{id}.{field}"), reason));
                match unset(text) {
                    Some(name) => failure.hint(how_to_set(name)),
                    None => failure,
                }
            })
        };
        let filled_map = |field: &str, map: &BTreeMap<String, String>| {
            map.iter()
                .map(|(name, value)| Ok((name.clone(), filled(field, value)?)))
                .collect::<Result<BTreeMap<_, _>, CommandFailure>>()
        };
        let transport = match (&upstream.command, &upstream.url) {
            (Some(command), _) => Transport::Stdio {
                command: filled("command", command)?,
                args: upstream.args.iter().map(|arg| filled("args", arg)).collect::<Result<_, _>>()?,
                env: filled_map("env", &upstream.env)?,
                env_pass: upstream.env_pass.clone(),
                cwd: Some(upstream.cwd.as_ref().map_or_else(|| self.folder.clone(), |cwd| self.folder.join(cwd))),
            },
            (None, url) => Transport::Http {
                url: filled("url", url.as_deref().unwrap_or_default())?,
                headers: filled_map("headers", &upstream.headers)?,
            },
        };
        let limits = servanda_upstream::UpstreamLimits {
            message_bytes_max: self.config.limits.message_bytes_max,
            connect_ms_max: self.config.limits.connect_ms_max,
            connections_max: self.config.limits.upstream_connections_max.max(1),
            connection_idle_ms_max: self.config.limits.upstream_connection_idle_ms_max,
            ..servanda_upstream::UpstreamLimits::default()
        };
        Ok(UpstreamSpec { id: UpstreamName(id.to_owned()), transport, limits })
    }
}

/// Reads a listening address. A host name is not resolved, because it could lead to an unexpected interface.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, CommandFailure> {
    text.replace("localhost", "127.0.0.1").parse().map_err(|_| {
        CommandFailure::bad_input(format!("`{text}` is not an address to listen on"))
            .hint("write it like 127.0.0.1:7332")
    })
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
    let fault = fault.or_else(|| limits::fault(&config.limits));
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

/// How to set a variable so that the gateway has it.
fn how_to_set(name: &str) -> String {
    format!(
        "nothing was started; `export {name}=...` where servanda is started, or add it to `env` of the client's entry that \
         starts `servanda stdio`"
    )
}

pub(crate) fn bad_document(error: &DocumentError) -> CommandFailure {
    CommandFailure::bad_input(error.to_string()).hint("nothing was started; correct the file and run `servanda check`")
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
