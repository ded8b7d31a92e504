//! `doctor`'s checks of the ledger: whether it is the known one, whether it can be written, and whether it is sound. It never advises to
//! move a ledger away, because used keys would then run again.

use servanda_config::{LoadedConfig, ledger_place::LedgerPlace};
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_effects::effect::{EffectQuery, EffectState, EffectStore};
use servanda_engine::{SystemClock, quarantine::histories};
use servanda_ledger::{Adoption, Ledger, LedgerError, Soundness};

use super::{DoctorFindings, look_at_quarantine, reachability};
use crate::{configuration, failure::CommandFailure, screen::count};

/// How many effects with an unknown outcome are counted at most.
const UNKNOWN_MAX: u32 = 1_000;

pub(super) async fn look(loaded: &LoadedConfig, findings: &mut DoctorFindings) {
    let place = match configuration::ledger_place(loaded) {
        Ok(place) => place,
        Err(failure) => return findings.bad("ledger", failure.to_string(), failure.hint_text().unwrap_or_default()),
    };
    match look_at(&place).await {
        Ok(None) => {
            findings.good("ledger", format!("there is none yet; {place} can be made"));
        }
        Ok(Some(LedgerInspection { calls, soundness, adoptions })) => {
            let found = format!("{place} is writable and has {calls} calls");
            match soundness {
                Soundness::Sound => findings.good("ledger", found),
                Soundness::TooLarge => findings.note(
                    "ledger",
                    format!("{found}; it is too large to be looked through here"),
                    "`servanda ledger verify` reads all of it",
                ),
                Soundness::Broken(reason) => findings.bad(
                    "ledger",
                    format!("{place} is damaged: {reason}"),
                    "`servanda ledger verify` says more; `servanda ledger restore FILE --evidence TEXT` puts a backup back",
                ),
            }
            look_at_lost_time(&adoptions, findings);
            look_at_held_back(loaded, &place, findings).await;
        }
        Err(error) => {
            let connects = matches!(
                error,
                LedgerError::Connect { .. } | LedgerError::Tls { .. } | LedgerError::Server(_) | LedgerError::Silent(_)
            );
            let (says, hint) = (error.to_string(), hint(error));
            let says = reachability::explained(place.url().filter(|_| connects), &says).await;
            findings.bad("ledger", says, hint);
        }
    }
}

/// The results for an existing ledger.
struct LedgerInspection {
    calls: i64,
    soundness: Soundness,
    adoptions: Vec<Adoption>,
}

/// A lost period that no operator has settled stops calls; this note explains why.
fn look_at_lost_time(adoptions: &[Adoption], findings: &mut DoctorFindings) {
    let now_ms = SystemClock.now().unix_ms();
    for lost in adoptions.iter().filter(|one| one.settled_ms.is_none() && now_ms < one.in_force_until_ms) {
        let at = |ms| Timestamp::from_unix_ms(ms);
        let (from, until) = (at(lost.lost_from_ms), at(lost.lost_until_ms));
        findings.note(
            "lost time",
            format!("the ledger lacks {from} to {until}: keys of class N that it does not know are not sent"),
            "when the keys of that time are dealt with, `servanda ledger settle-lost --evidence TEXT` ends it",
        );
    }
}

async fn look_at_unknown(ledger: &Ledger, findings: &mut DoctorFindings) {
    let query = EffectQuery { states: vec![EffectState::OutcomeUnknown], limit: UNKNOWN_MAX, ..EffectQuery::default() };
    if let Ok(unknown) = EffectStore::list(ledger, query).await
        && !unknown.is_empty()
    {
        let more = if unknown.len() >= UNKNOWN_MAX as usize { " and more" } else { "" };
        findings.note(
            "effects",
            format!("the outcome of {}{more} is unknown", count(unknown.len(), "effect")),
            "`servanda effects --state outcome_unknown` lists them, and `servanda effects show HANDLE` says how to settle one",
        );
    }
}

/// The number of calls and whether the ledger is sound; none if there is no ledger yet and one could be created.
async fn look_at(place: &LedgerPlace) -> Result<Option<LedgerInspection>, LedgerError> {
    let upkeep = place.upkeep();
    let status = upkeep.status().await?;
    if let Some(refused) = status.refused {
        return Err(LedgerError::Refused(Box::new(refused)));
    }
    if !status.exists {
        upkeep.probe_place()?;
        return Ok(None);
    }
    let reader = place.read().await?;
    let soundness = upkeep.probe().await?;
    Ok(Some(LedgerInspection { calls: reader.count().await?, soundness, adoptions: status.adoptions }))
}

async fn look_at_held_back(loaded: &LoadedConfig, place: &LedgerPlace, findings: &mut DoctorFindings) {
    match place.open().await {
        Ok(ledger) => {
            look_at_unknown(&ledger, findings).await;
            let held = histories(ledger.as_ref(), SystemClock.now()).await;
            ledger.close().await;
            look_at_quarantine(loaded, held, findings);
        }
        Err(error) => {
            let (says, hint) = (error.to_string(), hint(error));
            findings.bad("ledger", says, hint);
        }
    }
}

fn hint(error: LedgerError) -> String {
    match error {
        LedgerError::NotWritable { .. }
        | LedgerError::Folder { .. }
        | LedgerError::Sql(_)
        | LedgerError::Open { .. } => {
            "make room on the disk and the folder writable; `servanda ledger status` says what is there".to_owned()
        }
        LedgerError::Connect { .. } | LedgerError::Server(_) | LedgerError::Silent(_) | LedgerError::Url(_) => {
            "make sure that the database is up and the URL in `ledger` is right".to_owned()
        }
        error => CommandFailure::from(error).hint_text().unwrap_or_default().to_owned(),
    }
}
