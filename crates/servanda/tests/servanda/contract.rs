//! Contracts for the sample company's tools, written by hand as an operator would, independent of what `init` infers.

use std::fmt;

use serde_json::{Value, json};

/// A contract that can be changed before it is written.
#[derive(Clone)]
pub(crate) struct Contract(pub(crate) Value);

/// A tool that changes nothing.
pub(crate) fn reads(tool: &str) -> Contract {
    let mut contract = base(tool);
    contract["security"]["required_scopes"] = json!([]);
    contract["transactional"]["side_effect_class"] = json!("READ_ONLY");
    contract["transactional"]["semantics"] = json!("read_only");
    contract["effect"] = json!({ "class": "R", "mutation_class": "read_only" });
    Contract(contract)
}

/// A tool of class N: its outcome cannot be queried, and it must never be sent twice.
pub(crate) fn changes(tool: &str) -> Contract {
    let mut contract = base(tool);
    let change = json!({ "resource": "company/*", "operation": "UPDATE", "scope": "tenant" });
    contract["effect"] = json!({ "class": "N", "mutation_class": "write_irreversible", "manifest": [change] });
    Contract(contract)
}

/// Reads one invoice.
pub(crate) fn get_invoice() -> Contract {
    reads("get_invoice").input(&["invoice_id"], &json!({ "invoice_id": invoice_id() }))
}

/// Moves money.
pub(crate) fn pay_invoice() -> Contract {
    changes("pay_invoice").input(
        &["invoice_id", "amount_cents", "currency"],
        &json!({
            "invoice_id": invoice_id(),
            "amount_cents": { "type": "integer", "minimum": 1 },
            "currency": { "type": "string", "enum": ["EUR", "USD", "CHF"] },
        }),
    )
}

/// Counts the effects that really happened.
pub(crate) fn count_effects() -> Contract {
    reads("count_effects")
}

/// Answers after a given time; this contract has class N.
pub(crate) fn slow_change() -> Contract {
    changes("misbehave_slow").input(&["milliseconds"], &slow_input()).timeout("long_running")
}

/// The same, declared to change nothing.
pub(crate) fn slow_read() -> Contract {
    reads("misbehave_slow").input(&["milliseconds"], &slow_input()).timeout("long_running")
}

fn slow_input() -> Value {
    json!({ "milliseconds": { "type": "integer", "minimum": 0 } })
}

fn invoice_id() -> Value {
    json!({ "type": "string", "pattern": "^inv_[0-9]{4,9}$" })
}

impl Contract {
    /// Takes these arguments.
    pub(crate) fn input(mut self, required: &[&str], properties: &Value) -> Self {
        self.0["affordance"]["input_schema"] =
            json!({ "type": "object", "required": required, "properties": properties });
        self
    }

    /// Promises this result.
    pub(crate) fn output(mut self, properties: &Value) -> Self {
        self.0["affordance"]["output_schema"] =
            json!({ "type": "object", "additionalProperties": false, "properties": properties });
        self
    }

    /// Has this timeout class.
    pub(crate) fn timeout(mut self, class: &str) -> Self {
        self.0["execution"]["timeout_class"] = json!(class);
        self
    }

    /// Adds a rule for the arguments.
    pub(crate) fn rule(mut self, rule: &str, message: &str, fields: &[&str]) -> Self {
        self.0["rules"] = json!([{ "id": "rule", "rule": rule, "message": message, "fields": fields }]);
        self
    }

    /// Requires a person's approval.
    pub(crate) fn confirmed(mut self) -> Self {
        self.0["transactional"]["confirmation_required"] = json!(true);
        self
    }

    /// Is bound to another upstream.
    pub(crate) fn of(mut self, upstream: &str) -> Self {
        self.0["binding"]["upstream"] = json!(upstream);
        let tool = self.0["binding"]["tool"].as_str().unwrap().to_owned();
        self.0["identity"]["name"] = json!(format!("{upstream}.{tool}"));
        self
    }

    /// Has another name than its binding.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.0["identity"]["name"] = json!(name);
        self
    }

    pub(crate) fn file_stem(&self) -> String {
        self.0["identity"]["name"].as_str().unwrap().to_owned()
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.0)
    }
}

fn base(tool: &str) -> Value {
    json!({
        "identity": {
            "name": format!("company.{tool}"),
            "version": "1.0.0",
            "owner": "tests",
            "lifecycle": { "status": "active", "sunset_date": null, "replacement": null },
        },
        "affordance": {
            "model_description": format!("The sample's {tool}."),
            "allowed_use_cases": [],
            "forbidden_use_cases": [],
            "input_schema": { "type": "object" },
            "output_schema": {},
            "examples": [],
        },
        "runtime": {
            "timeout_ms": 300_000,
            "rate_limits": { "window_sec": 60, "max_requests": 600 },
            "cost_profile": { "currency": "USD", "cost_per_call": 0.0, "cost_unit": "call" },
            "sandbox_isolated": false,
            "max_retries": 0,
        },
        "security": {
            "required_scopes": ["company:write"],
            "tenant_scoped": false,
            "secrets_boundary": "none",
            "data_classification": "internal",
            "egress_policy": "none",
        },
        "transactional": {
            "side_effect_class": "CRITICAL_MUTATION",
            "confirmation_required": false,
            "semantics": "irreversible_pivot",
            "compensation_tool": null,
            "post_action_verification_required": false,
        },
        "idempotency": {
            "supported": false, "required": false, "key_header": null, "ttl_seconds": null, "payload_hash_required": true,
        },
        "observability": { "trace_attributes": [], "audit_required": true, "error_taxonomy_mapping": {} },
        "error_contract": {
            "repairable_errors": [], "retryable_errors": [], "fail_closed_errors": [], "escalation_errors": [],
        },
        "binding": { "upstream": "company", "tool": tool },
        "execution": { "timeout_class": "long_running" },
    })
}
