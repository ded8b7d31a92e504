//! A configuration that was read, with the folder that its paths are relative to: the places of its files, and the settings that need
//! the environment. It starts no upstream and opens no ledger.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use servanda_contract::document::DocumentError;
use servanda_files::{self as files, ModeRepair};
use servanda_upstream::{Transport, UpstreamLimits, UpstreamName, UpstreamSpec};

use crate::{
    CONFIG_FILE, Config, LOCK_FILE, UpstreamConfig,
    error::ConfigError,
    expansion::{ExpansionError, expand, unset},
    ledger_place::LedgerPlace,
    listen::parse_listen,
    state_folder::{self, STATE_FOLDER},
};

/// How many parent folders are searched for a configuration to suggest.
const FOLDERS_ABOVE_MAX: usize = 16;

/// A configuration and the folder its paths are relative to.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The contents.
    pub config: Config,
    /// The folder that contains the file.
    pub folder: PathBuf,
    /// The file itself.
    pub file: PathBuf,
    /// Whether the default folder of policies existed: a gateway that started with it does not continue without it.
    pub had_policies: bool,
}

impl LoadedConfig {
    /// Reads and checks the configuration at `file`. Permissions of other users that were taken away are added to `repaired`, also if it
    /// fails afterwards.
    pub fn read(file: &Path, repaired: &mut Vec<ModeRepair>) -> Result<Self, ConfigError> {
        let text = files::read_text(file, files::TEXT_BYTES_MAX).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                let above = if file == Path::new(CONFIG_FILE) { config_above() } else { None };
                ConfigError::Missing { file: file.to_owned(), above }
            }
            _ => ConfigError::Unreadable { file: file.to_owned(), source },
        })?;
        let config = Config::from_document(&file.display().to_string(), &text)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let loaded = Self { config, folder: folder.to_owned(), file: file.to_owned(), had_policies: false };
        loaded.check()?;
        state_folder::guard(&loaded.folder, repaired)?;
        Ok(loaded)
    }

    /// Checks that the format alone cannot express.
    pub fn check(&self) -> Result<(), ConfigError> {
        Ok(crate::check(&self.file.display().to_string(), &self.config)?)
    }

    /// The contracts' folder.
    pub fn contracts_folder(&self) -> PathBuf {
        self.beside(&self.config.contracts)
    }

    /// The place of the ledger. Links inside the configuration's folder are refused, because a repository may contain them. Only the owner
    /// may use the files; permissions of others that were taken away are added to `repaired`.
    pub fn ledger_place(&self, repaired: &mut Vec<ModeRepair>) -> Result<LedgerPlace, ConfigError> {
        let position_file = self.position_file();
        let named = self.config.position_file.as_deref().unwrap_or(Path::new(""));
        state_folder::require_own(&self.folder, named, &position_file)?;
        let ledger = LedgerPlace::parse(&self.config.ledger, position_file, |file| self.beside(Path::new(file)));
        let ledger = ledger.map_err(|source| ConfigError::LedgerUrl { file: self.file.clone(), source })?;
        if let Some(file) = ledger.file() {
            state_folder::require_own(&self.folder, Path::new(&self.config.ledger), file)?;
        }
        repaired.extend(ledger.make_private()?);
        Ok(ledger.with_log(self.config.audit.log))
    }

    /// The position file: beside the configuration and named like it, unless it names another.
    fn position_file(&self) -> PathBuf {
        let named = self.config.position_file.as_deref().map(|file| self.beside(file));
        named.unwrap_or_else(|| self.file.with_extension("position"))
    }

    /// The lock file with the pins.
    pub fn lock_file(&self) -> PathBuf {
        self.beside(Path::new(LOCK_FILE))
    }

    /// The folder for the gateway's own files.
    pub fn state_folder(&self) -> PathBuf {
        self.beside(Path::new(STATE_FOLDER))
    }

    /// Resolves a path of the configuration relative to its file; shown without a leading `./`.
    pub fn beside(&self, path: &Path) -> PathBuf {
        if self.folder == Path::new(".") { path.to_owned() } else { self.folder.join(path) }
    }

    /// The address of the HTTP door. Fails if it is reachable from other machines and callers need no credential.
    pub fn listen(&self) -> Result<SocketAddr, ConfigError> {
        let address = parse_listen(&self.config.listen);
        let address = address.and_then(|address| self.require_guarded(address).map(|()| address));
        address.map_err(|source| ConfigError::Listen { file: self.file.clone(), source })
    }

    /// The settings of an upstream.
    pub fn upstream(&self, id: &str, upstream: &UpstreamConfig) -> Result<UpstreamSpec, ConfigError> {
        self.upstream_filled(id, upstream, &expand)
    }

    /// The same with variables filled in by the caller.
    pub fn upstream_filled(
        &self,
        id: &str,
        upstream: &UpstreamConfig,
        expanded: &dyn Fn(&str) -> Result<String, ExpansionError>,
    ) -> Result<UpstreamSpec, ConfigError> {
        let file = self.file.display().to_string();
        let filled = |field: &str, text: &str| {
            expanded(text).map_err(|reason| {
                let document = DocumentError::new(&file, &format!("upstreams.{id}.{field}"), reason.to_string());
                match unset(text) {
                    Some(variable) => {
                        ConfigError::UnsetVariable { document: Box::new(document), variable: variable.to_owned() }
                    }
                    None => ConfigError::Document(document),
                }
            })
        };
        let filled_map = |field: &str, map: &BTreeMap<String, String>| {
            map.iter()
                .map(|(name, value)| Ok((name.clone(), filled(field, value)?)))
                .collect::<Result<BTreeMap<_, _>, ConfigError>>()
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
        let limits = UpstreamLimits {
            message_bytes_max: self.config.limits.message_bytes_max,
            connect_ms_max: self.config.limits.connect_ms_max,
            connections_max: self.config.limits.upstream_connections_max.max(1),
            connection_idle_ms_max: self.config.limits.upstream_connection_idle_ms_max,
            ..UpstreamLimits::default()
        };
        Ok(UpstreamSpec { id: UpstreamName(id.to_owned()), transport, limits })
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
