//! `servanda effects`: lists the effects of calls, and lets a person settle those with an unknown outcome. Works while a gateway is
//! running, because both use the same store.

mod bulk;
mod look_up;
pub(super) mod page;
#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use servanda_catalog::Catalog;
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_effects::{
    JournalError,
    effect::{
        AppliedChange, Effect, EffectId, EffectQuery, EffectReply, EffectState, EffectStore, EffectTarget,
        ManualSettlement,
    },
};
use servanda_engine::{
    SystemClock, WorkProgress,
    callbacks::{CallbackNotices, CallbackSubscription},
    oversight::settle_by_hand,
};

use crate::{
    cli::{EffectConditions, EffectsArgs, EffectsCommand, SettleAs},
    commands::operator,
    configuration, contracts,
    failure::CommandFailure,
    screen::Screen,
    wiring::{self, remembered_names},
};

use self::{
    bulk::{BulkConsent, OperatorSettlement},
    look_up::EffectLookup,
};

/// How many effects are searched for the beginning of a handle.
const SEARCHED_MAX: u32 = 1_000;

/// An effect, and the progress of its long work.
#[derive(serde::Serialize)]
struct EffectReport {
    #[serde(flatten)]
    effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<WorkProgress>,
    look_up: EffectLookup,
}

/// What the user wants, in either form of the command.
enum EffectsAction<'a> {
    List { states: &'a [EffectState], conditions: &'a EffectConditions, limit: u32 },
    Show(&'a str),
    Settle { handle: &'a str, settle_as: SettleAs, evidence: &'a str },
    SettleMany { conditions: &'a EffectConditions, verdict: OperatorSettlement<'a>, consent: BulkConsent },
}

pub(crate) async fn run(config: &Path, args: &EffectsArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let wanted = requested_action(args)?;
    let effects = configuration::ledger_place(&loaded)?.open().await?;
    match wanted {
        EffectsAction::List { states, conditions, limit } => {
            let filter = conditions.filter(SystemClock.now())?;
            let query = EffectQuery { states: states.to_vec(), filter, after: None, limit };
            list(effects.as_ref(), query, screen).await
        }
        EffectsAction::Show(handle) => {
            let effect = find(effects.as_ref(), handle).await?;
            let progress = WorkProgress::load(effects.as_ref(), &effect.id, SystemClock.now()).await;
            let look_up = EffectLookup::for_effect(&effect, &loaded);
            if screen.json {
                screen.json(&EffectReport { effect, progress, look_up })
            } else {
                screen.page(page::page(&effect, progress.as_ref(), Some(&look_up)))
            }
        }
        EffectsAction::Settle { handle, settle_as, evidence } => {
            let telling = SettlementSubscribers::load(&loaded).await?;
            let settled =
                settle(effects.as_ref(), handle, settle_as, evidence, operator::user_name(), &telling).await?;
            if screen.json {
                return screen.json(&settled);
            }
            screen.page(page::page(&settled, None, None))?;
            screen.hint(after(&settled));
            Ok(())
        }
        EffectsAction::SettleMany { conditions, verdict, consent } => {
            let filter = conditions.filter(SystemClock.now())?;
            let telling = SettlementSubscribers::load(&loaded).await?;
            bulk::run(effects.as_ref(), filter, verdict, consent, &telling, screen).await
        }
    }
}

/// The callbacks to notify about a settlement; a running gateway delivers the notifications.
struct SettlementSubscribers {
    subscriptions: Vec<CallbackSubscription>,
    catalog: Catalog,
}

impl SettlementSubscribers {
    async fn load(loaded: &LoadedConfig) -> Result<Self, CommandFailure> {
        let subscriptions = loaded.subscriptions()?;
        let known = contracts::load(loaded).and_then(|contracts| wiring::catalog(loaded, contracts));
        // Settling must work without a contract: then the call's deadline tells whether it was long work.
        let catalog = known.or_else(|_| wiring::catalog(loaded, Vec::new()))?;
        let catalog = remembered_names::with_remembered_names(loaded, catalog).await?;
        Ok(Self { subscriptions, catalog })
    }

    fn callbacks(&self) -> CallbackNotices<'_> {
        let subscriptions = self.subscriptions.iter().collect();
        CallbackNotices { subscriptions, catalog: &self.catalog, owner: None, now: SystemClock.now() }
    }
}

fn requested_action(args: &EffectsArgs) -> Result<EffectsAction<'_>, CommandFailure> {
    Ok(match (&args.command, &args.handle, args.settle) {
        (Some(EffectsCommand::Show { handle }), ..) | (None, Some(handle), None) => EffectsAction::Show(handle),
        (Some(EffectsCommand::Settle { handle: Some(handle), settle_as, evidence, .. }), ..) => {
            EffectsAction::Settle { handle, settle_as: *settle_as, evidence }
        }
        (Some(EffectsCommand::Settle { handle: None, conditions, settle_as, evidence, yes, dry_run, .. }), ..) => {
            let evidence = operator::checked_text("--evidence", evidence, NEEDS_EVIDENCE)?;
            let consent = BulkConsent { yes: *yes, dry_run: *dry_run };
            EffectsAction::SettleMany {
                conditions,
                verdict: OperatorSettlement { settle_as: *settle_as, evidence },
                consent,
            }
        }
        (None, Some(handle), Some(settle_as)) => {
            let evidence = args.evidence.as_deref();
            let evidence =
                evidence.ok_or_else(|| CommandFailure::bad_input("--evidence is missing").hint(NEEDS_EVIDENCE))?;
            EffectsAction::Settle { handle, settle_as, evidence }
        }
        (None, None, _) => EffectsAction::List { states: &args.state, conditions: &args.conditions, limit: args.limit },
    })
}

const NEEDS_EVIDENCE: &str = "say how you know it: --evidence \"bank statement of 15 November\"";

async fn list(effects: &dyn EffectStore, query: EffectQuery, screen: Screen) -> Result<(), CommandFailure> {
    let found = effects.list(query).await.map_err(store_unavailable)?;
    if screen.json {
        return screen.json(&found);
    }
    if found.is_empty() {
        screen.say("there is no such effect");
        return Ok(());
    }
    screen.data(page::list(&found, SystemClock.now()))?;
    let unknown = found.iter().find(|effect| effect.state == EffectState::OutcomeUnknown);
    match unknown {
        Some(effect) => screen.hint(format_args!(
            "some outcomes are unknown: servanda effects show {}; many at once: servanda effects settle --filter …",
            effect.id
        )),
        None => screen.hint("servanda effects show HANDLE"),
    }
    Ok(())
}

/// Finds an effect by its handle, or by the beginning of it.
async fn find(effects: &dyn EffectStore, handle: &str) -> Result<Effect, CommandFailure> {
    let handle = handle.trim();
    let exact = effects.find(EffectTarget::Id(EffectId::from(handle.to_owned()))).await.map_err(store_unavailable)?;
    if let Some(effect) = exact {
        return Ok(effect);
    }
    let all =
        effects.list(EffectQuery { limit: SEARCHED_MAX, ..EffectQuery::default() }).await.map_err(store_unavailable)?;
    let mut alike = all.into_iter().filter(|effect| !handle.is_empty() && effect.id.as_str().starts_with(handle));
    match (alike.next(), alike.next()) {
        (Some(effect), None) => Ok(effect),
        (Some(_), Some(_)) => Err(CommandFailure::bad_input(format!("more than one effect begins with `{handle}`"))
            .hint("give more of the handle; `servanda effects` lists the latest")),
        (None, _) => Err(CommandFailure::bad_input(format!("there is no effect `{handle}`"))
            .hint("`servanda effects` lists the latest")),
    }
}

async fn settle(
    effects: &dyn EffectStore,
    handle: &str,
    settle_as: SettleAs,
    evidence: &str,
    by: String,
    telling: &SettlementSubscribers,
) -> Result<Effect, CommandFailure> {
    let evidence = operator::checked_text("--evidence", evidence, NEEDS_EVIDENCE)?;
    let effect = find(effects, handle).await?;
    let applied = apply_settlement(effects, &effect, OperatorSettlement { settle_as, evidence }, by, telling)
        .await
        .map_err(store_unavailable)?;
    match (applied.reply, applied.effect) {
        (EffectReply::Settled, Some(settled)) => Ok(Arc::unwrap_or_clone(settled)),
        (_, found) => Err(not_unknown(found.as_deref().unwrap_or(&effect))),
    }
}

/// Stores a person's settlement and the notifications for subscribers, in one transaction.
async fn apply_settlement(
    effects: &dyn EffectStore,
    effect: &Effect,
    verdict: OperatorSettlement<'_>,
    by: String,
    telling: &SettlementSubscribers,
) -> Result<AppliedChange, JournalError> {
    let completed = verdict.settle_as == SettleAs::Completed;
    let evidence = verdict.evidence.to_owned();
    let settlement = ManualSettlement { epoch: Some(effect.epoch), completed, by, evidence };
    settle_by_hand(effects, effect, settlement, &telling.callbacks()).await
}

/// The error for an effect whose outcome is known: a person can settle only unknown outcomes.
fn not_unknown(effect: &Effect) -> CommandFailure {
    let hint = match effect.state {
        EffectState::Claimed | EffectState::Dispatching => {
            "it is under way: look again with `servanda effects show` when it has ended; what a gateway left behind is settled by the \
             next one, so start `servanda serve` if none runs"
        }
        EffectState::Completed | EffectState::Compensated => "it is done: there is nothing to settle",
        EffectState::FailedFinal => "it failed for good: there is nothing to settle; a new attempt needs a new key",
        EffectState::FailedRetryable => "it never ran: make the call again with the same key",
        EffectState::Expired => "its time is over: only that the key was used is still known",
        EffectState::OutcomeUnknown => "it was changed at the same moment: try again",
    };
    CommandFailure::refused(format!(
        "{} is {}, and only what is outcome_unknown can be settled",
        effect.id,
        effect.state.name()
    ))
    .hint(hint)
}

fn after(settled: &Effect) -> String {
    match settled.state {
        EffectState::FailedRetryable => "the same call with the same key may be made again".to_owned(),
        _ => format!("a caller that repeats the call is told so; servanda explain {}", settled.call_id),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
fn store_unavailable(error: JournalError) -> CommandFailure {
    let why = error.reason();
    CommandFailure::failed(format!("the store of effects does not answer: {why}"))
        .hint("`servanda doctor` looks at the ledger")
}
