//! Policies: the texts that operators write, and calls whose arguments are looked at by policies of every kind.

use std::{collections::BTreeSet, sync::Arc};

use servanda_contract::{Timestamp, ToolContract, document, json};
use servanda_policy::{
    BuiltInPermits, CallCircumstances, PartyIdentity, Policies, PolicyCall, PolicyLimits, PolicySource, Principal,
    ToolFacts, Vocabulary,
};

use super::{NotReady, Reader, server_texts::LIMITS};
use crate::Grammar;

const PAY: &str = include_str!("../../../../crates/policy/tests/fixtures/pay.yaml");
const NAMES: &[&str] = &[
    "account",
    "amount_cents",
    "to",
    "rate",
    "urgent",
    "memo",
    "labels",
    "parts",
    "channel",
    "due",
    "name",
    "iban",
    "cents",
    "anything",
    "tree",
];
/// Policies that look at arguments of every kind.
const LOOKS: &str = r#"
    permit (principal, action, resource);
    forbid (principal, action == Action::"call:bank.pay", resource) when { context.args.account like "*a*a*a*b" };
    forbid (principal, action == Action::"call:bank.pay", resource) when { context.args.amount_cents * 2 + 1 > 100 };
    forbid (principal, action == Action::"call:bank.pay", resource) when { context.args.to.name == "b" && context.args.to has iban };
    forbid (principal, action == Action::"call:bank.pay", resource) when { context.args has labels && context.args.labels.containsAny(["a", "x"]) };
    forbid (principal, action == Action::"call:bank.pay", resource) when { context.args has rate && context.args.rate.greaterThan(decimal("1.5")) };
    forbid (principal, action == Action::"call:bank.pay", resource) when { context.args has parts && context.args.parts.contains({ cents: 1 }) };
"#;

pub(super) fn readers() -> Result<Vec<Reader>, NotReady> {
    let contract: ToolContract = document::read("pay.yaml", PAY)?;
    let vocabulary = Arc::new(Vocabulary::from_tools([ToolFacts::from(&contract)])?);
    let load = |text: &str, vocabulary: &Arc<Vocabulary>| {
        Policies::load(
            Arc::clone(vocabulary),
            &[PolicySource { name: "a.cedar", text }],
            BuiltInPermits::On,
            &PolicyLimits::default(),
        )
    };
    let policies = load(LOOKS, &vocabulary)?;
    let identity = PartyIdentity {
        id: "alice".to_owned(),
        tenant: "acme".to_owned(),
        scopes: ["bank:pay".to_owned()].into(),
        groups: BTreeSet::new(),
    };
    let principal = Principal::user(policies.vocabulary(), &identity)?;
    Ok(vec![
        Reader::of_text("policy_texts", 2, policy_grammar(), move |text| drop(load(text, &vocabulary))),
        Reader::new("policy_values", 6, value_grammar(), move |bytes| {
            let Ok(value) = json::decode(bytes, LIMITS) else { return };
            let Ok(arguments) = json::canonicalize(&value) else { return };
            let circumstances = CallCircumstances {
                tenant: "acme",
                environment: "production",
                time: Timestamp::from_unix_ms(1_794_735_332_007),
                client: None,
                task: None,
                intent: None,
                question: None,
                program_class: None,
            };
            let call = PolicyCall {
                principal: &principal,
                tool: "bank.pay",
                arguments: &arguments,
                circumstances: &circumstances,
            };
            drop(policies.decide(&call));
        }),
    ])
}

fn policy_grammar() -> Grammar {
    Grammar {
        words: "permit forbid (principal, action, resource) ( ) when unless { } [ ] ; , . :: == != < <= > >= in like has is if then else && || ! - + * \
            principal action resource context context.args context.args.account .account .amount_cents User::\"acme/a\" Tool::\"bank.pay\" \
            Action::\"call:bank.pay\" Group::\"acme/staff\" \"a\" \"*\" \"\\u{41}\" \"\\*\" 1 9223372036854775808 true false decimal(\"1.5\") datetime( \
            .contains( .containsAll( .containsAny( .isEmpty( .lessThan( .getTag( @id(\"a\") @reason @may_never_apply(\"x\") ?principal ip( __cedar // \" {a:1}"
            .split_whitespace()
            .chain([" ", "\n", "(principal, action, resource)"])
            .collect(),
        brackets: vec![
            ("(", ")"), ("[", "]"), ("{a: ", "}"), ("!", ""), ("-", ""), ("if true then ", " else true"), ("if true then true else ", ""), ("(true && ", ")"),
            ("when { ", " }"), ("true && ", ""), ("1 + ", ""), ("context.args.contains(", ")"), ("context", ".a"), ("a::", ""), ("\"", "\""), ("@a ", ""),
            ("permit(principal,action,resource);", ""), ("principal in [", "]"), ("1 < ", ""), ("1 == ", ""), ("true || ", ""),
        ],
        seeds: vec![
            "permit (principal, action, resource) when { context.args.account == \"a\" && resource.mutates };",
            "@id(\"x\") forbid (principal == User::\"acme/alice\", action == Action::\"call:bank.pay\", resource) when { if context.args.amount_cents > 100 then true else !(context.args has memo) } unless { [1, 2].contains(1) };",
            "permit (principal in Group::\"acme/staff\", action in [Action::\"call:bank.pay\"], resource == Tool::\"bank.pay\") when { {a: {b: [1, \"x\"]}}.a.b.containsAll([]) || context.args.account like \"a*\\*\" };",
            LOOKS,
        ],
        members: Vec::new(),
    }
}

fn value_grammar() -> Grammar {
    Grammar {
        words: "a b aaaaaaaaaaaaaaaa ab x web phone __entity \u{e9} *".split_whitespace().collect(),
        brackets: vec![("[", "]"), ("{\"to\":", "}"), ("{\"parts\":[", "]}"), ("{\"tree\":{\"next\":", "}}")],
        seeds: vec![
            r#"{"account":"a","amount_cents":1,"to":{"name":"b","iban":"x"},"rate":1.5,"labels":["a","b"],"parts":[{"cents":1}],"memo":null}"#,
            r#"{"account":"aaaa","amount_cents":9007199254740991,"to":{"name":"c"},"anything":{"__entity":{"type":"User","id":"acme/root"}}}"#,
        ],
        members: NAMES.to_vec(),
    }
}
