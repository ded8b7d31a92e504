//! That a person accepted a ledger which is not the one that was known: who, when, on what evidence, and which time may be lost.

use servanda_effects::effect::LostWindow;

use super::LedgerPosition;

/// What a person says who accepts a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdoptionRequest {
    /// Who.
    pub by: String,
    /// What they know about the loss, and from where.
    pub evidence: String,
    /// For how long keys that the ledger does not know are treated as possibly used.
    pub in_force_ms: u64,
}

/// What a person says who has looked after the keys of a lost time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossSettlement {
    /// Who.
    pub by: String,
    /// What they know it from.
    pub evidence: String,
}

/// An acceptance as it is kept in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Adoption {
    /// When.
    pub adopted_ms: u64,
    /// Who accepted it.
    pub adopted_by: String,
    /// On what evidence.
    pub evidence: String,
    /// What was wrong with the ledger.
    pub found: String,
    /// The ledger that was known, and how far it had come; none if the position file could not be read.
    pub known_id: Option<String>,
    /// How far it had come.
    pub known_position: Option<u64>,
    /// The ledger that was there, if there was one with an identity.
    pub found_id: Option<String>,
    /// How far that had come.
    pub found_position: Option<u64>,
    /// The identity it got by being accepted.
    pub ledger_id: String,
    /// When the last commit was made that is still there.
    pub lost_from_ms: u64,
    /// When the loss was accepted.
    pub lost_until_ms: u64,
    /// Until when unknown keys of that time are treated as possibly used.
    pub in_force_until_ms: u64,
    /// When a person settled the lost time as a whole.
    pub settled_ms: Option<u64>,
    /// Who.
    pub settled_by: Option<String>,
    /// On what evidence.
    pub settled_evidence: Option<String>,
}

/// A lost time that no person has settled, and until when it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnsettledLoss {
    pub(crate) window: LostWindow,
    pub(crate) in_force_until_ms: u64,
}

impl Adoption {
    /// A ledger is accepted at `now_ms`. What was committed after the last commit that is there is lost; if nothing is there,
    /// everything since the known ledger was made. `before` was accepted in the ledger whose place it takes: what was lost then and
    /// is not settled is still lost.
    pub(crate) fn new(
        terms: &AdoptionRequest,
        found: String,
        (known, there): (Option<&LedgerPosition>, Option<&LedgerPosition>),
        before: &[Self],
        ledger_id: String,
        now_ms: u64,
    ) -> Self {
        let is_same = |there: &LedgerPosition| {
            known.is_none_or(|known| known.ledger_id == there.ledger_id)
                || before.iter().any(|one| one.came_from(&there.ledger_id))
        };
        let lost_from_ms = match (known, there) {
            (_, Some(there)) if is_same(there) => there.written_ms,
            // Of a foreign ledger's commits none says anything about the known one's; but the known one may have followed on it.
            (Some(known), Some(there)) => known.made_ms.min(there.written_ms),
            (Some(known), None) => known.made_ms,
            (None, _) => 0,
        };
        let unsettled = before.iter().filter(|one| one.settled_ms.is_none() && now_ms < one.in_force_until_ms);
        let lost_from_ms = unsettled.map(|one| one.lost_from_ms).fold(lost_from_ms, u64::min);
        Self {
            adopted_ms: now_ms,
            adopted_by: terms.by.clone(),
            evidence: terms.evidence.clone(),
            found,
            known_id: known.map(|known| known.ledger_id.clone()),
            known_position: known.map(|known| known.position),
            found_id: there.map(|there| there.ledger_id.clone()),
            found_position: there.map(|there| there.position),
            ledger_id,
            lost_from_ms: lost_from_ms.min(now_ms),
            lost_until_ms: now_ms,
            in_force_until_ms: now_ms.saturating_add(terms.in_force_ms),
            settled_ms: None,
            settled_by: None,
            settled_evidence: None,
        }
    }

    /// Whether the accepted ledger was, or took the place of, the one of that id.
    fn came_from(&self, id: &str) -> bool {
        [self.known_id.as_deref(), self.found_id.as_deref()].contains(&Some(id))
    }
}

/// The lost time that matters at `now_ms`: from the beginning of the first that does to the end of the last.
pub(crate) fn lost_window(lost: &[UnsettledLoss], now_ms: u64) -> Option<LostWindow> {
    let in_force = lost.iter().filter(|lost| now_ms < lost.in_force_until_ms).map(|lost| lost.window);
    in_force.reduce(|all, one| LostWindow {
        from_ms: all.from_ms.min(one.from_ms),
        until_ms: all.until_ms.max(one.until_ms),
    })
}
