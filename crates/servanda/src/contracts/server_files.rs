//! Which files of the contracts' folder belong to which server. The one place that knows how contracts are laid out in files, for commands
//! that remove a server or tell a person which file to edit.

use std::path::{Path, PathBuf};

use servanda_contract::{ToolContract, document};

use super::files;
use crate::{config::Loaded, failure::Failure};

/// The files of a server.
#[derive(Debug, Default)]
pub(crate) struct ServerFiles {
    /// The files that hold contracts of this server and of no other.
    pub files: Vec<PathBuf>,
    /// The names of those contracts.
    pub contracts: Vec<String>,
}

/// The files that belong to a server. A file that holds contracts of another server too cannot go with it, and is an error that names it. So is
/// a file that cannot be read, because its server is unknown.
pub(crate) fn of_server(loaded: &Loaded, server: &str) -> Result<ServerFiles, Failure> {
    let mut found = ServerFiles::default();
    if !loaded.contracts_folder().exists() {
        return Ok(found);
    }
    for file in files(&loaded.contracts_folder())? {
        let contracts = contracts_in(&file).map_err(|why| {
            Failure::bad_input(format!("it cannot be said whose contract `{}` is: {why}", file.display()))
                .hint("correct the file or move it away; nothing was changed")
        })?;
        let (ours, others): (Vec<_>, Vec<_>) = contracts.into_iter().partition(|one| one.binding.upstream == server);
        if let (Some(_), Some(other)) = (ours.first(), others.first()) {
            let other = &other.binding.upstream;
            return Err(Failure::bad_input(format!(
                "`{}` holds contracts of `{server}` and of `{other}`",
                file.display()
            ))
            .hint("put each server's contracts into a file of their own; nothing was changed"));
        }
        if !ours.is_empty() {
            found.contracts.extend(ours.into_iter().map(|contract| contract.identity.name));
            found.files.push(file);
        }
    }
    Ok(found)
}

/// The file that holds the contract of that name.
pub(crate) fn file_of(loaded: &Loaded, contract: &str) -> Option<PathBuf> {
    let holds = |file: &PathBuf| {
        contracts_in(file).is_ok_and(|contracts| contracts.iter().any(|one| one.identity.name == contract))
    };
    files(&loaded.contracts_folder()).ok()?.into_iter().find(holds)
}

/// Every contract that can be read, with its file.
pub(crate) fn readable(loaded: &Loaded) -> Vec<(PathBuf, ToolContract)> {
    let all = files(&loaded.contracts_folder()).unwrap_or_default().into_iter();
    let held = all.map(|file| (contracts_in(&file).unwrap_or_default(), file));
    held.flat_map(|(contracts, file)| contracts.into_iter().map(move |contract| (file.clone(), contract))).collect()
}

/// The contracts that a file holds.
fn contracts_in(file: &Path) -> Result<Vec<ToolContract>, String> {
    let text = crate::files::read_text(file, crate::files::TEXT_BYTES_MAX).map_err(|error| error.to_string())?;
    let contract: ToolContract =
        document::read(&file.display().to_string(), &text).map_err(|error| error.to_string())?;
    Ok(vec![contract])
}
