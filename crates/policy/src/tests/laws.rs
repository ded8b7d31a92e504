//! The laws, over random policies and calls: evaluating few policies decides like evaluating all; a list and the calls agree;
//! every request to Cedar fits the printed schema.

use std::sync::{Arc, LazyLock};

use cedar_policy::{Authorizer, Entities, PolicySet, Request, Schema};
use proptest::{prelude::*, strategy::ValueTree as _};
use serde_json::{Value, json};
use servanda_contract::tool::SideEffectClass;

use super::{canonical, contracts, identity, load_in, vocabulary_of_programs};
use crate::{
    ApprovalQuestion, BuiltInPermits, CallCircumstances, ListDecision, PartyIdentity, Policies, PolicyCall,
    PolicyDecision, PolicyRefusalCause, Principal, Vocabulary, context_needs::ContextNeeds, request,
};

const PRINCIPALS: [&str; 8] = [
    "principal",
    "principal",
    "principal == User::\"acme/u0\"",
    "principal == Agent::\"acme/a0\"",
    "principal in Group::\"acme/g1\"",
    "principal in User::\"acme/u1\"",
    "principal is Agent",
    "principal is User in Group::\"acme/g0\"",
];
const ACTIONS: [&str; 9] = [
    "action",
    "action",
    "action",
    "action in Action::\"call\"",
    "action == Action::\"call:bank.pay\"",
    "action == Action::\"call:mail.send\"",
    "action in [Action::\"call:bank.pay\", Action::\"call:docs.read\"]",
    // No call at all, and every call.
    "action == Action::\"call\"",
    "action in [Action::\"call\", Action::\"call:bank.pay\"]",
];
const RESOURCES: [&str; 14] = [
    "resource",
    "resource",
    "resource",
    "resource",
    "resource",
    "resource == Tool::\"bank.pay\"",
    "resource in Upstream::\"bank\"",
    "resource is Tool in Upstream::\"mail\"",
    "resource is Tool",
    // No tool, except for the last.
    "resource is Upstream",
    "resource == Upstream::\"bank\"",
    "resource is Upstream in Upstream::\"bank\"",
    "resource in Group::\"acme/g0\"",
    "resource in Tool::\"bank.pay\"",
];
/// Valid for every tool. The last two can fail.
const CONDITIONS: [&str; 16] = [
    "principal.scopes.contains(\"bank:pay\")",
    "resource.risk >= 3",
    "!resource.mutates",
    "context.tenant == \"acme\"",
    "context.env.name == \"production\"",
    "context.env.time_ms > 500",
    "(context has client && context.client == \"c\")",
    "(context has intent && context.intent == \"read\")",
    "principal.id == \"u0\"",
    "(context.args has amount_cents && context.args.amount_cents > 50)",
    "(context.args has copies && context.args.copies > 50)",
    "(context.args has rate && context.args.rate.greaterThan(decimal(\"1.5\")))",
    "action == Action::\"call:bank.pay\"",
    "!(context.args has memo)",
    "resource.risk * 3074457345618258603 > 0",
    "context.env.time_ms + 9223372036854775000 > 0",
];

fn condition() -> impl Strategy<Value = String> {
    let one = prop::sample::select(&CONDITIONS[..]).prop_map(str::to_owned);
    one.prop_recursive(2, 4, 2, |inner| {
        (inner.clone(), prop::sample::select(&["&&", "||"][..]), inner)
            .prop_map(|(left, operator, right)| format!("({left} {operator} {right})"))
    })
}

fn policy() -> impl Strategy<Value = String> {
    let clause = (any::<bool>(), condition())
        .prop_map(|(when, body)| format!("{} {{ {body} }}", if when { "when" } else { "unless" }));
    (
        prop::sample::select(&["permit", "permit", "forbid"][..]),
        prop::sample::select(&PRINCIPALS[..]),
        prop::sample::select(&ACTIONS[..]),
        prop::sample::select(&RESOURCES[..]),
        prop::collection::vec(clause, 0..3),
    )
        .prop_map(|(effect, principal, action, resource, clauses)| {
            let clauses = clauses.join(" ");
            format!("@may_never_apply(\"random\") {effect} ({principal}, {action}, {resource}) {clauses};\n")
        })
}

pub(super) fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(policy(), 1..10).prop_map(|policies| policies.concat())
}

#[derive(Debug, Clone)]
pub(super) struct Asked {
    user: (usize, usize),
    agent: bool,
    tool: &'static str,
    arguments: Value,
    circumstances: CallCircumstances<'static>,
}

impl Asked {
    pub(super) fn user(&self) -> PartyIdentity {
        let (user, group) = self.user;
        identity("acme", &format!("u{user}"), &[&format!("g{group}")])
    }

    pub(super) fn question<'a>(&'a self, principal: &'a Principal) -> ApprovalQuestion<'a> {
        let program_class = self.circumstances.program_class;
        ApprovalQuestion { principal, tool: self.tool, program_class, payload: None }
    }

    pub(super) fn decide(&self, policies: &Policies, principal: &Principal) -> PolicyDecision {
        let (arguments, circumstances) = (canonical(&self.arguments), &self.circumstances);
        policies.decide(&PolicyCall { principal, tool: self.tool, arguments: &arguments, circumstances })
    }

    fn principal(&self, policies: &Policies) -> Principal {
        let user = self.user();
        if self.agent {
            Principal::agent(policies.vocabulary(), &identity("acme", "a0", &["g2"]), Some(&user)).unwrap()
        } else {
            Principal::user(policies.vocabulary(), &user).unwrap()
        }
    }
}

fn arguments(tool: &'static str) -> BoxedStrategy<Value> {
    if tool == "mail.send" {
        return prop::option::of(0..100_i64)
            .prop_map(|copies| copies.map_or(json!({ "to": "x" }), |copies| json!({ "to": "x", "copies": copies })))
            .boxed();
    }
    let rate = prop::option::of((0..40_000_i32).prop_map(|ten_thousandths| f64::from(ten_thousandths) / 10_000.0));
    (0..100_i64, rate, prop::option::of(prop::option::of("[a-z]{0,3}")))
        .prop_map(|(cents, rate, memo)| {
            let mut arguments = super::payment(cents);
            let members = arguments.as_object_mut().unwrap();
            members.extend(rate.map(|rate| ("rate".to_owned(), json!(rate))));
            members.extend(memo.map(|memo| ("memo".to_owned(), json!(memo))));
            arguments
        })
        .boxed()
}

pub(super) fn asked() -> impl Strategy<Value = Asked> {
    let tool = prop::sample::select(&["bank.pay", "mail.send", "docs.read"][..]);
    let word = |word: &'static str| prop::option::of(Just(word));
    let class = prop::option::of(prop::sample::select(&SideEffectClass::ALL[..]));
    let circumstances =
        (0..1000_u64, any::<bool>(), word("c"), word("read"), class).prop_map(|(time, here, client, intent, class)| {
            CallCircumstances {
                // Sometimes in another tenant's name.
                tenant: if time % 8 == 0 { "rival" } else { "acme" },
                environment: if here { "production" } else { "staging" },
                time: servanda_contract::Timestamp::from_unix_ms(time),
                client,
                task: None,
                intent,
                question: None,
                program_class: class,
            }
        });
    (tool.prop_flat_map(|tool| (Just(tool), arguments(tool))), circumstances, 0..3_usize, 0..3_usize, any::<bool>())
        .prop_map(|((tool, arguments), circumstances, user, group, agent)| Asked {
            user: (user, group),
            agent,
            tool,
            arguments,
            circumstances,
        })
}

pub(super) fn loaded(text: &str, defaults: BuiltInPermits) -> Policies {
    static VOCABULARY: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| vocabulary_of_programs(&contracts()));
    load_in(&VOCABULARY, text, defaults).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The decision over all policies with the full context, made by Cedar itself.
fn decide_over_all(policies: &Policies, call: &PolicyCall<'_>) -> (&'static str, Vec<String>) {
    let tool = policies.vocabulary().tool(call.tool).unwrap().for_class(call.circumstances.program_class);
    let everything = ContextNeeds { whole: true, ..ContextNeeds::default() };
    let question = request::for_call(call, tool, &[&everything].into_iter().collect()).unwrap();
    let set = PolicySet::from_policies(policies.loaded().iter().map(|policy| policy.policy.clone())).unwrap();
    let response = Authorizer::new().is_authorized(&question.request, &set, &question.entities);
    let failed: Vec<String> = response
        .diagnostics()
        .errors()
        .map(|error| {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(failure) = error;
            failure.policy_id().to_string()
        })
        .collect();
    let reasons: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
    let (word, mut ids) = match response.decision() {
        _ if !failed.is_empty() => ("error", failed),
        cedar_policy::Decision::Allow => ("allowed", reasons),
        cedar_policy::Decision::Deny if reasons.is_empty() => ("not permitted", reasons),
        cedar_policy::Decision::Deny => ("forbidden", reasons),
    };
    ids.sort();
    (word, ids)
}

fn words(decision: &PolicyDecision) -> (&'static str, Vec<String>) {
    let word = match decision {
        PolicyDecision::Allowed(_) => "allowed",
        PolicyDecision::Refused(refused) => match refused.cause() {
            PolicyRefusalCause::Forbidden => "forbidden",
            PolicyRefusalCause::NotPermitted => "not permitted",
            PolicyRefusalCause::ErrorInPolicy { .. } => "error",
            other => panic!("{other:?}"),
        },
    };
    (word, decision.by().iter().map(|deciding| deciding.policy.clone()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn looking_at_few_policies_decides_as_looking_at_all(
        text in text(), asked in prop::collection::vec(asked(), 12), defaults in any::<bool>(),
    ) {
        let policies = loaded(&text, if defaults { BuiltInPermits::On } else { BuiltInPermits::Off });
        for asked in asked {
            let (principal, arguments) = (asked.principal(&policies), canonical(&asked.arguments));
            let circumstances = &asked.circumstances;
            let call = PolicyCall { principal: &principal, tool: asked.tool, arguments: &arguments, circumstances };
            prop_assert_eq!(words(&policies.decide(&call)), decide_over_all(&policies, &call), "{:?}", asked);
            prop_assert_eq!(policies.decide(&call), policies.decide(&call), "what is remembered changes nothing");
        }
    }

    #[test]
    fn a_list_and_the_calls_agree(
        text in text(), asked in prop::collection::vec(asked(), 12), calls in prop::collection::vec(asked(), 12),
    ) {
        let policies = loaded(&text, BuiltInPermits::Off);
        for asked in asked {
            let principal = asked.principal(&policies);
            let standing = policies.list_decision(&principal, asked.tool, &asked.circumstances);
            for call in calls.iter().filter(|call| call.tool == asked.tool) {
                // What a list knows is the same; everything else differs per call.
                let circumstances = CallCircumstances {
                    tenant: asked.circumstances.tenant,
                    environment: asked.circumstances.environment,
                    client: asked.circumstances.client,
                    ..call.circumstances
                };
                let arguments = canonical(&call.arguments);
                let (tool, circumstances) = (asked.tool, &circumstances);
                let decision = policies.decide(&PolicyCall { principal: &principal, tool, arguments: &arguments, circumstances });
                match standing {
                    ListDecision::Allowed => prop_assert!(decision.is_allowed(), "listed as allowed: {:?}", call),
                    ListDecision::Denied => prop_assert!(!decision.is_allowed(), "listed as denied: {:?}", call),
                    ListDecision::Depends => {}
                }
            }
        }
    }

    #[test]
    fn what_cedar_is_asked_fits_the_schema_that_is_printed(asked in asked()) {
        static WORLD: LazyLock<(Policies, Schema)> = LazyLock::new(|| {
            let policies = loaded("", BuiltInPermits::On);
            let (schema, _) = Schema::from_cedarschema_str(&policies.vocabulary().schema_text()).unwrap();
            (policies, schema)
        });
        let (policies, schema) = &*WORLD;
        let (principal, arguments) = (asked.principal(policies), canonical(&asked.arguments));
        let circumstances = &asked.circumstances;
        let call = PolicyCall { principal: &principal, tool: asked.tool, arguments: &arguments, circumstances };
        let everything = ContextNeeds { whole: true, ..ContextNeeds::default() };
        let tool = policies.vocabulary().tool(asked.tool).unwrap().for_class(asked.circumstances.program_class);
        let question = request::for_call(&call, tool, &[&everything].into_iter().collect()).unwrap();
        let request = &question.request;
        let again = Request::new(
            request.principal().unwrap().clone(),
            request.action().unwrap().clone(),
            request.resource().unwrap().clone(),
            request.context().unwrap().clone(),
            Some(schema),
        );
        prop_assert!(again.is_ok(), "{:?}", again.err());
        let entities = Entities::from_entities(question.entities.iter().cloned(), Some(schema));
        prop_assert!(entities.is_ok(), "{:?}", entities.err());
    }
}

/// Texts between parts of a policy, with characters that could end or hide something.
const BETWEEN: [&str; 9] =
    [" ", "\n", "\r", "\r\n", "// x; } \" unless {\n", "// y { ;\r", "//\r\r", "\u{2028}\u{85}", "\t// \u{2028} ;\r\n"];
/// Strings that contain what could be mistaken for the end of a string, a policy or a clause.
const STRINGS: [&str; 5] = [r#""a;b""#, r#""\" } ; // ""#, r#""\\""#, "\"//\n when {\"", r#""\u{22};\'\0""#];

proptest! {
    /// Splitting a file finds the same policies and clauses that Cedar finds in the whole file.
    #[test]
    fn a_file_is_taken_apart_as_cedar_would(
        rules in prop::collection::vec((0..STRINGS.len(), 0..STRINGS.len(), any::<bool>()), 0..4),
        between in prop::collection::vec(prop::sample::select(&BETWEEN[..]), 80),
    ) {
        let mut between = between.into_iter().cycle();
        let mut text = between.next().unwrap().to_owned();
        for (at, (note, owner, when)) in rules.iter().enumerate() {
            let (id, clause) = (format!("\"{at}\""), if *when { "when" } else { "unless" });
            let words = [
                "@", "id", "(", &id, ")", "@", "unless", "(", STRINGS[*note], ")", "permit", "(", "principal", ",", "action", ",",
                "resource", ")", clause, "{", "resource", ".", "owner", "==", STRINGS[*owner], "}", "when", "{", "true", "}", ";",
            ];
            for word in words {
                text.extend([word, between.next().unwrap()]);
            }
        }
        let whole: PolicySet = text.parse().unwrap();
        let pieces = crate::split::pieces(&text);
        prop_assert_eq!(pieces.len(), whole.num_of_policies(), "{:?}", text);
        for (piece, (_, _, when)) in pieces.iter().zip(&rules) {
            let kinds: Vec<bool> = crate::split::clauses(piece.text).iter().map(|(when, _)| *when).collect();
            prop_assert_eq!(kinds, [*when, true], "{:?}", piece.text);
        }
    }
}

/// A list that always says "depends" would satisfy the laws; this one does not.
#[test]
fn lists_are_not_idle() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (texts, askeds) = (text(), asked());
    let mut counts = [0_usize; 3];
    for _ in 0..20 {
        let text = texts.new_tree(&mut runner).unwrap().current();
        let policies = loaded(&text, BuiltInPermits::Off);
        for _ in 0..20 {
            let asked = askeds.new_tree(&mut runner).unwrap().current();
            let principal = asked.principal(&policies);
            counts[match policies.list_decision(&principal, asked.tool, &asked.circumstances) {
                ListDecision::Allowed => 0,
                ListDecision::Denied => 1,
                ListDecision::Depends => 2,
            }] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}
