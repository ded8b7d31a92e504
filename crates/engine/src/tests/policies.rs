//! What requesters see and may call under an operator's policies: lists and calls agree, and another tenant's tools do not exist.

use std::{collections::BTreeSet, sync::Arc};

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;
use servanda_authority::{
    AuthenticatedCaller, Narrowing, Rights, Secret,
    api_key::{self, ApiKeySpec, CreatedApiKey, PresentedKey},
    capability::{Caveat, Delegation, RootKeys, attenuate},
    rights::{Scopes, ToolPatterns},
};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::{GateName, Timestamp, record::ShadowDecision, time::Clock as _, tool::SideEffectClass};
use servanda_mcp::{Era, RpcError};
use servanda_policy::Outlook;

use crate::{
    CallAnswer, Gateway as _, InquiryAnswer, InquirySubject, Listing, RequestTerms, Requester, SystemClock,
    UpstreamTenants,
    testing::{EngineHarness, ScriptedServer, TestRules, call, inquiry, parse, requester, ruled, said, text},
};

/// A server with tools, prompts and resources.
fn server() -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Modern, &json!({"resources": {}, "prompts": {}}), |heard| async move {
        Ok(match heard.method {
            "tools/call" => text(Era::Modern, "done"),
            "resources/list" => said(Era::Modern, &json!({"resources": [{"uri": "a://b", "name": "b"}]})),
            "prompts/list" => said(Era::Modern, &json!({"prompts": [{"name": "greet"}]})),
            "prompts/get" => said(Era::Modern, &json!({"messages": []})),
            _ => said(Era::Modern, &json!({"contents": []})),
        })
    })
}

fn harness(servers: &[(&str, Arc<ScriptedServer>)], rules: &TestRules<'_>) -> EngineHarness {
    EngineHarness::in_snapshot(ruled(ExposedNaming::Prefixed, servers, rules), Arc::default(), Arc::new(SystemClock))
}

/// A requester with a real key that has these rights.
fn holder(tenant: &str, principal: &str, change: impl FnOnce(&mut Rights)) -> Requester {
    member(tenant, principal, &[], change)
}

/// The same, in these groups.
fn member(tenant: &str, principal: &str, groups: &[&str], change: impl FnOnce(&mut Rights)) -> Requester {
    let now = SystemClock.now();
    let mut rights = Rights { scopes: Scopes::from_words(["billing:write"]).unwrap(), ..Rights::unlimited() };
    change(&mut rights);
    let [tenant, principal, label] = [tenant, principal, "test"].map(str::to_owned);
    let expires_at = Timestamp::from_unix_ms(now.unix_ms() + 600_000);
    let CreatedApiKey { stored, text } = api_key::make(
        ApiKeySpec {
            tenant,
            principal,
            label,
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            rights,
            expires_at,
        },
        now,
    )
    .unwrap();
    let presented = PresentedKey::read(text.as_text().unwrap()).unwrap();
    let authority: AuthenticatedCaller = stored.authenticate(&presented, now).unwrap();
    Requester {
        caller: authority.caller().into(),
        authority: Arc::new(authority),
        ..requester(Era::Modern, &json!({}))
    }
}

fn names(listing: &Arc<Listing>) -> Vec<&str> {
    listing.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Whether the call was performed.
async fn performed(harness: &EngineHarness, requester: &Requester, tool: &str) -> bool {
    let answer = harness.engine.call(call(requester, tool, RequestTerms::default())).await;
    matches!(answer, CallAnswer::Result(result) if !result.is_error)
}

/// The words of a refusal, without the parts that differ for every call.
async fn words(harness: &EngineHarness, requester: &Requester, tool: &str) -> String {
    match harness.engine.call(call(requester, tool, RequestTerms::default())).await {
        CallAnswer::UnknownTool(refusal) => {
            format!("{:?} {} {}", refusal.gate, refusal.message, refusal.hint).replace(tool, "TOOL")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn local_mode_with_defaults_sees_the_very_list_of_the_catalog() {
    let harness = harness(&[("up", server())], &TestRules::default());
    let requester = requester(Era::Modern, &json!({}));
    let whole = harness.engine.catalog().listing(&requester.capabilities);
    assert!(Arc::ptr_eq(&whole, &harness.engine.listing(&requester).await));
    assert!(Arc::ptr_eq(&whole, &harness.engine.known_listing(&requester)));
}

/// A list that leaves something out is the same object again, until the catalog's list changes.
#[tokio::test]
async fn a_list_is_worked_out_once_for_requesters_of_one_kind() {
    let forbid = "forbid (principal, action == Action::\"call:up.write\", resource);";
    let harness = harness(&[("up", server())], &TestRules { policies: forbid, ..TestRules::default() });
    let requester = requester(Era::Modern, &json!({}));
    let first = harness.engine.listing(&requester).await;
    assert_eq!(names(&first), ["up__echo"]);
    assert!(Arc::ptr_eq(&first, &harness.engine.known_listing(&requester)));
    let reader = holder("local", "local", |rights| rights.tools = ToolPatterns::read(&["up.write"]).unwrap());
    assert_eq!(names(&harness.engine.known_listing(&reader)), Vec::<&str>::new());
    let named = Requester {
        caller: servanda_contract::Caller { client: Some("x".to_owned()), ..(*requester.caller).clone() }.into(),
        ..requester
    };
    assert!(Arc::ptr_eq(&first, &harness.engine.known_listing(&named)), "no policy asks for the client");
}

#[tokio::test]
async fn what_a_credential_is_not_for_is_not_shown_but_for_scopes() {
    type Taken = fn(&mut Rights);
    let harness = harness(&[("up", server())], &TestRules::default());
    let table: [(Taken, &[&str]); 5] = [
        (|_| {}, &["up__echo", "up__write"]),
        (|rights| rights.tools = ToolPatterns::read(&["up.echo"]).unwrap(), &["up__echo"]),
        (|rights| rights.tools = ToolPatterns::none(), &[]),
        (|rights| rights.ceiling = SideEffectClass::ReadOnly, &["up__echo"]),
        // A caller that lacks a scope learns from the refusal of a call which one to ask for.
        (|rights| rights.scopes = Scopes::from_words(["other"]).unwrap(), &["up__echo", "up__write"]),
    ];
    for (taken, expected) in table {
        let listing = harness.engine.listing(&holder("acme", "ada", taken)).await;
        assert_eq!(names(&listing), expected);
    }
}

#[tokio::test]
async fn another_tenants_tool_is_as_if_it_were_not_there() {
    let (theirs, ours) = (server(), server());
    let tenants: UpstreamTenants =
        [("theirs".to_owned(), ["rival", "other"].map(str::to_owned).into_iter().collect::<BTreeSet<_>>())]
            .into_iter()
            .collect();
    let harness =
        harness(&[("theirs", theirs.clone()), ("ours", ours)], &TestRules { tenants, ..TestRules::default() });
    let (ada, rival) = (holder("acme", "ada", |_| {}), holder("rival", "rob", |_| {}));
    assert_eq!(names(&harness.engine.listing(&ada).await), ["ours__echo", "ours__write"]);
    assert_eq!(harness.engine.listing(&rival).await.tools.len(), 4);
    assert!(performed(&harness, &rival, "theirs__echo").await);
    let heard = theirs.heard().len();
    // The same words as for a tool that never existed, and no suggestion that names the other tenant's tool.
    assert_eq!(words(&harness, &ada, "theirs__echo").await, words(&harness, &ada, "absent__tool").await);
    assert!(!words(&harness, &ada, "theirs__ehco").await.contains("theirs"));
    assert!(words(&harness, &rival, "theirs__ehco").await.contains("did you mean `theirs__echo`"));
    assert_eq!(harness.last_record().contract, None);
    for subject in [InquirySubject::Resources, InquirySubject::Prompts] {
        let answer = harness.engine.inquire(inquiry(&ada, subject, &json!({}), RequestTerms::default())).await.unwrap();
        let InquiryAnswer::Complete(page) = answer else { panic!("{answer:?}") };
        assert!(page.contains("ours") && !page.contains("theirs"), "{page}");
        assert!(parse(&page).is_object());
    }
    let refused = |answer: Result<InquiryAnswer, RpcError>| answer.unwrap_err().message;
    let read = |uri: &str| inquiry(&ada, InquirySubject::Resource, &json!({"uri": uri}), RequestTerms::default());
    let theirs_read = refused(harness.engine.inquire(read("servanda://theirs/a://b")).await);
    let absent_read = refused(harness.engine.inquire(read("servanda://absent/a://b")).await);
    assert_eq!(theirs_read.replace("theirs", "X"), absent_read.replace("absent", "X"));
    let prompt = inquiry(&ada, InquirySubject::Prompt, &json!({"name": "theirs__greet"}), RequestTerms::default());
    assert!(harness.engine.inquire(prompt).await.is_err());
    assert!(harness.engine.watch(&ada, "servanda://theirs/a://b").await.is_err());
    harness.engine.roots_changed(&ada);
    assert_eq!(theirs.heard().len(), heard, "the server heard of none of it: {:?}", theirs.heard());
}

/// Within a tenant the refusal is honest: the tool exists, and a policy forbids it.
#[tokio::test]
async fn a_hidden_tool_of_ones_own_tenant_is_refused_by_name() {
    let forbid = "@id(\"no\") forbid (principal, action == Action::\"call:up.write\", resource);";
    let harness = harness(&[("up", server())], &TestRules { policies: forbid, ..TestRules::default() });
    let requester = requester(Era::Modern, &json!({}));
    assert!(!performed(&harness, &requester, "up__write").await);
    let record = harness.last_record();
    assert_eq!(record.refusal.unwrap().gate, GateName::Policy);
    assert_eq!(record.policy.unwrap().by.as_slice(), ["no"]);
    // It is not suggested to a caller that mistypes its name.
    assert!(!words(&harness, &requester, "up__wrte").await.contains("up__write"));
}

#[tokio::test]
async fn what_others_would_have_done_is_on_record_and_changes_nothing() {
    let forbid = "@id(\"next\") forbid (principal, action, resource);";
    let harness = harness(&[("up", server())], &TestRules { shadow: Some(forbid), ..TestRules::default() });
    let requester = requester(Era::Modern, &json!({}));
    assert_eq!(
        names(&harness.engine.listing(&requester).await).len(),
        2,
        "nothing is hidden by what is only tried out"
    );
    for tool in ["up__echo", "up__write"] {
        assert!(performed(&harness, &requester, tool).await);
        let policy = harness.last_record().policy.unwrap();
        let shadow = policy.shadow.unwrap();
        assert_eq!((shadow.would_have, shadow.cause.as_deref()), (ShadowDecision::Refused, Some("forbidden")));
        assert_eq!(shadow.by.as_slice(), ["next"]);
    }
}

/// An agent of `acme/ada` under these names. The operator's delegation has the first; a holder alone claims each further one.
fn agent_of_ada(first: (&str, bool), narrowed: &[&str]) -> Requester {
    let (ada, now) = (holder("acme", "ada", |_| {}), SystemClock.now());
    let keys = RootKeys::new("k", [("k".to_owned(), Secret::new([7; 32]))].into()).unwrap();
    let delegation = Delegation {
        actor: serde_json::from_value(json!({ "name": first.0, "proven": first.1 })).unwrap(),
        actor_lineage: Vec::new(),
        actor_budgets: Vec::new(),
        narrowing: Narrowing::default(),
        lifetime_ms: 600_000,
    };
    let mut text = keys.delegate(&ada.authority, delegation, now).unwrap().text;
    for name in narrowed {
        let caveat = Caveat { actor: Some((*name).to_owned()), narrowing: Narrowing::default() };
        text = attenuate(text.as_text().unwrap(), &caveat).unwrap();
    }
    let authority = keys.verify(text.as_text().unwrap(), now).unwrap();
    Requester {
        caller: authority.caller().into(),
        authority: Arc::new(authority),
        ..requester(Era::Modern, &json!({}))
    }
}

#[tokio::test]
async fn a_forbid_on_an_agent_holds_for_callers_that_claim_its_name_or_hide_it() {
    let rules = "forbid (principal == Agent::\"acme/bot\", action == Action::\"call:up.echo\", resource);";
    let harness = harness(&[("up", server())], &TestRules { policies: rules, ..TestRules::default() });
    for (first, narrowed, expected) in [
        (("bot", true), &[][..], false),
        (("bot", false), &[], false),
        (("bot", true), &["x"], false),
        (("bot", false), &["x", "y"], false),
        (("x", true), &["bot"], false),
        (("x", false), &[], true),
        (("x", true), &["y"], true),
    ] {
        let requester = agent_of_ada(first, narrowed);
        assert_eq!(performed(&harness, &requester, "up__echo").await, expected, "{first:?} {narrowed:?}");
        let listed = harness.engine.listing(&requester).await;
        assert_eq!(names(&listed).contains(&"up__echo"), expected, "{first:?} {narrowed:?}");
        let record = harness.last_record();
        let authorities = harness.engine.authorities();
        let recalled = crate::RecordedPolicyRequest::from_record(&record, authorities.policies().vocabulary(), "test")
            .unwrap()
            .unwrap();
        let again = authorities.policies().outlook(&recalled.principal, recalled.tool, &recalled.circumstances);
        assert!(
            matches!(&again, Outlook::Certain(decision) if decision.is_allowed() == expected),
            "{first:?} {narrowed:?} {again:?}"
        );
    }
}

/// A decision about a recorded call uses the caller's recorded groups, or says that they are not known.
#[tokio::test]
async fn groups_are_on_record_and_recalled() {
    let rules =
        "@id(\"staff\") forbid (principal in Group::\"acme/staff\", action == Action::\"call:up.echo\", resource);";
    let harness = harness(&[("up", server())], &TestRules { policies: rules, ..TestRules::default() });
    let authorities = harness.engine.authorities();
    let policies = authorities.policies();
    for (groups, expected) in [(&["staff", "desk"][..], false), (&["desk"], true), (&[], true)] {
        let requester = member("acme", "ada", groups, |_| {});
        assert_eq!(performed(&harness, &requester, "up__echo").await, expected, "{groups:?}");
        let mut record = harness.last_record();
        let kept = record.policy.as_ref().unwrap().groups.clone().unwrap();
        assert_eq!(
            kept.as_slice().iter().map(String::as_str).collect::<BTreeSet<_>>(),
            groups.iter().copied().collect()
        );
        let recalled =
            crate::RecordedPolicyRequest::from_record(&record, policies.vocabulary(), "test").unwrap().unwrap();
        let again = policies.outlook(&recalled.principal, recalled.tool, &recalled.circumstances);
        assert!(recalled.groups_known);
        assert!(
            matches!(&again, Outlook::Certain(decision) if decision.is_allowed() == expected),
            "{groups:?} {again:?}"
        );
        record.policy.as_mut().unwrap().groups = None;
        assert!(
            !crate::RecordedPolicyRequest::from_record(&record, policies.vocabulary(), "test")
                .unwrap()
                .unwrap()
                .groups_known
        );
    }
    assert_eq!(policies.look_at_groups("up.echo"), ["staff"]);
    assert_eq!(policies.look_at_groups("up.write"), Vec::<&str>::new());
}

const CONDITIONS: [&str; 9] = [
    "",
    "when { context.args.text == \"hello\" }",
    "when { context.args.text == \"other\" }",
    "when { principal.tenant == \"acme\" }",
    "when { principal.tenant == \"rival\" && context.args.text == \"hello\" }",
    "unless { principal.scopes.contains(\"s\") }",
    "when { resource.risk > 0 }",
    "when { context.env.time_ms > 5 }",
    "when { context.env.name == \"test\" && principal.id == \"ada\" }",
];
const SCOPES: [&str; 4] = [
    "(principal, action, resource)",
    "(principal, action == Action::\"call:up.write\", resource)",
    "(principal, action, resource in Upstream::\"other\")",
    "(principal == User::\"acme/ada\", action, resource)",
];
const TOOLS: [&[&str]; 3] = [&["*"], &["up.*"], &["other.echo", "up.write"]];

/// The law: no call of a tool that a requester is not shown is performed, and every tool that was performed was shown.
#[test]
fn what_is_not_listed_is_never_callable() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rule = (any::<bool>(), 0..SCOPES.len(), 0..CONDITIONS.len());
    let given = (prop::collection::vec(rule, 0..4), 0..TOOLS.len(), any::<bool>(), any::<bool>(), any::<bool>());
    let config = ProptestConfig { cases: 64, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(&given, |(rules, tools, of_acme, low, scoped)| {
            let rule = |(permits, scope, condition): &(bool, usize, usize)| {
                let effect = if *permits { "permit" } else { "forbid" };
                // Conditions on arguments are written for all tools, because all take the same arguments.
                format!("{effect} {} {};\n", SCOPES[*scope], CONDITIONS[*condition])
            };
            let policies: String = rules.iter().map(rule).collect();
            let tenants: UpstreamTenants =
                [("other".to_owned(), BTreeSet::from(["rival".to_owned()]))].into_iter().collect();
            let servers = [("up", server()), ("other", server())];
            let harness = harness(&servers, &TestRules { policies: &policies, tenants, ..TestRules::default() });
            let requester = holder(if of_acme { "acme" } else { "rival" }, "ada", |rights| {
                rights.tools = ToolPatterns::read(TOOLS[tools]).unwrap();
                rights.ceiling = if low { SideEffectClass::ReadOnly } else { SideEffectClass::CriticalMutation };
                rights.scopes = Scopes::from_words(if scoped { vec!["s", "billing:write"] } else { vec![] }).unwrap();
            });
            runtime.block_on(async {
                let listing = harness.engine.listing(&requester).await;
                for tool in ["up__echo", "up__write", "other__echo", "other__write"] {
                    let done = performed(&harness, &requester, tool).await;
                    prop_assert!(!done || names(&listing).contains(&tool), "{tool} for {requester:?} by\n{policies}");
                }
                Ok(())
            })
        })
        .unwrap();
}
