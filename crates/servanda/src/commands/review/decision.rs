//! Writes one decision about one tool into its server's file. A decision that would make the contract invalid is refused with the reason,
//! and the file stays as it is.

use serde_json::{Map, Value, json};
use servanda_config::LoadedConfig;
use servanda_contract::{
    layers::{ServerContracts, ToolEntry},
    time::Clock as _,
    tool::{Action, Behaviour, Mutability, SideEffectClass},
};
use servanda_engine::SystemClock;
use servanda_gates::{RegisteredContracts, admit};
use servanda_identity::classifier::ReviewOutcome as Opinion;

use crate::{
    commands::{objections, operator},
    contracts::{
        editing, lock,
        reading::{self, ContractFile, LocatedContract},
    },
    failure::CommandFailure,
    files,
};

/// Readable by every user who can reach the folder.
const CONTRACT_MODE: u32 = 0o644;

/// The beginning of the reason for a class that a person gave.
const DECIDED: &str = "decided by a person";

/// What a person decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReviewDecision {
    /// What was inferred is right.
    Agree,
    /// It has another class; the reason answers a definition that says otherwise.
    Class {
        /// The class.
        class: SideEffectClass,
        /// Why, where the tool's definition says otherwise.
        reason: Option<String>,
    },
    /// Each of its calls waits for a person's approval, until the tool is released.
    HoldBack,
    /// It is no longer held back.
    Release,
}

/// Writes a decision; returns what was decided.
pub(super) fn apply(
    loaded: &LoadedConfig,
    written: &LocatedContract,
    decision: &ReviewDecision,
) -> Result<String, CommandFailure> {
    let (Some(tool), Some(composed)) = (&written.place.tool, &written.composed) else {
        return Err(CommandFailure::bad_input(format!(
            "{} is a whole contract, not inferred",
            written.place.file.display()
        ))
        .hint("edit the file itself; `servanda check` judges it"));
    };
    let file = &written.place.file;
    let text =
        files::read_text(file, files::TEXT_BYTES_MAX).map_err(|error| CommandFailure::failed(error.to_string()))?;
    let held = written.contract.transactional.confirmation_required;
    let before = composed.entry.class();
    let decision = match decision {
        ReviewDecision::Class { class, .. } if *class == before => &ReviewDecision::Agree,
        ReviewDecision::Release if !held => {
            return Err(CommandFailure::bad_input(format!("{} is not held back", written.contract.identity.name)));
        }
        decision => decision,
    };
    let changes = changes(&composed.entry, decision);
    let after = editing::change(file, &text, tool, &changes)?;
    judge(loaded, file, &after, tool)?;
    let folder = loaded.contracts_folder();
    files::write_inside(&folder, file, &after, CONTRACT_MODE)
        .map_err(|error| CommandFailure::failed(format!("cannot write `{}`: {error}", file.display())))?;
    Ok(describe(&written.contract.identity.name, before, held, decision))
}

fn describe(name: &str, before: SideEffectClass, held: bool, decision: &ReviewDecision) -> String {
    let still = if held { "; it is still held back, `--release` lets its calls through" } else { "" };
    match decision {
        ReviewDecision::Agree => format!("{name} is {}{still}", before.word()),
        ReviewDecision::Class { class, .. } => format!("{name} is {}, and not {}{still}", class.word(), before.word()),
        ReviewDecision::Release => format!("{name} is {} and not held back any more", before.word()),
        ReviewDecision::HoldBack => format!("{name} is held back: a person approves each of its calls"),
    }
}

/// The members of the entry that a decision sets.
fn changes(entry: &ToolEntry, decision: &ReviewDecision) -> Vec<(&'static str, Option<Value>)> {
    let at: String = SystemClock.now().to_string().chars().take(10).collect();
    let reviewed = ("reviewed", Some(json!({ "by": operator::user_name(), "at": at })));
    let members: Map<String, Value> = entry.clone().into();
    let section = |member: &str, value: Value| {
        let mut section = members.get("transactional").and_then(Value::as_object).cloned().unwrap_or_default();
        section.insert(member.to_owned(), value);
        ("transactional", Some(Value::Object(section)))
    };
    match decision {
        ReviewDecision::Agree => vec![reviewed],
        ReviewDecision::HoldBack => vec![section("confirmation_required", json!(true)), reviewed],
        ReviewDecision::Release => vec![section("confirmation_required", json!(false)), reviewed],
        ReviewDecision::Class { class, reason } => {
            let mut changes = vec![("class", Some(class.word().into()))];
            if members.get("transactional").is_some_and(|section| section.get("side_effect_class").is_some()) {
                changes.push(section("side_effect_class", class.word().into()));
            }
            let behaviour = entry.behaviour().map(|behaviour| behaviour_value(behaviour, *class, reason.as_deref()));
            changes.extend(behaviour.map(|behaviour| ("behaviour", Some(behaviour))));
            changes.push(("why", Some(why(entry).into())));
            changes.push(reviewed);
            changes
        }
    }
}

/// Why an entry has the class that a person gave it. The class that was proposed first is kept, however often a person decides.
fn why(entry: &ToolEntry) -> String {
    let before = entry.why.as_deref().unwrap_or("no reason was given");
    if before.starts_with(DECIDED) {
        return before.to_owned();
    }
    format!("{DECIDED}; proposed as {}: {before}", entry.class().word())
}

/// The behaviour that fits a class: only reads are pure.
fn behaviour_value(behaviour: &Behaviour, class: SideEffectClass, reason: Option<&str>) -> Value {
    let mut behaviour = behaviour.clone();
    let looks = matches!(behaviour.action, Action::Read | Action::Search);
    if class == SideEffectClass::ReadOnly {
        behaviour.mutability = Mutability::Pure;
        behaviour.action = if looks { behaviour.action } else { Action::Read };
    } else {
        behaviour.mutability = Mutability::Mutates;
        behaviour.action = if looks { Action::Update } else { behaviour.action };
    }
    behaviour.reviewed = reason.map(str::to_owned).or(behaviour.reviewed);
    let words = behaviour.extended_words();
    if Behaviour::from_words(&words).as_ref() == Ok(&behaviour) { words.into() } else { json!(behaviour) }
}

/// Checks that the file would still be valid, and that the tool's definition has been answered.
fn judge(loaded: &LoadedConfig, file: &std::path::Path, text: &str, tool: &str) -> Result<(), CommandFailure> {
    let read = reading::read_file(file, text).map_err(CommandFailure::failed)?;
    let ContractFile::Server(server) = read else {
        return Err(CommandFailure::failed(format!("{} is no file of a server's contracts", file.display())));
    };
    let server =
        ServerContracts { tools: server.tools.into_iter().filter(|(name, _)| name == tool).collect(), ..server };
    let pins = lock::read(&loaded.lock_file())?;
    let composed = reading::compose(file, &server, loaded, pins.as_ref());
    let (Some(written), []) = (composed.written.first(), composed.unread.as_slice()) else {
        let reasons: Vec<String> = composed.unread.into_iter().map(|unread| unread.reason).collect();
        return Err(not_admitted(&reasons.join("; ")));
    };
    if let Err(rejection) = admit(written.contract.clone(), &RegisteredContracts::new()) {
        return Err(not_admitted(&rejection.to_string()));
    }
    match objections::review_offline(&written.contract, pins.as_ref()) {
        Opinion::Flagged { objections } => Err(CommandFailure::failed(format!(
            "its definition says otherwise: {}",
            objections::sentences(&objections)
        ))
        .hint("give the reason why it is right: --reason TEXT")),
        _ => Ok(()),
    }
}

fn not_admitted(reasons: &str) -> CommandFailure {
    CommandFailure::failed(format!("the contract would not be admitted, so nothing was changed: {reasons}"))
        .hint("edit the file; `servanda check` judges it")
}
