//! Which files of the contracts' folder belong to which server, for commands that remove a server or tell a person which file to edit.

use std::path::PathBuf;

use servanda_config::LoadedConfig;
use servanda_contract::{ToolContract, layers::contract_name};

use crate::{
    contracts::reading::{ContractFile, ContractFolder, contract_files, read_file},
    failure::CommandFailure,
    files,
};

/// The files of a server.
#[derive(Debug, Default)]
pub(crate) struct ServerFiles {
    /// The files that hold contracts of this server and of no other.
    pub files: Vec<PathBuf>,
    /// The names of those contracts.
    pub contracts: Vec<String>,
}

/// The files that belong to a server. A file that cannot be read is an error that names it: its server is not known.
pub(crate) fn files_of_server(loaded: &LoadedConfig, server: &str) -> Result<ServerFiles, CommandFailure> {
    let mut found = ServerFiles::default();
    if !loaded.contracts_folder().exists() {
        return Ok(found);
    }
    for file in contract_files(&loaded.contracts_folder())? {
        let text = files::read_text(&file, files::TEXT_BYTES_MAX).map_err(|error| error.to_string());
        let read = text.and_then(|text| read_file(&file, &text)).map_err(|why| {
            CommandFailure::bad_input(format!("the server of `{}` is not known: {why}", file.display()))
                .hint("correct the file or move it away; nothing was changed")
        })?;
        let (of, names) = match read {
            ContractFile::Whole(contract) => (contract.binding.upstream, vec![contract.identity.name]),
            ContractFile::Server(its) => {
                let names = its.tools.keys().map(|tool| contract_name(&its.server, tool)).collect();
                (its.server, names)
            }
        };
        if of == server {
            found.contracts.extend(names);
            found.files.push(file);
        }
    }
    Ok(found)
}

/// Every contract that can be read, with its file.
pub(crate) fn readable(loaded: &LoadedConfig) -> Vec<(PathBuf, ToolContract)> {
    let written = ContractFolder::read(loaded).map(|folder| folder.written).unwrap_or_default();
    written.into_iter().map(|written| (written.place.file, written.contract)).collect()
}
