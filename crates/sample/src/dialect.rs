//! The two eras of MCP: which one a request uses, how each begins, and what each adds to a result.
//!
//! Responsible for everything that differs between legacy (up to 2025-11-25) and modern (2026-07-28) revisions. Knows
//! no tool and keeps no state: the caller says whether `initialize` happened.

use serde_json::{Map, Value, json};

use crate::wire::{SampleRequest, SampleRpcError};
use crate::{SampleOptions, ServedEras};

pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

const MODERN_VERSION: &str = "2026-07-28";
/// Newest first: a request for an unknown version is answered with the first.
const LEGACY_VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

const CACHE_TTL_MS: u64 = 60_000;

const INSTRUCTIONS: &str = "The back office of Lindgren & Roth, a fictional company: customers, \
    invoices, payments, mail, files and meetings. Look identifiers up before using them. Amounts are \
    integers in cents. Payments and mail cannot be taken back.";

/// The era in which one request is read and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolDialect {
    Legacy,
    Modern,
}

impl ProtocolDialect {
    /// Decides from the request alone if possible, because a dual-era server serves both eras at once.
    pub(crate) fn for_request(
        era: ServedEras,
        initialised: bool,
        request: &SampleRequest,
    ) -> Result<Self, SampleRpcError> {
        let meta = request.params.get("_meta").and_then(Value::as_object);
        let declared = meta.and_then(|meta| meta.get(PROTOCOL_VERSION));
        let method = request.method.as_str();
        let legacy = match era {
            ServedEras::LegacyOnly => true,
            ServedEras::ModernOnly => false,
            ServedEras::Both => method == "initialize" || declared.is_none() && (initialised || method == "ping"),
        };
        if !legacy {
            return check_modern_meta(era, meta, request).map(|()| Self::Modern);
        }
        if !initialised && method.starts_with("tools/") {
            return Err(SampleRpcError::invalid_params("`initialize` must come before any other request"));
        }
        Ok(Self::Legacy)
    }

    /// Adds what this era requires in every result.
    pub(crate) fn complete(self, mut result: Value) -> Value {
        if let (Self::Modern, Some(fields)) = (self, result.as_object_mut()) {
            fields.insert("resultType".into(), "complete".into());
            let meta = fields.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
            if let Some(meta) = meta.as_object_mut() {
                meta.insert(SERVER_INFO.into(), server_info());
            }
        }
        result
    }

    /// Adds what this era requires in every cacheable result.
    pub(crate) fn complete_cacheable(self, mut result: Value) -> Value {
        if let (Self::Modern, Some(fields)) = (self, result.as_object_mut()) {
            fields.insert("ttlMs".into(), CACHE_TTL_MS.into());
            // Lists here are the same for every client.
            fields.insert("cacheScope".into(), "public".into());
        }
        self.complete(result)
    }
}

/// The legacy handshake: the requested revision if we support it, else our newest legacy one.
pub(crate) fn initialize(options: &SampleOptions, params: &Map<String, Value>) -> Result<Value, SampleRpcError> {
    let Some(requested) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(SampleRpcError::invalid_params("`protocolVersion` must be a string"));
    };
    let [newest, ..] = LEGACY_VERSIONS;
    let agreed = LEGACY_VERSIONS.into_iter().find(|version| *version == requested).unwrap_or(newest);
    Ok(json!({
        "protocolVersion": agreed,
        "capabilities": capabilities(options),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    }))
}

/// The modern description of the server.
pub(crate) fn discover(options: &SampleOptions) -> Value {
    json!({
        "supportedVersions": supported_versions(options.era),
        "capabilities": capabilities(options),
        "instructions": INSTRUCTIONS,
    })
}

fn check_modern_meta(
    era: ServedEras,
    meta: Option<&Map<String, Value>>,
    request: &SampleRequest,
) -> Result<(), SampleRpcError> {
    // A legacy client should learn which versions work, rather than that `_meta` is missing.
    let offered = if request.method == "initialize" {
        request.params.get("protocolVersion")
    } else {
        meta.and_then(|meta| meta.get(PROTOCOL_VERSION))
    };
    let Some(version) = offered.and_then(Value::as_str) else {
        return Err(missing_meta(PROTOCOL_VERSION));
    };
    if version != MODERN_VERSION || request.method == "initialize" {
        return Err(SampleRpcError {
            code: UNSUPPORTED_PROTOCOL_VERSION,
            message: "unsupported protocol version".into(),
            data: Some(json!({ "supported": supported_versions(era), "requested": version })),
        });
    }
    if meta.and_then(|meta| meta.get(CLIENT_CAPABILITIES)).is_some_and(Value::is_object) {
        Ok(())
    } else {
        Err(missing_meta(CLIENT_CAPABILITIES))
    }
}

fn missing_meta(key: &str) -> SampleRpcError {
    SampleRpcError::invalid_params(format!("every request must carry `_meta[\"{key}\"]`"))
}

fn supported_versions(era: ServedEras) -> Vec<&'static str> {
    let modern = (era != ServedEras::LegacyOnly).then_some(MODERN_VERSION);
    let legacy = LEGACY_VERSIONS.into_iter().filter(|_| era != ServedEras::ModernOnly);
    modern.into_iter().chain(legacy).collect()
}

fn capabilities(options: &SampleOptions) -> Value {
    // The list only ever changes through `admin_toggle_beta_tools`, which misbehaviour lists.
    json!({ "tools": { "listChanged": options.misbehaviour } })
}

fn server_info() -> Value {
    json!({
        "name": "servanda-sample",
        "title": "Lindgren & Roth (sample company)",
        "version": env!("CARGO_PKG_VERSION"),
    })
}
