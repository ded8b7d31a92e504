//! The manifest of a bundle (`manifest_version` 0.1 to 0.4): how its server is started, and what its user may set. The format's variables
//! become paths, defaults and references of ours. An unknown variable is refused, because it would be filled in from the user's
//! environment.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use servanda_clients::{likely_secrets::variable_name, search_path::on_search_path};
use servanda_config::{
    UpstreamConfig,
    expansion::{ExpansionError, replace},
};

use super::unpack::{EntryNameError, inside};

/// The versions that are read.
const VERSIONS: [&str; 4] = ["0.1", "0.2", "0.3", "0.4"];
/// The format's name for this system.
const PLATFORM: &str = if cfg!(target_os = "macos") { "darwin" } else { "linux" };

/// The contents of a manifest.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    #[serde(rename = "manifest_version", alias = "dxt_version")]
    format: String,
    /// Its name.
    pub(super) name: String,
    /// Its version.
    pub(super) version: String,
    server: ManifestServer,
    #[serde(default)]
    user_config: BTreeMap<String, ManifestSetting>,
    #[serde(default)]
    compatibility: ManifestCompatibility,
}

#[derive(Debug, Deserialize)]
struct ManifestServer {
    r#type: String,
    #[serde(default)]
    entry_point: String,
    #[serde(default)]
    mcp_config: Option<ManifestStart>,
}

/// How the server is started.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ManifestStart {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    platform_overrides: BTreeMap<String, ManifestStart>,
}

/// A setting that the user may make.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManifestSetting {
    title: String,
    description: String,
    required: bool,
    default: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManifestCompatibility {
    platforms: Option<Vec<String>>,
}

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// A field is malformed.
    #[error("`{field}`: {reason}")]
    Field {
        /// Its path.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Its version is not known.
    #[error("version {0} of the format is not known here; {known} are", known = VERSIONS.join(", "))]
    Version(String),
    /// It is for other systems.
    #[error("it is for {}, and this is {PLATFORM}", .0.join(" and "))]
    Platform(Vec<String>),
    /// Its server is of another kind.
    #[error("`{0}` is not a kind of server that is known here")]
    Kind(String),
    /// Its server is nowhere in the bundle.
    #[error("`server.entry_point` of a {kind} bundle {reason}")]
    EntryPoint {
        /// The kind of bundle.
        kind: &'static str,
        /// Why its path leads nowhere.
        reason: EntryNameError,
    },
    /// A variable is not one of the format.
    #[error("`${{{0}}}` is not a variable of the format, and would be filled in from your environment")]
    Variable(String),
    /// A setting is referred to and not declared.
    #[error("`${{user_config.{0}}}` is not among its settings")]
    Setting(String),
    /// A reference is malformed.
    #[error(transparent)]
    Expansion(#[from] ExpansionError),
}

/// The values of a manifest's variables.
#[derive(Debug)]
pub(super) struct ManifestSettings<'a> {
    manifest: &'a Manifest,
    folder: &'a Path,
    /// Notes about the settings.
    pub(super) notes: Vec<String>,
    /// Variables that a person has to set, with descriptions.
    pub(super) asked: BTreeMap<String, String>,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SettingValue {
    /// One value, or several.
    Values(Vec<String>),
    /// A variable of ours that has to be set.
    Variable(String),
    /// No value, and none is needed.
    Unset,
}

impl Manifest {
    /// Reads a manifest.
    pub(super) fn read(document: &Value) -> Result<Self, ManifestError> {
        let mut document = document.clone();
        // Some manifests have both spellings, for readers of either version.
        if let Some(members) = document.as_object_mut().filter(|members| members.contains_key("manifest_version")) {
            members.remove("dxt_version");
        }
        let manifest: Self = serde_path_to_error::deserialize(document).map_err(|error| ManifestError::Field {
            field: error.path().to_string(),
            reason: error.inner().to_string(),
        })?;
        if !VERSIONS.contains(&manifest.format.as_str()) {
            return Err(ManifestError::Version(manifest.format));
        }
        let platforms = manifest.compatibility.platforms.as_deref().unwrap_or_default();
        if !platforms.is_empty() && !platforms.iter().any(|platform| platform == PLATFORM) {
            return Err(ManifestError::Platform(platforms.to_vec()));
        }
        Ok(manifest)
    }

    /// The upstream that the manifest describes.
    pub(super) fn upstream(&self, settings: &mut ManifestSettings<'_>) -> Result<UpstreamConfig, ManifestError> {
        let mut start = self.server.mcp_config.clone().unwrap_or_default();
        if let Some(special) = start.platform_overrides.remove(PLATFORM) {
            start.command = special.command.or(start.command);
            start.args = special.args.or(start.args);
            start.env = special.env.or(start.env);
        }
        let (usual_command, usual_args) = self.usual(settings.folder)?;
        let command = start.command.map_or(Ok(usual_command), |command| settings.fill(&command))?;
        let args = start.args.map_or(Ok(usual_args), |args| settings.arguments(&args))?;
        let mut env = BTreeMap::new();
        let mut env_pass = Vec::new();
        for (name, value) in start.env.unwrap_or_default() {
            if whole(&value).is_some() && settings.lacks(&value)? {
                env_pass.push(name);
            } else {
                env.insert(name, settings.fill(&value)?);
            }
        }
        if !env_pass.is_empty() {
            settings.notes.push(format!("passed on if set: {}", env_pass.join(", ")));
        }
        let command = settings.program(command);
        Ok(UpstreamConfig { command: Some(command), args, env, env_pass, ..UpstreamConfig::default() })
    }

    /// How a server of its kind is started if the manifest does not say.
    fn usual(&self, folder: &Path) -> Result<(String, Vec<String>), ManifestError> {
        let entry = inside(&self.server.entry_point).map(|entry| folder.join(entry).display().to_string());
        let entry = |kind| entry.clone().map_err(|reason| ManifestError::EntryPoint { kind, reason });
        let root = folder.display().to_string();
        match self.server.r#type.as_str() {
            "node" => Ok(("node".to_owned(), vec![entry("node")?])),
            "python" => Ok(("python3".to_owned(), vec![entry("python")?])),
            "uv" => Ok(("uv".to_owned(), vec!["run".to_owned(), "--directory".to_owned(), root, entry("uv")?])),
            "binary" => Ok((entry("binary")?, Vec::new())),
            other => Err(ManifestError::Kind(other.to_owned())),
        }
    }
}

impl<'a> ManifestSettings<'a> {
    /// The variables of a bundle in `folder`.
    pub(super) fn new(manifest: &'a Manifest, folder: &'a Path) -> Self {
        Self { manifest, folder, notes: Vec::new(), asked: BTreeMap::new() }
    }

    fn arguments(&mut self, args: &[String]) -> Result<Vec<String>, ManifestError> {
        let mut filled = Vec::new();
        for argument in args {
            // Without its value the argument would mean something else or nothing, so it is left out.
            if self.lacks(argument)? {
                self.notes.push(format!("`{argument}` is optional and was not given; `args` can have it"));
                continue;
            }
            match whole(argument).map(|key| self.setting(key)).transpose()? {
                // Several values become several arguments.
                Some(SettingValue::Values(values)) => filled.extend(values),
                _ => filled.push(self.fill(argument)?),
            }
        }
        Ok(filled)
    }

    /// Whether a text contains an optional setting that has no value.
    fn lacks(&mut self, text: &str) -> Result<bool, ManifestError> {
        let mut lacks = false;
        replace::<ManifestError>(text, |inside| {
            let setting = inside.strip_prefix("user_config.").map(|key| self.setting(key)).transpose()?;
            lacks |= setting == Some(SettingValue::Unset);
            Ok(String::new())
        })?;
        Ok(lacks)
    }

    /// A text with its variables filled in.
    fn fill(&mut self, text: &str) -> Result<String, ManifestError> {
        replace(text, |inside| {
            Ok(match inside.strip_prefix("user_config.").map(|key| self.setting(key)).transpose()? {
                Some(SettingValue::Values(values)) => values.join(" "),
                Some(SettingValue::Variable(variable)) => format!("${{{variable}}}"),
                Some(SettingValue::Unset) => String::new(),
                None => self.known(inside)?,
            })
        })
    }

    /// The variables of the format itself.
    fn known(&self, name: &str) -> Result<String, ManifestError> {
        let home = |folder: &str| format!("${{HOME}}/{folder}");
        Ok(match name {
            "__dirname" => self.folder.display().to_string(),
            "HOME" => "${HOME}".to_owned(),
            "DESKTOP" => home("Desktop"),
            "DOCUMENTS" => home("Documents"),
            "DOWNLOADS" => home("Downloads"),
            "pathSeparator" | "/" => "/".to_owned(),
            _ => return Err(ManifestError::Variable(name.to_owned())),
        })
    }

    fn setting(&mut self, key: &str) -> Result<SettingValue, ManifestError> {
        let Some(setting) = self.manifest.user_config.get(key) else {
            return Err(ManifestError::Setting(key.to_owned()));
        };
        let values = match &setting.default {
            Value::Array(values) => values.iter().filter_map(text).collect(),
            value => text(value).into_iter().collect::<Vec<_>>(),
        };
        if !values.is_empty() {
            // A default may refer to the user's folders, but to no other setting.
            let known = values.iter().map(|value| replace(value, |inside| self.known(inside)));
            return known.collect::<Result<Vec<_>, _>>().map(SettingValue::Values);
        }
        if !setting.required {
            return Ok(SettingValue::Unset);
        }
        let variable = variable_name(&format!("{}_{key}", self.manifest.name));
        let words = [&setting.title, &setting.description].into_iter().find(|words| !words.is_empty());
        self.asked.insert(variable.clone(), words.map_or(key, |words| words).to_owned());
        Ok(SettingValue::Variable(variable))
    }

    /// A program of the bundle by its full path; `python` becomes `python3` if only that is installed.
    fn program(&mut self, command: String) -> String {
        let path = PathBuf::from(&command);
        if path.is_relative() && self.folder.join(&path).is_file() {
            return self.folder.join(path).display().to_string();
        }
        if command == "python" && on_search_path("python").is_none() {
            self.notes.push("it is started with `python3`; there is no `python` here".to_owned());
            return "python3".to_owned();
        }
        command
    }
}

/// The key, if a text is exactly one setting.
fn whole(text: &str) -> Option<&str> {
    text.strip_prefix("${user_config.")?.strip_suffix('}').filter(|key| !key.contains('}'))
}

/// A default as text; none for null.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
