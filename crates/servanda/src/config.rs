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
/// Where it stands if nobody says otherwise.
pub(crate) const CONFIG_FILE: &str = "servanda.yaml";
/// Folders above this one in which a configuration is looked for, to name it.
const FOLDERS_ABOVE_MAX: usize = 16;

/// What was agreed to about tools, beside the configuration.
pub(crate) const LOCK_FILE: &str = "servanda.lock";

/// What `servanda.yaml` says.
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
    /// The file that knows the ledger from outside, relative to this one; beside this one and named like it if not said, e.g.
    /// `servanda.position`. Never in the ledger's own folder: what is lost with the ledger cannot miss it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_file: Option<PathBuf>,
    /// How long the ledger keeps what is over.
    #[serde(default, skip_serializing_if = "RetentionConfig::is_default")]
    pub retention: RetentionConfig,
    /// How large the ledger may become.
    #[serde(default, skip_serializing_if = "LedgerLimitsConfig::is_default")]
    pub ledger_limits: LedgerLimitsConfig,
    /// How tools are named towards agents.
    #[serde(default)]
    pub names: NameStyle,
    /// Whose limits the names of tools keep to: a name that is over them gets a hash at its end. Tools that are renamed by a
    /// change of this are still found by their old names.
    #[serde(default, skip_serializing_if = "NameProfile::is_default")]
    pub name_profile: NameProfile,
    /// What contracts say unless the server's file or the tool's entry says otherwise: parts of a contract, and under
    /// `by_class` for tools of one side-effect class.
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    pub defaults: Defaults,
    /// The MCP servers behind the gateway, by id.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// What is done about tools whose definitions are not those in `servanda.lock`.
    #[serde(default, skip_serializing_if = "PinsConfig::is_default")]
    pub pins: PinsConfig,
    /// What kinds of tools a task may use, by the task's name: clients name theirs in `_meta["servanda/task"]`, and one that is
    /// not declared here is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, TaskConfig>,
    /// What kinds of tools some calls may use whatever their task is, by the name of the rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expectations: BTreeMap<String, ExpectationConfig>,
    /// How much may be drawn, by whom and in which time. Critical changes are refused unless a budget allows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetConfig>,
    /// Who may call what.
    #[serde(default, skip_serializing_if = "PolicyConfig::is_default")]
    pub policy: PolicyConfig,
    /// Whether calls that cannot be repeated are sent although the ledger's database has an asynchronous standby, so that a
    /// failover may forget that they were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_lost_commits: bool,
    /// Who has to show what at the HTTP door.
    #[serde(default, skip_serializing_if = "AuthConfig::is_default")]
    pub auth: AuthConfig,
    /// Who is told, by a signed webhook, how long work ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callbacks: Vec<CallbackConfig>,
    /// How calls of long-running and async tools are answered.
    #[serde(default, skip_serializing_if = "LongWorkConfig::is_default")]
    pub long_work: LongWorkConfig,
    /// How much is taken.
    #[serde(default, skip_serializing_if = "LimitsConfig::is_default")]
    pub limits: LimitsConfig,
}

/// How calls of long-running and async tools are answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LongWorkConfig {
    /// How long a caller waits for the result before it gets a handle instead; null if it waits for the end like any caller.
    /// A caller that takes tasks gets one at once.
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
    /// Variables of ours that it inherits, besides PATH, HOME and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_pass: Vec<String>,
    /// Where it runs, relative to this file; this file's folder if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The URL of a Streamable HTTP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers sent with every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What it is shown, after everything was decided and out of every agent's sight.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "credential::one_or_many")]
    #[schemars(with = "credential::OneOrManySchema")]
    pub credential: Vec<CredentialConfig>,
    /// The tenants it is for; for all if not said. To everybody else it is not there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tenants: BTreeSet<String>,
}

/// A configuration and the folder its paths are relative to.
#[derive(Debug, Clone)]
pub(crate) struct LoadedConfig {
    /// What it says.
    pub config: Config,
    /// Where it stands.
    pub folder: PathBuf,
    /// The file itself.
    pub file: PathBuf,
    /// The folder of policies that nobody has to name was there: a gateway that had it does not go on without.
    pub had_policies: bool,
}

impl Default for LongWorkConfig {
    fn default() -> Self {
        Self { wait_ms_max: Some(LONG_WAIT_MS_MAX) }
    }
}

impl UpstreamConfig {
    /// How its tokens are got, where it is shown tokens.
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
    /// A configuration for somebody new, with defaults everywhere else.
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

    /// What is expected of tools.
    pub(crate) fn expectations(&self) -> Expectations {
        expected::expectations(&self.tasks, &self.expectations)
    }

    /// What may be drawn.
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

    /// The name that a tool has if it never had another and nobody else had it.
    pub(crate) fn tool_name(&self, upstream: &str, tool: &str) -> String {
        self.name_policy().name(&names::upstream_tool(upstream, tool)).to_string()
    }
}

/// The configuration of the nearest folder above this one, as it is named from here.
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

    /// What the format alone cannot say.
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        check(&self.file.display().to_string(), &self.config).map_err(|error| bad_document(&error))
    }

    /// The contracts' folder.
    pub(crate) fn contracts_folder(&self) -> PathBuf {
        self.beside(&self.config.contracts)
    }

    /// The place of the ledger. Links inside the configuration's folder are refused, because a repository may contain them, and only the
    /// owner may use the files.
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

    /// The file that knows the ledger from outside: beside the configuration and named like it, unless it says another.
    fn position_file(&self) -> PathBuf {
        let named = self.config.position_file.as_deref().map(|file| self.beside(file));
        named.unwrap_or_else(|| self.file.with_extension("position"))
    }

    /// The file of what was agreed to about tools.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.beside(Path::new(LOCK_FILE))
    }

    /// The folder of what the gateway keeps for itself.
    pub(crate) fn state_folder(&self) -> PathBuf {
        self.beside(Path::new(STATE_FOLDER))
    }

    /// A path of the file's, which is relative to the file; shown without a `./` that nobody typed.
    pub(crate) fn beside(&self, path: &Path) -> PathBuf {
        if self.folder == Path::new(".") { path.to_owned() } else { self.folder.join(path) }
    }

    /// The address of the HTTP door, at which nobody is let in unknown from beyond this machine.
    pub(crate) fn listen(&self) -> Result<SocketAddr, CommandFailure> {
        let address = parse_listen(&self.config.listen);
        let address = address.and_then(|address| self.require_guarded(address).map(|()| address));
        address.map_err(|failure| failure.at(&self.file, "listen"))
    }

    /// What the upstream of that id is.
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

/// The address a door listens on; a name is not resolved, so that nothing listens where nobody expects it.
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

/// Where a variable has to be set for the gateway to have it.
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
