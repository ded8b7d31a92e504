//! `servanda ledger`: shows which ledger it is and how many records it has, verifies it, backs it up, restores a backup, and accepts a
//! ledger that differs from the known one. Showing and backing up work while a gateway is running.

mod page;

use std::path::Path;

use serde_json::json;
use servanda_config::ledger_place::LedgerPlace;
use servanda_ledger::{Adoption, AdoptionRequest, LedgerRestoration, LossSettlement, Retention};

use crate::{
    cli::{LedgerArgs, LedgerCommand},
    commands::operator,
    configuration,
    failure::CommandFailure,
    screen::Screen,
};

/// How long keys that an accepted ledger does not know count as possibly used, unless a person settles that: the minimum, and the time if
/// used keys are remembered for ever.
const LOST_IN_FORCE_MS: (u64, u64) = (30 * DAY_MS, 36_500 * DAY_MS);
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

const NEEDS_EVIDENCE: &str = "say what happened and what you know: --evidence \"the disk failed at 12:04, restored last night's backup; \
                              no payment was made since 11:50 by the bank's own list\"";

pub(crate) async fn run(config: &Path, args: &LedgerArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let place = configuration::ledger_place(&loaded)?;
    let terms = |evidence: &str| terms(evidence, loaded.config.retention.retention());
    match &args.command {
        None | Some(LedgerCommand::Status) => status(&place, screen).await,
        Some(LedgerCommand::Verify) => verify(&place, screen).await,
        Some(LedgerCommand::Backup { file }) => {
            place.upkeep().backup(file)?;
            if screen.json {
                let bytes = std::fs::metadata(file).map(|copy| copy.len()).ok();
                return screen.json(&json!({ "file": file, "bytes": bytes }));
            }
            screen.page(format_args!("{} is a copy of the ledger", file.display()))?;
            screen.hint(format_args!("`servanda ledger restore {} --evidence TEXT` puts it back", file.display()));
            Ok(())
        }
        Some(LedgerCommand::Restore { file, evidence }) => {
            adopted(&place.upkeep().restore(file, &terms(evidence)?)?, screen)
        }
        Some(LedgerCommand::Adopt { evidence }) => adopted(&place.upkeep().adopt(&terms(evidence)?).await?, screen),
        Some(LedgerCommand::SettleLost { evidence }) => {
            let evidence = operator::checked_text("--evidence", evidence, NEEDS_EVIDENCE)?.to_owned();
            let settled = place.upkeep().settle(&LossSettlement { by: operator::user_name(), evidence }).await?;
            if screen.json {
                return screen.json(&json!({ "settled": settled }));
            }
            if settled == 0 {
                return screen.page("there is no lost time to settle");
            }
            screen.page("the lost time is settled: keys that the ledger does not know run again")
        }
    }
}

fn terms(evidence: &str, retention: Retention) -> Result<AdoptionRequest, CommandFailure> {
    let (least_ms, forever_ms) = LOST_IN_FORCE_MS;
    let in_force_ms = retention.tombstones_ms.map_or(forever_ms, |kept_ms| kept_ms.clamp(least_ms, forever_ms));
    let evidence = operator::checked_text("--evidence", evidence, NEEDS_EVIDENCE)?.to_owned();
    Ok(AdoptionRequest { by: operator::user_name(), evidence, in_force_ms })
}

/// What was accepted, if anything, and where the previous ledger is.
#[derive(serde::Serialize)]
struct AdoptionReport<'a> {
    #[serde(flatten)]
    adoption: Option<&'a Adoption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set_aside: Option<&'a Path>,
}

fn adopted(accepted: &LedgerRestoration, screen: Screen) -> Result<(), CommandFailure> {
    if let Some(set_aside) = &accepted.set_aside {
        screen.say(format_args!("what was there before is in {}", set_aside.display()));
    }
    let adoption = accepted.adoption.as_ref();
    if screen.json {
        return screen.json(&AdoptionReport { adoption, set_aside: accepted.set_aside.as_deref() });
    }
    let Some(adoption) = adoption else {
        return screen.page("the ledger is the one that is known and lacks nothing that was acknowledged");
    };
    screen.page(page::adoption(adoption))?;
    screen.hint("`servanda effects --state outcome_unknown` lists the calls that were stopped; when the lost time is dealt with, `servanda ledger settle-lost --evidence TEXT` ends it");
    Ok(())
}

async fn status(place: &LedgerPlace, screen: Screen) -> Result<(), CommandFailure> {
    let status = place.upkeep().status().await?;
    let refused = status.refused.clone();
    if screen.json {
        screen.json(&page::LedgerReport {
            ledger: place.to_string(),
            refused: refused.as_ref().map(ToString::to_string),
            status,
        })?;
    } else {
        screen.page(page::status(place, &status))?;
    }
    match refused {
        Some(refused) => Err(servanda_ledger::LedgerError::Refused(Box::new(refused)).into()),
        None => Ok(()),
    }
}

async fn verify(place: &LedgerPlace, screen: Screen) -> Result<(), CommandFailure> {
    let upkeep = place.upkeep();
    let status = upkeep.status().await?;
    if let Some(refused) = status.refused {
        return Err(servanda_ledger::LedgerError::Refused(Box::new(refused)).into());
    }
    if !status.exists {
        if screen.json {
            return screen.json(&json!({ "exists": false }));
        }
        return screen.page("there is no ledger yet");
    }
    let verified = upkeep.verify().await?;
    if screen.json {
        screen.json(&verified)?;
    } else {
        screen.page(page::verified(&verified, status.log.as_ref()))?;
    }
    if verified.problems.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::failed("the ledger is damaged")
        .hint("stop the gateway and put a backup back: `servanda ledger restore FILE --evidence TEXT`"))
}
