//! Gates 7 and 8 on a call: what a credential has to cover, and what policies say.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU64},
};

use serde_json::{Value, json};
use servanda_approval::ApprovalSettings;
use servanda_authority::{
    AuthenticatedCaller, Rights,
    api_key::{self, ApiKeySpec, CreatedApiKey, PresentedKey},
    rights::{ResourcePatterns, Scopes, ToolPatterns},
};
use servanda_contract::{GateName, Refusal, TaxonomyClass, Timestamp, record::ShadowDecision, tool::SideEffectClass};
use servanda_policy::{
    BuiltInPermits, PartyIdentity, Policies, PolicyLimits, PolicySource, Principal, ShadowPolicies, ToolFacts,
    Vocabulary,
};

use super::{LIMITS, Ticks, admitted, booking, proposal};
use crate::{CompiledContract, Mandate, Permit, PoliciesInForce, ResolvedCall, Trail, pass_all};

pub(super) const NOW: Timestamp = Timestamp::from_unix_ms(0);

/// The holder of a real key with these rights.
pub(super) fn holder(change: impl FnOnce(&mut Rights)) -> AuthenticatedCaller {
    let mut rights = Rights { scopes: Scopes::from_words(["rooms:write"]).unwrap(), ..Rights::unlimited() };
    change(&mut rights);
    let (tenant, principal, label) = ("acme".to_owned(), "ada".to_owned(), "test".to_owned());
    let (groups, expires_at) = (BTreeSet::new(), Timestamp::from_unix_ms(60_000));
    let terms = ApiKeySpec { tenant, principal, groups, label, rights, expires_at };
    let CreatedApiKey { stored, text } = api_key::make(terms, NOW).unwrap();
    let presented = PresentedKey::read(text.as_text().unwrap()).unwrap();
    stored.authenticate(&presented, NOW).unwrap()
}

pub(super) fn judged(
    contract: &Arc<CompiledContract>,
    authenticated: &AuthenticatedCaller,
    policies: &str,
    at: Timestamp,
) -> Result<Permit, Box<Refusal>> {
    judged_with(contract, authenticated, policies, at, &booking(&json!({})))
}

fn facts(contract: &CompiledContract) -> ToolFacts<'_> {
    ToolFacts { program_decides_class: contract.program_decides_class(), ..ToolFacts::from(contract.contract()) }
}

fn judged_with(
    contract: &Arc<CompiledContract>,
    authenticated: &AuthenticatedCaller,
    policies: &str,
    at: Timestamp,
    arguments: &Value,
) -> Result<Permit, Box<Refusal>> {
    let vocabulary = Arc::new(Vocabulary::from_tools([facts(contract)]).unwrap());
    let sources = [PolicySource { name: "test.cedar", text: policies }];
    let policies = Policies::load(vocabulary, &sources, BuiltInPermits::On, &PolicyLimits::default()).unwrap();
    let user = PartyIdentity { id: "ada".to_owned(), tenant: "acme".to_owned(), ..PartyIdentity::default() };
    let principal = Principal::user(policies.vocabulary(), &user).unwrap();
    let policy = PoliciesInForce { policies: &policies, shadow: None, principal: &principal, environment: "test" };
    let mut proposal = proposal(arguments.to_string());
    proposal.caller = authenticated.caller().into();
    proposal.received_at = at;
    let ticks = Ticks(AtomicU64::new(0));
    let settings = ApprovalSettings { by_class: false, ..ApprovalSettings::default() };
    let mandate = Mandate { authenticated, policy, approvals: &settings };
    let resolved = ResolvedCall::new(Box::new(proposal), contract.clone());
    pass_all(resolved, &mandate, LIMITS, &mut Trail::new(&ticks)).map(|judged| judged.permitted().unwrap())
}

fn refused(authenticated: &AuthenticatedCaller, policies: &str, at: Timestamp) -> Refusal {
    *judged(&admitted(&[]), authenticated, policies, at).unwrap_err()
}

#[test]
fn a_credential_that_covers_the_call_and_no_policy_against_it_let_it_through() {
    assert!(judged(&admitted(&[]), &holder(|_| {}), "", NOW).is_ok());
}

/// Each part of the rights taken away alone, and what the refusal says.
#[test]
fn every_part_of_the_rights_holds_a_call_back() {
    type Taken = fn(&mut Rights);
    let cases: [(Taken, &str); 4] = [
        (|rights| rights.scopes = Scopes::from_words(["rooms:read"]).unwrap(), "it lacks the scopes `rooms:write`"),
        (|rights| rights.tools = ToolPatterns::read(&["crm.*"]).unwrap(), "it is not for the tool"),
        (
            |rights| rights.resources = ResourcePatterns::read(&["room/room_2"]).unwrap(),
            "it is not for 1 of the resources",
        ),
        (|rights| rights.ceiling = SideEffectClass::ReadOnly, "it allows nothing graver than"),
    ];
    for (taken, words) in cases {
        let refusal = refused(&holder(taken), "", NOW);
        assert_eq!((refusal.gate, refusal.error_code), (GateName::Scope, TaxonomyClass::PermissionDenied));
        assert!(refusal.message.contains(words), "{}", refusal.message);
        // Only a caller that more scopes would help is told to get them.
        let only_scopes = words.contains("scopes");
        assert_eq!(!refusal.scopes_needed.is_empty(), only_scopes, "{words}");
    }
    let late = refused(&holder(|_| {}), "", Timestamp::from_unix_ms(60_000));
    assert!(late.message.contains("expired"), "{}", late.message);
}

/// The resources of a payload decide, not the tool alone; a contract that names none may touch anything.
#[test]
fn resources_are_those_of_this_payload() {
    let one_room = holder(|rights| rights.resources = ResourcePatterns::read(&["room/room_1"]).unwrap());
    assert!(judged(&admitted(&[]), &one_room, "", NOW).is_ok());
    let silent = admitted(&[
        ("/effect", json!({ "class": "R", "mutation_class": "read_only" })),
        ("/transactional/side_effect_class", json!("READ_ONLY")),
        ("/transactional/semantics", json!("read_only")),
    ]);
    assert!(judged(&silent, &holder(|_| {}), "", NOW).is_ok());
    let refusal = judged(&silent, &one_room, "", NOW).unwrap_err();
    assert_eq!(refusal.gate, GateName::Scope);
}

/// A tool that could drop tables is critical; a ceiling and a policy judge the program of this call.
#[test]
fn a_ceiling_and_a_policy_see_the_class_of_the_program() {
    let effect = json!({ "kind": "sqlite", "decides_class": true });
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["query"],
        "properties": { "query": { "type": "string", "x-effect": effect } },
    });
    let contract = admitted(&[
        ("/transactional/side_effect_class", json!("CRITICAL_MUTATION")),
        ("/affordance/input_schema", schema),
        ("/affordance/examples", json!([])),
        ("/rules", json!([])),
    ]);
    let ended = |authenticated: &AuthenticatedCaller, policies: &str, query: &str| {
        let judged = judged_with(&contract, authenticated, policies, NOW, &json!({ "query": query }));
        judged.map(|permit| permit.side_effect_class()).map_err(|refusal| refusal.gate)
    };
    let (read, insert, drop) = ("select 1", "insert into t values (1)", "drop table t");
    let all = holder(|_| {});
    for (query, class) in [
        (read, SideEffectClass::ReadOnly),
        (insert, SideEffectClass::MediumRiskWrite),
        (drop, SideEffectClass::CriticalMutation),
    ] {
        assert_eq!(ended(&all, "", query), Ok(class));
        for ceiling in SideEffectClass::ALL {
            let limited = holder(|rights| rights.ceiling = ceiling);
            let expected = if class <= ceiling { Ok(class) } else { Err(GateName::Scope) };
            assert_eq!(ended(&limited, "", query), expected, "{query} below {ceiling:?}");
        }
    }
    let forbid = "forbid (principal, action, resource) when { resource.side_effect_class == \"CRITICAL_MUTATION\" };";
    let graver = "forbid (principal, action, resource) when { resource.risk > 0 };";
    assert_eq!(ended(&all, forbid, insert), Ok(SideEffectClass::MediumRiskWrite));
    assert_eq!(ended(&all, forbid, drop), Err(GateName::Policy));
    assert_eq!(ended(&all, graver, read), Ok(SideEffectClass::ReadOnly));
    assert_eq!(ended(&all, graver, insert), Err(GateName::Policy));
}

#[test]
fn a_policy_that_forbids_is_named_with_its_reason() {
    let forbid = r#"@id("no-rooms") @reason("rooms are booked by the desk") forbid (principal, action, resource);"#;
    let refusal = refused(&holder(|_| {}), forbid, NOW);
    assert_eq!((refusal.gate, refusal.error_code), (GateName::Policy, TaxonomyClass::PolicyViolation));
    assert!(refusal.message.contains("`no-rooms`: rooms are booked by the desk"), "{}", refusal.message);
}

/// Policies see the user of the credential, whatever the proposal says about its caller.
#[test]
fn a_call_in_another_tenants_name_is_refused() {
    let contract = admitted(&[]);
    let authenticated = holder(|_| {});
    let vocabulary = Arc::new(Vocabulary::from_tools([ToolFacts::from(contract.contract())]).unwrap());
    let policies = Policies::load(vocabulary, &[], BuiltInPermits::On, &PolicyLimits::default()).unwrap();
    let user = PartyIdentity { id: "ada".to_owned(), tenant: "acme".to_owned(), ..PartyIdentity::default() };
    let principal = Principal::user(policies.vocabulary(), &user).unwrap();
    let policy = PoliciesInForce { policies: &policies, shadow: None, principal: &principal, environment: "test" };
    let ticks = Ticks(AtomicU64::new(0));
    let mut elsewhere = proposal(booking(&json!({})).to_string());
    Arc::make_mut(&mut elsewhere.caller).tenant = "globex".to_owned();
    let settings = ApprovalSettings::default();
    let mandate = Mandate { authenticated: &authenticated, policy, approvals: &settings };
    let refusal = pass_all(ResolvedCall::new(Box::new(elsewhere), contract), &mandate, LIMITS, &mut Trail::new(&ticks))
        .unwrap_err();
    assert_eq!(refusal.gate, GateName::Policy);
}

/// What shadow policies would have decided is recorded separately, and changes nothing.
#[test]
fn shadow_policies_only_reach_the_record() {
    let contract = admitted(&[]);
    let authenticated = holder(|_| {});
    let vocabulary = Arc::new(Vocabulary::from_tools([ToolFacts::from(contract.contract())]).unwrap());
    let load = |text: &str| {
        let sources = [PolicySource { name: "test.cedar", text }];
        Policies::load(Arc::clone(&vocabulary), &sources, BuiltInPermits::On, &PolicyLimits::default()).unwrap()
    };
    let forbid = "@id(\"no-rooms\") forbid (principal, action, resource);";
    for (in_force, tried_out, passes, would_have) in
        [("", forbid, true, ShadowDecision::Refused), (forbid, "", false, ShadowDecision::Allowed)]
    {
        let (policies, shadow) = (load(in_force), ShadowPolicies::new(load(tried_out)));
        let scopes = ["rooms:write".to_owned()].into();
        let user =
            PartyIdentity { id: "ada".to_owned(), tenant: "acme".to_owned(), scopes, ..PartyIdentity::default() };
        let principal = Principal::user(policies.vocabulary(), &user).unwrap();
        let ticks = Ticks(AtomicU64::new(0));
        let mut trail = Trail::new(&ticks);
        let mut proposal = proposal(booking(&json!({})).to_string());
        proposal.caller = authenticated.caller().into();
        let policy =
            PoliciesInForce { policies: &policies, shadow: Some(&shadow), principal: &principal, environment: "test" };
        let settings = ApprovalSettings::default();
        let mandate = Mandate { authenticated: &authenticated, policy, approvals: &settings };
        let judged = pass_all(ResolvedCall::new(Box::new(proposal), contract.clone()), &mandate, LIMITS, &mut trail);
        assert_eq!(judged.is_ok(), passes);
        let told = trail.take_policy().unwrap();
        assert_eq!(told.by.as_slice(), [if passes { "default.writes" } else { "no-rooms" }]);
        assert_eq!(told.scopes.as_slice(), ["rooms:write"]);
        let shadow = told.shadow.unwrap();
        assert_eq!(shadow.would_have, would_have);
        assert_eq!(shadow.by.as_slice(), [if passes { "no-rooms" } else { "default.writes" }]);
        assert_eq!(shadow.cause.as_deref(), passes.then_some("forbidden"));
    }
}
