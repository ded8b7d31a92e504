//! The walk: one tool after the other on a terminal, one key per decision.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
};

use servanda_config::LoadedConfig;
use servanda_contract::tool::SideEffectClass;

use super::decision::{self, ReviewDecision};
use crate::{
    commands::{contract, tools},
    contracts::reading::LocatedContract,
    failure::CommandFailure,
    screen::{Screen, TextStyle, count, one_line, paint_stderr},
};

/// How much of a description is shown.
const DESCRIPTION_CHARS_MAX: usize = 300;
/// How many arguments are named.
const ARGUMENTS_SHOWN_MAX: usize = 12;

const KEYS: &str = "[a] agree  [1-6] another class  [h] hold back  [r] release  [s] skip  [b] back\n\
                    [R] agree to every read that is left without a doubt  [?] classes  [q] quit";

const CLASSES: [(SideEffectClass, &str); 6] = [
    (SideEffectClass::ReadOnly, "changes nothing"),
    (SideEffectClass::EphemeralWrite, "changes something temporary of its own"),
    (SideEffectClass::LowRiskInternal, "changes something internal that is easily put right"),
    (SideEffectClass::MediumRiskWrite, "changes what people work with"),
    (SideEffectClass::HighRiskExternal, "is seen outside: messages, merges, deploys, uploads"),
    (SideEffectClass::CriticalMutation, "moves money, rights or code, deletes, or runs what it is given"),
];

/// What a key means.
enum ReviewKeypress {
    Decide(ReviewDecision),
    Skip,
    Back,
    /// Agree to all remaining reads without doubts.
    AgreeToReads,
    Explain,
    Quit,
    Unknown,
}

/// Asks about each of these tools.
pub(super) fn walk(
    loaded: &LoadedConfig,
    mut open: Vec<LocatedContract>,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let total = open.len();
    if total == 0 {
        screen.say("a person has decided about every tool; `servanda review --all` lists the decisions");
        return Ok(());
    }
    let mut decided = BTreeSet::new();
    let mut at = 0;
    let mut shown = None;
    while let Some(written) = open.get(at) {
        if shown != Some(at) {
            show(loaded, written, at + 1, total, screen);
            shown = Some(at);
        }
        match key()? {
            ReviewKeypress::Quit => break,
            ReviewKeypress::Skip => at += 1,
            ReviewKeypress::Back => at = at.saturating_sub(1),
            ReviewKeypress::Unknown => screen.say(KEYS),
            ReviewKeypress::Explain => explain(screen),
            ReviewKeypress::AgreeToReads => {
                let reads = (at..total).filter(|at| open.get(*at).is_some_and(is_plain_read));
                for read in reads.filter(|at| !decided.contains(at)).collect::<Vec<_>>() {
                    let Some(written) = open.get(read) else { continue };
                    screen.say(format_args!("  {}", decision::apply(loaded, written, &ReviewDecision::Agree)?));
                    decided.insert(read);
                }
                at = (at..total).find(|at| !decided.contains(at)).unwrap_or(total);
            }
            ReviewKeypress::Decide(decision) => match decide(loaded, written, decision, screen) {
                Ok(said) => {
                    screen.say(format_args!("  {said}"));
                    // After going back, the current content of the file is shown.
                    let now = contract::named(loaded, &written.contract.identity.name)?;
                    if let Some(written) = open.get_mut(at) {
                        *written = now;
                    }
                    decided.insert(at);
                    at += 1;
                    while decided.contains(&at) {
                        at += 1;
                    }
                }
                Err(failure) => screen.failure(&failure),
            },
        }
    }
    screen.say(format_args!("decided about {}; {} left", count(decided.len(), "tool"), total - decided.len()));
    if decided.len() < total {
        screen.hint("`servanda review` goes on where you stopped");
    }
    Ok(())
}

/// Whether a tool only reads and has no doubts.
fn is_plain_read(written: &LocatedContract) -> bool {
    written.contract.transactional.side_effect_class == SideEffectClass::ReadOnly
        && written.composed.as_ref().is_some_and(|composed| composed.entry.doubts.is_empty())
}

/// Writes a decision. If the definition says otherwise, asks for the reason and tries once more.
fn decide(
    loaded: &LoadedConfig,
    written: &LocatedContract,
    decision: ReviewDecision,
    screen: Screen,
) -> Result<String, CommandFailure> {
    match (decision::apply(loaded, written, &decision), decision) {
        (Err(failure), ReviewDecision::Class { class, reason: None })
            if failure.to_string().starts_with("its definition") =>
        {
            screen.say(format_args!("  {failure}"));
            let _ = write!(io::stderr(), "  why is {} right? (one line; empty: no change) ", class.word());
            let mut reason = String::new();
            io::stdin().read_line(&mut reason)?;
            if reason.trim().is_empty() {
                return Err(CommandFailure::failed("nothing was changed"));
            }
            decision::apply(loaded, written, &ReviewDecision::Class { class, reason: Some(reason.trim().to_owned()) })
        }
        (applied, _) => applied,
    }
}

fn show(loaded: &LoadedConfig, written: &LocatedContract, number: usize, total: usize, screen: Screen) {
    let contract = &written.contract;
    let class = contract.transactional.side_effect_class.word();
    let name = contract::exposed(loaded, written);
    screen.say(format_args!(
        "\n{number} of {total}  {}  {}",
        paint_stderr(&name, TextStyle::Strong),
        paint_stderr(class, tools::style(class))
    ));
    if contract.transactional.confirmation_required {
        screen.say("  held back: a person approves each of its calls");
    }
    let description = one_line(&contract.affordance.model_description);
    let short: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let more = if short.len() < description.len() { "…" } else { "" };
    screen.say(format_args!("  {short}{more}"));
    let properties = contract.affordance.input_schema.get("properties").and_then(|it| it.as_object());
    let names: Vec<&str> = properties.into_iter().flat_map(|it| it.keys()).map(String::as_str).collect();
    let shown: Vec<&str> = names.iter().copied().take(ARGUMENTS_SHOWN_MAX).collect();
    let rest = names.len().saturating_sub(shown.len());
    let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    screen.say(format_args!(
        "  takes {}{rest}",
        if shown.is_empty() { "nothing".to_owned() } else { one_line(&shown.join(", ")) }
    ));
    if let Some(composed) = &written.composed {
        if let Some(why) = &composed.entry.why {
            screen.say(format_args!("  because: {}", one_line(why)));
        }
        for doubt in &composed.entry.doubts {
            screen.say(format_args!("  {} {}", paint_stderr("doubt:", TextStyle::Careful), one_line(doubt)));
        }
    }
    screen.say(KEYS);
}

fn explain(screen: Screen) {
    for (number, (class, meaning)) in CLASSES.iter().enumerate() {
        screen.say(format_args!("  [{}] {:<18}  {meaning}", number + 1, class.word()));
    }
    screen.say("docs/contracts.md says what each class brings with it");
}

fn key() -> Result<ReviewKeypress, CommandFailure> {
    Ok(match console::Term::stderr().read_char()? {
        'a' => ReviewKeypress::Decide(ReviewDecision::Agree),
        'h' => ReviewKeypress::Decide(ReviewDecision::HoldBack),
        'r' => ReviewKeypress::Decide(ReviewDecision::Release),
        'R' => ReviewKeypress::AgreeToReads,
        's' => ReviewKeypress::Skip,
        'b' => ReviewKeypress::Back,
        '?' => ReviewKeypress::Explain,
        'q' | '\u{3}' | '\u{4}' | '\u{1b}' => ReviewKeypress::Quit,
        digit => match digit.to_digit(10).and_then(|digit| CLASSES.get((digit as usize).wrapping_sub(1))) {
            Some((class, _)) => ReviewKeypress::Decide(ReviewDecision::Class { class: *class, reason: None }),
            None => ReviewKeypress::Unknown,
        },
    })
}
