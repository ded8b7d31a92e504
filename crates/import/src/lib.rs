//! Imports MCP servers as upstreams of ours: from the files in which clients list their servers, the registry's `server.json`, and MCPB
//! bundles. The format is recognised by the content, never by the file's name. What cannot be imported is reported, never dropped silently;
//! no secret is written into our file.
//!
//! Deliberately absent: starting a server, writing our configuration, and asking a person. Notes are values that the caller shows.

mod bundle;
mod client_file;
mod entry;
mod env_file;
mod registry;
mod secrets;
#[cfg(test)]
mod tests;
mod variables;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde_json::Value;
use servanda_catalog::names;
use servanda_clients::{
    entry::is_listened_at,
    json::{self, JsoncError},
    search_path::is_this_program,
    toml,
};
use servanda_config::{
    UpstreamConfig,
    expansion::{expand, references},
};
use servanda_contract::legibility::one_line;
use servanda_files as files;
use sha2::{Digest as _, Sha256};

use self::client_file::ServerLines;
pub use self::{
    bundle::{BundleError, BundleServerError, EntryFault, EntryNameError, ManifestError, UnpackError, UnpackedBundle},
    client_file::{inputs_of, listed},
    entry::ImportEntryError,
    secrets::{ImportedSecrets, extract_secrets},
};

/// How much of a file that lists servers is read. `~/.claude.json` keeps a history beside them.
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// How much of a foreign description is repeated.
const WORDS_CHARS_MAX: usize = 100;
/// The first bytes of every zip.
const ZIP_MARK: &[u8] = b"PK\x03\x04";

/// What to import, and for which configuration.
#[derive(Debug, Clone, Copy)]
pub struct ImportSource<'a> {
    /// The file.
    pub file: &'a Path,
    /// The folder of our configuration.
    pub folder: &'a Path,
    /// Where the gateway listens: a server at that address is the gateway itself.
    pub listen: &'a str,
    /// The required digest of the file.
    pub sha256: Option<&'a str>,
    /// Whether to unpack a bundle again that was unpacked before.
    pub anew: bool,
}

/// The servers of a file.
#[derive(Debug, Default)]
pub struct ImportResult {
    /// The servers, by our id for them.
    pub upstreams: BTreeMap<String, UpstreamConfig>,
    /// What was not imported and why, and what is to be done.
    pub notes: Vec<String>,
    /// Secrets of the file, for asking the servers now.
    pub held: ImportedSecrets,
    /// Whether a client reads the file, and so reaches the servers without the gateway.
    pub bypass: bool,
    /// The bundle that was unpacked for this import, until it is kept.
    pub unpacked: Option<UnpackedBundle>,
    /// What the client would ask its user for, by the variable that has to be set instead.
    asked: BTreeMap<String, String>,
    /// Where secrets were, by upstream: the field, and the variable that replaces it.
    kept_out: BTreeMap<String, Vec<(String, String)>>,
}

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It does not exist.
    #[error("there is no `{}`", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read `{}`: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is too large.
    #[error("`{}` is larger than {bytes_max} bytes", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most bytes that are read.
        bytes_max: u64,
    },
    /// It is not the file that the user means.
    #[error("`{}` is not the expected file: its SHA-256 is {found}, not {expected}", file.display())]
    OtherDigest {
        /// The file.
        file: PathBuf,
        /// Its digest.
        found: String,
        /// The required digest.
        expected: String,
    },
    /// It is neither text nor a zip.
    #[error("`{}` is neither text nor a bundle", file.display())]
    NotText {
        /// The file.
        file: PathBuf,
    },
    /// It is neither JSON nor TOML.
    #[error("{}:{}:{}: {}", file.display(), source.line, source.column, source.reason)]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Why it is not JSON.
        source: JsoncError,
    },
    /// It is none of the known files.
    #[error("`{}` is in no known format", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
    },
    /// None of its servers can be used.
    #[error("`{}` lists no server that can be used{}", file.display(), reasons(notes))]
    NoServer {
        /// The file.
        file: PathBuf,
        /// What was left out, and why.
        notes: Vec<String>,
        /// Whether a client reads the file.
        bypass: bool,
    },
    /// It is a bundle that cannot be used.
    #[error("`{}` cannot be used: {}", file.display(), one_line(&source.to_string()))]
    Bundle {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: BundleError,
    },
    /// It is the manifest of an unpacked bundle that cannot be used.
    #[error("{}: {source}", file.display())]
    BundleServer {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: BundleServerError,
    },
    /// Another bundle is where it would be unpacked.
    #[error("`{}` exists and belongs to another bundle", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// Too many earlier folders of the bundle are kept.
    #[error("`{}` was kept too often; remove some of the *.bak folders", folder.display())]
    KeptTooOften {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or folder of ours cannot be written or moved.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl ImportResult {
    /// Fails if no server was imported.
    pub fn usable(self, file: &Path) -> Result<Self, ImportError> {
        if !self.upstreams.is_empty() {
            return Ok(self);
        }
        Err(ImportError::NoServer { file: file.to_owned(), notes: self.notes, bypass: self.bypass })
    }

    /// Adds an upstream under the file's name for it.
    fn take(&mut self, name: &str, mut upstream: UpstreamConfig) {
        let id = names::to_upstream_id(name);
        if self.upstreams.contains_key(&id) {
            return self.leave_out(name, "its name is too similar to another one");
        }
        if id != name {
            self.notes.push(format!("`{name}` is called `{id}` here"));
        }
        let kept_out = extract_secrets(&id, &mut upstream, &mut self.held);
        self.kept_out.insert(id.clone(), kept_out);
        self.upstreams.insert(id, upstream);
    }

    fn leave_out(&mut self, name: &str, why: &str) {
        self.notes.push(format!("`{name}` was left out: {why}"));
    }

    /// Adds the notes that depend on how upstreams were written into our file: which secrets were left out, which are in the store, and
    /// which variables to set before the gateway can serve. `stored` has the variables whose secrets are in the store, by upstream.
    pub fn settle(
        &mut self,
        into: &Path,
        added: &BTreeMap<String, UpstreamConfig>,
        stored: &BTreeSet<(String, String)>,
    ) {
        let into = into.display();
        for (id, fields) in self.kept_out.iter().filter(|(id, _)| added.contains_key(*id)) {
            for (field, variable) in fields {
                let now = if stored.contains(&(id.clone(), variable.clone())) {
                    format!("it is in the encrypted store, and {into} refers to it there")
                } else {
                    format!("{into} has ${{{variable}}} in its place")
                };
                self.notes.push(format!("`{id}.{field}` looks like a secret and was not copied: {now}"));
            }
        }
        let mut unset: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (id, upstream) in added {
            for name in needed(upstream).into_iter().filter(|name| std::env::var_os(name).is_none()) {
                unset.entry(name).or_default().insert(id);
            }
        }
        for (name, ids) in unset {
            let need = if ids.len() == 1 { "needs" } else { "need" };
            let ids = ids.into_iter().collect::<Vec<_>>().join("` and `");
            let words = self.asked.get(&name).filter(|words| !words.trim().is_empty() && **words != name);
            let words = words.map(|words| format!(" ({})", shortened(words))).unwrap_or_default();
            self.notes.push(format!("set {name}{words} before `servanda serve`: `{ids}` {need} it"));
        }
    }
}

/// The variables that must be set before an upstream can be started.
pub fn needed(upstream: &UpstreamConfig) -> BTreeSet<String> {
    let texts = upstream.command.iter().chain(&upstream.args).chain(upstream.env.values());
    let texts = texts.chain(&upstream.url).chain(upstream.headers.values());
    let found = texts.flat_map(|text| references(text)).filter(|reference| reference.default.is_none());
    found.map(|reference| reference.name.to_owned()).collect()
}

/// Reads a file of any known format.
pub fn read(source: &ImportSource<'_>) -> Result<ImportResult, ImportError> {
    let mut imported = read_any(source)?;
    // A note may quote foreign text, which must not control a terminal.
    for note in &mut imported.notes {
        *note = one_line(note);
    }
    Ok(imported)
}

/// Foreign text on one line, shortened.
fn shortened(words: &str) -> String {
    let words = one_line(words);
    let short: String = words.trim().chars().take(WORDS_CHARS_MAX).collect();
    if short.len() < words.trim().len() { format!("{short}…") } else { short }
}

fn read_any(source: &ImportSource<'_>) -> Result<ImportResult, ImportError> {
    let (mut file, mark) = open(source.file)?;
    let zip = mark.starts_with(ZIP_MARK);
    let bytes_max = if zip { bundle::ARCHIVE_BYTES_MAX } else { TEXT_BYTES_MAX };
    let mut bytes = mark;
    file.by_ref().take(bytes_max).read_to_end(&mut bytes).map_err(|error| unreadable(source.file, error))?;
    if bytes.len() as u64 > bytes_max {
        return Err(ImportError::TooLarge { file: source.file.to_owned(), bytes_max });
    }
    let digest = servanda_contract::digest::hex(&Sha256::digest(&bytes));
    if let Some(expected) = source.sha256.filter(|expected| !expected.trim().eq_ignore_ascii_case(&digest)) {
        let (file, expected) = (source.file.to_owned(), expected.to_owned());
        return Err(ImportError::OtherDigest { file, found: digest, expected });
    }
    if zip {
        return bundle::import(source, &bytes, &digest);
    }
    let text = String::from_utf8(bytes).map_err(|_| ImportError::NotText { file: source.file.to_owned() })?;
    let (document, places) = document(source.file, &text)?;
    recognise(source, &document, &places)
}

/// A text in a format of a client, as a value, and the lines of its servers.
fn document(file: &Path, text: &str) -> Result<(Value, ServerLines), ImportError> {
    let error = match json::parse(text) {
        Ok(root) => return Ok((root.value(), client_file::server_lines(&root, text))),
        Err(error) => error,
    };
    // A heading or a name without quotes means TOML, as Codex writes it.
    if !text.trim_start().starts_with(['{', '"', '/', '\u{feff}'])
        && let Ok(value) = toml::read(text)
    {
        return Ok((value, ServerLines::new()));
    }
    Err(ImportError::Syntax { file: file.to_owned(), source: error })
}

fn recognise(source: &ImportSource<'_>, document: &Value, places: &ServerLines) -> Result<ImportResult, ImportError> {
    let has = |field: &str| document.get(field).is_some();
    let described = |value: &Value| value.get("packages").is_some() || value.get("remotes").is_some();
    if (has("manifest_version") || has("dxt_version")) && has("server") {
        return bundle::import_unpacked(source, document);
    }
    // The registry wraps the author's document in another object.
    let server = document.get("server").filter(|server| described(server)).unwrap_or(document);
    if described(server) {
        return Ok(registry::import(server, &registry::is_installed));
    }
    let imported = client_file::import(source, document, places);
    imported.ok_or_else(|| ImportError::UnknownFormat { file: source.file.to_owned() })
}

fn open(file: &Path) -> Result<(std::fs::File, Vec<u8>), ImportError> {
    let mut opened = files::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ImportError::Missing { file: file.to_owned() },
        _ => unreadable(file, error),
    })?;
    let mut mark = Vec::new();
    opened.by_ref().take(ZIP_MARK.len() as u64).read_to_end(&mut mark).map_err(|error| unreadable(file, error))?;
    Ok((opened, mark))
}

fn unreadable(file: &Path, source: io::Error) -> ImportError {
    ImportError::Unreadable { file: file.to_owned(), source }
}

fn reasons(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) }
}

/// Whether an upstream would be the gateway that listens at `listen`: it would call itself without end.
fn is_this_gateway(upstream: &UpstreamConfig, listen: &str) -> bool {
    if let Some(command) = &upstream.command {
        let gateway = upstream.args.iter().any(|arg| arg == "serve" || arg == "stdio");
        return gateway && expand(command).is_ok_and(|command| is_this_program(&command));
    }
    let url = upstream.url.as_deref().and_then(|url| expand(url).ok());
    url.is_some_and(|url| is_listened_at(&url, listen))
}
