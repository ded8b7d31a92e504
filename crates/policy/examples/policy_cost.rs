//! What policies cost: `cargo run --release -p servanda-policy --example policy_cost`. It prints how long loading takes and
//! the distribution of single decisions, each timed by itself with random principals, tools and arguments.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "it is a measurement, run by hand"
)]

use std::{fmt::Write as _, sync::Arc, time::Instant};

use serde_json::json;
use servanda_contract::{
    Timestamp, ToolContract, document,
    json::{CanonicalBytes, canonicalize},
};
use servanda_policy::{
    BuiltInPermits, CallCircumstances, ListDecision, PartyIdentity, Policies, PolicyCall, PolicyLimits, PolicySource,
    Principal, ToolFacts, Vocabulary,
};

const BASE: &str = include_str!("../tests/fixtures/pay.yaml");
const DECISIONS: usize = 20_000;

fn main() {
    println!("what                                   policies  tools   load ms  p50 us  p99 us  p99.9   list ms");
    report("mixed scopes, as people write them", 10_000, 1_000, mixed);
    report("mixed scopes, as people write them", 100, 20, mixed);
    report("no scopes: every policy looked at", 100, 20, unscoped);
    report("no scopes: every policy looked at", 1_000, 20, unscoped);
    report("no scopes, all look at arguments", 100, 20, arguments_of_all);
    report("defaults only", 0, 20, mixed);
}

fn report(name: &str, policies: usize, tools: usize, write: fn(&mut String, usize, usize)) {
    let contracts = contracts(tools);
    let mut text = String::new();
    for number in 0..policies {
        write(&mut text, number, tools);
    }
    let begun = Instant::now();
    let vocabulary = Arc::new(Vocabulary::from_tools(contracts.iter().map(ToolFacts::from)).unwrap());
    let vocabulary_ms = begun.elapsed().as_millis();
    let begun = Instant::now();
    let source = PolicySource { name: "cost.cedar", text: &text };
    let loaded =
        Policies::load(Arc::clone(&vocabulary), &[source], BuiltInPermits::On, &PolicyLimits::default()).unwrap();
    let load_ms = begun.elapsed().as_millis();
    let mut random = Random(0x5eed);
    let world = World::generate(&vocabulary, &mut random);
    let mut took: Vec<u128> = (0..DECISIONS).map(|_| world.decision_ns(&loaded, tools, &mut random)).collect();
    took.sort_unstable();
    let at = |part: usize| us(took[took.len() * part / 1000]);
    let begun = Instant::now();
    let stands =
        |tool: &&str| loaded.list_decision(&world.principals[0], tool, &world.circumstances) != ListDecision::Denied;
    let listed = vocabulary.tool_names().filter(stands).count();
    let list_ms = begun.elapsed().as_micros();
    println!(
        "{name:38} {:8} {tools:6} {load_ms:9} {:>7} {:>7} {:>7} {:>8}   (vocabulary {vocabulary_ms} ms, listed {listed})",
        loaded.count(),
        at(500),
        at(990),
        at(999),
        format!("{}.{}", list_ms / 1000, list_ms % 1000 / 100),
    );
}

struct World {
    principals: Vec<Principal>,
    arguments: Vec<CanonicalBytes>,
    circumstances: CallCircumstances<'static>,
}

impl World {
    fn generate(vocabulary: &Vocabulary, random: &mut Random) -> Self {
        let principals = (0..200).map(|_| principal(vocabulary, random)).collect();
        let arguments = (0..200).map(|_| arguments(random)).collect();
        let circumstances = CallCircumstances {
            tenant: "acme",
            environment: "production",
            time: Timestamp::from_unix_ms(1_794_735_332_007),
            client: Some("client"),
            task: None,
            intent: None,
            question: None,
            program_class: None,
        };
        Self { principals, arguments, circumstances }
    }

    fn decision_ns(&self, policies: &Policies, tools: usize, random: &mut Random) -> u128 {
        let tool = tool_name(random.below(tools));
        let principal = &self.principals[random.below(self.principals.len())];
        let arguments = &self.arguments[random.below(self.arguments.len())];
        let begun = Instant::now();
        let decision =
            policies.decide(&PolicyCall { principal, tool: &tool, arguments, circumstances: &self.circumstances });
        let elapsed_ns = begun.elapsed().as_nanos();
        std::hint::black_box(decision);
        elapsed_ns
    }
}

fn contracts(tools: usize) -> Vec<ToolContract> {
    let base: ToolContract = document::read("pay.yaml", BASE).unwrap();
    (0..tools)
        .map(|number| {
            let mut contract = base.clone();
            contract.identity.name = tool_name(number);
            contract.binding.upstream = format!("up{}", number % 50);
            contract
        })
        .collect()
}

fn mixed(text: &mut String, number: usize, tools: usize) {
    let tool = tool_name(number / 10 % tools);
    let (group, user, upstream) = (number % 40, number % 500, number / 10 % 50.min(tools));
    let policy = match number % 10 {
        0..=3 => format!(
            "forbid (principal, action == Action::\"call:{tool}\", resource) when {{ context.args.amount_cents > {} }}",
            1000 + number
        ),
        4..=6 => format!("permit (principal in Group::\"acme/g{group}\", action, resource == Tool::\"{tool}\")"),
        7 => format!(
            "forbid (principal == User::\"acme/u{user}\", action, resource in Upstream::\"up{upstream}\") \
             when {{ context.env.name == \"staging\" }}"
        ),
        8 => format!(
            "forbid (principal, action in Action::\"call\", resource == Tool::\"{tool}\") \
             unless {{ principal.scopes.contains(\"pay\") || resource.risk < 5 }}"
        ),
        _ => format!(
            "permit (principal is Agent, action, resource in Upstream::\"up{upstream}\") \
             when {{ principal.tenant == \"acme\" && resource.risk < 4 }}"
        ),
    };
    writeln!(text, "@id(\"p{number}\") {policy};").unwrap();
}

fn unscoped(text: &mut String, number: usize, _tools: usize) {
    writeln!(
        text,
        "@id(\"p{number}\") forbid (principal, action, resource) \
         when {{ principal.scopes.contains(\"s{number}\") && resource.risk > {} }};",
        number % 6
    )
    .unwrap();
}

fn arguments_of_all(text: &mut String, number: usize, _tools: usize) {
    writeln!(
        text,
        "@id(\"p{number}\") forbid (principal, action, resource) \
         when {{ context.args.amount_cents > {} && resource.risk > {} }};",
        15_000 + number,
        number % 6
    )
    .unwrap();
}

fn principal(vocabulary: &Vocabulary, random: &mut Random) -> Principal {
    let mut identity = |kind: &str| PartyIdentity {
        id: format!("{kind}{}", random.below(500)),
        tenant: "acme".to_owned(),
        scopes: ["pay".to_owned(), "read".to_owned()].into(),
        groups: (0..4).map(|_| format!("g{}", random.below(40))).collect(),
    };
    let (user, agent) = (identity("u"), identity("a"));
    if random.below(2) == 0 {
        Principal::user(vocabulary, &user).unwrap()
    } else {
        Principal::agent(vocabulary, &agent, Some(&user)).unwrap()
    }
}

fn arguments(random: &mut Random) -> CanonicalBytes {
    canonicalize(&json!({
        "account": format!("acc_{}", random.below(10_000)),
        "amount_cents": random.below(20_000),
        "memo": "a note of some words that no policy looks at",
        "to": { "name": "Somebody", "iban": "DE02120300000000202051" },
        "labels": ["one", "two", "three"],
    }))
    .unwrap()
}

fn tool_name(number: usize) -> String {
    format!("bank.pay_{number}")
}

fn us(ns: u128) -> String {
    format!("{}.{}", ns / 1000, ns % 1000 / 100)
}

/// A small seeded generator, so that two runs ask the same questions.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).expect("small")).expect("small")
    }
}
