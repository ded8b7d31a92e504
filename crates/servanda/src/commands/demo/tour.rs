//! The tour: which calls are made, and how each must end. Data only: `outcome` plays it, `page` shows it.

use servanda_contract::{GateName, TaxonomyClass};

use super::caller::DemoCaller;

/// Calls that belong together.
#[derive(Debug)]
pub(super) struct DemoChapter {
    pub(super) heading: &'static str,
    pub(super) steps: &'static [DemoStep],
}

/// One call.
#[derive(Debug)]
pub(super) struct DemoStep {
    pub(super) tool: &'static str,
    /// The bytes that are sent; not always JSON.
    pub(super) arguments: &'static str,
    /// The task that the call names, one that the demo's configuration declares.
    pub(super) task: Option<&'static str>,
    /// Who makes it.
    pub(super) caller: DemoCaller,
    /// Whether a person approves the ticket that the same call left before.
    pub(super) is_approved: bool,
    /// A note for the reader before the result.
    pub(super) user_note: &'static str,
    pub(super) expected: DemoExpectation,
}

/// How a call must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemoExpectation {
    /// It passes and makes this many changes.
    Passes { effects: u64 },
    /// This gate refuses it with this class.
    Refused { gate: GateName, class: TaxonomyClass },
    /// This gate refuses it again, and the caller is told to stop repairing.
    ToldToStop { gate: GateName },
}

/// A task that only reads.
pub(super) const TRIAGE: &str = "read-only triage";

/// The refused call that is shown in full. It has passed some gates, and its refusal has a pointer and a suggested name.
pub(super) const EXPLAINED: GateName = GateName::Bounds;

/// Asks the company for its count of effects. Changes nothing.
pub(super) const COUNT: DemoStep = passes(0, "count_effects", "{}");

pub(super) const CHAPTERS: [DemoChapter; 4] = [
    DemoChapter { heading: "Calls that keep their contract go through", steps: &KEPT },
    DemoChapter {
        heading: "Calls that break it are refused, nothing is sent (why → hint for the agent)",
        steps: &BROKEN,
    },
    DemoChapter {
        heading: "A person approves the payment that waited: the same call goes through, once",
        steps: &APPROVED,
    },
    DemoChapter { heading: "When the company itself misbehaves, the call still ends well", steps: &MISBEHAVING },
];

const KEPT: [DemoStep; 4] = [
    passes(0, "find_customers", r#"{"query":"heron"}"#),
    passes(0, "read_query", r#"{"query":"SELECT count(*) AS open FROM invoices WHERE status = 'open'"}"#),
    passes(
        1,
        "create_invoice_draft",
        r#"{"customer_id":"cus_002","currency":"USD","issued":"2026-11-16","due":"2026-12-16","lines":[{"description":"Onboarding workshop, day","quantity":2,"unit_cents":120000}]}"#,
    ),
    passes(
        1,
        "send_mail",
        r#"{"to":"billing@blueheron.example","subject":"Reminder: inv_1007","body":"Invoice inv_1007 over 4788.00 USD is still open."}"#,
    ),
];

const BROKEN: [DemoStep; 14] = [
    refused(
        GateName::Resolve,
        TaxonomyClass::StructuralViolation,
        "send_email",
        r#"{"to":"billing@blueheron.example"}"#,
    ),
    // Two JSON parsers would read two different files here.
    refused(
        GateName::Parse,
        TaxonomyClass::SyntacticParseFail,
        "delete_file",
        r#"{"path":"/notes/standup.md","path":"/contracts/cus_002.md"}"#,
    ),
    refused(
        GateName::Structure,
        TaxonomyClass::StructuralViolation,
        "update_customer_email",
        r#"{"customer_id":"cus_002","mail":"ap@blueheron.example"}"#,
    ),
    refused(GateName::Types, TaxonomyClass::TypeMismatch, "pay_invoice", QUOTED_AMOUNT),
    // An agent that retries unchanged is in a loop, and the gateway tells it so.
    DemoStep {
        tool: "pay_invoice",
        arguments: QUOTED_AMOUNT,
        task: None,
        caller: DemoCaller::LocalUser,
        is_approved: false,
        user_note: "",
        expected: DemoExpectation::ToldToStop { gate: GateName::Types },
    },
    refused(
        GateName::Bounds,
        TaxonomyClass::OutOfBounds,
        "pay_invoice",
        r#"{"currency":"EURO","invoice_id":"inv_1007","amount_cents":478800}"#,
    ),
    refused(
        GateName::Semantics,
        TaxonomyClass::SemanticInvalidity,
        "book_meeting",
        r#"{"start":"2026-11-20T10:00:00Z","end":"2026-11-20T09:00:00Z","title":"Review","attendees":["mara@lindgren-roth.example"]}"#,
    ),
    // The same tool as for the count above, again with a string; only the statement's effect is different.
    refused(
        GateName::Behaviour,
        TaxonomyClass::SemanticInvalidity,
        "read_query",
        r#"{"query":"DELETE FROM invoices WHERE status = 'open'"}"#,
    ),
    // A tool with the same arguments, called in a task that must not change anything.
    DemoStep {
        task: Some(TRIAGE),
        ..refused(
            GateName::Behaviour,
            TaxonomyClass::SemanticInvalidity,
            "write_query",
            r#"{"query":"UPDATE invoices SET status = 'paid'"}"#,
        )
    },
    // The call is valid, but the agent's credential covers only reading customers.
    DemoStep {
        caller: DemoCaller::ReadingAgent,
        ..refused(GateName::Scope, TaxonomyClass::PermissionDenied, "delete_file", r#"{"path":"/notes/standup.md"}"#)
    },
    // Everything is valid except the recipient: the contract says nothing about it, and the demo's one policy does.
    refused(
        GateName::Policy,
        TaxonomyClass::PolicyViolation,
        "send_mail",
        r#"{"to":"me@mailbox.test","subject":"Open invoices","body":"As asked."}"#,
    ),
    // The gateway asks the company first and learns that the invoice is partly paid.
    refused(
        GateName::State,
        TaxonomyClass::StaleState,
        "void_invoice",
        r#"{"invoice_id":"inv_1008","reason":"customer_request"}"#,
    ),
    refused(GateName::Confirmation, TaxonomyClass::ConfirmationMissing, "pay_invoice", PAYMENT),
    // One mail was sent above, and the configuration allows one per run.
    refused(
        GateName::Budget,
        TaxonomyClass::BudgetExhausted,
        "send_mail",
        r#"{"to":"ap@blueheron.example","subject":"Reminder: inv_1007","body":"And again."}"#,
    ),
];

const APPROVED: [DemoStep; 2] = [
    DemoStep { is_approved: true, user_note: "approved: ", ..passes(1, "pay_invoice", PAYMENT) },
    // An approval is for one execution.
    refused(GateName::Confirmation, TaxonomyClass::ConfirmationMissing, "pay_invoice", PAYMENT),
];

/// The payment that waits for a person.
const PAYMENT: &str = r#"{"invoice_id":"inv_1007","amount_cents":478800,"currency":"USD"}"#;

/// The run that all calls of the tour belong to.
pub(super) const RUN: &str = "tour";

const MISBEHAVING: [DemoStep; 4] = [
    refused(GateName::Perform, TaxonomyClass::Timeout, "misbehave_hang", "{}"),
    refused(GateName::Perform, TaxonomyClass::DependencyUnavailable, "misbehave_die", "{}"),
    // A report has a long deadline, long enough to restart the company first.
    DemoStep { user_note: "started again: ", ..passes(0, "monthly_report", r#"{"month":"2026-10"}"#) },
    refused(GateName::Observe, TaxonomyClass::ObservationNormalizationFail, "misbehave_wrong_shape", "{}"),
];

const QUOTED_AMOUNT: &str = r#"{"invoice_id":"inv_1007","amount_cents":"478800","currency":"USD"}"#;

const fn passes(effects: u64, tool: &'static str, arguments: &'static str) -> DemoStep {
    DemoStep {
        tool,
        arguments,
        task: None,
        caller: DemoCaller::LocalUser,
        is_approved: false,
        user_note: "",
        expected: DemoExpectation::Passes { effects },
    }
}

const fn refused(gate: GateName, class: TaxonomyClass, tool: &'static str, arguments: &'static str) -> DemoStep {
    DemoStep {
        tool,
        arguments,
        task: None,
        caller: DemoCaller::LocalUser,
        is_approved: false,
        user_note: "",
        expected: DemoExpectation::Refused { gate, class },
    }
}
