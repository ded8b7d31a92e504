//! The page of one tool.

use askama::Template;
use http::StatusCode;
use servanda_contract::{Timestamp, legibility};
use servanda_doors::http::PageRequest;
use servanda_engine::{
    ToolHold, ToolStanding,
    oversight::{STATEMENT_CHARS_MAX, ToolOverview},
    quarantine::QuarantineHistory,
};

use super::{
    changes::{DefinitionChange, WordingPart, changes},
    hold_history::{self, HoldLine},
    standing_words::StandingWords,
};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form_token,
    pages::words::RiskWords,
    reply::ConsoleReply,
    routing::tool_path,
    view::{Moment, PageFrame, PageNotice, duration_in_words},
};

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolDocument {
    frame: PageFrame,
    notice: Option<PageNotice>,
    name: String,
    contract: String,
    description: String,
    risk: RiskWords,
    standing: StandingWords,
    changes: Vec<DefinitionChange>,
    /// What else is to be said about it: objections, gaps.
    findings: Vec<String>,
    pin: Vec<(&'static str, String)>,
    facts: Vec<(&'static str, String)>,
    history: Vec<HoldLine>,
    form: HoldForm,
    reason_chars_max: usize,
}

/// What a person may do about the quarantine.
enum HoldForm {
    /// Hold it back, or release it.
    Open(OpenHoldForm),
    /// Nothing, for this reason.
    Closed(&'static str),
}

/// The form that changes the quarantine.
struct OpenHoldForm {
    action: String,
    token: String,
    /// The state of the quarantine that the page shows.
    seen: String,
    is_held: bool,
}

/// Shows a tool.
pub(crate) async fn page(
    context: &ConsoleContext,
    request: &PageRequest,
    name: &str,
) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    shown(context, &viewer, name, StatusCode::OK, None).await
}

/// The page of a tool as it is now.
pub(super) async fn shown(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    name: &str,
    status: StatusCode,
    notice: Option<PageNotice>,
) -> Result<ConsoleReply, PageFault> {
    if !viewer.has_role() {
        return Err(PageFault::NoRole);
    }
    let found = context.engine.oversight().tool(&viewer.signed_in.person, name).await?;
    let (report, history) = found.ok_or(PageFault::NotFound)?;
    let (contract, now) = (report.contract.contract(), context.now());
    let line = |text: &str| legibility::one_line(text);
    let page = ToolDocument {
        frame: PageFrame::of(line(&report.name), &viewer.signed_in),
        notice,
        name: line(&report.name),
        contract: format!("{} {}", line(&contract.identity.name), line(&contract.identity.version)),
        description: legibility::reveal(&contract.affordance.model_description).into_owned(),
        risk: RiskWords::new(contract.transactional.side_effect_class),
        standing: StandingWords::new(&report),
        changes: changes(&report.standing),
        findings: findings(&report.standing),
        pin: pin(&report, now),
        facts: facts(&report),
        history: hold_history::lines(&history, now),
        form: form(&report, &history, viewer),
        reason_chars_max: STATEMENT_CHARS_MAX,
    };
    Ok(ConsoleReply::page(status, &page))
}

fn form(report: &ToolOverview, history: &QuarantineHistory, viewer: &ConsoleViewer) -> HoldForm {
    if !viewer.may_operate() {
        return HoldForm::Closed("People with the role “operator” hold tools back and release them.");
    }
    if report.is_shared {
        return HoldForm::Closed(
            "Other tenants use the server of this tool. “servanda quarantine” on the gateway's machine changes it for all of them.",
        );
    }
    let action = tool_path(&report.name);
    HoldForm::Open(OpenHoldForm {
        token: form_token::make(&viewer.signed_in.token, &action),
        action,
        seen: history.mark(),
        is_held: history.hold().is_some(),
    })
}

fn findings(standing: &ToolStanding) -> Vec<String> {
    let line = |text: String| legibility::one_line(&text);
    match standing {
        ToolStanding::Offered { gaps, objections, .. } => {
            let gaps = gaps.iter().map(|gap| line(gap.to_string()));
            gaps.chain(objections.iter().map(|objection| line(objection.to_string()))).collect()
        }
        ToolStanding::Held(ToolHold::Incompatible { reasons }) => {
            reasons.iter().map(|gap| line(gap.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

fn pin(report: &ToolOverview, now: Timestamp) -> Vec<(&'static str, String)> {
    let Some(pin) = &report.pin else { return Vec::new() };
    let at = Timestamp::parse(&pin.at).map_or_else(
        || legibility::one_line(&pin.at),
        |at| {
            let at = Moment::new(at.unix_ms(), now);
            format!("{} ({})", at.absolute, at.relative)
        },
    );
    vec![("Agreed to", at), ("Digest of the definition", pin.digest.to_string())]
}

fn facts(report: &ToolOverview) -> Vec<(&'static str, String)> {
    let contract = report.contract.contract();
    let line = |text: &str| legibility::one_line(text);
    let mut facts = vec![
        ("Server and tool", format!("{}, {}", line(&contract.binding.upstream), line(&contract.binding.tool))),
        ("Side-effect class", contract.transactional.side_effect_class.word().to_owned()),
        ("Effect class", format!("{:?}", contract.effect_class())),
        ("Time limit", duration_in_words(contract.timeout_ms())),
        (
            "Approval",
            if report.contract.usually_needs_approval() {
                "each call usually needs one".to_owned()
            } else {
                "usually none; a policy may ask for one".to_owned()
            },
        ),
    ];
    if let Some(behaviour) = &contract.behaviour {
        facts.push(("Behaviour", behaviour.extended_words().replace('|', " · ")));
        facts.push(("Behavioural identity", behaviour.identity()));
    }
    let scopes = contract.security.required_scopes.join(" ");
    facts.push(("Scopes", if scopes.is_empty() { "none".to_owned() } else { line(&scopes) }));
    let rates = &contract.runtime.rate_limits;
    facts.push(("Rate", format!("{} calls in {} s", rates.max_requests, rates.window_sec)));
    if let Some(undo) = &contract.transactional.compensation_tool {
        facts.push(("Undone by", line(undo)));
    }
    facts.push(("Owner", line(&contract.identity.owner)));
    facts.push(("Digest of the contract", report.contract.digest().to_string()));
    facts
}
