//! What `init` writes: the configuration, one file of contracts per server, and the pins. Nothing that a person may have edited is lost:
//! before a file is replaced, a copy is kept beside it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use servanda_catalog::pins::{Definition, ListedKind, LockFile};
use servanda_config::{LoadedConfig, state_folder};
use servanda_contract::{Timestamp, layers::ToolEntry, time::Clock as _};
use servanda_engine::SystemClock;

use crate::{
    contracts::{
        editing, lock,
        reading::{self, ContractFile},
    },
    failure::CommandFailure,
    files, screen,
};

/// Only the owner may read the configuration, because it may contain secrets.
const CONFIG_MODE: u32 = 0o600;
/// Readable by every user who can reach the folder.
const CONTRACT_MODE: u32 = 0o644;
/// How many earlier versions of one file are kept.
const KEPT_MAX: u32 = 1_000;

/// Writes files, and counts the earlier ones it kept.
#[derive(Debug)]
pub(super) struct InitWriter {
    /// How many earlier files were kept.
    pub kept: usize,
    /// How many definitions were pinned.
    pub pinned: usize,
    lock: LockFile,
    now: Timestamp,
    /// Whether this folder has never had pins.
    first: bool,
    /// The folder in which the configuration is written, and the folder in which contracts are. Nothing is written outside of them.
    root: PathBuf,
    contracts_root: PathBuf,
}

impl InitWriter {
    /// Begins with the existing pins. A lock file that cannot be read is replaced only with `--force`.
    pub(super) fn begin(loaded: &LoadedConfig, force: bool) -> Result<Self, CommandFailure> {
        let before = match lock::read(&loaded.lock_file()) {
            Err(_) if force => None,
            read => read?,
        };
        let (first, lock) = (before.is_none(), before.unwrap_or_default());
        let (root, contracts) = (loaded.folder.clone(), &loaded.config.contracts);
        // The configuration may name a folder elsewhere for contracts; links inside of that folder must not lead out of it either.
        let contracts_root =
            if state_folder::is_elsewhere(contracts) { loaded.contracts_folder() } else { root.clone() };
        Ok(Self { kept: 0, pinned: 0, lock, now: SystemClock.now(), first, root, contracts_root })
    }

    /// Pins the definition that a contract was written from.
    pub(super) fn pin(&mut self, upstream: &str, definition: &Definition) {
        self.pinned += usize::from(self.lock.set(upstream, definition, self.now));
    }

    /// Pins the definition of a tool that had a contract before anything was ever pinned. An existing pin is changed only by `servanda
    /// pin`: otherwise asking for new tools would let old ones change.
    pub(super) fn pin_once(&mut self, upstream: &str, definition: &Definition) {
        if self.first {
            self.pin(upstream, definition);
        }
    }

    /// Pins what an upstream lists beside its tools, unless a person agreed to its lists before.
    pub(super) fn pin_lists(&mut self, upstream: &str, lists: &BTreeMap<ListedKind, Vec<Definition>>) {
        if self.lock.has_listed(upstream) {
            return;
        }
        self.lock.agree_to_lists(upstream);
        for (kind, items) in lists {
            for item in items {
                self.pinned += usize::from(self.lock.set_listed(upstream, *kind, item, self.now));
            }
        }
    }

    /// Writes the pins.
    pub(super) fn lock(&mut self, loaded: &LoadedConfig, force: bool) -> Result<(), CommandFailure> {
        let file = loaded.lock_file();
        if self.pinned == 0 {
            return Ok(());
        }
        if force {
            self.set_aside(&file, &lock::text(&self.lock)?)?;
        }
        lock::write(&file, &self.lock)
    }

    /// Writes the configuration.
    pub(super) fn config(&mut self, loaded: &LoadedConfig) -> Result<(), CommandFailure> {
        let text = loaded.config.to_document().map_err(|error| CommandFailure::failed(error.to_string()))?;
        let head = "# Servanda's configuration. `servanda check` reads it, `servanda schema config` says what may stand here.\n\
                    # Calls that delete, or move rights or code, are refused beyond what `budgets` allows; `servanda budgets` shows how\n\
                    # much is left.\n";
        self.replace(&self.root.clone(), &loaded.file, &format!("{head}{text}"), CONFIG_MODE)?;
        // An existing file may have been readable by other users.
        std::fs::set_permissions(&loaded.file, std::fs::Permissions::from_mode(CONFIG_MODE))
            .map_err(|error| cannot_write(&loaded.file, &error))
    }

    /// Writes the contracts of one server's tools: a new file, or more tools in an existing one.
    pub(super) fn server_contracts(
        &mut self,
        file: &Path,
        server: &str,
        tools: BTreeMap<String, ToolEntry>,
        keep: bool,
    ) -> Result<(), CommandFailure> {
        if tools.is_empty() {
            return Ok(());
        }
        let tools = tools.into_iter().map(|(tool, entry)| (tool, in_lines(entry))).collect();
        let text = match read_there(file) {
            Ok(before) if keep => {
                let before = String::from_utf8(before).map_err(|_| not_its_file(file, server))?;
                match reading::read_file(file, &before) {
                    Ok(ContractFile::Server(there)) if there.server == server => editing::append(file, &before, tools)?,
                    _ => return Err(not_its_file(file, server)),
                }
            }
            _ => editing::compose(server, tools)?,
        };
        self.replace(&self.contracts_root.clone(), file, &text, CONTRACT_MODE)
    }

    /// Removes the one-tool files that an earlier version wrote for a server, and keeps them as `*.bak`.
    pub(super) fn retire(&mut self, folder: &Path, server: &str) -> Result<(), CommandFailure> {
        if !folder.is_dir() {
            return Ok(());
        }
        for file in reading::contract_files(folder)? {
            let Ok(before) = read_there(&file) else { continue };
            let text = String::from_utf8_lossy(&before);
            let is_its = matches!(reading::read_file(&file, &text),
                Ok(ContractFile::Whole(contract)) if contract.binding.upstream == server);
            if is_its {
                keep(&file, &before)
                    .and_then(|()| std::fs::remove_file(&file))
                    .map_err(|error| cannot_write(&file, &error))?;
                self.kept += 1;
            }
        }
        Ok(())
    }

    /// Makes a folder for contracts.
    pub(super) fn contracts_folder(&self, folder: &Path) -> Result<(), CommandFailure> {
        let is_rooted = folder.parent().is_some_and(Path::exists);
        let inside = if is_rooted { files::require_inside(&self.contracts_root, folder) } else { Ok(()) };
        let made = inside.and_then(|()| std::fs::create_dir_all(folder));
        let made = made.and_then(|()| files::require_inside(&self.contracts_root, &folder.join("contract.yaml")));
        made.map_err(|error| cannot_write(folder, &error))
    }

    fn replace(&mut self, root: &Path, file: &Path, text: &str, mode: u32) -> Result<(), CommandFailure> {
        if !self.set_aside(file, text)? {
            return Ok(());
        }
        files::write_inside(root, file, text, mode).map_err(|error| cannot_write(file, &error))
    }
}

impl InitWriter {
    /// Keeps a copy of a file that is about to be replaced. Returns whether there is anything to write.
    fn set_aside(&mut self, file: &Path, text: &str) -> Result<bool, CommandFailure> {
        match read_there(file) {
            Ok(before) if before == text.as_bytes() => return Ok(false),
            Ok(before) => {
                keep(file, &before).map_err(|error| {
                    CommandFailure::failed(format!(
                        "cannot keep `{}` before it is written over: {error}",
                        file.display()
                    ))
                })?;
                self.kept += 1;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_write(file, &error)),
        }
        Ok(true)
    }
}

/// Refuses a file that cannot be replaced, before anything is started. A link is refused because a copy of its target would be kept beside
/// it.
pub(super) fn require_replaceable(file: &Path) -> Result<(), CommandFailure> {
    match read_there(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(cannot_write(file, &error).hint("nothing was started; put a file in its place, or remove it"))
        }
        _ => Ok(()),
    }
}

/// The contents of a file that is to be replaced. It must be a regular file and no link.
fn read_there(file: &Path) -> std::io::Result<Vec<u8>> {
    files::refuse_link(file)?;
    // The largest of these files is the lock.
    files::read(file, lock::LOCK_BYTES_MAX)
}

/// Puts text from a server on one line, so that it cannot imitate the file's own layout.
fn in_lines(mut entry: ToolEntry) -> ToolEntry {
    entry.why = entry.why.map(|why| screen::one_line(&why));
    entry.doubts = entry.doubts.iter().map(|doubt| screen::one_line(doubt)).collect();
    entry
}

fn not_its_file(file: &Path, server: &str) -> CommandFailure {
    CommandFailure::failed(format!("`{}` is there and is not the file of `{server}`'s contracts", file.display()))
        .hint("move it to another name in the same folder, then `servanda init` again")
}

/// Keeps a copy as `<name>.bak`, or under the next number if another version has that name.
fn keep(file: &Path, before: &[u8]) -> std::io::Result<()> {
    for number in 1..=KEPT_MAX {
        let copy = beside(file, number);
        match read_there(&copy) {
            Ok(kept) if kept == before => return Ok(()),
            // The copy has the same permissions: a private file stays private.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mode = std::fs::metadata(file)?.permissions().mode() & 0o777;
                return files::write_new(&copy, before, mode);
            }
            // Another version, or a file that is not ours: try the next number.
            Ok(_) | Err(_) => {}
        }
    }
    Err(std::io::Error::other("there are too many earlier versions; remove some of the *.bak files"))
}

fn beside(file: &Path, number: u32) -> PathBuf {
    let mut name = file.file_name().map_or_else(OsString::new, OsString::from);
    name.push(if number == 1 { ".bak".to_owned() } else { format!(".{number}.bak") });
    file.with_file_name(name)
}

fn cannot_write(file: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::failed(format!("cannot write `{}`: {error}", file.display()))
}
