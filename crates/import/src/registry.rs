//! The registry's `server.json`: packages that a runtime starts, and remote addresses. The first that can be started here is used. Both
//! spellings are read, `camelCase` (from 2025-09-16) and `snake_case` (before).
//!
//! The file is written by its author and not by the user: nothing in it may read a variable of the user's environment. Variables that it
//! asks for are named, and the user decides whether to set them.

mod package;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use servanda_clients::{likely_secrets::variable_name, search_path::on_search_path};
use servanda_config::UpstreamConfig;

use self::package::RegistryPackage;
use crate::ImportResult;

/// An author's description of a server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegistryServer {
    name: String,
    #[serde(default)]
    packages: Vec<RegistryPackage>,
    #[serde(default)]
    remotes: Vec<RegistryRemote>,
}

/// A remote address.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegistryRemote {
    #[serde(default, rename = "type", alias = "transportType")]
    transport: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: Vec<RegistryInput>,
    #[serde(default)]
    variables: BTreeMap<String, RegistryInput>,
}

/// A value that the author fixes, proposes, or leaves to the user: an argument, a variable or a header.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RegistryInput {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    value_hint: String,
    #[serde(deserialize_with = "scalar")]
    value: Option<String>,
    #[serde(deserialize_with = "scalar")]
    default: Option<String>,
    description: String,
    is_required: bool,
    is_secret: bool,
    variables: BTreeMap<String, RegistryInput>,
}

/// How far the file determines a value.
#[derive(Debug, PartialEq, Eq)]
enum RegistryInputValue {
    /// It is fixed.
    Fixed(String),
    /// It is a proposal, which the user may change.
    Proposed(String),
    /// The user has to give it.
    Missing,
    /// The user may leave it out.
    Optional,
}

/// Uses the first package or address that works here.
pub(super) fn import(document: &Value, is_installed: &dyn Fn(&str) -> bool) -> ImportResult {
    let mut imported = ImportResult::default();
    let server: RegistryServer = match serde_path_to_error::deserialize(camel(document.clone())) {
        Ok(server) => server,
        Err(error) => {
            imported.notes.push(format!("`{}`: {}", error.path(), error.inner()));
            return imported;
        }
    };
    // `io.github.somebody/weather`: the first part is the author's.
    let name = server.name.rsplit('/').next().unwrap_or(&server.name).to_owned();
    let mut offers: Vec<(String, RegistryOffer)> = Vec::new();
    for package in &server.packages {
        let (shown, offer) = (package.shown(), package.offer(&name));
        match offer {
            Ok(offer) => offers.push((shown, offer)),
            Err(why) => imported.leave_out(&shown, &why),
        }
    }
    for remote in &server.remotes {
        match remote.offer(&name) {
            Ok(offer) => offers.push((remote.url.clone(), offer)),
            Err(why) => imported.leave_out(&remote.url, &why),
        }
    }
    let startable = |(_, offer): &(String, RegistryOffer)| offer.upstream.command.as_deref().is_none_or(is_installed);
    let chosen = offers.iter().position(startable).unwrap_or(0);
    for (index, (shown, offer)) in offers.into_iter().enumerate() {
        if index != chosen {
            imported.notes.push(format!("`{shown}` would work as well and was not used"));
            continue;
        }
        if let Some(command) = offer.upstream.command.as_deref().filter(|command| !is_installed(command)) {
            imported.notes.push(format!("`{command}` is not installed, and `{name}` is started with it"));
        }
        imported.notes.extend(offer.notes);
        imported.asked.extend(offer.asked);
        imported.take(&name, offer.upstream);
    }
    imported
}

/// Whether a shell would find a program.
pub(super) fn is_installed(program: &str) -> bool {
    on_search_path(program).is_some()
}

/// An upstream that a file offers.
#[derive(Debug, Default)]
struct RegistryOffer {
    upstream: UpstreamConfig,
    notes: Vec<String>,
    asked: BTreeMap<String, String>,
}

impl RegistryOffer {
    /// A reference to a variable that the user has to set.
    fn ask(&mut self, variable: &str, input: &RegistryInput) -> String {
        let words = if input.description.is_empty() { input.label() } else { &input.description };
        self.asked.insert(variable.to_owned(), words.to_owned());
        format!("${{{variable}}}")
    }

    /// Fills in `{name}` from the variables beside the text; an unknown name stays.
    fn fill(
        &mut self,
        server: &str,
        text: &str,
        variables: &BTreeMap<String, RegistryInput>,
    ) -> Result<String, String> {
        let mut filled = own(text)?.to_owned();
        for (name, input) in variables {
            let place = format!("{{{name}}}");
            if !filled.contains(&place) {
                continue;
            }
            let value = match input.resolved()? {
                RegistryInputValue::Fixed(value) | RegistryInputValue::Proposed(value) => value,
                RegistryInputValue::Missing | RegistryInputValue::Optional => {
                    self.ask(&variable_name(&format!("{server}_{name}")), input)
                }
            };
            filled = filled.replace(&place, &value);
        }
        Ok(filled)
    }
}

impl RegistryRemote {
    fn offer(&self, server: &str) -> Result<RegistryOffer, String> {
        match self.transport.to_lowercase().as_str() {
            "streamable-http" | "streamable" | "http" => {}
            "sse" => return Err("HTTP+SSE is deprecated and not supported".to_owned()),
            other => return Err(format!("`{other}` is not a supported transport")),
        }
        let mut offer = RegistryOffer::default();
        let url = offer.fill(server, &self.url, &self.variables)?;
        offer.upstream.url = Some(url);
        for header in &self.headers {
            let value = match header.resolved()? {
                RegistryInputValue::Fixed(value) => offer.fill(server, &value, &header.variables)?,
                RegistryInputValue::Proposed(value) => value,
                RegistryInputValue::Missing => offer.ask(&variable_name(&format!("{server}_{}", header.name)), header),
                RegistryInputValue::Optional => {
                    offer.notes.push(format!("the header `{}` is optional and was not set", header.name));
                    continue;
                }
            };
            offer.upstream.headers.insert(header.name.clone(), value);
        }
        Ok(offer)
    }
}

impl RegistryInput {
    fn resolved(&self) -> Result<RegistryInputValue, String> {
        Ok(match (&self.value, &self.default) {
            (Some(value), _) => RegistryInputValue::Fixed(own(value)?.to_owned()),
            // A secret that the author proposes as a default is public, so it is not used.
            (None, Some(default)) if !self.is_secret => RegistryInputValue::Proposed(own(default)?.to_owned()),
            (None, _) if self.is_required => RegistryInputValue::Missing,
            (None, _) => RegistryInputValue::Optional,
        })
    }

    /// Its name, if it has no description.
    fn label(&self) -> &str {
        if self.name.is_empty() { &self.value_hint } else { &self.name }
    }
}

/// A text of the author. Fails if it refers to the user's environment.
fn own(text: &str) -> Result<&str, String> {
    if text.contains("${") {
        return Err(format!("`{text}` would be filled in from your environment, which its author must not read"));
    }
    Ok(text)
}

/// Converts the older spelling to the newer one. Names of variables stay as the author wrote them.
fn camel(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let renamed = members.into_iter().map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("variables", Value::Object(variables)) => {
                        variables.into_iter().map(|(name, value)| (name, camel(value))).collect::<Map<_, _>>().into()
                    }
                    (_, value) => camel(value),
                };
                (camel_name(&key), value)
            });
            Value::Object(renamed.collect())
        }
        Value::Array(items) => items.into_iter().map(camel).collect(),
        other => other,
    }
}

fn camel_name(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words.filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        camel += &first.to_uppercase();
        camel += rest;
    }
    camel
}

/// Authors write numbers and booleans without quotes, whatever the schema says.
fn scalar<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    })
}
