//! Leaves as events of OCSF 1.8 (class API Activity, 6003), for programs that collect security events: one event a leaf.
//!
//! An event's `metadata.uid` is the index of its leaf, which leads back to the log and is the cursor of an export. What OCSF has no attribute
//! for stands in `unmapped`, as the leaf says it: commitments, never payloads. A leaf has no address of a caller, so that `src_endpoint` is the
//! gateway. `ai_agent` comes with OCSF 1.9: until then the acting agent is `actor.app_name`. Deliberately not here: reading a log, and who
//! signed it.

mod shape;
mod standing;

use serde::Serialize;

use self::{
    shape::{
        OcsfActor, OcsfApi, OcsfEndpoint, OcsfMessageContext, OcsfMetadata, OcsfNamed, OcsfProduct, OcsfRequest,
        OcsfResource, OcsfResponse, OcsfService, OcsfTrace, OcsfUser,
    },
    standing::{Severity, activity, code, detail, severity, status},
};
use crate::leaf::{AuditEvent, AuditLeaf, CallLeaf, ChangedThing, DecisionLeaf, OutcomeLeaf};

/// The version of the schema.
pub const OCSF_VERSION: &str = "1.8.0";

const CATEGORY_UID: u32 = 6;
const CLASS_UID: u32 = 6_003;
/// A tool, in OCSF's list of roles of a message.
const AI_ROLE_TOOL: u32 = 3;

/// A leaf as an event.
#[derive(Debug, Serialize)]
pub struct OcsfEvent<'a> {
    activity_id: u32,
    activity_name: &'static str,
    actor: OcsfActor<'a>,
    api: OcsfApi<'a>,
    category_name: &'static str,
    category_uid: u32,
    class_name: &'static str,
    class_uid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_context: Option<OcsfMessageContext>,
    metadata: OcsfMetadata<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<OcsfResource<'a>>,
    severity: &'static str,
    severity_id: u32,
    src_endpoint: OcsfEndpoint<'a>,
    status: &'static str,
    status_code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_detail: Option<String>,
    status_id: u32,
    time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<OcsfTrace<'a>>,
    type_name: String,
    type_uid: u32,
    unmapped: &'a AuditEvent,
}

impl<'a> OcsfEvent<'a> {
    /// The event of a leaf: its place in the log of that origin, and what it says.
    pub fn of_leaf(origin: &'a str, index: u64, leaf: &'a AuditLeaf) -> Self {
        let event = &leaf.event;
        let (decision, outcome) = parts(event);
        let ((activity_id, activity_name), (status_id, status)) = (activity(event), status(event));
        let Severity { id: severity_id, name: severity } = severity(event);
        let is_of_call = matches!(event, AuditEvent::Decision(_) | AuditEvent::Outcome(_) | AuditEvent::Call(_));
        let trace = decision.map(|decision| decision.trace.as_str()).filter(|trace| !trace.is_empty());
        let profiles = is_of_call.then_some("ai_operation").into_iter().chain(trace.map(|_| "trace")).collect();
        Self {
            activity_id,
            activity_name,
            actor: actor(event),
            api: api(event),
            category_name: "Application Activity",
            category_uid: CATEGORY_UID,
            class_name: "API Activity",
            class_uid: CLASS_UID,
            duration: outcome.map(|outcome| outcome.took_ms),
            message_context: is_of_call.then_some(OcsfMessageContext {
                ai_role: "Tool",
                ai_role_id: AI_ROLE_TOOL,
                service: OcsfNamed { name: "servanda" },
            }),
            metadata: OcsfMetadata {
                correlation_uid: event.call().or_else(|| ticket(event)),
                event_code: kind(event),
                log_name: origin,
                product: OcsfProduct { name: "Servanda", vendor_name: "Servanda" },
                profiles,
                sequence: index,
                tenant_uid: decision.map(|decision| decision.tenant.as_str()),
                uid: index.to_string(),
                version: OCSF_VERSION,
            },
            resources: resources(event),
            severity,
            severity_id,
            src_endpoint: OcsfEndpoint { name: origin, svc_name: "servanda" },
            status,
            status_code: code(event),
            status_detail: detail(decision, outcome),
            status_id,
            time: leaf.at_ms,
            trace: trace.map(|uid| OcsfTrace { uid }),
            type_name: format!("API Activity: {activity_name}"),
            type_uid: CLASS_UID * 100 + activity_id,
            unmapped: event,
        }
    }
}

/// The decision and the end that a leaf tells.
fn parts(event: &AuditEvent) -> (Option<&DecisionLeaf>, Option<&OutcomeLeaf>) {
    match event {
        AuditEvent::Decision(decision) => (Some(decision), None),
        AuditEvent::Outcome(outcome) => (None, Some(outcome)),
        AuditEvent::Call(call) => {
            let CallLeaf { decision, outcome } = &**call;
            (Some(decision), Some(outcome))
        }
        _ => (None, None),
    }
}

fn kind(event: &AuditEvent) -> &'static str {
    match event {
        AuditEvent::Decision(_) => "decision",
        AuditEvent::Outcome(_) => "outcome",
        AuditEvent::Call(_) => "call",
        AuditEvent::Effect(_) => "effect",
        AuditEvent::Ticket(_) => "ticket",
        AuditEvent::Approval(_) => "approval",
        AuditEvent::Change(_) => "change",
    }
}

fn ticket(event: &AuditEvent) -> Option<&str> {
    match event {
        AuditEvent::Ticket(ticket) => Some(&ticket.ticket),
        AuditEvent::Approval(approval) => Some(&approval.ticket),
        _ => None,
    }
}

/// Who did it: the caller and its agent, a person, or the gateway by itself.
fn actor(event: &AuditEvent) -> OcsfActor<'_> {
    let user = |uid| Some(OcsfUser { uid });
    match event {
        AuditEvent::Approval(approval) => OcsfActor { app_name: None, user: user(&approval.by) },
        AuditEvent::Change(change) => OcsfActor { app_name: None, user: user(&change.by) },
        _ => match parts(event).0 {
            Some(decision) => {
                OcsfActor { app_name: decision.agents.first().map(String::as_str), user: user(&decision.caller) }
            }
            None => OcsfActor { app_name: Some("servanda"), user: None },
        },
    }
}

fn api(event: &AuditEvent) -> OcsfApi<'_> {
    let (decision, outcome) = parts(event);
    let contract = decision.and_then(|decision| decision.contract.as_ref());
    OcsfApi {
        operation: match event {
            AuditEvent::Effect(_) => "effect",
            AuditEvent::Ticket(_) => "ticket",
            AuditEvent::Approval(_) => "approval",
            AuditEvent::Change(change) => thing(change.thing),
            // The end of a call by itself does not name its tool: the decision before it does.
            _ => decision.map_or("tools/call", |decision| &decision.tool),
        },
        request: event.call().map(|uid| OcsfRequest { uid }),
        response: outcome.map(|outcome| OcsfResponse { error: outcome.class.as_deref(), message: &outcome.outcome }),
        service: contract.map(|contract| OcsfService {
            name: &contract.name,
            uid: &contract.digest,
            version: &contract.version,
        }),
    }
}

fn resources(event: &AuditEvent) -> Vec<OcsfResource<'_>> {
    let resource = |kind, uid| OcsfResource { kind, name: None, uid: Some(uid) };
    let (decision, outcome) = parts(event);
    let operation = decision.and_then(|decision| decision.operation.as_deref());
    let tool = operation.map(|name| OcsfResource { kind: "tool", name: Some(name), uid: None });
    let effect = outcome.and_then(|outcome| outcome.effect.as_deref()).map(|effect| resource("effect", effect));
    let own = match event {
        AuditEvent::Effect(effect) => Some(resource("effect", &effect.effect)),
        AuditEvent::Ticket(_) | AuditEvent::Approval(_) => ticket(event).map(|uid| resource("ticket", uid)),
        AuditEvent::Change(change) => Some(resource(thing(change.thing), &change.id)),
        _ => decision.and_then(|decision| decision.ticket.as_deref()).map(|uid| resource("ticket", uid)),
    };
    tool.into_iter().chain(effect).chain(own).collect()
}

const fn thing(thing: ChangedThing) -> &'static str {
    match thing {
        ChangedThing::Warrant => "warrant",
        ChangedThing::Grant => "grant",
        ChangedThing::Budget => "budget",
        ChangedThing::Contract => "contract",
        ChangedThing::Policy => "policy",
        ChangedThing::Quarantine => "quarantine",
        ChangedThing::Settlement => "settlement",
    }
}
