//! Leaves as OCSF events: their bytes, and what the schema (OCSF 1.8.0) requires of them.

use serde_json::{Value, json};
use servanda_audit::{
    leaf::{
        AuditEvent, AuditLeaf, CallLeaf, DecisionLeaf, EffectLeaf, LeafEffectState, LeafMutation, LeafStatus,
        LeafTicketState, LeafVerdict, OutcomeLeaf, TicketLeaf,
    },
    ocsf::OcsfEvent,
};

use crate::leaves::{decision, leaf, one_of_each, outcome};

/// What `api_activity` and its parents require of an event, from the schema's files at 1.8.0.
const REQUIRED: [&str; 12] = [
    "/activity_id",
    "/category_uid",
    "/class_uid",
    "/severity_id",
    "/time",
    "/type_uid",
    "/metadata/product",
    "/metadata/version",
    "/actor",
    "/api/operation",
    "/src_endpoint",
    "/metadata",
];
/// What is required of an object where it is.
const REQUIRED_WITHIN: [(&str, &str); 2] = [("/api/request", "uid"), ("/trace", "uid")];
/// Objects that must have at least one of some attributes.
const AT_LEAST_ONE: [(&str, &[&str]); 7] = [
    ("/actor", &["process", "user", "invoked_by", "session", "app_name", "app_uid"]),
    ("/actor/user", &["account", "name", "uid"]),
    (
        "/src_endpoint",
        &["ip", "uid", "name", "hostname", "svc_name", "instance_uid", "interface_uid", "interface_name", "domain"],
    ),
    ("/metadata/product", &["name", "uid"]),
    ("/api/service", &["name", "uid"]),
    ("/message_context", &["application", "service"]),
    ("/message_context/service", &["name", "uid"]),
];
/// The attributes of `api_activity` at 1.8.0 that are used, so that no other is.
const KNOWN: [&str; 24] = [
    "activity_id",
    "activity_name",
    "actor",
    "api",
    "category_name",
    "category_uid",
    "class_name",
    "class_uid",
    "duration",
    "message_context",
    "metadata",
    "resources",
    "severity",
    "severity_id",
    "src_endpoint",
    "status",
    "status_code",
    "status_detail",
    "status_id",
    "time",
    "trace",
    "type_name",
    "type_uid",
    "unmapped",
];

fn event(index: u64, leaf: &AuditLeaf) -> Value {
    serde_json::to_value(OcsfEvent::of_leaf("servanda/4f1c", index, leaf)).unwrap()
}

fn of_many_kinds() -> Vec<AuditLeaf> {
    let mut leaves = one_of_each();
    let read = |verdict| DecisionLeaf { mutation: Some(LeafMutation::Read), ..decision("c4", verdict) };
    for (verdict, status, word) in [
        (LeafVerdict::Allow, Some(LeafStatus::Success), "completed"),
        (LeafVerdict::Allow, Some(LeafStatus::Timeout), "unknown"),
        (LeafVerdict::Allow, Some(LeafStatus::Error), "quarantined"),
        (LeafVerdict::RequiresApproval, Some(LeafStatus::Error), "refused"),
        (LeafVerdict::Deny, Some(LeafStatus::Error), "refused"),
    ] {
        let ended = OutcomeLeaf { status, outcome: word.to_owned(), ..outcome("c4", LeafStatus::Success) };
        let whole = CallLeaf { decision: read(verdict), outcome: ended };
        leaves.push(leaf(AuditEvent::Call(Box::new(whole))));
    }
    for to in [
        LeafEffectState::Claimed,
        LeafEffectState::OutcomeUnknown,
        LeafEffectState::FailedFinal,
        LeafEffectState::Expired,
    ] {
        let (effect, call) = ("e1".to_owned(), "c1".to_owned());
        leaves.push(leaf(AuditEvent::Effect(EffectLeaf { effect, call, epoch: 1, to })));
    }
    for to in [LeafTicketState::Approved, LeafTicketState::AutoDenied, LeafTicketState::Lapsed] {
        let ticket = "t1".to_owned();
        let moved = TicketLeaf { ticket, to, call: None, payload: None, quorum: None, warrant: None };
        leaves.push(leaf(AuditEvent::Ticket(moved)));
    }
    let nameless = DecisionLeaf { trace: String::new(), agents: Vec::new(), ..decision("c5", LeafVerdict::Allow) };
    leaves.push(leaf(AuditEvent::Decision(Box::new(nameless))));
    leaves
}

/// Events are in the stores of others for years: what is sent does not change silently.
#[test]
fn the_event_of_every_kind_of_leaf() {
    let lines = (7..)
        .zip(one_of_each())
        .map(|(index, leaf)| serde_json::to_string(&OcsfEvent::of_leaf("servanda/4f1c", index, &leaf)).unwrap());
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_event_has_what_the_schema_requires() {
    for (index, leaf) in (0..).zip(of_many_kinds()) {
        let event = event(index, &leaf);
        for pointer in REQUIRED {
            assert!(event.pointer(pointer).is_some_and(|found| !found.is_null()), "{pointer}: {event}");
        }
        for (object, member) in REQUIRED_WITHIN {
            let found = event.pointer(object);
            assert!(
                found.is_none_or(|found| found[member].as_str().is_some_and(|uid| !uid.is_empty())),
                "{object}: {event}"
            );
        }
        for (object, members) in AT_LEAST_ONE {
            let has_one = |found: &Value| members.iter().any(|member| found.get(member).is_some());
            assert!(event.pointer(object).is_none_or(has_one), "{object}: {event}");
        }
        for resource in event["resources"].as_array().into_iter().flatten() {
            assert!(resource.get("name").or(resource.get("uid")).is_some(), "{event}");
        }
        assert!(event.as_object().unwrap().keys().all(|key| KNOWN.contains(&key.as_str())), "{event}");
        assert_eq!((&event["class_uid"], &event["category_uid"]), (&json!(6003), &json!(6)));
        assert_eq!(event["type_uid"], json!(600_300 + event["activity_id"].as_u64().unwrap()));
        assert_eq!(
            (&event["metadata"]["uid"], &event["metadata"]["sequence"]),
            (&json!(index.to_string()), &json!(index))
        );
        // An attribute of a profile is there if the profile is named, and only then.
        let profiles: Vec<&str> =
            event["metadata"]["profiles"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(profiles.contains(&"trace"), event.get("trace").is_some(), "{event}");
        assert_eq!(profiles.contains(&"ai_operation"), event.get("message_context").is_some(), "{event}");
        assert_eq!(event["unmapped"], serde_json::to_value(&leaf.event).unwrap(), "nothing of the leaf is left out");
    }
}

#[test]
fn an_event_says_how_it_went() {
    let leaves = of_many_kinds();
    let told = |number: usize| {
        let event = event(0, &leaves[number]);
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        (text("activity_name"), text("status"), text("status_code"), text("severity"))
    };
    let expected = [
        ("Call", "Success", "allow", "Informational"),
        ("Call", "Failure", "deny", "Low"),
        ("End of a call", "Success", "completed", "Informational"),
        ("Update", "Under way", "dispatching", "Informational"),
        ("Call", "Unknown", "completed", "Informational"),
        ("Create", "Waits for people", "pending", "Informational"),
        ("Approve", "Success", "approve", "Informational"),
        ("Update", "Success", "admitted", "Informational"),
        ("Read", "Success", "completed", "Informational"),
        ("Read", "Unknown", "unknown", "Medium"),
        ("Read", "Failure", "quarantined", "Medium"),
        ("Read", "Requires approval", "refused", "Informational"),
        ("Read", "Failure", "refused", "Low"),
        ("Create", "Under way", "claimed", "Informational"),
        ("Update", "Unknown", "outcome_unknown", "Medium"),
        ("Update", "Failure", "failed_final", "Low"),
        ("Update", "Expired", "expired", "Informational"),
        ("Update", "Success", "approved", "Informational"),
        ("Update", "Failure", "auto_denied", "Low"),
        ("Update", "Lapsed", "lapsed", "Informational"),
    ];
    for (number, (activity, status, code, severity)) in expected.into_iter().enumerate() {
        let expected = (activity.to_owned(), status.to_owned(), code.to_owned(), severity.to_owned());
        assert_eq!(told(number), expected, "{number}: {:?}", leaves[number]);
    }
}
