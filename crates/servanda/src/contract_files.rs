//! The contracts' folder, read: files of one server's tools, whose contracts are composed of layers, and files of one whole
//! contract. Judging what was read is `contracts`' business.

use std::path::{Path, PathBuf};

use servanda_catalog::{inference::offered, pins::Lock};
use servanda_contract::{
    ToolContract, document,
    layers::{Effective, Layer, LayerError, Layers, Origins, ServerContracts, ToolEntry},
};

use crate::{config::Loaded, failure::Failure, files, lock};

/// The member that only a file of a server's tools has.
const TOOLS: &str = "tools";

/// Where a contract is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file.
    pub file: PathBuf,
    /// The tool's own name, where the file has several.
    pub tool: Option<String>,
}

/// A contract as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    /// Where.
    pub place: Place,
    /// The whole contract.
    pub contract: ToolContract,
    /// How it was composed, where it was.
    pub composed: Option<Composed>,
}

/// How a contract was composed of layers.
#[derive(Debug, Clone)]
pub(crate) struct Composed {
    /// The tool's entry.
    pub entry: ToolEntry,
    /// Which layer each value comes from.
    pub origins: Origins,
}

/// A contract that could not be read.
#[derive(Debug, Clone)]
pub(crate) struct Unread {
    /// Where.
    pub place: Place,
    /// Which tool it is about, as far as that is known.
    pub binding: Option<(String, String)>,
    /// Why.
    pub reason: String,
}

/// Everything in the folder, in a fixed order.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    /// What was read.
    pub written: Vec<Written>,
    /// What was not.
    pub unread: Vec<Unread>,
}

impl Folder {
    /// Reads every file. A lock file that cannot be read is a failure of its own: schemas are taken from it.
    pub(crate) fn read(loaded: &Loaded) -> Result<Self, Failure> {
        let lock = lock::read(&loaded.lock_file())?;
        Self::read_with(loaded, lock.as_ref())
    }

    /// Reads every file with the pins of a lock that was read already.
    pub(crate) fn read_with(loaded: &Loaded, lock: Option<&Lock>) -> Result<Self, Failure> {
        let mut folder = Self::default();
        for file in contract_files(&loaded.contracts_folder())? {
            folder.add(&file, loaded, lock);
        }
        Ok(folder)
    }

    fn add(&mut self, file: &Path, loaded: &Loaded, lock: Option<&Lock>) {
        let place = Place { file: file.to_owned(), tool: None };
        let text = match files::read_text(file, files::TEXT_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => return self.unread.push(Unread { place, binding: None, reason: error.to_string() }),
        };
        match read_file(file, &text) {
            Err(reason) => self.unread.push(Unread { place, binding: None, reason }),
            Ok(ContractFile::Whole(contract)) => {
                self.written.push(Written { place, contract: *contract, composed: None });
            }
            Ok(ContractFile::Server(server)) if !loaded.config.upstreams.contains_key(&server.server) => {
                let (server, config) = (server.server, loaded.file.display());
                let reason = format!("`server`: `{server}` is not an upstream of `{config}`");
                self.unread.push(Unread { place, binding: None, reason });
            }
            Ok(ContractFile::Server(server)) => {
                let Self { written, unread } = compose(file, &server, loaded, lock);
                self.written.extend(written);
                self.unread.extend(unread);
            }
        }
    }
}

impl Written {
    /// Where a member of the contract is written, or would have to be written to be changed: for messages.
    pub(crate) fn field(&self, field: &str, config: &Path) -> String {
        let file = self.place.file.display();
        let Some((tool, composed)) = self.place.tool.as_ref().zip(self.composed.as_ref()) else {
            return format!("`{field}` in {file}");
        };
        let pointer = format!("/{}", field.replace('.', "/"));
        match composed.origins.at(&pointer) {
            Some(Layer::Server) => format!("`defaults.{field}` in {file}"),
            Some(Layer::Configuration) => format!("`defaults.{field}` in {}", config.display()),
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

/// Reads the text of a contract file; `file` is named in the reason if it cannot be read.
pub(crate) fn read_file(file: &Path, text: &str) -> Result<ContractFile, String> {
    let name = file.display().to_string();
    let members = document::read::<serde_json::Map<String, serde_json::Value>>(&name, text);
    // A file that cannot be read at all is told of as a whole contract, whose reader names the field.
    if members.is_ok_and(|members| members.contains_key(TOOLS)) {
        let server = document::read::<ServerContracts>(&name, text).map_err(|error| error.to_string())?;
        return Ok(ContractFile::Server(server));
    }
    let contract = document::read::<ToolContract>(&name, text).map_err(|error| error.to_string())?;
    Ok(ContractFile::Whole(Box::new(contract)))
}

/// Composes the contracts of a server's tools.
pub(crate) fn compose(file: &Path, server: &ServerContracts, loaded: &Loaded, lock: Option<&Lock>) -> Folder {
    let mut folder = Folder::default();
    for (tool, entry) in &server.tools {
        let place = Place { file: file.to_owned(), tool: Some(tool.clone()) };
        let pin = lock.and_then(|lock| lock.pin(&server.server, tool));
        let offered = pin.map(|pin| offered(&pin.definition).0);
        let layers = Layers {
            server: &server.server,
            tool,
            configuration: &loaded.config.defaults,
            server_defaults: &server.defaults,
            entry,
            offered: offered.as_ref(),
        };
        match layers.compose() {
            Ok(Effective { contract, origins }) => {
                let composed = Some(Composed { entry: entry.clone(), origins });
                folder.written.push(Written { place, contract, composed });
            }
            Err(error) => {
                let binding = Some((server.server.clone(), tool.clone()));
                folder.unread.push(Unread { place, binding, reason: told(&error, tool, &loaded.file) });
            }
        }
    }
    folder
}

/// What is wrong with layers, and in which file.
fn told(error: &LayerError, tool: &str, config: &Path) -> String {
    let LayerError { layer, field, reason } = error;
    match layer {
        Some(Layer::Configuration) => format!("`defaults.{field}` in {}: {reason}", config.display()),
        Some(Layer::Server) => format!("`defaults.{field}`: {reason}"),
        _ if field.is_empty() => format!("`tools.{tool}`: {reason}"),
        _ => format!("`tools.{tool}.{field}`: {reason}"),
    }
}

/// YAML and JSON files of a folder and the folders in it, in a fixed order.
pub(crate) fn contract_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| {
            Failure::bad_input(format!("cannot read the contracts' folder `{}`: {error}", folder.display()))
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
