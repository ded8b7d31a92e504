//! Reads the contracts' folder: files of one server's tools, whose contracts are composed of layers, and files of one whole contract.
//! `contracts` judges what was read.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use servanda_catalog::{in_parallel, inference::definition_layer, pins::LockFile};
use servanda_config::LoadedConfig;
use servanda_contract::{
    ToolContract, document,
    layers::{ContractLayers, EffectiveContract, Layer, LayerError, ServerContracts, ToolEntry, ValueOrigins},
};

use servanda_identity::layers::gateway::near_names;

use crate::{contracts::lock, failure::CommandFailure, files};

/// The members that only a server's file has.
const TOOLS: &str = "tools";
const SERVER: &str = "server";

/// Where a contract is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContractLocation {
    /// The file.
    pub file: PathBuf,
    /// The tool's own name, if the file has several.
    pub tool: Option<String>,
}

/// A contract as it was read.
#[derive(Debug, Clone)]
pub(crate) struct LocatedContract {
    /// Where.
    pub place: ContractLocation,
    /// The whole contract.
    pub contract: ToolContract,
    /// How it was composed, if it was.
    pub composed: Option<ContractComposition>,
}

/// How a contract was composed of layers.
#[derive(Debug, Clone)]
pub(crate) struct ContractComposition {
    /// The tool's entry.
    pub entry: ToolEntry,
    /// Which layer each value comes from.
    pub origins: ValueOrigins,
}

/// A contract that could not be read.
#[derive(Debug, Clone)]
pub(crate) struct UnreadableContract {
    /// Where.
    pub place: ContractLocation,
    /// The tool it is for, if known.
    pub binding: Option<(String, String)>,
    /// Why.
    pub reason: String,
}

/// Everything in the folder, in a fixed order.
#[derive(Debug, Default)]
pub(crate) struct ContractFolder {
    /// The contracts that were read.
    pub written: Vec<LocatedContract>,
    /// The contracts that could not be read.
    pub unread: Vec<UnreadableContract>,
}

impl ContractFolder {
    /// Reads every file. A lock file that cannot be read is a failure, because schemas are taken from it.
    pub(crate) fn read(loaded: &LoadedConfig) -> Result<Self, CommandFailure> {
        let lock = lock::read(&loaded.lock_file())?;
        Self::read_with(loaded, lock.as_ref())
    }

    /// Reads every file with the pins of a lock that was read already.
    pub(crate) fn read_with(loaded: &LoadedConfig, lock: Option<&LockFile>) -> Result<Self, CommandFailure> {
        let (written, unread) = read_each(loaded, lock, |written| written)?;
        Ok(Self { written, unread })
    }
}

/// Reads every contract and passes each to `take` as soon as it is composed, because a composition takes many times the memory of its
/// result. Several are read at once; the results are in the order of the files.
pub(crate) fn read_each<T: Send>(
    loaded: &LoadedConfig,
    lock: Option<&LockFile>,
    take: impl Fn(LocatedContract) -> T + Sync,
) -> Result<(Vec<T>, Vec<UnreadableContract>), CommandFailure> {
    let files = contract_files(&loaded.contracts_folder())?;
    let mut parts = Vec::new();
    for read in in_parallel::map(files, |file| read_one(file, loaded)) {
        match read {
            Ok((file, ContractFile::Whole(contract))) => parts.push(Ok(ContractPart::Whole(file, contract))),
            Ok((file, ContractFile::Server(server))) => {
                let server = Arc::new((file, server));
                let part = |tool: &String| Ok(ContractPart::Tool(Arc::clone(&server), tool.clone()));
                parts.extend(server.1.tools.keys().map(part));
            }
            Err(unread) => parts.push(Err(unread)),
        }
    }
    let done = in_parallel::map(parts, |part| part.and_then(|part| part.located(loaded, lock)).map(&take));
    let (mut taken, mut unread) = (Vec::with_capacity(done.len()), Vec::new());
    for one in done {
        match one {
            Ok(one) => taken.push(one),
            Err(one) => unread.push(one),
        }
    }
    Ok((taken, unread))
}

/// The source of one contract.
enum ContractPart {
    /// A file of its own.
    Whole(PathBuf, Box<ToolContract>),
    /// The file of its server, and its own name there.
    Tool(Arc<(PathBuf, ServerContracts)>, String),
}

impl ContractPart {
    fn located(self, loaded: &LoadedConfig, lock: Option<&LockFile>) -> Result<LocatedContract, UnreadableContract> {
        match self {
            Self::Whole(file, contract) => Ok(LocatedContract {
                place: ContractLocation { file, tool: None },
                contract: *contract,
                composed: None,
            }),
            Self::Tool(server, tool) => {
                let (file, server) = &*server;
                compose_tool(file, server, &tool, loaded, lock)
            }
        }
    }
}

fn read_one(file: PathBuf, loaded: &LoadedConfig) -> Result<(PathBuf, ContractFile), UnreadableContract> {
    let unread = |reason: String| {
        let place = ContractLocation { file: file.clone(), tool: None };
        UnreadableContract { place, binding: None, reason }
    };
    let text = files::read_text(&file, files::TEXT_BYTES_MAX).map_err(|error| unread(error.to_string()))?;
    match read_file(&file, &text).map_err(unread)? {
        ContractFile::Server(server) if !loaded.config.upstreams.contains_key(&server.server) => {
            let (server, config) = (server.server, loaded.file.display());
            Err(unread(format!("`server`: `{server}` is not an upstream of `{config}`")))
        }
        read => Ok((file, read)),
    }
}

impl LocatedContract {
    /// The file and field in which a member of the contract is written, or would have to be written: for messages.
    pub(crate) fn field(&self, field: &str, config: &Path) -> String {
        // Agents get these messages too, so the path of the project's folder is left out.
        let beside = |file: &Path| {
            file.strip_prefix(config.parent().unwrap_or(Path::new(""))).unwrap_or(file).display().to_string()
        };
        let file = beside(&self.place.file);
        let Some((tool, composed)) = self.place.tool.as_ref().zip(self.composed.as_ref()) else {
            return format!("`{field}` in {file}");
        };
        let pointer = format!("/{}", field.replace('.', "/"));
        match composed.origins.at(&pointer) {
            Some(Layer::Server) => format!("`defaults.{field}` in {file}"),
            Some(Layer::Configuration) => format!("`defaults.{field}` in {}", beside(config)),
            Some(Layer::Tool) => format!("`tools.{tool}.{field}` in {file}"),
            Some(Layer::BuiltIn(_) | Layer::Definition) | None => format!("set `tools.{tool}.{field}` in {file}"),
        }
    }
}

/// A file of contracts in either form.
#[derive(Debug)]
pub(crate) enum ContractFile {
    /// One whole contract.
    Whole(Box<ToolContract>),
    /// The tools of one server.
    Server(ServerContracts),
}

/// Reads the text of a contract file; a reason names `file`. Most texts are parsed only once: a whole contract is tried first, because the
/// first member of a server's file is unknown to it and fails at once.
pub(crate) fn read_file(file: &Path, text: &str) -> Result<ContractFile, String> {
    let name = file.display().to_string();
    let not_whole = match ToolContract::from_document(&name, text) {
        Ok(contract) => return Ok(ContractFile::Whole(Box::new(contract))),
        Err(error) => error,
    };
    let members = document::read_members(&name, text);
    let members = members.map_err(|error| error.to_string())?;
    if ![TOOLS, SERVER].iter().any(|member| members.contains_key(*member)) {
        return Err(not_whole.to_string());
    }
    // Only the text has lines and columns, so it is parsed again to say where it is wrong.
    let server = serde_json::from_value::<ServerContracts>(members.into());
    let server = server.or_else(|_| ServerContracts::from_document(&name, text));
    server.map(ContractFile::Server).map_err(|error| error.to_string())
}

/// Composes the contracts of a server's tools.
pub(crate) fn compose(
    file: &Path,
    server: &ServerContracts,
    loaded: &LoadedConfig,
    lock: Option<&LockFile>,
) -> ContractFolder {
    let mut folder = ContractFolder::default();
    for tool in server.tools.keys() {
        match compose_tool(file, server, tool, loaded, lock) {
            Ok(written) => folder.written.push(written),
            Err(unread) => folder.unread.push(unread),
        }
    }
    folder
}

fn compose_tool(
    file: &Path,
    server: &ServerContracts,
    tool: &str,
    loaded: &LoadedConfig,
    lock: Option<&LockFile>,
) -> Result<LocatedContract, UnreadableContract> {
    let place = ContractLocation { file: file.to_owned(), tool: Some(tool.to_owned()) };
    let Some(entry) = server.tools.get(tool) else {
        return Err(UnreadableContract {
            place,
            binding: None,
            reason: format!("`tools.{tool}`: there is no such entry"),
        });
    };
    let pin = lock.and_then(|lock| lock.pin(&server.server, tool));
    let offered = pin.map(|pin| definition_layer(&pin.definition).0);
    let layers = ContractLayers {
        server: &server.server,
        tool,
        configuration: &loaded.config.defaults,
        server_defaults: &server.defaults,
        entry,
        offered: offered.as_ref(),
    };
    match layers.compose() {
        Ok(EffectiveContract { contract, origins }) => {
            let composed = Some(ContractComposition { entry: entry.clone(), origins });
            Ok(LocatedContract { place, contract, composed })
        }
        Err(error) => {
            let binding = Some((server.server.clone(), tool.to_owned()));
            let meant = lock.filter(|_| pin.is_none()).and_then(|lock| similar_tool_name(lock, &server.server, tool));
            let reason = match meant {
                Some(meant) => format!("`tools.{tool}`: the server has no such tool; did you mean `{meant}`?"),
                None => describe_layer_error(&error, tool, &loaded.file),
            };
            Err(UnreadableContract { place, binding, reason })
        }
    }
}

/// The tool of a server that a misspelt name probably means.
fn similar_tool_name(lock: &LockFile, server: &str, tool: &str) -> Option<String> {
    let names =
        lock.pins().filter(|(upstream, ..)| *upstream == server).map(|(_, name, _)| (name.as_str(), name.as_str()));
    near_names(tool, names, 1).first().map(|name| (*name).to_owned())
}

/// What is wrong with a layer, and in which file.
fn describe_layer_error(error: &LayerError, tool: &str, config: &Path) -> String {
    let LayerError { layer, field, reason } = error;
    match layer {
        Some(Layer::Configuration) => format!("`defaults.{field}` in {}: {reason}", config.display()),
        Some(Layer::Server) => format!("`defaults.{field}`: {reason}"),
        _ if field.is_empty() => format!("`tools.{tool}`: {reason}"),
        _ => format!("`tools.{tool}.{field}`: {reason}"),
    }
}

/// YAML and JSON files of a folder and its subfolders, in a fixed order.
pub(crate) fn contract_files(folder: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| {
            CommandFailure::bad_input(format!("cannot read the contracts' folder `{}`: {error}", folder.display()))
                .hint("run `servanda init`, or correct `contracts` in servanda.yaml")
        })?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
