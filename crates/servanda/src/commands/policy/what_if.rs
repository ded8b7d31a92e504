//! `servanda policy what-if`: compares what other policies would have decided about recorded calls with the recorded decisions. Records
//! keep no arguments; calls whose decision depends on arguments that no effect keeps are counted separately.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use servanda_approval::ApprovalSettings;
use servanda_contract::{CallRecord, GateName, Timestamp, record, time::Clock as _};
use servanda_engine::{RecordedPolicyRequest, SystemClock};
use servanda_policy::{ApprovalQuestion, Outlook, Policies, PolicyCall, PolicyDecision, ShadowPolicies};

use super::{PolicyCommandContext, recorded_calls::RecordedCalls};
use crate::{
    failure::CommandFailure,
    screen::{Screen, TextStyle, count, lines, paint, table},
};

/// How many changes are shown; the JSON has all of them.
const SHOWN_MAX: usize = 50;

/// The calls to look at.
pub(super) struct WhatIfWindow {
    pub(super) since_ms: Option<u64>,
    pub(super) limit: u32,
}

/// The result.
#[derive(Debug, Default, Serialize)]
struct WhatIfReport {
    /// Calls that were compared.
    calls: usize,
    /// Of those, calls that never reached the policies.
    not_asked: usize,
    /// Calls whose tool no longer has a contract.
    without_contract: usize,
    /// Calls with the same decision.
    same: usize,
    /// Calls whose records lack the caller's groups, which some policy uses.
    groups_unknown: usize,
    /// Calls whose decision depends on arguments that are not kept.
    depends: usize,
    /// The policies that depend on arguments, and how often.
    depends_on: BTreeMap<String, usize>,
    changes: Vec<ChangedDecision>,
}

/// A decision about a call, in the words of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ComparedDecision {
    Allowed,
    /// Allowed if people approve it.
    Approval,
    Refused,
}

/// A call that the other policies would decide differently.
#[derive(Debug, Serialize)]
struct ChangedDecision {
    call_id: String,
    received_at: Timestamp,
    tool: String,
    caller: String,
    was: ComparedDecision,
    would_be: ComparedDecision,
    by: Vec<String>,
    places: Vec<String>,
}

pub(super) async fn run(
    context: &PolicyCommandContext<'_>,
    policies: Option<&Path>,
    window: WhatIfWindow,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let authorities = context.authorities()?;
    let given = policies.map(|path| context.policies_at(path)).transpose()?;
    let Some(then) = given.as_ref().or_else(|| authorities.shadow().map(ShadowPolicies::policies)) else {
        return Err(CommandFailure::bad_input("there are no other policies to compare with")
            .hint("name them: servanda policy what-if --policies PATH, or `policy.shadow` in the configuration"));
    };
    let calls = RecordedCalls::open(context).await?;
    let report = compare(context, &calls, (then, authorities.approvals()), &window).await;
    calls.close().await;
    let report = report?;
    if screen.json {
        return screen.json(&report);
    }
    screen.page(page(&report))?;
    if !report.changes.is_empty() {
        screen.hint("servanda policy explain CALL_ID says what decides a call now");
    }
    Ok(())
}

async fn compare(
    context: &PolicyCommandContext<'_>,
    calls: &RecordedCalls,
    (policies, approvals): (&Policies, &ApprovalSettings),
    window: &WhatIfWindow,
) -> Result<WhatIfReport, CommandFailure> {
    let begin_ms = window.since_ms.map_or(0, |since_ms| SystemClock.now().unix_ms().saturating_sub(since_ms));
    let records = calls.latest(window.limit).await?;
    let mut report = WhatIfReport::default();
    for record in records.iter().filter(|record| record.received_at.unix_ms() >= begin_ms) {
        report.calls += 1;
        let recalled = RecordedPolicyRequest::from_record(record, policies.vocabulary(), context.environment());
        let (Ok(Some(recalled)), Some(was)) = (recalled, was(record)) else {
            report.not_asked += 1;
            continue;
        };
        if !policies.vocabulary().tool_names().any(|name| name == recalled.tool) {
            report.without_contract += 1;
            continue;
        }
        let RecordedPolicyRequest { principal, tool, circumstances, groups_known } = &recalled;
        if !groups_known && !policies.look_at_groups(tool).is_empty() {
            report.groups_unknown += 1;
            continue;
        }
        let outlook = match policies.outlook(principal, tool, circumstances) {
            // The arguments are read only if they make a difference.
            Outlook::Depends { on } => match calls.arguments(record).await? {
                Some(arguments) => {
                    let call = PolicyCall { principal, tool, arguments: &arguments, circumstances };
                    Outlook::Certain(policies.decide(&call))
                }
                None => Outlook::Depends { on },
            },
            certain @ Outlook::Certain(_) => certain,
        };
        let program_class = circumstances.program_class;
        let question = ApprovalQuestion { principal, tool, program_class, payload: None };
        report.add(record, was, outlook, |decision| policies.approval_needed(decision, &question, approvals).is_some());
    }
    Ok(report)
}

/// The recorded decision; none for a call that did not reach the policies.
fn was(record: &CallRecord) -> Option<ComparedDecision> {
    let verdict = record.verdicts.iter().rfind(|verdict| verdict.gate == GateName::Policy)?;
    Some(match (verdict.decision == record::Decision::Passed, &record.ticket_id) {
        (true, None) => ComparedDecision::Allowed,
        (true, Some(_)) => ComparedDecision::Approval,
        (false, _) => ComparedDecision::Refused,
    })
}

/// Whether the record says if the call needed an approval. A call that ended between the policies and that gate does not.
fn reached_confirmation(record: &CallRecord) -> bool {
    record.verdicts.iter().any(|verdict| verdict.gate == GateName::Confirmation)
}

impl ComparedDecision {
    const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Approval => "held for approval",
            Self::Refused => "refused",
        }
    }
}

impl WhatIfReport {
    fn add(
        &mut self,
        record: &CallRecord,
        was: ComparedDecision,
        outlook: Outlook,
        needs_approval: impl Fn(&PolicyDecision) -> bool,
    ) {
        match outlook {
            Outlook::Certain(decision) => {
                let would_be = match decision.is_allowed() {
                    true if needs_approval(&decision) => ComparedDecision::Approval,
                    true => ComparedDecision::Allowed,
                    false => ComparedDecision::Refused,
                };
                let both_are_permitted = was != ComparedDecision::Refused && would_be != ComparedDecision::Refused;
                if was == would_be || both_are_permitted && !reached_confirmation(record) {
                    self.same += 1;
                } else {
                    self.changes.push(ChangedDecision::new(record, was, would_be, &decision));
                }
            }
            Outlook::Depends { on } => {
                self.depends += 1;
                for id in on {
                    *self.depends_on.entry(id).or_default() += 1;
                }
            }
        }
    }

    fn counted(&self, was: ComparedDecision, would_be: ComparedDecision) -> usize {
        self.changes.iter().filter(|change| change.was == was && change.would_be == would_be).count()
    }
}

impl ChangedDecision {
    fn new(record: &CallRecord, was: ComparedDecision, would_be: ComparedDecision, then: &PolicyDecision) -> Self {
        Self {
            call_id: record.call_id.to_string(),
            received_at: record.received_at,
            tool: record.tool.clone(),
            caller: format!("{}/{}", record.caller.tenant, record.caller.principal),
            was,
            would_be,
            by: then.by().iter().map(|by| by.policy.clone()).collect(),
            places: then.by().iter().map(|by| by.place.clone()).collect(),
        }
    }
}

fn page(report: &WhatIfReport) -> String {
    let mut page = vec![format!("{} looked at", count(report.calls, "call"))];
    let mut line = |number: usize, what: &str| page.push(format!("  {number:>7}  {what}"));
    let (allowed, approval, refused) =
        (ComparedDecision::Allowed, ComparedDecision::Approval, ComparedDecision::Refused);
    for (was, would_be) in [(allowed, refused), (refused, allowed)] {
        line(report.counted(was, would_be), &format!("{}, and would be {}", was.word(), would_be.word()));
    }
    for (was, would_be) in [(allowed, approval), (refused, approval), (approval, allowed), (approval, refused)] {
        let number = report.counted(was, would_be);
        if number > 0 {
            line(number, &format!("{}, and would be {}", was.word(), would_be.word()));
        }
    }
    line(report.same, "the same");
    if report.depends > 0 {
        line(report.depends, "not known: it depends on arguments, which records do not keep");
    }
    if report.groups_unknown > 0 {
        line(report.groups_unknown, "not known: it depends on groups, which these records do not have");
    }
    if report.not_asked > 0 {
        line(report.not_asked, "never reached the policies");
    }
    if report.without_contract > 0 {
        line(report.without_contract, "of tools that have no contract any more");
    }
    for (id, calls) in &report.depends_on {
        page.push(format!("           `{id}` looks at arguments ({})", count(*calls, "call")));
    }
    if !report.changes.is_empty() {
        page.push(String::new());
        page.push(changes(&report.changes));
    }
    page.join("\n")
}

fn changes(changes: &[ChangedDecision]) -> String {
    let mut rows = table(&["call", "when", "tool", "caller", "was", "would be", "by"]);
    for change in changes.iter().take(SHOWN_MAX) {
        let style = match change.would_be {
            ComparedDecision::Allowed => TextStyle::Good,
            ComparedDecision::Approval => TextStyle::Strong,
            ComparedDecision::Refused => TextStyle::Bad,
        };
        let by = change.by.iter().zip(&change.places).map(|(id, place)| format!("`{id}` ({place})"));
        let by: Vec<String> = by.collect();
        let by = if by.is_empty() { "no policy permits it".to_owned() } else { by.join(", ") };
        rows.add_row([
            change.call_id.clone(),
            change.received_at.to_string(),
            crate::screen::one_line(&change.tool),
            crate::screen::one_line(&change.caller),
            change.was.word().to_owned(),
            paint(change.would_be.word(), style),
            by,
        ]);
    }
    let more = changes.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!("\nand {more} more; --json has all") } else { String::new() };
    format!("{}{more}", lines(&rows))
}
