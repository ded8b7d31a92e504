//! The tables: the tools, how well their behaviours can be recovered, which pairs are told apart, and which check catches a
//! wrong choice.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value, json};
use servanda_contract::{
    schema::{CompiledSchema, SchemaProfile},
    tool::Behaviour,
};
use servanda_identity::{
    classifier::{self, ClassifierOptions, classify},
    layers::confusions::{self, Conduct},
};

use crate::declared::{PAIRS, TOOLS};

/// A chosen tool.
pub(crate) struct Tool {
    server: &'static str,
    name: &'static str,
    schema: CompiledSchema,
    written: Map<String, Value>,
    declared: Behaviour,
    /// The classifier's result for the whole definition, and for the definition without its name.
    found: Behaviour,
    found_nameless: Behaviour,
}

pub(crate) type Failure = Box<dyn std::error::Error>;
/// Which pairs count.
type Filter = fn(&Tool, &Tool) -> bool;
/// The part of a behaviour that is compared.
type Reading = fn(&Behaviour) -> String;

/// The chosen tools, from the version of each server that the lists call their default.
pub(crate) fn read(servers: &Value) -> Result<Vec<Tool>, Failure> {
    TOOLS
        .iter()
        .map(|(server, name, words)| {
            let listed = &servers["servers"][server];
            let version = list(&listed["versions"]).find(|version| version["spec"] == listed["default"]);
            let definition = version.and_then(|version| list(&version["tools"]).find(|tool| tool["name"] == *name));
            let definition = definition.ok_or_else(|| format!("{server} has no tool {name}"))?;
            tool(server, name, words, definition)
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn tool(server: &'static str, name: &'static str, words: &str, definition: &Value) -> Result<Tool, Failure> {
    let mut words = words.split(' ');
    let mut behaviour = Map::new();
    for field in ["mutability", "action", "output_domain", "content_type"] {
        behaviour.extend(words.next().map(|word| (field.to_owned(), json!(word))));
    }
    let written = definition["input_schema"].as_object().cloned().unwrap_or_default();
    let mut descriptor: classifier::Descriptor = serde_json::from_value(definition.clone())?;
    // Like for any descriptor whose author is not asked.
    descriptor.annotations = None;
    Ok(Tool {
        server,
        name,
        schema: CompiledSchema::compile(&written, SchemaProfile::Arguments)?,
        written,
        declared: serde_json::from_value(Value::Object(behaviour))?,
        found: classify(&descriptor, ClassifierOptions::default()).behaviour,
        found_nameless: classify(&descriptor, ClassifierOptions { names: false, annotations: true }).behaviour,
    })
}

/// All tables as Markdown.
pub(crate) fn write(tools: &[Tool]) -> Result<String, Failure> {
    let mut text = String::new();
    chosen(&mut text, tools)?;
    recovered(&mut text, tools)?;
    separated(&mut text, tools)?;
    replayed(&mut text, tools)?;
    Ok(text)
}

fn chosen(text: &mut String, tools: &[Tool]) -> Result<(), Failure> {
    writeln!(text, "\n### The 45 tools\n\n| server | tools, by declared behaviour |\n|---|---|")?;
    for server in ["sqlite", "filesystem", "git", "github"] {
        let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for tool in tools.iter().filter(|tool| tool.server == server) {
            kinds.entry(tool.declared.extended_words()).or_default().push(tool.name);
        }
        let kinds: Vec<String> =
            kinds.iter().map(|(words, names)| format!("{}: {}", words.replace('|', "\\|"), names.join(", "))).collect();
        writeln!(text, "| {server} | {} |", kinds.join("<br>"))?;
    }
    Ok(())
}

fn recovered(text: &mut String, tools: &[Tool]) -> Result<(), Failure> {
    let head = "\n### What the classifier recovers of what was declared\n\n| field | whole definition | name removed |\n|---|---|---|";
    writeln!(text, "{head}")?;
    let rows: [(&str, Reading); 4] = [
        ("mutability", |one| one.mutability.word().to_owned()),
        ("action", |one| one.action.word().to_owned()),
        ("output domain", |one| one.output_domain.word().to_owned()),
        ("all three", Behaviour::words),
    ];
    for (name, field) in rows {
        let agree = |found: fn(&Tool) -> &Behaviour| {
            let agree = tools.iter().filter(|tool| field(found(tool)) == field(&tool.declared)).count();
            share(agree, tools.len())
        };
        writeln!(text, "| {name} | {} | {} |", agree(|tool| &tool.found), agree(|tool| &tool.found_nameless))?;
    }
    Ok(())
}

fn separated(text: &mut String, tools: &[Tool]) -> Result<(), Failure> {
    writeln!(
        text,
        "\n### Pairs that are easily mixed up, and what tells them apart\n\n\
         | severity | pairs | schema differs | identity, declared | extended identity, declared | identity, recovered | \
         recovered without names |\n|---|---|---|---|---|---|---|"
    )?;
    for severity in ["CRITICAL", "HIGH", "MEDIUM", "LOW", "all"] {
        let pairs: Vec<(&Tool, &Tool)> = PAIRS
            .iter()
            .filter(|(one, ..)| *one == severity || severity == "all")
            .filter_map(|(_, one, other)| Some((by_name(tools, one)?, by_name(tools, other)?)))
            .collect();
        let apart = |differ: &dyn Fn(&Tool, &Tool) -> bool| {
            share(pairs.iter().filter(|(one, other)| differ(one, other)).count(), pairs.len())
        };
        writeln!(
            text,
            "| {severity} | {} | {} | {} | {} | {} | {} |",
            pairs.len(),
            apart(&|one, other| !same_schema(one, other)),
            apart(&|one, other| one.declared.identity() != other.declared.identity()),
            apart(&|one, other| one.declared.extended_identity() != other.declared.extended_identity()),
            apart(&|one, other| one.found.identity() != other.found.identity()),
            apart(&|one, other| one.found_nameless.identity() != other.found_nameless.identity()),
        )?;
    }
    let open = PAIRS.iter().filter(|(_, one, other)| {
        let pair = by_name(tools, one).zip(by_name(tools, other));
        pair.is_some_and(|(one, other)| one.declared.extended_identity() == other.declared.extended_identity())
    });
    let open: Vec<String> = open.map(|(severity, one, other)| format!("`{one}` and `{other}` ({severity})")).collect();
    writeln!(text, "\nNothing that is declared tells apart: {}.", open.join("; "))?;
    Ok(())
}

fn replayed(text: &mut String, tools: &[Tool]) -> Result<(), Failure> {
    writeln!(
        text,
        "\n### Every wrong choice there can be, replayed\n\n\
         | wrong choices | how many | schema validation catches | identity catches | both | identity only | schema only | neither |\n\
         |---|---|---|---|---|---|---|---|"
    )?;
    let rows: [(&str, Filter, Reading); 4] = [
        ("any tool for any other", |_, _| true, Behaviour::identity),
        ("among the pairs above", is_pair, Behaviour::identity),
        ("among tools of one schema", same_schema, Behaviour::identity),
        ("the same, extended identity", same_schema, Behaviour::extended_identity),
    ];
    for (name, counts, identity) in rows {
        let mut cells = [0_usize; 4];
        for right in tools {
            let arguments = example(&right.written);
            for chosen in tools.iter().filter(|chosen| chosen.name != right.name && counts(right, chosen)) {
                let by_schema = !chosen.schema.is_valid(&arguments);
                let by_identity = identity(&right.declared) != identity(&chosen.declared);
                let cell = usize::from(by_schema) * 2 + usize::from(by_identity);
                cells.iter_mut().skip(cell).take(1).for_each(|count| *count += 1);
            }
        }
        let [neither, identity_only, schema_only, both] = cells;
        let all = cells.iter().sum();
        writeln!(
            text,
            "| {name} | {all} | {} | {} | {both} | {identity_only} | {schema_only} | {neither} |",
            share(both + schema_only, all),
            share(both + identity_only, all)
        )?;
    }
    writeln!(text)?;
    Ok(())
}

fn by_name<'a>(tools: &'a [Tool], name: &str) -> Option<&'a Tool> {
    tools.iter().find(|tool| tool.name == name)
}

fn is_pair(one: &Tool, other: &Tool) -> bool {
    PAIRS.iter().any(|(_, a, b)| [(*a, *b), (*b, *a)].contains(&(one.name, other.name)))
}

fn same_schema(one: &Tool, other: &Tool) -> bool {
    let descriptor = |tool: &Tool| confusions::ConfusionCandidate {
        id: tool.name.to_owned(),
        server: tool.server.to_owned(),
        name: tool.name.to_owned(),
        input_schema: tool.written.clone().into(),
        conduct: Conduct::default(),
    };
    !confusions::confusions(&[descriptor(one), descriptor(other)]).is_empty()
}

/// Arguments that a schema accepts: only the required ones.
fn example(schema: &Map<String, Value>) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    required.map(|name| (name.to_owned(), property(name).map_or(Value::Null, value))).collect::<Map<_, _>>().into()
}

fn value(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("array") => json!([value(&schema["items"])]),
        Some("object") => schema.as_object().map(example).unwrap_or_default(),
        _ => json!("x"),
    }
}

pub(crate) fn share(part: usize, whole: usize) -> String {
    let percent = (part * 100 + whole / 2).checked_div(whole).unwrap_or_default();
    format!("{part} ({percent} %)")
}
