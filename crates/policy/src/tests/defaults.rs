//! Each rule that applies without any written policy.

use servanda_contract::tool::{DataClassification as Data, SideEffectClass as Class};

use super::{circumstances, decide, decide_as, identity, ids, load_in, payment, tool, vocabulary_of};
use crate::{
    BuiltInPermits, Policies, PolicyCall, PolicyDecision, PolicyRefusalCause, Principal, ToolFacts, Vocabulary,
};

fn with(class: Class, data: Data, text: &str, defaults: BuiltInPermits) -> Policies {
    load_in(&vocabulary_of(&[tool("t", class, data)]), text, defaults).unwrap()
}

#[test]
fn without_a_policy_every_class_may_be_called_and_says_by_which_default() {
    for (class, by) in [
        (Class::ReadOnly, "default.reads"),
        (Class::EphemeralWrite, "default.writes"),
        (Class::LowRiskInternal, "default.writes"),
        (Class::MediumRiskWrite, "default.writes"),
        (Class::HighRiskExternal, "default.grave-writes"),
        (Class::CriticalMutation, "default.grave-writes"),
    ] {
        for data in [Data::Public, Data::Internal, Data::Confidential, Data::Regulated] {
            let decision = decide(&with(class, data, "", BuiltInPermits::On), "t", &payment(1));
            assert!(decision.is_allowed(), "{class:?} {data:?}");
            assert_eq!(ids(&decision), [by], "{class:?} {data:?}");
            assert!(decision.by()[0].reason.is_some());
        }
    }
}

#[test]
fn secret_data_needs_a_permit_that_somebody_wrote() {
    for class in [Class::ReadOnly, Class::MediumRiskWrite, Class::CriticalMutation] {
        let decision = decide(&with(class, Data::Secret, "", BuiltInPermits::On), "t", &payment(1));
        assert!(
            matches!(&decision, PolicyDecision::Refused(refused) if *refused.cause() == PolicyRefusalCause::NotPermitted)
        );
        let permit = "@id(\"mine\") permit (principal in Group::\"acme/staff\", action, resource == Tool::\"t\");";
        let decision = decide(&with(class, Data::Secret, permit, BuiltInPermits::On), "t", &payment(1));
        assert!(decision.is_allowed());
        assert_eq!(ids(&decision), ["mine"]);
    }
}

#[test]
fn switched_off_the_defaults_permit_nothing() {
    let decision = decide(&with(Class::ReadOnly, Data::Public, "", BuiltInPermits::Off), "t", &payment(1));
    assert!(
        matches!(&decision, PolicyDecision::Refused(refused) if *refused.cause() == PolicyRefusalCause::NotPermitted)
    );
}

#[test]
fn a_forbid_takes_out_of_the_defaults() {
    let forbid = "@id(\"no\") @reason(\"we do not\") forbid (principal, action, resource) when { resource.risk >= 3 };";
    let decision = decide(&with(Class::MediumRiskWrite, Data::Public, forbid, BuiltInPermits::On), "t", &payment(1));
    assert!(!decision.is_allowed());
    assert_eq!(ids(&decision), ["no"]);
    assert_eq!(decision.by()[0].reason.as_deref(), Some("we do not"));
    assert!(
        decide(&with(Class::LowRiskInternal, Data::Public, forbid, BuiltInPermits::On), "t", &payment(1)).is_allowed()
    );
}

const PERMIT_ALL: &str = "permit (principal, action, resource);";

#[test]
fn another_tenants_tool_is_forbidden_whatever_is_written() {
    let contract = tool("t", Class::ReadOnly, Data::Public);
    let table: [(&[&str], bool); 5] =
        [(&[], true), (&["acme"], true), (&["rival"], false), (&["other", "acme"], true), (&["other", "rival"], false)];
    for (owners, allowed) in table {
        let tenants = owners.iter().map(|owner| (*owner).to_owned()).collect();
        let vocabulary =
            Vocabulary::from_tools([ToolFacts { tenants: &tenants, ..ToolFacts::from(&contract) }]).unwrap();
        let policies = load_in(&vocabulary.into(), PERMIT_ALL, BuiltInPermits::Off).unwrap();
        let decision = decide(&policies, "t", &payment(1));
        assert_eq!(decision.is_allowed(), allowed, "{owners:?}");
        if !allowed {
            assert_eq!(ids(&decision), ["always.tool-of-another-tenant"]);
        }
    }
}

#[test]
fn a_call_in_another_tenants_name_is_forbidden_whatever_is_written() {
    let policies = with(Class::ReadOnly, Data::Public, PERMIT_ALL, BuiltInPermits::On);
    let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &[])).unwrap();
    let (arguments, circumstances) = (super::canonical(&payment(1)), circumstances("rival"));
    let call = PolicyCall { principal: &principal, tool: "t", arguments: &arguments, circumstances: &circumstances };
    let decision = policies.decide(&call);
    assert_eq!(ids(&decision), ["always.own-tenant"]);
    assert!(!decision.is_allowed());
}

#[test]
fn an_agent_for_a_user_of_another_tenant_is_forbidden_whatever_is_written() {
    let policies = with(Class::ReadOnly, Data::Public, PERMIT_ALL, BuiltInPermits::On);
    let agent = identity("acme", "bot", &[]);
    for (user, allowed) in [(None, true), (Some("acme"), true), (Some("rival"), false)] {
        let user = user.map(|tenant| identity(tenant, "bob", &[]));
        let principal = Principal::agent(policies.vocabulary(), &agent, user.as_ref()).unwrap();
        let decision = decide_as(&policies, &principal, "t", &payment(1));
        assert_eq!(decision.is_allowed(), allowed);
        if !allowed {
            assert_eq!(ids(&decision), ["always.agent-of-another-tenant"]);
        }
    }
}
