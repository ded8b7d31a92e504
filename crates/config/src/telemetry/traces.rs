//! `telemetry.traces`: the collector that gets spans, and which calls it gets them of. Values of headers are never shown.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_authority::Secret;
use servanda_contract::document::DocumentError;
use servanda_telemetry::traces::{CollectorAddress, OtlpProtocol, TraceSettings, TraceSettingsError};
use servanda_vault::SecretReference;

use crate::{
    ConfigFieldFault, CredentialConfig,
    error::ConfigError,
    expansion::{ExpansionError, expand, unset},
    loaded::LoadedConfig,
};

/// The fewest places of the queue: a call may have about fifteen spans.
const QUEUE_SPANS_MIN: u32 = 64;
/// The longest wait for one answer of the collector.
const SEND_MS_MAX: u64 = 60_000;
/// The most headers.
const HEADERS_MAX: usize = 16;

/// The export of spans by OTLP.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TracesConfig {
    /// The collector's address; with `http`, `/v1/traces` is added to it. `${NAME}` stands for a variable of the environment:
    /// `${OTEL_EXPORTER_OTLP_ENDPOINT}`.
    pub endpoint: String,
    /// The protocol: `http` is protobuf over HTTP, usually at port 4318, and `grpc` usually at port 4317.
    #[serde(default)]
    pub protocol: TraceProtocol,
    /// The share of calls that are exported though nothing about them is remarkable, from 0 to 1, where the caller did not decide it.
    /// Refused, held, failed, unknown and slow calls are always exported.
    #[serde(default = "default_sample")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample: f64,
    /// From how many milliseconds on a call is slow.
    #[serde(default = "default_slow_ms")]
    pub slow_ms: u64,
    /// How many spans may wait to be sent; further ones are dropped and counted.
    #[serde(default = "default_queue_spans_max")]
    pub queue_spans_max: u32,
    /// How long one attempt to send may take.
    #[serde(default = "default_send_ms_max")]
    pub send_ms_max: u64,
    /// Headers sent with every message; `${NAME}` stands for a variable of the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A header with a secret, as of an upstream: `secret`, `header`, `format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialConfig>,
    /// `service.name` of the spans.
    #[serde(default = "default_service_name")]
    pub service_name: String,
}

/// How spans travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceProtocol {
    /// Protobuf over HTTP.
    #[default]
    Http,
    /// gRPC.
    Grpc,
}

impl TracesConfig {
    /// The place of the credential's secret, if there is one.
    pub fn secret(&self) -> Option<SecretReference> {
        self.credential.as_ref()?.reference()
    }

    pub(super) fn fault(&self) -> Option<ConfigFieldFault> {
        let wrong = |field: &str, reason: &str| Some((format!("telemetry.traces.{field}"), reason.to_owned()));
        if !(0.0..=1.0).contains(&self.sample) {
            return wrong("sample", "is a share, from 0 to 1");
        }
        if self.queue_spans_max < QUEUE_SPANS_MIN {
            return wrong("queue_spans_max", &format!("is at least {QUEUE_SPANS_MIN}: one call may have that many"));
        }
        if self.send_ms_max == 0 || self.send_ms_max > SEND_MS_MAX {
            return wrong("send_ms_max", &format!("is from 1 to {SEND_MS_MAX}"));
        }
        if self.headers.len() > HEADERS_MAX {
            return wrong("headers", &format!("there are at most {HEADERS_MAX}"));
        }
        if self.service_name.trim().is_empty() {
            return wrong("service_name", "is empty");
        }
        let credential = self.credential.as_ref()?;
        if let Some(Err(error)) = credential.secret.as_ref().map(crate::SecretPlace::reference) {
            return wrong("credential", &format!("`secret`: {error}"));
        }
        let alone = CredentialConfig {
            secret: credential.secret.clone(),
            header: credential.header.clone(),
            format: credential.format.clone(),
            ..CredentialConfig::default()
        };
        let is_whole = credential.secret.is_some() && credential.header.is_some() && alone == *credential;
        let fits = credential.format.as_ref().is_none_or(|format| format.matches("{}").count() == 1);
        if !is_whole || !fits {
            return wrong(
                "credential",
                "has a `secret` and the `header` that carries it, and a `format` with `{}` once",
            );
        }
        None
    }
}

impl LoadedConfig {
    /// Where spans go and which, if they are exported. `reveal` reads the credential's secret; its error is the reason in words.
    pub fn traces(
        &self,
        reveal: impl FnOnce(&SecretReference) -> Result<Secret, String>,
    ) -> Result<Option<TraceSettings>, ConfigError> {
        let Some(config) = &self.config.telemetry.traces else { return Ok(None) };
        let filled = |field: &str, text: &str| expand(text).map_err(|reason| self.unfilled_trace(field, &reason, text));
        let unusable = |field: &str, error: &TraceSettingsError| self.wrong_trace(field, &error.to_string());
        let protocol = match config.protocol {
            TraceProtocol::Http => OtlpProtocol::Http,
            TraceProtocol::Grpc => OtlpProtocol::Grpc,
        };
        let collector = CollectorAddress::parse(&filled("endpoint", &config.endpoint)?, protocol);
        let mut collector = collector.map_err(|error| unusable("endpoint", &error))?;
        for (name, value) in &config.headers {
            let value = filled("headers", value)?;
            collector = collector.with_header(name, value.as_bytes()).map_err(|error| unusable("headers", &error))?;
        }
        if let Some(credential) = &config.credential
            && let (Some(reference), Some(header)) = (credential.reference(), &credential.header)
        {
            let secret = reveal(&reference).map_err(|why| self.wrong_trace("credential", &why))?;
            let text = std::str::from_utf8(secret.expose());
            let text = text.map_err(|_| self.wrong_trace("credential", "the secret is no text"))?;
            let written = Secret::new(credential.written(text).into_bytes());
            let shown = collector.with_header(header, written.expose());
            collector = shown.map_err(|error| unusable("credential", &error))?;
        }
        Ok(Some(TraceSettings {
            collector,
            sample_share: config.sample,
            slow_ms: config.slow_ms,
            queue_spans_max: usize::try_from(config.queue_spans_max).unwrap_or(usize::MAX),
            send_ms_max: config.send_ms_max,
            service_name: config.service_name.clone(),
        }))
    }

    fn wrong_trace(&self, field: &str, reason: &str) -> ConfigError {
        ConfigError::Document(self.trace_fault(field, reason))
    }

    fn unfilled_trace(&self, field: &str, reason: &ExpansionError, text: &str) -> ConfigError {
        let document = self.trace_fault(field, &reason.to_string());
        match unset(text) {
            Some(variable) => {
                ConfigError::UnsetVariable { document: Box::new(document), variable: variable.to_owned() }
            }
            None => ConfigError::Document(document),
        }
    }

    fn trace_fault(&self, field: &str, reason: &str) -> DocumentError {
        DocumentError::new(&self.file.display().to_string(), &format!("telemetry.traces.{field}"), reason)
    }
}

/// A value of a header that a person wrote here is not shown.
impl fmt::Debug for TracesConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        formatter
            .debug_struct("TracesConfig")
            .field("protocol", &self.protocol)
            .field("sample", &self.sample)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

const fn default_sample() -> f64 {
    1.0
}

const fn default_slow_ms() -> u64 {
    1_000
}

const fn default_queue_spans_max() -> u32 {
    16_384
}

const fn default_send_ms_max() -> u64 {
    10_000
}

fn default_service_name() -> String {
    "servanda".to_owned()
}

#[cfg(test)]
mod tests;
