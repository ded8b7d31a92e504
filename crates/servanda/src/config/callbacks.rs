//! `callbacks:` of the configuration: who wants to be told how long work ends. Read and checked before anything starts; the
//! secret comes from the environment and is never shown.

use std::{collections::BTreeSet, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_effects::effect::EffectEnding;
use servanda_engine::callbacks::{Callback, CallbackSubscription, Callbacks, SigningSecret};
use servanda_upstream::WebhookAddress;

use super::{
    LoadedConfig,
    expansion::{expand, references, unset},
};
use crate::failure::CommandFailure;

/// Callbacks of one configuration.
const CALLBACKS_MAX: usize = 32;
/// The longest name.
const NAME_CHARS_MAX: usize = 64;

/// One receiver of signed webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallbackConfig {
    /// What it is called in logs and commands: letters, digits, `-` and `_`.
    pub name: String,
    /// Where events are sent: `https`, or `http` on this machine. `${NAME}` stands for a variable of the environment.
    pub url: String,
    /// What events are signed with: `${NAME}`, a variable that holds at least 24 bytes; behind `whsec_` they are base64.
    pub secret: SigningSecretReference,
    /// Which ends are told.
    #[serde(default = "every_end", skip_serializing_if = "is_every_end")]
    pub on: Vec<CallbackTrigger>,
    /// Of which tools, by exposed names in which `*` stands for anything. If not said: of every tool whose timeout class is
    /// `long_running` or `async`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// Where a secret comes from. Should somebody write the secret itself, it is not shown either.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "SecretReference")]
pub(crate) struct SigningSecretReference(String);

/// How a call ended, to whoever waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "End")]
pub(crate) enum CallbackTrigger {
    /// It is done.
    Completed,
    /// It failed, never ran, or its answer was kept back.
    Failed,
    /// It was sent and nobody knows.
    Unknown,
}

impl fmt::Debug for SigningSecretReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretReference")
    }
}

impl LoadedConfig {
    /// Everybody who wants to be told something.
    pub(crate) fn callbacks(&self) -> Result<Callbacks, CommandFailure> {
        let subscriptions = self.subscriptions()?;
        let mut callbacks = Vec::new();
        for (number, (config, subscription)) in self.config.callbacks.iter().zip(subscriptions).enumerate() {
            let address = self.address(number, config)?;
            let secret = self.secret(&format!("callbacks[{number}].secret"), &config.secret)?;
            callbacks.push(Callback { subscription, address, secret });
        }
        Ok(Callbacks::new(callbacks))
    }

    /// What they want to be told: known without any secret.
    pub(crate) fn subscriptions(&self) -> Result<Vec<CallbackSubscription>, CommandFailure> {
        let configured = &self.config.callbacks;
        if configured.len() > CALLBACKS_MAX {
            return Err(self.wrong("callbacks", &format!("there are more than {CALLBACKS_MAX}"), FEWER));
        }
        let mut names = BTreeSet::new();
        let mut subscriptions = Vec::new();
        for (number, config) in configured.iter().enumerate() {
            let field = |name: &str| format!("callbacks[{number}].{name}");
            if !is_name(&config.name) {
                return Err(self.wrong(&field("name"), "it is not letters, digits, `-` and `_`, 64 at most", NAMED));
            }
            if !names.insert(&config.name) {
                let reason = format!("`{}` is the name of two callbacks", config.name);
                return Err(self.wrong(&field("name"), &reason, NAMED));
            }
            if config.on.is_empty() {
                return Err(self.wrong(&field("on"), "it wants to be told of nothing", ENDS));
            }
            subscriptions.push(CallbackSubscription {
                name: config.name.clone(),
                on: config.on.iter().map(|end| end.ending()).collect(),
                tools: config.tools.clone(),
            });
        }
        Ok(subscriptions)
    }

    /// Where one of them is told.
    pub(crate) fn address(&self, number: usize, config: &CallbackConfig) -> Result<WebhookAddress, CommandFailure> {
        let (field, url) = (format!("callbacks[{number}].url"), &config.url);
        let url = expand(url).map_err(|reason| self.unfilled(&field, &reason, url))?;
        WebhookAddress::parse(&url)
            .map_err(|reason| self.wrong(&field, &reason, "write it like https://example.com/hook"))
    }

    fn secret(&self, field: &str, reference: &SigningSecretReference) -> Result<SigningSecret, CommandFailure> {
        let SigningSecretReference(text) = reference;
        if references(text).is_empty() {
            let reason = if text.is_empty() { "there is none" } else { "the secret itself stands in the file" };
            return Err(self.wrong(field, reason, SECRET));
        }
        let secret = expand(text).map_err(|reason| self.unfilled(field, &reason, text))?;
        SigningSecret::parse(&secret).map_err(|bad| self.wrong(field, &bad.to_string(), SECRET))
    }

    fn unfilled(&self, field: &str, reason: &str, text: &str) -> CommandFailure {
        let hint =
            unset(text).map_or_else(|| SECRET.to_owned(), |name| format!("nothing was started; `export {name}=...`"));
        self.wrong(field, reason, &hint)
    }

    fn wrong(&self, field: &str, reason: &str, hint: &str) -> CommandFailure {
        CommandFailure::bad_input(reason.to_owned()).at(&self.file, field).hint(hint.to_owned())
    }
}

const FEWER: &str = "one callback can be told of many tools: `tools: [company__*]`";
const NAMED: &str = "give every callback a name of its own, like `books`";
const ENDS: &str = "leave `on` out, or name some of completed, failed, unknown";
const SECRET: &str = "write `secret: ${NAME}` and set NAME to 24 random bytes or more: \
                      `export NAME=whsec_$(head -c 32 /dev/urandom | base64)`";

impl CallbackTrigger {
    const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Unknown];

    const fn ending(self) -> EffectEnding {
        match self {
            Self::Completed => EffectEnding::Completed,
            Self::Failed => EffectEnding::Failed,
            Self::Unknown => EffectEnding::Unknown,
        }
    }
}

fn is_name(text: &str) -> bool {
    let known = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.chars().all(known)
}

fn every_end() -> Vec<CallbackTrigger> {
    CallbackTrigger::ALL.to_vec()
}

fn is_every_end(ends: &[CallbackTrigger]) -> bool {
    CallbackTrigger::ALL.iter().all(|end| ends.contains(end))
}
