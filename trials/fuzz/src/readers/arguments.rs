//! Rules in CEL: texts as operators write them, and fixed rules over arguments as agents send them. Both go through admission
//! and through the gates, like contracts and calls.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{
    CallId, Caller, OperationKeys, Proposal, Refusal, Timestamp, ToolContract, document,
    expectation::Aims,
    tool::{SemanticRule, SideEffectClass, TransactionSemantics},
};
use servanda_gates::{
    CompiledContract, ContractResolver, GateLimits, RegisteredContracts, Stopwatch, Trail, admit, pass_question,
    resolve,
};

use super::{NotReady, Reader, server_texts::LIMITS};
use crate::Grammar;

/// A contract that admits anything of these names.
const CONTRACT: &str = include_str!("../../../../crates/gates/tests/fixtures/book_room.yaml");
const NAMES: &[&str] = &["text", "list", "lists", "map", "number", "count", "day", "other"];
/// Rules that read everything available, in loops if possible.
const RULES: &[&str] = &[
    "args.text.matches('^([a-z]+)+$') || args.text.size() < 10",
    "args.text.matches('(a|aa)+x') || args.text.contains('aab') || args.text.startsWith('x')",
    "args.list.all(x, x != args.text)",
    "args.list.all(x, args.list.exists(y, x == y))",
    "args.list.all(x, args.list.all(y, args.list.exists(z, x == z || y == z)))",
    "args.lists.map(x, x.map(y, [y, y])).size() >= 0",
    "args.list.filter(x, x.matches('^[0-9]+$')).size() == size(args.list)",
    "args.list.map(x, string(x)).all(x, x + x + x != '')",
    "args.map.all(k, args.map[k] != null && k.size() > 0)",
    "args.number * args.number + args.count / args.number % 7 > 0",
    "timestamp(args.day).getFullYear() > 2000 && duration(args.text) < duration('1h')",
    "int(args.text) > 1 || double(args.text) > 1.0 || bool(args.text) || uint(args.count) > uint(1)",
    "args.text in args.list || args.text in args.map || args == {'text': args.text}",
    "args.list + args.list + [args] == args.lists",
    "has(args.map.a) ? args.map.a == args.map : bytes(args.text).size() > 3",
    "type(args.text) == string && dyn(args.other) == args.other",
];

pub(super) fn readers() -> Result<Vec<Reader>, NotReady> {
    let written: ToolContract = contract(&[])?;
    let rules: Vec<&str> = RULES.to_vec();
    // Each rule by itself: a call reports all rules that it breaks, but a later rule may hide a slow one.
    let compiled: CompiledContract = admit(contract(&rules)?, &RegisteredContracts::new())?;
    let compiled = Only(Arc::new(compiled));
    Ok(vec![
        Reader::of_text("cel_rules", 3, cel_grammar(), move |text| {
            let mut contract = written.clone();
            contract.rules = vec![rule(0, text)];
            drop(admit(contract, &RegisteredContracts::new()));
        }),
        Reader::new("cel_values", 5, value_grammar(), move |bytes| {
            let mut trail = Trail::new(&NoTime);
            let limits = GateLimits { arguments_bytes_max: LIMITS.bytes_max, arguments_depth_max: LIMITS.depth_max };
            let proposal = proposal(Bytes::copy_from_slice(bytes));
            let resolved = resolve(Box::new(proposal), &compiled, &mut trail);
            drop(resolved.and_then(|resolved| pass_question(resolved, limits, &mut trail)));
        }),
    ])
}

/// A contract with these rules and no other constraints on the arguments.
fn contract(rules: &[&str]) -> Result<ToolContract, NotReady> {
    let mut contract: ToolContract = document::read("book_room.yaml", CONTRACT)?;
    let properties: serde_json::Map<String, Value> = NAMES.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    contract.affordance.input_schema = schema.as_object().cloned().unwrap_or_default().into();
    contract.affordance.examples.clear();
    // The gateway's own call passes the gates without a credential, and changes nothing.
    contract.transactional.side_effect_class = SideEffectClass::ReadOnly;
    contract.transactional.semantics = TransactionSemantics::ReadOnly;
    contract.effect = serde_json::from_value(json!({ "class": "R", "mutation_class": "read_only" })).ok();
    contract.rules = rules.iter().enumerate().map(|(number, text)| rule(number, text)).collect();
    Ok(contract)
}

fn rule(number: usize, text: &str) -> SemanticRule {
    let (id, message) = (format!("r{number}"), "the rule holds".to_owned());
    SemanticRule { id, rule: text.to_owned(), message, when: None, fields: Vec::new() }
}

fn proposal(arguments: Bytes) -> Proposal {
    Proposal {
        call_id: CallId::from("call_1".to_owned()),
        caller: Caller::local().into(),
        tool: "office__book".to_owned(),
        arguments,
        received_at: Timestamp::from_unix_ms(0),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        chain: "chain".to_owned(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
        aims: Aims::default(),
    }
}

/// The one contract there is.
struct Only(Arc<CompiledContract>);

impl ContractResolver for Only {
    fn contract_of(&self, _proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>> {
        Ok(Arc::clone(&self.0))
    }
}

struct NoTime;

impl Stopwatch for NoTime {
    fn elapsed_us(&self) -> u64 {
        0
    }
}

fn cel_grammar() -> Grammar {
    Grammar {
        words: "args args.text args.list .a . ( ) [ ] { } , : ? ! - + * / % == != < <= > >= && || in has( .all(x, .exists(x, .map(x, .filter(x, \
            .exists_one(x, .matches(' .size() size( timestamp( duration( string( int( double( bytes( type( x y true false null 1 1u 1.5 -1 0x1f 1e400 \
            9223372036854775808 'a' \"b\" ''' \"\"\" r' b' rb' br\" \\ \\u \\x // Thing{ a: .getHours( matches contains( startsWith( cel.bind( optional. \
            ?. [? `a` (a+)+ (a|aa)* [a-z]{100} \\w{50} \\p{L}{20} (?i) .* ^ $ as break const for function if import let loop package namespace return var void while"
            .split_whitespace()
            .chain([" ", "\n", " ? 1 : ", " ? args.text : "])
            .collect(),
        brackets: vec![
            ("(", ")"), ("[", "]"), ("{'a':", "}"), ("!", ""), ("-", ""), ("- ", ""), ("[1].all(x,", ")"), ("true?", ":1"), ("true?1:", ""), ("size(", ")"),
            ("has(args.a)&&", ""), ("1+", ""), ("a{a:", "}"), ("args.list.map(x,", ")"), ("'", "'"), ("args.text.matches('", "')"),
        ],
        seeds: RULES.to_vec(),
        members: Vec::new(),
    }
}

fn value_grammar() -> Grammar {
    let mut words: Vec<&str> = "a aa ab x 1 12 1h 5m30s 2026-11-15T09:30:00+01:00 2026-11-15 true -1 1.5 \u{e9} 9223372036854775807 aaaaaaaaaaaaaaaa"
        .split_whitespace()
        .collect();
    words.push("");
    Grammar {
        words,
        brackets: vec![("[", "]"), ("{\"text\":", "}"), ("{\"list\":[", "]}")],
        seeds: vec![
            "{\"text\":\"abc\",\"list\":[1,\"a\",2.5],\"lists\":[[1],[2]],\"map\":{\"a\":1},\"number\":3,\"count\":4,\"day\":\"2026-11-15T09:30:00Z\"}",
            "{\"text\":\"1h\",\"list\":[\"1\",\"2\"],\"lists\":[[]],\"map\":{\"b\":{}},\"number\":0.5,\"count\":0,\"day\":\"soon\",\"other\":null}",
        ],
        members: NAMES.to_vec(),
    }
}
