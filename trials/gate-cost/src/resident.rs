//! What contracts take while their tools are not called: bytes that are held, counted and not measured at the process, so that every machine
//! says the same.

use serde_json::{Value, json};
use servanda_catalog::{
    Catalog, Inventory,
    inference::definition_layer,
    names::ExposedNaming,
    pins::{Definition, LockFile, PinPolicy, Pins},
};
use servanda_contract::{
    Timestamp,
    layers::{ContractLayers, Defaults},
    pool::SectionPool,
};
use servanda_engine::Authorities;
use servanda_gates::{RegisteredContracts, admit};
use servanda_mcp::ClientCapabilities;

use crate::counting::held_bytes;

const CONTRACTS: usize = 1_000;
/// What one contract may take: its texts and schema, its pin, how it is listed, how it stands, its name, and what policies know of it. Its
/// definition alone has about 1 kB of JSON. Measured: 11,606 bytes.
const BYTES_PER_CONTRACT_MAX: i64 = 14_336;
/// What a tool may take on top once its arguments are judged.
const BYTES_READY_MAX: i64 = 65_536;

/// A definition as servers write them, with a schema that no other tool has.
fn definition(number: usize) -> String {
    let filter = format!("filter_{number}");
    json!({
        "name": format!("find_{number}"),
        "description": format!("Finds records of kind {number} in the store and returns those that match, newest first."),
        "inputSchema": { "type": "object", "required": ["text"], "properties": {
            "text": { "type": "string", "description": format!("What to look for in kind {number}."), "maxLength": 500 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100 + number, "default": 10 },
            "order": { "type": "string", "enum": ["newest", "oldest", format!("by_{number}")] },
            filter: { "type": "object", "required": ["field"], "properties": {
                "field": { "type": "string", "pattern": "^[a-z_]+$" }, "value": { "type": "string" } } },
            "tags": { "type": "array", "items": { "type": "string" }, "description": "Tags of the records." },
        } },
        "annotations": { "readOnlyHint": true },
    })
    .to_string()
}

/// A catalog of so many pinned tools that their server offers, and the policies that decide about them.
fn world(contracts: usize) -> (Catalog, Authorities) {
    let texts: Vec<String> = (0..contracts).map(definition).collect();
    let mut lock = LockFile::default();
    for text in &texts {
        lock.set("up", &Definition::read(text).unwrap(), Timestamp::from_unix_ms(0));
    }
    let lock = LockFile::read("servanda.lock", &lock.write().unwrap()).unwrap();
    let entry = serde_json::from_value(json!({ "class": "READ_ONLY", "behaviour": "PURE|READ|DATA|TEXT" })).unwrap();
    let defaults = Defaults::default();
    let mut pool = SectionPool::default();
    let admitted: Vec<_> = lock
        .pins()
        .map(|(server, tool, pin)| {
            let offered = definition_layer(&pin.definition).0;
            let layers = ContractLayers {
                server,
                tool,
                configuration: &defaults,
                server_defaults: &defaults,
                entry: &entry,
                offered: Some(&offered),
            };
            let mut contract = layers.compose().unwrap().contract;
            pool.unify(&mut contract);
            admit(contract, &RegisteredContracts::new()).unwrap()
        })
        .collect();
    let catalog =
        Catalog::pinned(admitted, ExposedNaming::Prefixed, Pins::new(Some(lock), PinPolicy::default())).unwrap();
    let listed = texts.iter().map(|text| (name(text), text.as_str()));
    let inventory = Inventory::read_each(listed, |definition| catalog.unify("up", definition));
    catalog.observe("up", &ClientCapabilities::none(), &inventory);
    let authorities = Authorities::with_default_policies(&catalog).unwrap();
    assert_eq!(catalog.listing(&ClientCapabilities::none()).tools.len(), contracts);
    (catalog, authorities)
}

fn name(definition: &str) -> &str {
    definition.split('"').find(|part| part.starts_with("find_")).unwrap()
}

#[test]
fn a_contract_whose_tool_is_not_called_takes_little() {
    // Tables that are made once, whatever there is of contracts.
    drop(world(1));
    let before = held_bytes();
    let world = world(CONTRACTS);
    let each = (held_bytes() - before) / i64::try_from(CONTRACTS).unwrap();
    println!("{each} bytes for each of {CONTRACTS} contracts");
    assert!(each < BYTES_PER_CONTRACT_MAX, "{each} bytes for each contract, of at most {BYTES_PER_CONTRACT_MAX}");
    drop(world);
}

/// What judging takes is made for the tool that is called and for no other, and once.
#[test]
fn a_call_makes_only_its_own_tool_ready() {
    drop(world(1));
    let (catalog, _authorities) = world(CONTRACTS);
    let contract = catalog.resolve("up__find_7", &ClientCapabilities::none()).unwrap();
    let judge = |arguments: &Value| contract.input().is_valid(arguments);
    let held_by = |arguments: Value, expected: bool| {
        let before = held_bytes();
        assert_eq!(judge(&arguments), expected, "{arguments}");
        drop(arguments);
        held_bytes() - before
    };
    let first = held_by(json!({ "text": "x" }), true);
    assert!((1..BYTES_READY_MAX).contains(&first), "{first} bytes");
    let again = held_by(json!({ "text": 1 }), false).abs();
    assert!(again < first / 4, "{again} bytes more for the second call, after {first}");
}
