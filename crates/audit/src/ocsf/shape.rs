//! The objects of an event, as far as a leaf fills them. Deliberately not here: what is filled in.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct OcsfActor<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) app_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<OcsfUser<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfUser<'a> {
    pub(super) uid: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfApi<'a> {
    pub(super) operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<OcsfRequest<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<OcsfResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<OcsfService<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfRequest<'a> {
    pub(super) uid: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'a str>,
    pub(super) message: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfService<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) version: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfNamed {
    pub(super) name: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfMessageContext {
    pub(super) ai_role: &'static str,
    pub(super) ai_role_id: u32,
    pub(super) service: OcsfNamed,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfMetadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correlation_uid: Option<&'a str>,
    pub(super) event_code: &'static str,
    pub(super) log_name: &'a str,
    pub(super) product: OcsfProduct,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) profiles: Vec<&'static str>,
    pub(super) sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant_uid: Option<&'a str>,
    pub(super) uid: String,
    pub(super) version: &'static str,
}

/// Without a version: the leaf was written by the gateway of its day, which the leaf does not name.
#[derive(Debug, Serialize)]
pub(super) struct OcsfProduct {
    pub(super) name: &'static str,
    pub(super) vendor_name: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfResource<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfEndpoint<'a> {
    pub(super) name: &'a str,
    pub(super) svc_name: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct OcsfTrace<'a> {
    pub(super) uid: &'a str,
}
