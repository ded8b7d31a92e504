//! Settles many effects with an unknown outcome at once: lists them, asks, and settles each in its own transaction. An effect that changed
//! meanwhile is left alone. The command can be interrupted and run again at any time.

use servanda_contract::{Timestamp, tool::EffectClass};
use servanda_effects::effect::{
    Effect, EffectFilter, EffectId, EffectQuery, EffectReply, EffectState, EffectStore, EffectTarget,
};

use super::{SettlementSubscribers, apply_settlement, store_unavailable};
use crate::{
    cli::SettleAs,
    commands::operator,
    failure::CommandFailure,
    screen::{Screen, count, lines, table},
};

/// How many effects one run settles at most, and how many it reads at once.
const MATCHED_MAX: usize = 10_000;
const PAGE_MAX: u32 = 500;
/// How many effects the preview lists; `--json` lists them all.
const LISTED_MAX: usize = 20;

/// The outcome that a person states, and their evidence.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperatorSettlement<'a> {
    pub(super) settle_as: SettleAs,
    pub(super) evidence: &'a str,
}

/// Whether the person agreed beforehand (`--yes`), or only wants to see the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct BulkConsent {
    pub(super) yes: bool,
    pub(super) dry_run: bool,
}

/// An effect that matches, with what is shown of it.
#[derive(Debug, serde::Serialize)]
pub(super) struct MatchedEffect {
    id: EffectId,
    class: EffectClass,
    tool: String,
    upstream: String,
    tenant: String,
    principal: String,
    begun_ms: u64,
    /// What the run did with it.
    became: BulkSettleResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum BulkSettleResult {
    /// Nothing: it is only listed.
    Shown,
    Settled,
    /// Its outcome is known by now: its answer came, or another person settled it.
    ChangedMeanwhile,
}

/// The whole run, for `--json`.
#[derive(Debug, serde::Serialize)]
pub(super) struct BulkSettleReport<'a> {
    settle_as: &'static str,
    evidence: &'a str,
    by: String,
    matched: usize,
    /// Whether more effects match than one run settles.
    more: bool,
    settled: usize,
    changed_meanwhile: usize,
    effects: Vec<MatchedEffect>,
}

pub(super) async fn run(
    effects: &dyn EffectStore,
    filter: EffectFilter,
    verdict: OperatorSettlement<'_>,
    consent: BulkConsent,
    telling: &SettlementSubscribers,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let (meant, more) = matching(effects, filter).await?;
    let mut report = BulkSettleReport::new(meant, more, verdict);
    if !screen.json {
        screen.data(preview(&report))?;
    }
    if consent.dry_run || report.effects.is_empty() {
        return if screen.json { screen.json(&report) } else { Ok(()) };
    }
    agree(consent, &report, screen).await?;
    settle_each(effects, &mut report, verdict, telling).await?;
    if screen.json {
        return screen.json(&report);
    }
    screen.page(ending(&report))?;
    if more {
        screen.hint("there are more: run the same command again");
    }
    Ok(())
}

/// The matching effects, newest first, and whether there are more than one run settles.
pub(super) async fn matching(
    effects: &dyn EffectStore,
    filter: EffectFilter,
) -> Result<(Vec<MatchedEffect>, bool), CommandFailure> {
    let mut meant: Vec<MatchedEffect> = Vec::new();
    loop {
        let query = EffectQuery {
            states: vec![EffectState::OutcomeUnknown],
            filter: filter.clone(),
            after: meant.last().map(|last| last.id.clone()),
            limit: PAGE_MAX,
        };
        let page = effects.list(query).await.map_err(store_unavailable)?;
        let is_last = page.len() < PAGE_MAX as usize;
        meant.extend(page.into_iter().map(MatchedEffect::from_effect));
        if meant.len() > MATCHED_MAX {
            meant.truncate(MATCHED_MAX);
            return Ok((meant, true));
        }
        if is_last {
            return Ok((meant, false));
        }
    }
}

/// Settles each effect in its own transaction. If the store fails, the effects settled so far stay settled.
pub(super) async fn settle_each(
    effects: &dyn EffectStore,
    report: &mut BulkSettleReport<'_>,
    verdict: OperatorSettlement<'_>,
    telling: &SettlementSubscribers,
) -> Result<(), CommandFailure> {
    let all = report.effects.len();
    for meant in &mut report.effects {
        let became = settle(effects, &meant.id, verdict, &report.by, telling).await.map_err(|error| {
            let settled = report.settled;
            let why = error.reason();
            CommandFailure::failed(format!(
                "{settled} of {all} were settled, then the store of effects did not answer: {why}"
            ))
            .hint("what was settled stays so: run the same command again for the rest")
        })?;
        match became {
            BulkSettleResult::Settled => report.settled += 1,
            BulkSettleResult::ChangedMeanwhile | BulkSettleResult::Shown => report.changed_meanwhile += 1,
        }
        meant.became = became;
    }
    Ok(())
}

async fn settle(
    effects: &dyn EffectStore,
    id: &EffectId,
    verdict: OperatorSettlement<'_>,
    by: &str,
    telling: &SettlementSubscribers,
) -> Result<BulkSettleResult, servanda_effects::JournalError> {
    // Read again, because the subscribers to notify depend on the effect's current state.
    let found = effects.find(EffectTarget::Id(id.clone())).await?;
    let Some(effect) = found.filter(|effect| effect.state == EffectState::OutcomeUnknown) else {
        return Ok(BulkSettleResult::ChangedMeanwhile);
    };
    let applied = apply_settlement(effects, &effect, verdict, by.to_owned(), telling).await?;
    Ok(if applied.reply == EffectReply::Settled {
        BulkSettleResult::Settled
    } else {
        BulkSettleResult::ChangedMeanwhile
    })
}

async fn agree(consent: BulkConsent, report: &BulkSettleReport<'_>, screen: Screen) -> Result<(), CommandFailure> {
    let question = crate::screen::consent::ConsentQuestion {
        asked: format!("settle {} as {}?", count(report.effects.len(), "effect"), report.settle_as),
        nothing: "nothing was settled",
        hint: "look at what would be settled (--dry-run shows it), then run it again with --yes",
    };
    crate::screen::consent::agree(question, consent.yes, screen).await
}

pub(super) fn preview(report: &BulkSettleReport<'_>) -> String {
    if report.effects.is_empty() {
        return "no effect with an unknown outcome matches".to_owned();
    }
    let mut shown = table(&["handle", "class", "tool", "upstream", "of", "begun"]);
    for meant in report.effects.iter().take(LISTED_MAX) {
        shown.add_row([
            meant.id.to_string(),
            format!("{:?}", meant.class),
            meant.tool.clone(),
            meant.upstream.clone(),
            format!("{}/{}", meant.tenant, meant.principal),
            Timestamp::from_unix_ms(meant.begun_ms).to_string(),
        ]);
    }
    let listed = lines(&shown);
    let unlisted = match report.effects.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        unlisted => format!("\nand {unlisted} more; --dry-run --json lists them all"),
    };
    let more = if report.more { ", which is as many as one run settles" } else { "" };
    let what = count(report.effects.len(), "effect");
    format!("{listed}{unlisted}\n\n{what} to be settled as {}{more}; evidence: {}", report.settle_as, report.evidence)
}

pub(super) fn ending(report: &BulkSettleReport<'_>) -> String {
    let settled = count(report.settled, "effect");
    let verb = if report.settled == 1 { "was" } else { "were" };
    let left = match report.changed_meanwhile {
        0 => String::new(),
        changed => {
            format!("; {changed} had changed meanwhile and {} left alone", if changed == 1 { "was" } else { "were" })
        }
    };
    format!("{settled} {verb} settled as {}{left}", report.settle_as)
}

impl MatchedEffect {
    fn from_effect(effect: Effect) -> Self {
        Self {
            id: effect.id,
            class: effect.class,
            tool: effect.order.exposed_tool,
            upstream: effect.order.upstream,
            tenant: effect.key.tenant,
            principal: effect.key.principal,
            begun_ms: effect.created_ms,
            became: BulkSettleResult::Shown,
        }
    }
}

impl<'a> BulkSettleReport<'a> {
    pub(super) fn new(effects: Vec<MatchedEffect>, more: bool, verdict: OperatorSettlement<'a>) -> Self {
        let settle_as = match verdict.settle_as {
            SettleAs::Completed => "completed",
            SettleAs::NotExecuted => "not-executed",
        };
        let (matched, by) = (effects.len(), operator::user_name());
        Self { settle_as, evidence: verdict.evidence, by, matched, more, settled: 0, changed_meanwhile: 0, effects }
    }
}
