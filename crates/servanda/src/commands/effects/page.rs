//! Effects as text for people.

use servanda_contract::Timestamp;
use servanda_effects::effect::{ClientKey, Effect, EffectState, EffectWaitReason, StoredAnswer};
use servanda_engine::WorkProgress;

use super::look_up::EffectLookup;
use crate::screen::{TextStyle, distinct_chars, lines, one_line, paint, stdout_width, table};

/// How many characters of arguments a page shows.
const ARGUMENTS_CHARS_MAX: usize = 2_000;
/// How many characters of a handle a list shows at least.
const HANDLE_CHARS_MIN: usize = 16;

/// One line per effect, newest first.
pub(super) fn list(effects: &[Effect], now: Timestamp) -> String {
    let mut shown = table(&["handle", "tool", "state", "class", "changed"]);
    // On a terminal the beginning is enough, because every command accepts it.
    let all = if stdout_width().is_some() { HANDLE_CHARS_MIN } else { usize::MAX };
    let handle_chars = distinct_chars(effects.iter().map(|effect| effect.id.as_str()), all);
    let today = date(now.unix_ms());
    for effect in effects {
        let when = Timestamp::from_unix_ms(effect.changed_ms).to_string();
        let time: String = when.chars().skip(11).take(8).collect();
        let day = date(effect.changed_ms);
        let when = if day == today { time } else { format!("{day} {time}") };
        let class = format!("{:?}", effect.class);
        let handle = effect.id.as_str().chars().take(handle_chars).collect();
        shown.add_row([handle, effect.order.exposed_tool.clone(), state(effect), class, when]);
    }
    lines(&shown)
}

/// Everything known about one effect.
pub(super) fn page(effect: &Effect, progress: Option<&WorkProgress>, look_up: Option<&EffectLookup>) -> String {
    let order = &effect.order;
    let mut lines = vec![format!("{}  {}", paint(effect.id.as_str(), TextStyle::Strong), order.exposed_tool)];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<10}{text}"));
    line("state", format!("{}: {}", state(effect), meaning(effect)));
    if let Some(reason) = &effect.reason {
        line("why", reason.clone());
    }
    line("contract", format!("{} {}, effect class {:?}", effect.key.tool, order.contract_version, effect.class));
    line("upstream", format!("`{}` as `{}`", order.upstream, order.upstream_tool));
    line("of", format!("{}/{}", effect.key.tenant, effect.key.principal));
    line("key", key(&effect.key.client_key));
    if !order.resources.is_empty() {
        line("changes", order.resources.join(", "));
    }
    line("call", format!("{}: servanda explain {}", effect.call_id, effect.call_id));
    line("sent", sent(effect));
    line("operation", format!("{}, the key that is sent to the upstream if it accepts one", order.upstream_key));
    if let Some(look_up) = look_up {
        line("arguments", arguments(look_up));
    }
    if let Some(awaits) = &effect.awaits {
        let what = match awaits {
            EffectWaitReason::Input(_) => "input that the upstream asked for".to_owned(),
            EffectWaitReason::Task(id) if id == effect.id.as_str() => {
                "work that its upstream continues by itself".to_owned()
            }
            EffectWaitReason::Task(id) => format!("the task {id}"),
        };
        line("waits for", format!("{what}, until {}", at(effect.overdue_at_ms)));
    }
    if let Some(progress) = progress {
        line("progress", format!("{}, at {}", progress.in_words(), at(progress.at_ms)));
    }
    if let Some(StoredAnswer::Known(known)) = &effect.answer {
        line("answer", known.clone());
    }
    if let Some(settlement) = &effect.settlement {
        line("settled", format!("by {} at {}: {}", settlement.by, at(settlement.at_ms), settlement.evidence));
    }
    if let Some(conflict) = &effect.conflict {
        let said = conflict.state.name();
        line("conflict", format!("the ledger said {said} when, at {}, {}", at(conflict.at_ms), conflict.says));
    }
    line("changed", at(effect.changed_ms));
    if effect.conflict.is_some() {
        line("next", "look at the target: what clients were told before the answer came may be wrong".to_owned());
    }
    if effect.state == EffectState::OutcomeUnknown {
        if let Some(look_up) = look_up {
            line("look for", looked_for(look_up));
            for command in &look_up.commands {
                line("", command.clone());
            }
        }
        line("next", "look at the target, then say what you found:".to_owned());
        for settle_as in ["completed", "not-executed"] {
            lines.push(format!("            servanda effects settle {} --as {settle_as} --evidence TEXT", effect.id));
        }
    }
    lines.join("\n")
}

/// The state of an effect in one line.
pub(crate) fn standing(effect: &Effect) -> String {
    format!("{}: {}, since {}", state(effect), meaning(effect), at(effect.changed_ms))
}

/// The arguments on one line, cut to the room of a page.
fn arguments(look_up: &EffectLookup) -> String {
    let Some(arguments) = &look_up.arguments else {
        return "not kept: an effect that is settled keeps only their digest".to_owned();
    };
    let text = one_line(&arguments.to_string());
    if text.chars().count() <= ARGUMENTS_CHARS_MAX {
        return text;
    }
    let shown: String = text.chars().take(ARGUMENTS_CHARS_MAX).collect();
    format!("{shown}… (`servanda effects show HANDLE --json` has all of them)")
}

/// What a person searches for at the upstream.
fn looked_for(look_up: &EffectLookup) -> String {
    let EffectLookup { upstream, tool, sent_at, operation_id, .. } = look_up;
    let when = sent_at.as_ref().map_or_else(String::new, |at| format!(", made since {at}"));
    format!("at `{upstream}`, what `{tool}` makes of these arguments{when}, or the key {operation_id}")
}

/// The state, with a note if evidence contradicts it.
fn state(effect: &Effect) -> String {
    let Some(_) = effect.conflict else { return paint(effect.state.name(), style(effect.state)) };
    paint(&format!("{}, in conflict", effect.state.name()), TextStyle::Bad)
}

fn meaning(effect: &Effect) -> &'static str {
    match effect.state {
        EffectState::Claimed => "it is about to be sent; nothing was sent yet",
        EffectState::Dispatching => "it may have been sent; how it ended is not known yet",
        EffectState::Completed => "it is done",
        EffectState::FailedFinal => "it failed, and the failure is the answer",
        EffectState::FailedRetryable => "it never ran; it may be tried again",
        EffectState::OutcomeUnknown if effect.is_from_lost_window() => {
            "its key may have been used in a time that the ledger has lost; it is not sent"
        }
        EffectState::OutcomeUnknown => "it was sent, and how it ended is unknown; it is not sent again",
        EffectState::Compensated => "it was done and then undone",
        EffectState::Expired => "the key was used once and is never used again",
    }
}

fn key(key: &ClientKey) -> String {
    match key {
        ClientKey::Given(key) => {
            format!("`{}`, the client's own", one_line(key))
        }
        ClientKey::Derived(digest) => format!("{}, from the operation or step that the client named", digest.short()),
        ClientKey::Call(_) => "none: the call was an operation of its own".to_owned(),
    }
}

fn sent(effect: &Effect) -> String {
    if effect.state == EffectState::FailedRetryable && effect.settlement.is_some() {
        return "before, and settled as not executed".to_owned();
    }
    match (effect.dispatches, effect.first_dispatched_ms) {
        (_, Some(first_ms)) if effect.is_from_lost_window() => format!("perhaps, since {}", at(first_ms)),
        (0, _) | (_, None) => "never".to_owned(),
        (1, Some(first_ms)) => format!("once, at {}", at(first_ms)),
        (times, Some(first_ms)) => format!("{times} times, first at {}", at(first_ms)),
    }
}

const fn style(state: EffectState) -> TextStyle {
    match state {
        EffectState::Completed => TextStyle::Good,
        EffectState::OutcomeUnknown => TextStyle::Bad,
        EffectState::Claimed | EffectState::Dispatching | EffectState::FailedFinal => TextStyle::Careful,
        EffectState::FailedRetryable | EffectState::Compensated | EffectState::Expired => TextStyle::Quiet,
    }
}

fn at(ms: u64) -> String {
    Timestamp::from_unix_ms(ms).to_string()
}

fn date(ms: u64) -> String {
    at(ms).chars().take(10).collect()
}
