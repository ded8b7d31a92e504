//! When a call needs an approval, and which: the whole table of class, environment, trust and reversibility, and what contracts and
//! policies make of it.

use std::collections::BTreeSet;

use servanda_contract::tool::{
    ApprovalPattern, ApprovalTerms, DataClassification, MutationClass, Presence, SideEffect, SideEffectClass,
    SideEffectOperation,
};

use super::samples::{demand as sample, digest, groups};
use crate::{
    ApprovalCause, ApprovalDemand, ApprovalFacts, ApprovalInputs, ApprovalSettings, EscalationTier, PatternSettings,
    PolicyApproval, TrustLevel, demand,
};
use ApprovalPattern::{Compliance, Consent, Dual, Operator, Queue};
use SideEffectClass::{CriticalMutation, EphemeralWrite, HighRiskExternal, LowRiskInternal, MediumRiskWrite, ReadOnly};

/// Calls `asked` with inputs that say nothing but the class.
fn with<T>(class: SideEffectClass, asked: impl FnOnce(&mut ApprovalInputs<'_>) -> T) -> T {
    let payload = digest("payload");
    asked(&mut ApprovalInputs {
        class,
        facts: ApprovalFacts {
            mutation: Some(MutationClass::WriteReversible),
            manifest: &[],
            data: DataClassification::Internal,
            confirmation_required: false,
            terms: None,
        },
        trust: TrustLevel::Proven,
        policies: &[],
        payload: Some(&payload),
    })
}

fn production() -> ApprovalSettings {
    ApprovalSettings { is_production: true, ..ApprovalSettings::default() }
}

fn asks(policy: &str) -> PolicyApproval {
    PolicyApproval {
        policy: policy.to_owned(),
        required: true,
        pattern: None,
        groups: BTreeSet::new(),
        quorum: None,
        presence: None,
        decide_within_ms: None,
    }
}

fn lifts(policy: &str) -> PolicyApproval {
    PolicyApproval { required: false, ..asks(policy) }
}

fn reaching(scope: &str) -> SideEffect {
    SideEffect { resource: "x".to_owned(), operation: SideEffectOperation::Create, scope: scope.to_owned() }
}

#[test]
fn the_class_decides_where_nothing_else_does() {
    // What each class needs: for each of reversible or not, trusted enough or not; outside production and in it.
    let expected = |class, is_production: bool, is_reversible: bool, is_trusted: bool| match class {
        MediumRiskWrite if is_production && !is_reversible => Some((Operator, ApprovalCause::Irreversible)),
        MediumRiskWrite if !is_trusted => Some((Operator, ApprovalCause::Untrusted)),
        ReadOnly | EphemeralWrite | LowRiskInternal | MediumRiskWrite => None,
        HighRiskExternal if is_production => Some((Operator, ApprovalCause::Class)),
        HighRiskExternal => Some((Consent, ApprovalCause::Class)),
        CriticalMutation => Some((Dual, ApprovalCause::Class)),
    };
    let mut rows = 0;
    for class in SideEffectClass::ALL {
        for is_production in [false, true] {
            for mutation in [Some(MutationClass::WriteReversible), Some(MutationClass::WriteIrreversible), None] {
                for trust in [TrustLevel::Claimed, TrustLevel::Proven, TrustLevel::Trusted] {
                    for trust_needed in [TrustLevel::Claimed, TrustLevel::Proven, TrustLevel::Trusted] {
                        let settings = ApprovalSettings { is_production, trust_needed, ..ApprovalSettings::default() };
                        let got = with(class, |inputs| {
                            demand(
                                &ApprovalInputs { facts: ApprovalFacts { mutation, ..inputs.facts }, trust, ..*inputs },
                                &settings,
                            )
                        });
                        let is_reversible = mutation == Some(MutationClass::WriteReversible);
                        let wanted = expected(class, is_production, is_reversible, trust >= trust_needed);
                        let got = got.map(|demand| (demand.pattern, demand.causes[0].clone()));
                        assert_eq!(got, wanted, "{class:?} {is_production} {mutation:?} {trust:?} {trust_needed:?}");
                        rows += 1;
                    }
                }
            }
        }
    }
    assert_eq!(rows, 6 * 2 * 3 * 3 * 3);
}

#[test]
fn a_critical_scope_counts_in_production() {
    for class in SideEffectClass::ALL {
        for (scope, is_critical) in [("external", true), ("organisation", true), ("tenant", false)] {
            let manifest = [reaching("tenant"), reaching(scope)];
            let asked = |settings: &ApprovalSettings| {
                with(class, |inputs| {
                    demand(
                        &ApprovalInputs { facts: ApprovalFacts { manifest: &manifest, ..inputs.facts }, ..*inputs },
                        settings,
                    )
                })
            };
            let is_held_by_scope = is_critical && class != ReadOnly && class < HighRiskExternal;
            let cause = ApprovalCause::CriticalScope(scope.to_owned());
            let says_so = asked(&production()).is_some_and(|demand| demand.causes.contains(&cause));
            assert_eq!(says_so, is_held_by_scope, "{class:?} {scope}");
            let outside = asked(&ApprovalSettings::default());
            assert!(outside.is_none_or(|demand| !demand.causes.contains(&cause)), "{class:?} {scope}");
        }
    }
}

#[test]
fn compliance_decides_about_regulated_data_and_one_person_consents() {
    let of = |class, data, settings: &ApprovalSettings| {
        with(class, |inputs| {
            demand(&ApprovalInputs { facts: ApprovalFacts { data, ..inputs.facts }, ..*inputs }, settings)
        })
        .unwrap()
    };
    assert_eq!(of(HighRiskExternal, DataClassification::Regulated, &production()).pattern, Compliance);
    assert_eq!(of(HighRiskExternal, DataClassification::Secret, &production()).pattern, Operator);
    let single = ApprovalSettings { is_single_user: true, ..production() };
    let (external, critical) = (
        of(HighRiskExternal, DataClassification::Regulated, &single),
        of(CriticalMutation, DataClassification::Internal, &single),
    );
    assert_eq!((external.pattern, external.quorum, external.presence), (Consent, 1, Presence::Session));
    assert_eq!((critical.pattern, critical.quorum, critical.presence), (Consent, 1, Presence::Fresh));
}

/// A class, a contract's terms, policies, and why an approval is needed then.
type WordedCase<'a> = (SideEffectClass, Option<&'a ApprovalTerms>, &'a [PolicyApproval], &'a [&'a ApprovalCause]);

#[test]
fn contracts_and_policies_have_the_last_word() {
    let terms = |required| ApprovalTerms { required, ..ApprovalTerms::default() };
    let (yes, no) = (terms(Some(true)), terms(Some(false)));
    let (one, none) = ([asks("ask")], [lifts("lift")]);
    let both = [asks("ask"), lifts("lift")];
    // class, contract, policies, the causes of the approval
    let class = ApprovalCause::Class;
    let contract = ApprovalCause::Contract;
    let policy = ApprovalCause::Policy("ask".to_owned());
    let table: [WordedCase<'_>; 13] = [
        (ReadOnly, None, &[], &[]),
        (ReadOnly, Some(&yes), &[], &[&contract]),
        (ReadOnly, None, &one, &[&policy]),
        (ReadOnly, Some(&no), &one, &[&policy]),
        (ReadOnly, Some(&yes), &none, &[&contract]),
        (CriticalMutation, None, &[], &[&class]),
        (CriticalMutation, Some(&no), &[], &[]),
        (CriticalMutation, None, &none, &[]),
        (CriticalMutation, None, &both, &[&policy]),
        (CriticalMutation, None, &one, &[&class, &policy]),
        (CriticalMutation, Some(&no), &both, &[&policy]),
        (CriticalMutation, Some(&yes), &none, &[&contract]),
        (CriticalMutation, Some(&yes), &one, &[&contract, &policy]),
    ];
    for (class, terms, policies, causes) in table {
        let got = with(class, |inputs| {
            demand(
                &ApprovalInputs { facts: ApprovalFacts { terms, ..inputs.facts }, policies, ..*inputs },
                &production(),
            )
        });
        let got: Vec<ApprovalCause> = got.map(|demand| demand.causes).unwrap_or_default();
        assert_eq!(got.iter().collect::<Vec<_>>(), causes, "{class:?} {terms:?} {policies:?}");
    }
    let confirmed = with(LowRiskInternal, |inputs| {
        demand(
            &ApprovalInputs { facts: ApprovalFacts { confirmation_required: true, ..inputs.facts }, ..*inputs },
            &production(),
        )
    });
    assert_eq!(confirmed.unwrap().causes, [ApprovalCause::Contract]);
    let off = ApprovalSettings { by_class: false, ..production() };
    assert_eq!(with(CriticalMutation, |inputs| demand(inputs, &off)), None);
    let asked = with(CriticalMutation, |inputs| demand(&ApprovalInputs { policies: &one, ..*inputs }, &off));
    assert_eq!(asked.unwrap().pattern, Dual, "a policy without a pattern means that of the class");
}

#[test]
fn what_contract_policies_and_settings_say_is_put_together() {
    let tier = |after_percent| EscalationTier { after_percent, groups: groups(&["managers"]) };
    let of_operator = PatternSettings {
        groups: groups(&["by-settings"]),
        quorum: Some(3),
        presence: Presence::Fresh,
        escalation: vec![tier(80), tier(40)],
    };
    let settings = ApprovalSettings { patterns: [(Operator, of_operator)].into(), ..production() };
    let of = |terms: Option<&ApprovalTerms>, policies: &[PolicyApproval]| -> ApprovalDemand {
        with(HighRiskExternal, |inputs| {
            demand(&ApprovalInputs { facts: ApprovalFacts { terms, ..inputs.facts }, policies, ..*inputs }, &settings)
        })
        .unwrap()
    };
    let plain = of(None, &[]);
    assert_eq!((plain.groups, plain.quorum, plain.presence), (groups(&["by-settings"]), 3, Presence::Fresh));
    assert_eq!(plain.escalation, [tier(40), tier(80)], "in order");
    assert_eq!((plain.decide_within_ms, plain.use_within_ms), (24 * 3_600_000, 600_000));
    let terms = ApprovalTerms {
        required: Some(true),
        groups: groups(&["by-contract"]),
        quorum: Some(1),
        presence: Some(Presence::Session),
        decide_within_sec: Some(60),
        use_within_sec: Some(30),
        ..ApprovalTerms::default()
    };
    let by_contract = of(Some(&terms), &[]);
    assert_eq!((by_contract.groups, by_contract.quorum), (groups(&["by-contract"]), 1));
    assert_eq!(by_contract.presence, Presence::Fresh, "the strictest presence");
    assert_eq!((by_contract.decide_within_ms, by_contract.use_within_ms), (60_000, 30_000));
    let first = PolicyApproval {
        groups: groups(&["by-policy"]),
        quorum: Some(2),
        presence: Some(Presence::Passkey),
        decide_within_ms: Some(9_000),
        ..asks("first")
    };
    let second = PolicyApproval { groups: groups(&["and-another"]), decide_within_ms: Some(8_000), ..asks("second") };
    let by_policy = of(Some(&terms), &[first, second]);
    assert_eq!((by_policy.groups, by_policy.quorum), (groups(&["and-another", "by-policy"]), 2));
    assert_eq!((by_policy.presence, by_policy.decide_within_ms), (Presence::Passkey, 8_000));
    let critical = with(CriticalMutation, |inputs| demand(inputs, &production())).unwrap();
    assert_eq!((critical.quorum, critical.decide_within_ms), (2, 3_600_000));
    let dual_by_one = PolicyApproval { pattern: Some(Dual), ..asks("dual") };
    let one = ApprovalTerms { quorum: Some(1), ..ApprovalTerms::default() };
    assert_eq!(of(Some(&one), &[dual_by_one]).quorum, 2, "two people are two people");
}

#[test]
fn a_queue_holds_a_sample_that_the_payload_decides() {
    let terms = |percent| ApprovalTerms {
        required: Some(true),
        pattern: Some(Queue),
        sample_percent: percent,
        ..ApprovalTerms::default()
    };
    let held = |percent, number: u32| {
        let (terms, payload) = (terms(percent), digest(&number.to_string()));
        with(LowRiskInternal, |inputs| {
            demand(
                &ApprovalInputs {
                    facts: ApprovalFacts { terms: Some(&terms), ..inputs.facts },
                    payload: Some(&payload),
                    ..*inputs
                },
                &production(),
            )
            .is_some()
        })
    };
    let count = |percent| (0..1_000).filter(|number| held(percent, *number)).count();
    assert_eq!((count(None), count(Some(100))), (1_000, 1_000));
    let tenth = count(Some(10));
    assert!((50..200).contains(&tenth), "{tenth}");
    assert_eq!(tenth, count(Some(10)), "a repetition is treated like the call");
    // A policy that asks for people gets them.
    let (sparse, policies) = (terms(Some(1)), [PolicyApproval { pattern: Some(Operator), ..asks("ask") }]);
    let pattern = with(LowRiskInternal, |inputs| {
        demand(
            &ApprovalInputs {
                facts: ApprovalFacts { terms: Some(&sparse), ..inputs.facts },
                policies: &policies,
                ..*inputs
            },
            &production(),
        )
        .unwrap()
        .pattern
    });
    assert_eq!(pattern, Operator);
}

#[test]
fn what_became_stricter_is_not_satisfied() {
    let before = ApprovalDemand { groups: groups(&["finance"]), ..sample(Operator, 2) };
    let tier = EscalationTier { after_percent: 50, groups: groups(&["managers"]) };
    let table = [
        (before.clone(), true),
        (ApprovalDemand { quorum: 1, ..before.clone() }, true),
        (ApprovalDemand { quorum: 3, ..before.clone() }, false),
        (ApprovalDemand { pattern: Consent, ..before.clone() }, true),
        (ApprovalDemand { pattern: Dual, ..before.clone() }, false),
        (ApprovalDemand { presence: Presence::Fresh, ..before.clone() }, false),
        (ApprovalDemand { groups: groups(&["finance", "ops"]), ..before.clone() }, true),
        (ApprovalDemand { groups: groups(&["ops"]), ..before.clone() }, false),
        (ApprovalDemand { groups: groups(&[]), ..before.clone() }, true),
        (ApprovalDemand { decide_within_ms: 1, use_within_ms: 1, ..before.clone() }, true),
    ];
    for (now, is_satisfied) in table {
        assert_eq!(before.still_satisfies(&now), is_satisfied, "{now:?}");
    }
    let everybody = ApprovalDemand { groups: groups(&[]), ..before.clone() };
    assert!(!everybody.still_satisfies(&before), "anybody may have approved");
    let escalated = ApprovalDemand { escalation: vec![tier], ..before.clone() };
    assert!(!escalated.still_satisfies(&before), "a manager may have approved");
    assert!(before.still_satisfies(&escalated));
}
