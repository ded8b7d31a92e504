//! The third decision: allowed if people approve it. Annotations of policies, contracts and classes together, in decisions, in
//! explanations and on trial.

use proptest::prelude::*;
use servanda_approval::{ApprovalDemand, ApprovalSettings};
use servanda_contract::{
    CallerActor, Digest, ToolContract,
    digest::DigestDomain,
    record::ShadowDecision,
    shared::Shared,
    tool::{ApprovalPattern, ApprovalTerms, QuestionKind},
};

use super::{
    canonical, circumstances, contracts, decide_as, failure, golden, identity,
    laws::{asked, loaded, text},
    load_in, payment, vocabulary_of,
};
use crate::{
    ApprovalQuestion, BuiltInPermits, CallCircumstances, Policies, PolicyCall, PolicyFindingKind, Principal,
    ShadowPolicies,
};

const ALL: &str = "@id(\"all\") permit (principal, action, resource);";

/// The approval that alice's call needs, by policies over tools of which one was changed.
fn needed(policies: &Policies, principal: &Principal, tool: &str) -> Option<ApprovalDemand> {
    let arguments = if tool == "bank.pay" { payment(5) } else { serde_json::json!({ "to": "x" }) };
    let decision = decide_as(policies, principal, tool, &arguments);
    assert!(decision.is_allowed(), "{decision:?}");
    let question = ApprovalQuestion { principal, tool, program_class: None, payload: None };
    policies.approval_needed(&decision, &question, &ApprovalSettings::default())
}

fn with_contract(text: &str, change: impl Fn(&mut ToolContract)) -> Policies {
    let mut contracts = contracts();
    contracts.iter_mut().for_each(change);
    load_in(&vocabulary_of(&contracts), text, BuiltInPermits::Off).unwrap_or_else(|failure| panic!("{failure}"))
}

fn alice(policies: &Policies) -> Principal {
    Principal::user(policies.vocabulary(), &identity("acme", "alice", &["staff"])).unwrap()
}

#[test]
fn policies_contracts_and_classes_together() {
    let no_change: fn(&mut ToolContract) = |_| {};
    let confirmed: fn(&mut ToolContract) = |contract| contract.transactional.confirmation_required = true;
    let asks: fn(&mut ToolContract) = |contract| {
        let terms = ApprovalTerms {
            required: Some(true),
            pattern: Some(ApprovalPattern::Operator),
            ..ApprovalTerms::default()
        };
        contract.approval =
            Some(Shared::new(ApprovalTerms { groups: ["ops".to_owned()].into(), quorum: Some(3), ..terms }));
    };
    let needs_none: fn(&mut ToolContract) = |contract| {
        contract.approval = Some(Shared::new(ApprovalTerms { required: Some(false), ..ApprovalTerms::default() }));
    };
    let lifts = "@approval(\"none\") permit (principal, action, resource);";
    let two = "@id(\"two\") @approval(\"dual\") @approvers(\"finance\") permit (principal, action, resource);";
    let one = "@id(\"one\") @approval(\"operator\") permit (principal, action, resource);";
    for (policies, change, tool, wanted) in [
        (ALL.to_owned(), no_change, "docs.read", None),
        (ALL.to_owned(), no_change, "bank.pay", None),
        (ALL.to_owned(), no_change, "mail.send", Some("the user or an approver")),
        // A policy lifts what the class alone asks for, not what the contract asks.
        (lifts.to_owned(), no_change, "mail.send", None),
        (lifts.to_owned(), confirmed, "mail.send", Some("the user or an approver")),
        (lifts.to_owned(), asks, "bank.pay", Some("3 approvers of ops")),
        (ALL.to_owned(), needs_none, "mail.send", None),
        // A policy that asks wins over a contract that needs none, over a policy that lifts, and asks for reads too.
        (two.to_owned(), no_change, "docs.read", Some("2 approvers of finance")),
        (two.to_owned(), needs_none, "mail.send", Some("2 approvers of finance")),
        (format!("{lifts}{two}"), no_change, "bank.pay", Some("2 approvers of finance")),
        (format!("{ALL}{one}"), no_change, "bank.pay", Some("an approver")),
        // Of several that ask, the strictest pattern and the greatest number count.
        (format!("{one}{two}"), no_change, "bank.pay", Some("2 approvers of finance")),
        (two.to_owned(), asks, "bank.pay", Some("3 approvers of finance")),
    ] {
        let loaded = with_contract(&policies, change);
        let found = needed(&loaded, &alice(&loaded), tool).map(|demand| demand.describe());
        assert_eq!(found.as_deref(), wanted, "{tool}: {policies}");
    }
}

#[test]
fn what_is_forbidden_is_refused_before_anything_is_asked() {
    let text = "@id(\"ask\") @approval(\"dual\") permit (principal, action, resource);\n@id(\"no\") forbid (principal, action, resource);";
    let policies = with_contract(text, |_| {});
    let principal = alice(&policies);
    let decision = decide_as(&policies, &principal, "bank.pay", &payment(5));
    assert!(!decision.is_allowed());
    let question = ApprovalQuestion { principal: &principal, tool: "bank.pay", program_class: None, payload: None };
    assert_eq!(policies.approval_needed(&decision, &question, &ApprovalSettings::default()), None);
}

/// The holder of a credential can claim any name. It cannot claim the name of an agent that needs no approvals.
#[test]
fn a_claimed_name_lifts_nothing() {
    let text = "@id(\"all\") permit (principal, action, resource);\n\
                @id(\"bot\") @approval(\"none\") permit (principal == Agent::\"acme/bot\", action, resource);\n\
                @id(\"carol\") @approval(\"none\") permit (principal == User::\"acme/carol\", action, resource);";
    let policies = with_contract(text, |_| {});
    for (user, actors, is_held) in [
        ("alice", &[][..], true),
        ("alice", &[("bot", true)], false),
        ("alice", &[("bot", false)], true),
        ("alice", &[("bot", false), ("other", true)], true),
        // The user alone needs none, and under another name of theirs the class counts again.
        ("carol", &[], false),
        ("carol", &[("other", false)], true),
        ("carol", &[("bot", false)], false),
        // A proven agent for which another agent handed on the credential.
        ("alice", &[("bot", true), ("other", true)], false),
    ] {
        let actor = |(name, proven): &(&str, bool)| CallerActor { name: (*name).to_owned(), proven: *proven };
        let actors: Vec<CallerActor> = actors.iter().map(actor).collect();
        let principal = Principal::acting(policies.vocabulary(), &identity("acme", user, &[]), &actors).unwrap();
        assert_eq!(needed(&policies, &principal, "mail.send").is_some(), is_held, "{user} {actors:?}");
    }
}

#[test]
fn explanations_say_who_approves() {
    let text = "@id(\"trusted\") @approval(\"none\") permit (principal, action, resource);\n\
                @id(\"refunds\") @reason(\"two people see large payments\") @approval(\"operator\") @approvers(\"finance\") \
                @quorum(\"2\") permit (principal, action == Action::\"call:bank.pay\", resource) \
                when { context.args.amount_cents > 100 };";
    let policies = with_contract(text, |_| {});
    let (principal, circumstances) = (alice(&policies), circumstances("acme"));
    let explain = |tool: &str, arguments, circumstances: &CallCircumstances<'_>| {
        let call = PolicyCall { principal: &principal, tool, arguments: &canonical(&arguments), circumstances };
        policies.explain(&call, &ApprovalSettings::default())
    };
    let told = [
        explain("bank.pay", payment(500), &circumstances),
        explain("bank.pay", payment(5), &circumstances),
        explain("mail.send", serde_json::json!({ "to": "x" }), &circumstances),
    ];
    golden("approvals.txt", &told.map(|explanation| format!("{explanation}\n")).join("\n"));
    // A server's question is part of a call that was approved.
    let question = CallCircumstances { question: Some(QuestionKind::Form), ..circumstances };
    assert_eq!(explain("bank.pay", payment(500), &question).approval, None);
}

#[test]
fn policies_on_trial_would_ask() {
    let text = "@id(\"two\") @approval(\"dual\") permit (principal, action, resource);";
    let trial = ShadowPolicies::new(with_contract(text, |_| {}));
    let principal = alice(trial.policies());
    let (arguments, circumstances) = (canonical(&payment(5)), circumstances("acme"));
    let call =
        PolicyCall { principal: &principal, tool: "bank.pay", arguments: &arguments, circumstances: &circumstances };
    let record = trial.would_have(&call, &ApprovalSettings::default(), None).to_record();
    assert_eq!((record.would_have, record.cause.as_deref()), (ShadowDecision::Approval, Some("dual")));
    assert_eq!(record.by.as_slice(), ["two"]);
    let told = serde_json::to_value(&record).unwrap();
    assert_eq!(told, serde_json::json!({ "would_have": "approval", "cause": "dual", "by": ["two"] }));
}

/// A queue reviews a part of the calls; which, the payload decides.
#[test]
fn a_call_of_a_queue_is_held_unless_its_payload_says_otherwise() {
    let policies = with_contract(ALL, |contract| {
        let terms =
            ApprovalTerms { required: Some(true), pattern: Some(ApprovalPattern::Queue), ..ApprovalTerms::default() };
        contract.approval = Some(Shared::new(ApprovalTerms { sample_percent: Some(10), ..terms }));
    });
    let principal = alice(&policies);
    assert!(needed(&policies, &principal, "bank.pay").is_some(), "the payload is not known");
    let decision = decide_as(&policies, &principal, "bank.pay", &payment(5));
    let is_held = |number: u32| {
        let payload = Digest::compute(DigestDomain::Proposal, &[&number.to_be_bytes()]);
        let question =
            ApprovalQuestion { principal: &principal, tool: "bank.pay", program_class: None, payload: Some(&payload) };
        policies.approval_needed(&decision, &question, &ApprovalSettings::default()).is_some()
    };
    let held = (0..1_000).filter(|number| is_held(*number)).count();
    assert!((60..140).contains(&held), "{held}");
}

#[test]
fn annotations_that_mean_nothing_are_not_loaded() {
    let permit = "permit (principal, action, resource)";
    let mistakes = [
        format!("@id(\"pattern\") @approval(\"boss\") {permit};"),
        format!("@id(\"alone\") @quorum(\"2\") {permit};"),
        format!("@id(\"none with groups\") @approval(\"none\") @approvers(\"finance\") {permit};"),
        "@id(\"forbid\") @approval(\"operator\") forbid (principal, action, resource);".to_owned(),
        format!("@id(\"nobody\") @approval(\"operator\") @quorum(\"0\") {permit};"),
        format!("@id(\"ten\") @approval(\"operator\") @quorum(\"10\") {permit};"),
        format!("@id(\"one of two\") @approval(\"dual\") @quorum(\"1\") {permit};"),
        format!("@id(\"time\") @approval(\"operator\") @decide_within(\"5x\") {permit};"),
        format!("@id(\"presence\") @approval(\"operator\") @presence(\"password\") {permit};"),
        format!("@id(\"no group\") @approval(\"operator\") @approvers(\"\") {permit};"),
        format!("@id(\"misspelt\") @aproval(\"operator\") {permit};"),
        format!("@id(\"misspelt too\") @approval(\"operator\") @approver(\"finance\") {permit};"),
    ];
    let found = failure(&mistakes.join("\n"));
    assert!(found.findings().iter().all(|finding| finding.kind == PolicyFindingKind::Approval), "{found}");
    assert!(found.findings().iter().all(|finding| finding.hint.is_some()), "{found}");
    golden("approval-mistakes.txt", &format!("{found}\n"));
}

const ANNOTATIONS: [&str; 6] = [
    "@approval(\"none\")",
    "@approval(\"required\")",
    "@approval(\"queue\")",
    "@approval(\"operator\") @approvers(\"finance\")",
    "@approval(\"dual\") @quorum(\"3\")",
    "@approval(\"consent\") @presence(\"passkey\")",
];

/// The same policies, and some of the permits have an annotation.
fn annotated(text: &str, which: &[usize]) -> String {
    let mut which = which.iter().cycle();
    let annotation = |which: Option<&usize>| which.and_then(|at| ANNOTATIONS.get(*at)).copied().unwrap_or_default();
    let line = |line: &str| {
        if line.contains(" permit (") { format!("{} {line}\n", annotation(which.next())) } else { format!("{line}\n") }
    };
    text.lines().map(line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A further policy that asks makes no call that is held pass without an approval, and none milder in who decides.
    #[test]
    fn a_policy_that_asks_never_lets_a_held_call_pass(
        text in text(),
        which in prop::collection::vec(0..ANNOTATIONS.len() + 2, 8),
        added in 1..ANNOTATIONS.len(),
        asked in prop::collection::vec(asked(), 12),
    ) {
        let before = annotated(&text, &which);
        let more = format!("{before}\n{} permit (principal, action, resource);", ANNOTATIONS[added]);
        let (before, after) = (loaded(&before, BuiltInPermits::On), loaded(&more, BuiltInPermits::On));
        for asked in asked {
            let held = |policies: &Policies| {
                let principal = Principal::user(policies.vocabulary(), &asked.user()).unwrap();
                let decision = asked.decide(policies, &principal);
                let question = ApprovalQuestion { payload: None, ..asked.question(&principal) };
                let settings = ApprovalSettings::default();
                (decision.is_allowed(), policies.approval_needed(&decision, &question, &settings))
            };
            if let ((true, Some(first)), (is_allowed, second)) = (held(&before), held(&after)) {
                prop_assert!(is_allowed, "a permit refuses nothing");
                let second = second.ok_or_else(|| TestCaseError::fail("it passes without an approval"))?;
                prop_assert!(second.pattern >= first.pattern && second.quorum >= first.quorum, "{first:?} {second:?}");
                prop_assert!(second.presence >= first.presence, "{first:?} {second:?}");
            }
        }
    }
}
