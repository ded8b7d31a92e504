//! What a list says of a tool, each requester's own: decided at once, held for people, or refused for a missing scope. Lists and calls agree.

use std::sync::Arc;

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use servanda_authority::{Rights, rights::Scopes};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::{GateName, time::Clock as _};
use servanda_mcp::Era;

use crate::{
    CallAnswer, Gateway as _, Listing, RequestTerms, Requester, SystemClock,
    testing::{EngineHarness, ScriptedServer, TestRules, call, everything, requester_with, ruled, text},
};

fn harness(policies: &str) -> EngineHarness {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "done")) });
    let rules = TestRules { policies, ..TestRules::default() };
    let world = ruled(ExposedNaming::Bare, &[("up", server)], &rules);
    EngineHarness::in_snapshot(world, Arc::default(), Arc::new(SystemClock))
}

fn ada(scopes: &[&str]) -> Requester {
    let rights = Rights { scopes: Scopes::from_words(scopes).unwrap(), ..everything() };
    requester_with("acme", "ada", rights, SystemClock.now())
}

/// What a list says becomes of calls of a tool. None if the tool is not listed, "allowed" if nothing is said.
fn told(listing: &Listing, tool: &str) -> Option<String> {
    let listed = listing.tools.iter().find(|listed| listed.name == tool)?;
    let listed: Value = serde_json::from_str(listed.definition.get()).unwrap();
    let said = listed["_meta"]["servanda/contract"]["disposition"].as_str();
    Some(said.unwrap_or("allowed").to_owned())
}

#[tokio::test]
async fn a_list_says_what_becomes_of_the_requesters_calls() {
    let of_write = "(principal, action == Action::\"call:up.write\", resource)";
    let table = [
        (String::new(), &["billing:write"][..], "allowed", "allowed"),
        (String::new(), &[], "refused", "refused"),
        (format!("@approval(\"operator\") permit {of_write};"), &["billing:write"], "allowed", "needs_approval"),
        (format!("@approval(\"operator\") permit {of_write};"), &[], "refused", "refused"),
        (
            format!("@approval(\"operator\") permit {of_write} when {{ context.args.text == \"other\" }};"),
            &["billing:write"],
            "allowed",
            "may_need_approval",
        ),
        (
            "@approval(\"operator\") permit (principal == User::\"acme/ben\", action, resource);".to_owned(),
            &["billing:write"],
            "allowed",
            "allowed",
        ),
    ];
    for (policies, scopes, echo, write) in table {
        let (harness, ada) = (harness(&policies), ada(scopes));
        let listing = harness.engine.listing(&ada).await;
        let said = (told(&listing, "echo"), told(&listing, "write"));
        assert_eq!(said, (Some(echo.to_owned()), Some(write.to_owned())), "{policies} {scopes:?}");
        assert!(Arc::ptr_eq(&listing, &harness.engine.known_listing(&ada)), "it is worked out once");
    }
}

/// Two credentials of one principal with different scopes do not see each other's list, and the tools that differ are rendered once.
#[tokio::test]
async fn each_credential_sees_its_own_list_and_all_share_the_tools() {
    let harness = harness("");
    let (with, without) = (ada(&["billing:write"]), ada(&["other"]));
    let whole = harness.engine.listing(&with).await;
    let refused = harness.engine.listing(&without).await;
    assert_eq!(told(&whole, "write").as_deref(), Some("allowed"));
    assert_eq!(told(&refused, "write").as_deref(), Some("refused"));
    let again = harness.engine.listing(&ada(&["another"])).await;
    assert!(!Arc::ptr_eq(&refused, &again) && Arc::ptr_eq(&refused.tools[0], &again.tools[0]));
    assert_eq!(told(&harness.engine.known_listing(&with), "write").as_deref(), Some("allowed"));
}

const CONDITIONS: [&str; 6] = [
    "",
    "when { context.args.text == \"hello\" }",
    "when { context.args.text == \"other\" }",
    "when { principal.id == \"ada\" }",
    "when { resource.risk > 0 }",
    "when { context.env.time_ms > 5 }",
];
const SCOPES: [&str; 3] = [
    "(principal, action, resource)",
    "(principal, action == Action::\"call:up.write\", resource)",
    "(principal == User::\"acme/ben\", action, resource)",
];
const ANNOTATIONS: [&str; 3] = ["", "@approval(\"operator\")", "@approval(\"none\")"];

/// The law: a call of a tool of which a list says that it is decided at once is never held, and one of a tool that needs an approval, or is
/// refused, is never performed.
#[test]
fn what_a_list_says_is_what_becomes_of_the_call() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rule = (0..ANNOTATIONS.len(), 0..SCOPES.len(), 0..CONDITIONS.len());
    let given = (prop::collection::vec(rule, 0..4), any::<bool>());
    let config = ProptestConfig { cases: 64, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(&given, |(rules, scoped)| {
            let rule = |(annotation, scope, condition): &(usize, usize, usize)| {
                format!("{} permit {} {};\n", ANNOTATIONS[*annotation], SCOPES[*scope], CONDITIONS[*condition])
            };
            let policies: String = rules.iter().map(rule).collect();
            let (harness, ada) = (harness(&policies), ada(if scoped { &["billing:write"] } else { &[] }));
            runtime.block_on(async {
                let listing = harness.engine.listing(&ada).await;
                for tool in ["echo", "write"] {
                    let answer = harness.engine.call(call(&ada, tool, RequestTerms::default())).await;
                    let performed = matches!(&answer, CallAnswer::Result(result) if !result.is_error);
                    let refused_at = harness.last_record().refusal.map(|refusal| refusal.gate);
                    let agrees = match told(&listing, tool).as_deref() {
                        Some("allowed") => refused_at != Some(GateName::Confirmation),
                        Some("refused") => refused_at == Some(GateName::Scope),
                        Some("may_need_approval") => true,
                        // A person has to approve it, or it is not listed.
                        _ => !performed,
                    };
                    prop_assert!(agrees, "{tool}: {:?} and {refused_at:?} by\n{policies}", told(&listing, tool));
                }
                Ok(())
            })
        })
        .unwrap();
}
