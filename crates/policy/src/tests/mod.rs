//! What the tests share: a small world of tools, principals and calls.

mod acting;
mod approvals;
mod cases;
mod conversion;
mod decide;
mod defaults;
mod grants;
mod hostile;
mod laws;
mod load;
mod outlook;
mod repetition;
mod unseen;
mod vocabulary;

use std::{fs, path::Path, sync::Arc};

use serde_json::Value;
use servanda_contract::{
    Timestamp, ToolContract, document,
    json::{CanonicalBytes, canonicalize},
    tool::{DataClassification, SideEffectClass},
};

use crate::{
    BuiltInPermits, CallCircumstances, PartyIdentity, Policies, PolicyCall, PolicyDecision, PolicyLimits,
    PolicyLoadFailure, PolicySource, Principal, ToolFacts, Vocabulary,
};

const PAY: &str = include_str!("../../tests/fixtures/pay.yaml");

fn pay() -> ToolContract {
    document::read("pay.yaml", PAY).unwrap()
}

/// A tool of some name, class and classification, otherwise like `bank.pay`.
fn tool(name: &str, class: SideEffectClass, classification: DataClassification) -> ToolContract {
    let mut contract = pay();
    name.clone_into(&mut contract.identity.name);
    contract.transactional.side_effect_class = class;
    contract.security.data_classification = classification;
    contract
}

/// `bank.pay`, a `mail.send` that takes other arguments, and a `docs.read`.
fn contracts() -> Vec<ToolContract> {
    let mut send = tool("mail.send", SideEffectClass::HighRiskExternal, DataClassification::Internal);
    "mail".clone_into(&mut send.binding.upstream);
    let schema = serde_json::json!({
        "type": "object", "required": ["to"],
        "properties": { "to": { "type": "string" }, "copies": { "type": "integer" } },
    });
    send.affordance.input_schema = schema.as_object().unwrap().clone().into();
    send.behaviour = None;
    let mut read = tool("docs.read", SideEffectClass::ReadOnly, DataClassification::Public);
    "docs".clone_into(&mut read.binding.upstream);
    vec![pay(), send, read]
}

fn vocabulary_of(contracts: &[ToolContract]) -> Arc<Vocabulary> {
    Arc::new(Vocabulary::from_tools(contracts.iter().map(ToolFacts::from)).unwrap())
}

/// The same, but the program in a call's arguments decides how grave it is.
fn vocabulary_of_programs(contracts: &[ToolContract]) -> Arc<Vocabulary> {
    Arc::new(
        Vocabulary::from_tools(
            contracts.iter().map(|contract| ToolFacts { program_decides_class: true, ..ToolFacts::from(contract) }),
        )
        .unwrap(),
    )
}

fn load_in(vocabulary: &Arc<Vocabulary>, text: &str, defaults: BuiltInPermits) -> Result<Policies, PolicyLoadFailure> {
    let source = PolicySource { name: "mine.cedar", text };
    Policies::load(Arc::clone(vocabulary), &[source], defaults, &PolicyLimits::default())
}

/// Policies over the three tools, without the defaults.
fn policies(text: &str) -> Policies {
    load_in(&vocabulary_of(&contracts()), text, BuiltInPermits::Off).unwrap_or_else(|failure| panic!("{failure}"))
}

fn failure(text: &str) -> PolicyLoadFailure {
    load_in(&vocabulary_of(&contracts()), text, BuiltInPermits::Off).map(|_| ()).unwrap_err()
}

fn identity(tenant: &str, id: &str, groups: &[&str]) -> PartyIdentity {
    PartyIdentity {
        id: id.to_owned(),
        tenant: tenant.to_owned(),
        scopes: ["bank:pay".to_owned()].into(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

fn circumstances(tenant: &str) -> CallCircumstances<'_> {
    CallCircumstances {
        program_class: None,
        tenant,
        environment: "production",
        time: Timestamp::from_unix_ms(1_794_735_332_007),
        client: None,
        task: None,
        intent: None,
        question: None,
    }
}

fn canonical(value: &Value) -> CanonicalBytes {
    canonicalize(value).unwrap()
}

fn payment(cents: i64) -> Value {
    serde_json::json!({ "account": "a", "amount_cents": cents, "to": { "name": "b" } })
}

/// What the policies say to a call by `acme/alice` of the group `staff`.
fn decide(policies: &Policies, tool: &str, arguments: &Value) -> PolicyDecision {
    let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &["staff"])).unwrap();
    decide_as(policies, &principal, tool, arguments)
}

fn decide_as(policies: &Policies, principal: &Principal, tool: &str, arguments: &Value) -> PolicyDecision {
    let circumstances = circumstances("acme");
    policies.decide(&PolicyCall { principal, tool, arguments: &canonical(arguments), circumstances: &circumstances })
}

fn ids(decision: &PolicyDecision) -> Vec<&str> {
    decision.by().iter().map(|deciding| deciding.policy.as_str()).collect()
}

/// Compares with a checked-in file, or writes it when `UPDATE_GOLDEN` is set.
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == actual,
        "tests/golden/{name} differs. If that is meant, run UPDATE_GOLDEN=1 cargo test -p servanda-policy and read the \
         difference.\n--- actual\n{actual}"
    );
}
