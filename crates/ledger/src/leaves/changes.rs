//! The leaves of what decisions depend on: contracts, policies and quarantines, as the writers of their notes tell it, and what budgets hold.

use servanda_audit::leaf::{AuditEvent, ChangeLeaf, ChangedThing, LeafSalts, SaltedThing};
use servanda_contract::{Digest, digest::DigestDomain};
use servanda_effects::{
    LoggedChange, LoggedThing,
    budget::{BudgetHold, BudgetHoldKind, BudgetHoldStage, ClosedBy},
};

use super::text;
use crate::LedgerError;

/// What the writer of a note says that changed.
pub(super) fn told(change: &LoggedChange) -> AuditEvent {
    AuditEvent::Change(ChangeLeaf {
        by: text(&change.by),
        call: change.call.as_deref().map(text),
        change: change.change.to_owned(),
        digest: change.digest.map(|digest| digest.to_string()),
        id: text(&change.id),
        thing: match change.thing {
            LoggedThing::Contract => ChangedThing::Contract,
            LoggedThing::Policies => ChangedThing::Policy,
            LoggedThing::Quarantine => ChangedThing::Quarantine,
        },
    })
}

/// What a budget holds for a call, or for a process. Amounts can be guessed, so that the leaf has a commitment to them.
pub(super) fn held(hold: &BudgetHold, salts: &LeafSalts) -> Result<AuditEvent, LedgerError> {
    let body = serde_json::to_vec(hold)
        .map_err(|error| LedgerError::Leaf { about: hold.id.as_str().to_owned(), reason: error.to_string() })?;
    let content = Digest::compute(DigestDomain::BudgetHold, &[&body]);
    let call = (hold.kind == BudgetHoldKind::Reservation).then(|| text(hold.id.as_str()));
    let by = match hold.closed_by {
        None => "servanda",
        Some(ClosedBy::Caller) => "servanda: the call ended",
        Some(ClosedBy::Sweep) => "servanda: nothing closed it",
    };
    let change = match (hold.stage, hold.kind) {
        (BudgetHoldStage::Open, BudgetHoldKind::Reservation) => "reserved",
        (BudgetHoldStage::Open, BudgetHoldKind::Lease) => "leased",
        (BudgetHoldStage::Settled, _) => "settled",
        (BudgetHoldStage::Refunded, _) => "given back",
    };
    Ok(AuditEvent::Change(ChangeLeaf {
        by: by.to_owned(),
        call,
        change: change.to_owned(),
        digest: Some(salts.commit(SaltedThing::BudgetHold, hold.id.as_str(), content.as_bytes()).to_string()),
        id: text(hold.id.as_str()),
        thing: ChangedThing::Budget,
    }))
}
