//! The page of one effect: what is known about it, what is needed to settle it, and the form that settles it.

use askama::Template;
use http::StatusCode;
use servanda_approval::{RenderedArguments, render_arguments};
use servanda_contract::{Timestamp, legibility};
use servanda_doors::http::PageRequest;
use servanda_effects::effect::{Effect, EffectId, EffectState, EffectWaitReason, StoredAnswer};
use servanda_engine::oversight::{EffectOverview, STATEMENT_CHARS_MAX, SensitiveArguments};

use super::state_words::{EffectWords, attempts_in_words, class_in_words, key_in_words};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form_token,
    reply::ConsoleReply,
    routing::{effect_path, read_id},
    view::{Moment, PageFrame, PageNotice},
};

/// The sensitivity of every value of a call that was made under another contract than the present one.
const PERHAPS_SENSITIVE: &str = "personal";

#[derive(Template)]
#[template(path = "effect.html")]
struct EffectDocument {
    frame: PageFrame,
    notice: Option<PageNotice>,
    tool: String,
    state: EffectWords,
    begun: Moment,
    facts: Vec<(&'static str, String)>,
    ids: Vec<(&'static str, String)>,
    arguments: EffectArguments,
    /// What a person searches for at the server.
    look_for: Option<LookFor>,
    settlement: Option<String>,
    conflict: Option<String>,
    form: SettleForm,
    evidence_chars_max: usize,
}

/// The arguments of an effect, or why they are not shown.
enum EffectArguments {
    Shown(RenderedArguments),
    NotShown(String),
}

/// What a person searches for, and how.
struct LookFor {
    upstream: String,
    tool: String,
    key: String,
    since: Option<Moment>,
    /// Commands that ask the server.
    commands: Vec<String>,
}

/// Whether the person settles the effect.
enum SettleForm {
    Open {
        action: String,
        token: String,
        epoch: u64,
    },
    Closed(&'static str),
    /// There is nothing to settle.
    None,
}

/// Shows an effect.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest, id: &str) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    shown(context, &viewer, id, StatusCode::OK, None).await
}

/// The page of an effect as it is now.
pub(super) async fn shown(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    id: &str,
    status: StatusCode,
    notice: Option<PageNotice>,
) -> Result<ConsoleReply, PageFault> {
    let person = &viewer.signed_in.person;
    let id = read_id::<EffectId>(id).ok_or(PageFault::NotFound)?;
    let report = context.engine.oversight().effect(person, id).await?;
    let report = report.ok_or(PageFault::NotFound)?;
    let (effect, now) = (&report.effect, context.now());
    let tool = legibility::one_line(&effect.order.exposed_tool);
    let by_hand = effect.settlement.as_ref().map(|settled| {
        let (by, evidence) = (legibility::one_line(&settled.by), legibility::one_line(&settled.evidence));
        format!("{by} settled it, {}: {evidence}", Moment::new(settled.at_ms, now).absolute)
    });
    let conflict = effect.conflict.as_ref().map(|conflict| {
        let (at, says) = (Moment::new(conflict.at_ms, now).absolute, legibility::one_line(&conflict.says));
        format!("The ledger said “{}” when, {at}, {says}.", conflict.state.name())
    });
    let page = EffectDocument {
        frame: PageFrame::of(format!("Effect of {tool}"), &viewer.signed_in),
        notice,
        state: EffectWords::new(effect),
        begun: Moment::new(effect.created_ms, now),
        facts: facts(&report, now),
        ids: identifiers(effect),
        arguments: arguments(&report, viewer),
        look_for: (effect.state == EffectState::OutcomeUnknown).then(|| look_for(&report, now)),
        settlement: by_hand,
        conflict,
        form: form(effect, viewer),
        tool,
        evidence_chars_max: STATEMENT_CHARS_MAX,
    };
    Ok(ConsoleReply::page(status, &page))
}

fn form(effect: &Effect, viewer: &ConsoleViewer) -> SettleForm {
    if effect.state != EffectState::OutcomeUnknown {
        return SettleForm::None;
    }
    if !viewer.may_operate() {
        return SettleForm::Closed("People with the role “operator” settle it. Tell one of them what you know.");
    }
    let action = effect_path(effect.id.as_str());
    SettleForm::Open { token: form_token::make(&viewer.signed_in.token, &action), action, epoch: effect.epoch }
}

fn arguments(report: &EffectOverview, viewer: &ConsoleViewer) -> EffectArguments {
    let effect = &report.effect;
    if effect.order.arguments.is_empty() {
        let text =
            "They are not kept: the store drops the arguments of an effect that is settled, and keeps their digest.";
        return EffectArguments::NotShown(text.to_owned());
    }
    let sensitive = match &report.sensitive {
        SensitiveArguments::Known(sensitive) => sensitive.clone(),
        SensitiveArguments::Perhaps(sensitive) => {
            // The pointer of the whole.
            let mut sensitive = sensitive.clone();
            sensitive.entry(String::new()).or_insert_with(|| PERHAPS_SENSITIVE.to_owned());
            sensitive
        }
        SensitiveArguments::Unknown => {
            let contract = legibility::one_line(&effect.key.tool);
            return EffectArguments::NotShown(format!(
                "The contract {contract} is not loaded any more, so it is not known which values are sensitive. The store has them: \
                 “servanda effects show {}” on the gateway's machine.",
                effect.id
            ));
        }
    };
    let reveals = |sensitivity: &str| viewer.sees_value(sensitivity);
    EffectArguments::Shown(render_arguments(&effect.order.arguments, &sensitive, reveals))
}

fn look_for(report: &EffectOverview, now: Timestamp) -> LookFor {
    let order = &report.effect.order;
    let command = |(tool, arguments): &(String, serde_json::Map<String, serde_json::Value>)| {
        let text = serde_json::Value::Object(arguments.clone()).to_string().replace('\'', r"'\''");
        legibility::one_line(&format!("servanda call {tool} '{text}'"))
    };
    LookFor {
        upstream: legibility::one_line(&order.upstream),
        tool: legibility::one_line(&order.upstream_tool),
        key: legibility::one_line(&order.upstream_key),
        since: report.effect.first_dispatched_ms.map(|ms| Moment::new(ms, now)),
        commands: report.inquiries.iter().map(command).collect(),
    }
}

fn facts(report: &EffectOverview, now: Timestamp) -> Vec<(&'static str, String)> {
    let effect = &report.effect;
    let (order, key) = (&effect.order, &effect.key);
    let line = |text: &str| legibility::one_line(text);
    let mut facts = vec![("Caller", format!("{}/{}", line(&key.tenant), line(&key.principal)))];
    if !order.actors.is_empty() {
        let actors = order.actors.iter().map(|actor| {
            format!("{}{}", line(&actor.name), if actor.proven { "" } else { " (the name is only claimed)" })
        });
        facts.push(("Acting agents", actors.collect::<Vec<_>>().join(", ")));
    }
    facts.push(("Sent", attempts_in_words(effect, now)));
    if let Some(reason) = &effect.reason {
        facts.push(("Why", line(reason)));
    }
    facts.push(("Contract", format!("{} {}", line(&key.tool), line(&order.contract_version))));
    facts.push(("Server and tool", format!("{}, {}", line(&order.upstream), line(&order.upstream_tool))));
    facts.push(("Effect class", class_in_words(effect.class).to_owned()));
    facts.push(("Key", key_in_words(&key.client_key)));
    if !order.resources.is_empty() {
        facts.push(("Changes", line(&order.resources.join(", "))));
    }
    if let Some(awaits) = &effect.awaits {
        let what = match awaits {
            EffectWaitReason::Input(_) => "input that the server asked for".to_owned(),
            EffectWaitReason::Task(_) => "work that the server continues by itself".to_owned(),
        };
        facts.push(("Waits for", what));
    }
    if let Some(progress) = &report.progress {
        let at = Moment::new(progress.at_ms, now).relative;
        facts.push(("Progress, as the server said", format!("{} ({at})", line(&progress.in_words()))));
    }
    if let Some(StoredAnswer::Known(known)) = &effect.answer {
        facts.push(("Answer", line(known)));
    }
    let changed = Moment::new(effect.changed_ms, now);
    facts.push(("Last change", format!("{} ({})", changed.absolute, changed.relative)));
    facts
}

fn identifiers(effect: &Effect) -> Vec<(&'static str, String)> {
    vec![
        ("Handle", effect.id.to_string()),
        ("Call", effect.call_id.to_string()),
        ("Epoch", effect.epoch.to_string()),
        ("Digest of the request", effect.request.to_string()),
        ("Digest of the contract", effect.order.contract_digest.to_string()),
    ]
}
