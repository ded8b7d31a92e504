//! `approvals.notify` of the configuration: where people are told that calls wait for them. Checked before anything starts; addresses and
//! secrets come from the environment and are never shown.
//!
//! Deliberately not here: what a message says, and sending it (`servanda_engine::callbacks`).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_approval::TicketNoticeKind;
use servanda_engine::callbacks::{ApprovalWebhook, WebhookFormat, WebhookReceiver};

use crate::{
    callbacks::{SigningSecretReference, is_receiver_name},
    error::{CallbackFault, ConfigError},
    loaded::LoadedConfig,
};

/// The most receivers of one configuration.
const WEBHOOKS_MAX: usize = 32;

/// One place where people are told about calls that wait for them. A message has a link and no right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalWebhookConfig {
    /// Its name in logs and commands: letters, digits, `-` and `_`.
    pub name: String,
    /// Where messages are sent: `https`, or `http` on this machine. `${NAME}` stands for a variable of the environment; the address of a
    /// chat is a secret.
    pub url: String,
    /// What messages look like.
    #[serde(default, skip_serializing_if = "is_standard")]
    pub format: WebhookFormatConfig,
    /// The signing secret, as for `callbacks`: needed for `standard`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SigningSecretReference>,
    /// Only tickets about which one of these groups decides; every ticket if there are none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// Only tickets of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What is told.
    #[serde(default = "every_notice", skip_serializing_if = "is_every_notice")]
    pub on: BTreeSet<NoticeTrigger>,
}

/// What messages about tickets look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormatConfig {
    /// Signed JSON, as Standard Webhooks has it.
    #[default]
    Standard,
    /// A message of an incoming webhook of Slack.
    Slack,
    /// A card for a workflow of Teams.
    Teams,
}

/// What people are told about a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeTrigger {
    /// It was opened.
    Opened,
    /// More groups may decide.
    Escalated,
    /// Its time is nearly over.
    Reminder,
    /// People decided, or its time is over.
    Outcome,
}

impl LoadedConfig {
    /// The receivers of notices about tickets.
    pub(crate) fn approval_webhooks(&self) -> Result<Vec<ApprovalWebhook>, ConfigError> {
        let configured = &self.config.approvals.notify;
        if configured.len() > WEBHOOKS_MAX {
            let reason = format!("there are more than {WEBHOOKS_MAX}");
            return Err(self.wrong_callback("approvals.notify", reason, CallbackFault::TooMany));
        }
        let mut names: BTreeSet<&str> = self.config.callbacks.iter().map(|callback| callback.name.as_str()).collect();
        let mut webhooks = Vec::new();
        for (number, config) in configured.iter().enumerate() {
            let field = |name: &str| format!("approvals.notify[{number}].{name}");
            if !is_receiver_name(&config.name) {
                let reason = "it is not letters, digits, `-` and `_`, 64 at most";
                return Err(self.wrong_callback(&field("name"), reason, CallbackFault::Name));
            }
            if !names.insert(&config.name) {
                let reason = format!("`{}` is the name of two receivers", config.name);
                return Err(self.wrong_callback(&field("name"), reason, CallbackFault::Name));
            }
            if config.on.is_empty() {
                return Err(self.wrong_callback(&field("on"), "it lists nothing to be told", CallbackFault::NoNotice));
            }
            if config.secret.is_none() && config.format == WebhookFormatConfig::Standard {
                let reason = "there is none, so the receiver could not check who sent a message";
                return Err(self.wrong_callback(&field("secret"), reason, CallbackFault::Secret));
            }
            let secret =
                config.secret.as_ref().map(|secret| self.signing_secret(&field("secret"), secret)).transpose()?;
            let address = self.webhook_address(&field("url"), &config.url)?;
            webhooks.push(ApprovalWebhook {
                name: config.name.clone(),
                tenant: config.tenant.clone(),
                groups: config.groups.clone(),
                on: config.on.iter().map(|trigger| trigger.kind()).collect(),
                format: config.format.format(),
                receiver: WebhookReceiver { address, secret },
            });
        }
        Ok(webhooks)
    }
}

impl WebhookFormatConfig {
    const fn format(self) -> WebhookFormat {
        match self {
            Self::Standard => WebhookFormat::Standard,
            Self::Slack => WebhookFormat::Slack,
            Self::Teams => WebhookFormat::Teams,
        }
    }
}

impl NoticeTrigger {
    const ALL: [Self; 4] = [Self::Opened, Self::Escalated, Self::Reminder, Self::Outcome];

    /// The notice.
    pub const fn kind(self) -> TicketNoticeKind {
        match self {
            Self::Opened => TicketNoticeKind::Opened,
            Self::Escalated => TicketNoticeKind::Escalated,
            Self::Reminder => TicketNoticeKind::Reminder,
            Self::Outcome => TicketNoticeKind::Outcome,
        }
    }
}

fn every_notice() -> BTreeSet<NoticeTrigger> {
    NoticeTrigger::ALL.into()
}

fn is_every_notice(notices: &BTreeSet<NoticeTrigger>) -> bool {
    *notices == every_notice()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_standard(format: &WebhookFormatConfig) -> bool {
    *format == WebhookFormatConfig::Standard
}
