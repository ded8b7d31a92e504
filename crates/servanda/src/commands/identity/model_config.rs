//! The file that names language models for second opinions, and limits for asking them. Keys are never in it, only the names of the
//! variables that hold them.

use std::{collections::BTreeSet, path::Path};

use reqwest::{Url, header::HeaderValue};
use serde::Deserialize;
use servanda_contract::document;
use servanda_upstream::WebhookAddress;

use crate::{failure::CommandFailure, files};

/// How many models may be asked.
const MODELS_MAX: usize = 9;

/// The contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelsFile {
    models: Vec<ModelEntry>,
    #[serde(default)]
    limits: ModelLimits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEntry {
    /// Its name in the output; the model's own name by default.
    #[serde(default)]
    name: Option<String>,
    /// The base URL of its chat completions: `https://api.example.com/v1`.
    url: String,
    /// The model's name at its provider.
    model: String,
    /// The variable that holds the key; none for a server that needs no key.
    #[serde(default)]
    key_env: Option<String>,
}

/// Limits for asking models.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ModelLimits {
    /// How many tools' definitions are sent at most.
    pub(super) tools_max: usize,
    /// How many requests run at once, to all models together.
    pub(super) concurrent_max: usize,
    /// How long one answer may take.
    pub(super) timeout_ms: u64,
    /// How long one answer may be.
    pub(super) answer_bytes_max: usize,
    /// How often a request is repeated if the server was too busy.
    pub(super) retries_max: u32,
    /// How long a busy server is waited for before a repeat, at most.
    pub(super) retry_wait_ms_max: u64,
}

impl Default for ModelLimits {
    fn default() -> Self {
        Self {
            tools_max: 1_000,
            concurrent_max: 4,
            timeout_ms: 60_000,
            answer_bytes_max: 64 * 1_024,
            retries_max: 3,
            retry_wait_ms_max: 60_000,
        }
    }
}

/// A model that can be asked.
#[derive(Debug)]
pub(super) struct LanguageModel {
    /// Its name in the output.
    pub(super) label: String,
    /// Its name at its provider.
    pub(super) own_name: String,
    /// Where its chat completions are.
    pub(super) url: Url,
    /// The authorization header; marked as sensitive, so that it is never printed.
    pub(super) authorization: Option<HeaderValue>,
}

/// Reads the file, and the keys from the environment. If anything is wrong, nothing is sent.
pub(super) fn read(file: &Path) -> Result<(Vec<LanguageModel>, ModelLimits), CommandFailure> {
    let text = files::read_text(file, files::TEXT_BYTES_MAX)
        .map_err(|error| CommandFailure::bad_input(format!("{}: {error}", file.display())).hint(EXAMPLE))?;
    let ModelsFile { models, limits } = document::read(&file.display().to_string(), &text)
        .map_err(|error| CommandFailure::bad_input(error.to_string()).hint(EXAMPLE))?;
    if models.is_empty() || models.len() > MODELS_MAX {
        let reason = format!("{} models are named; 1 to {MODELS_MAX} can be asked", models.len());
        return Err(CommandFailure::bad_input(reason).at(file, "models"));
    }
    if limits.concurrent_max == 0 || limits.timeout_ms == 0 {
        let reason = "`concurrent_max` and `timeout_ms` have to be more than nothing";
        return Err(CommandFailure::bad_input(reason).at(file, "limits"));
    }
    let mut models: Vec<LanguageModel> = models
        .into_iter()
        .enumerate()
        .map(|(number, named)| model(named).map_err(|failure| failure.at(file, &format!("models.{number}"))))
        .collect::<Result<_, _>>()?;
    let mut labels = BTreeSet::new();
    if let Some(twice) = models.iter_mut().find(|model| !labels.insert(model.label.clone())) {
        let reason = format!("two models are called `{}`", twice.label);
        return Err(CommandFailure::bad_input(reason).at(file, "models").hint("give one of them another `name`"));
    }
    Ok((models, limits))
}

const EXAMPLE: &str =
    "it looks like this: `models: [{ url: https://api.example.com/v1, model: its-name, key_env: EXAMPLE_API_KEY }]`";

fn model(named: ModelEntry) -> Result<LanguageModel, CommandFailure> {
    let ModelEntry { name, url, model, key_env } = named;
    let url = format!("{}/chat/completions", url.trim_end_matches('/'));
    // The same rule as for callbacks: requests go over TLS, or to this machine.
    WebhookAddress::parse(&url).map_err(|reason| CommandFailure::bad_input(format!("`url`: {reason}")))?;
    let url = Url::parse(&url).map_err(|error| CommandFailure::bad_input(format!("`url`: {error}")))?;
    let authorization = key_env.as_deref().map(authorization).transpose()?;
    Ok(LanguageModel { label: name.unwrap_or_else(|| model.clone()), own_name: model, url, authorization })
}

fn authorization(variable: &str) -> Result<HeaderValue, CommandFailure> {
    let key = std::env::var(variable).ok().filter(|key| !key.trim().is_empty()).ok_or_else(|| {
        CommandFailure::bad_input(format!("`key_env`: the variable `{variable}` is not set"))
            .hint(format!("`export {variable}=...` where servanda is started; the key itself belongs into no file"))
    })?;
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim())).map_err(|_| {
        CommandFailure::bad_input(format!("`key_env`: what is in `{variable}` cannot be sent as a key"))
    })?;
    value.set_sensitive(true);
    Ok(value)
}
