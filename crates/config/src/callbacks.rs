//! `callbacks:` of the configuration: the receivers that are notified when long work ends. Checked before anything starts; the signing
//! secret comes from the environment and is never shown.

use std::{collections::BTreeSet, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_contract::document::DocumentError;
use servanda_effects::effect::EffectEnding;
use servanda_engine::callbacks::{Callback, CallbackSubscription, Callbacks, SigningSecret, WebhookReceiver};
use servanda_upstream::WebhookAddress;

use crate::{
    error::{CallbackFault, ConfigError},
    expansion::{ExpansionError, expand, references, unset},
    loaded::LoadedConfig,
};

/// The most callbacks of one configuration.
const CALLBACKS_MAX: usize = 32;
/// The longest name.
const NAME_CHARS_MAX: usize = 64;

/// One receiver of signed webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallbackConfig {
    /// Its name in logs and commands: letters, digits, `-` and `_`.
    pub name: String,
    /// Where events are sent: `https`, or `http` on this machine. `${NAME}` stands for a variable of the environment.
    pub url: String,
    /// The signing secret: `${NAME}`, a variable that holds at least 24 bytes; after `whsec_` they are base64.
    pub secret: SigningSecretReference,
    /// The outcomes that are sent.
    #[serde(default = "every_end", skip_serializing_if = "is_every_end")]
    pub on: Vec<CallbackTrigger>,
    /// The tools, by exposed names in which `*` stands for anything. By default, every tool whose timeout class is `long_running` or
    /// `async`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// A reference to a secret. If a person writes the secret itself here, it is not shown either.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "SecretReference")]
pub struct SigningSecretReference(String);

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "End")]
pub enum CallbackTrigger {
    /// It is done.
    Completed,
    /// It failed, never ran, or its answer was withheld.
    Failed,
    /// It was sent, and its outcome is unknown.
    Unknown,
}

impl fmt::Debug for SigningSecretReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretReference")
    }
}

impl LoadedConfig {
    /// All configured callbacks, and the receivers of notices about tickets.
    pub fn callbacks(&self) -> Result<Callbacks, ConfigError> {
        let subscriptions = self.subscriptions()?;
        let mut callbacks = Vec::new();
        for (number, (config, subscription)) in self.config.callbacks.iter().zip(subscriptions).enumerate() {
            let address = self.webhook_address(&format!("callbacks[{number}].url"), &config.url)?;
            let secret = Some(self.signing_secret(&format!("callbacks[{number}].secret"), &config.secret)?);
            callbacks.push(Callback { subscription, receiver: WebhookReceiver { address, secret } });
        }
        Ok(Callbacks::new(callbacks, self.approval_webhooks()?))
    }

    /// Which events each callback gets; needs no secret.
    pub fn subscriptions(&self) -> Result<Vec<CallbackSubscription>, ConfigError> {
        let configured = &self.config.callbacks;
        if configured.len() > CALLBACKS_MAX {
            return Err(self.wrong_callback(
                "callbacks",
                format!("there are more than {CALLBACKS_MAX}"),
                CallbackFault::TooMany,
            ));
        }
        let mut names = BTreeSet::new();
        let mut subscriptions = Vec::new();
        for (number, config) in configured.iter().enumerate() {
            let field = |name: &str| format!("callbacks[{number}].{name}");
            if !is_receiver_name(&config.name) {
                let reason = "it is not letters, digits, `-` and `_`, 64 at most";
                return Err(self.wrong_callback(&field("name"), reason, CallbackFault::Name));
            }
            if !names.insert(&config.name) {
                let reason = format!("`{}` is the name of two callbacks", config.name);
                return Err(self.wrong_callback(&field("name"), reason, CallbackFault::Name));
            }
            if config.on.is_empty() {
                return Err(self.wrong_callback(&field("on"), "it lists no outcome", CallbackFault::NoOutcome));
            }
            subscriptions.push(CallbackSubscription {
                name: config.name.clone(),
                on: config.on.iter().map(|end| end.ending()).collect(),
                tools: config.tools.clone(),
            });
        }
        Ok(subscriptions)
    }

    /// The address of one receiver.
    pub fn webhook_address(&self, field: &str, url: &str) -> Result<WebhookAddress, ConfigError> {
        let expanded = expand(url).map_err(|reason| self.unfilled(field, &reason, url))?;
        WebhookAddress::parse(&expanded).map_err(|reason| self.wrong_callback(field, reason, CallbackFault::Address))
    }

    /// The secret of one receiver.
    pub(crate) fn signing_secret(
        &self,
        field: &str,
        reference: &SigningSecretReference,
    ) -> Result<SigningSecret, ConfigError> {
        let SigningSecretReference(text) = reference;
        if references(text).is_empty() {
            let reason = if text.is_empty() { "there is none" } else { "the secret itself stands in the file" };
            return Err(self.wrong_callback(field, reason, CallbackFault::Secret));
        }
        let secret = expand(text).map_err(|reason| self.unfilled(field, &reason, text))?;
        SigningSecret::parse(&secret).map_err(|bad| self.wrong_callback(field, bad.to_string(), CallbackFault::Secret))
    }

    fn unfilled(&self, field: &str, reason: &ExpansionError, text: &str) -> ConfigError {
        let fault = unset(text).map_or(CallbackFault::Secret, |name| CallbackFault::UnsetVariable(name.to_owned()));
        self.wrong_callback(field, reason.to_string(), fault)
    }

    pub(crate) fn wrong_callback(&self, field: &str, reason: impl Into<String>, fault: CallbackFault) -> ConfigError {
        let document = DocumentError::new(&self.file.display().to_string(), field, reason);
        ConfigError::Callback { document: Box::new(document), fault }
    }
}

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

/// Whether a text can be the name of a receiver.
pub(crate) fn is_receiver_name(text: &str) -> bool {
    let known = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.chars().all(known)
}

fn every_end() -> Vec<CallbackTrigger> {
    CallbackTrigger::ALL.to_vec()
}

fn is_every_end(ends: &[CallbackTrigger]) -> bool {
    CallbackTrigger::ALL.iter().all(|end| ends.contains(end))
}
