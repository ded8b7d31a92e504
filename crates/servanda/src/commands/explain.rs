//! `servanda explain`: a recorded call, gate by gate, in words.

use std::path::Path;

use servanda_contract::{
    CallRecord, GateName, Timestamp,
    record::{Decision, Outcome},
};
use servanda_ledger::{CallQuery, Reader};

use crate::{
    cli::ExplainArgs,
    config::Loaded,
    failure::Failure,
    screen::{Mood, Screen, lines, paint, table},
};

/// Calls listed when none is named.
const RECENT_MAX: u32 = 20;

/// Every stage there is, in order, so that the ones not reached are shown too.
const STAGES: [GateName; 10] = [
    GateName::Resolve,
    GateName::Parse,
    GateName::Structure,
    GateName::Types,
    GateName::Bounds,
    GateName::Semantics,
    GateName::Confirmation,
    GateName::Fence,
    GateName::Perform,
    GateName::Observe,
];

pub(crate) fn run(config: &Path, args: &ExplainArgs, screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    let file = loaded.ledger_file();
    if !file.exists() {
        return Err(Failure::failed(format!("no call has been recorded yet in `{}`", file.display()))
            .hint("make one: `servanda call TOOL '{...}'`"));
    }
    let reader = Reader::open(&file)?;
    // A second one that begins alike means that the beginning is not enough; there is only one latest.
    let (query, limit) = match (&args.call_id, args.last) {
        (Some(id), _) => (CallQuery::Id(id.clone()), 2),
        (None, true) => (CallQuery::Latest, 1),
        (None, false) => return list(&reader, screen),
    };
    let mut found = reader.find(&query, limit)?;
    let record = match (found.pop(), found.is_empty()) {
        (Some(record), true) => record,
        (Some(_), false) => {
            return Err(Failure::bad_input("more than one call begins like that")
                .hint("give more of the id; `servanda explain` lists the latest"));
        }
        (None, _) => {
            return Err(Failure::bad_input("there is no such call").hint("`servanda explain` lists the latest"));
        }
    };
    if args.quarantined {
        return quarantined(&reader, &record, screen);
    }
    if screen.json { screen.json(&record) } else { screen.data(render(&record)) }
}

fn list(reader: &Reader, screen: Screen) -> Result<(), Failure> {
    let recent = reader.recent(RECENT_MAX)?;
    if screen.json {
        return screen.json(&recent);
    }
    let mut shown = table(&["call", "when", "tool", "outcome", "class"]);
    for call in &recent {
        let when = Timestamp::from_unix_ms(u64::try_from(call.received_ms).unwrap_or_default());
        let class = call.class.clone().unwrap_or_default();
        shown.add_row([call.call_id.clone(), when.to_string(), call.tool.clone(), call.outcome.clone(), class]);
    }
    screen.data(lines(&shown))?;
    screen.hint("servanda explain CALL, or servanda explain --last");
    Ok(())
}

fn quarantined(reader: &Reader, record: &CallRecord, screen: Screen) -> Result<(), Failure> {
    let kept = reader.quarantined(record.call_id.as_str())?.ok_or_else(|| {
        Failure::bad_input("no answer of that call was kept back").hint(format!("servanda explain {}", record.call_id))
    })?;
    if kept.bytes_total > i64::try_from(kept.body.len()).unwrap_or(i64::MAX) {
        screen.say(format_args!("note: the answer had {} bytes; this is the beginning", kept.bytes_total));
    }
    screen.data(String::from_utf8_lossy(&kept.body))
}

/// A record as a page.
pub(crate) fn render(record: &CallRecord) -> String {
    let mut lines = vec![format!("{}  {}", paint(record.call_id.as_str(), Mood::Strong), record.tool)];
    let client = record.caller.client.as_deref().map_or_else(String::new, |client| format!(" with {client}"));
    lines.push(format!(
        "  called at {} by {}/{}{client}",
        record.received_at, record.caller.tenant, record.caller.principal
    ));
    if let Some(contract) = &record.contract {
        lines.push(format!(
            "  contract  {} {} ({}), effect class {:?}",
            contract.name,
            contract.version,
            contract.digest.short(),
            contract.effect_class
        ));
        lines.push(format!("  performed by `{}` as `{}`", contract.upstream, contract.upstream_tool));
    }
    lines.push(format!("  outcome   {}", outcome(record)));
    lines.push(String::new());
    lines.extend(STAGES.iter().map(|gate| stage(*gate, record)));
    if let Some(refusal) = &record.refusal {
        lines.push(String::new());
        lines.push(format!("  why       {}", refusal.message));
        if refusal.field_errors.is_empty() {
            lines.push("    at (the whole call): no single argument is to blame".to_owned());
        }
        for error in &refusal.field_errors {
            let pointer = if error.pointer.is_empty() { "(the whole)" } else { &error.pointer };
            lines.push(format!("    at {pointer}: expected {}; was {}", error.expected, error.actual));
            if let Some(name) = &error.did_you_mean {
                lines.push(format!("       did you mean `{name}`?"));
            }
        }
        lines.push(format!("  repair    {}", refusal.hint));
        if let Some(progress) = &refusal.repair {
            lines.push(format!("  attempt   {} of {}", progress.attempt, progress.attempts_max));
        }
    }
    lines.push(String::new());
    lines.push(format!("  trace {}  arguments {}", record.trace_id, record.arguments_digest.short()));
    lines.join("\n")
}

fn outcome(record: &CallRecord) -> String {
    let mood = match record.outcome {
        Outcome::Completed => Mood::Good,
        Outcome::Refused | Outcome::ToolError | Outcome::NotExecuted => Mood::Careful,
        Outcome::Dispatching | Outcome::Quarantined | Outcome::Unknown => Mood::Bad,
    };
    let class = record.class.map_or_else(String::new, |class| format!(" · {}", class.name()));
    let took = record.finished_at.map_or_else(String::new, |at| format!(" · {} ms", at.since_ms(record.received_at)));
    format!("{}{class}{took}", paint(record.outcome.name(), mood))
}

fn stage(gate: GateName, record: &CallRecord) -> String {
    let number = gate.number().map_or_else(|| "  ".to_owned(), |number| format!("{number:>2}"));
    let name = format!("{:<13}", gate.to_string());
    let verdict = record.verdicts.iter().find(|verdict| verdict.gate == gate);
    match verdict {
        Some(verdict) if verdict.decision == Decision::Passed => {
            format!("  {number} {name} {}  {} ({} µs)", paint("passed ", Mood::Good), gate.question(), verdict.took_us)
        }
        Some(verdict) => {
            format!("  {number} {name} {}  {} ({} µs)", paint("REFUSED", Mood::Bad), gate.question(), verdict.took_us)
        }
        None => format!("  {number} {name} {}", paint("not reached", Mood::Quiet)),
    }
}
