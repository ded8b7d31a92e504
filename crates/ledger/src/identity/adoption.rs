//! The record that a person accepted a ledger other than the known one: who, when, on what evidence, and which
//! window may be lost.

use servanda_effects::effect::LostWindow;

use super::LedgerPosition;

/// What the person who accepts a ledger states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdoptionRequest {
    /// The person.
    pub by: String,
    /// What they know about the loss, and from where.
    pub evidence: String,
    /// For how long keys that the ledger does not know are treated as possibly used.
    pub in_force_ms: u64,
}

/// What the person who has dealt with the keys of a lost window states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossSettlement {
    /// The person.
    pub by: String,
    /// How they know.
    pub evidence: String,
}

/// An acceptance as the ledger stores it.
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
    /// The id of the known ledger; none if the position file could not be read.
    pub known_id: Option<String>,
    /// How far the known ledger had come.
    pub known_position: Option<u64>,
    /// The id of the ledger that was found, if there was one with an identity.
    pub found_id: Option<String>,
    /// How far the found ledger had come.
    pub found_position: Option<u64>,
    /// The new identity that the accepted ledger got.
    pub ledger_id: String,
    /// The time of the last commit that is still there.
    pub lost_from_ms: u64,
    /// When the loss was accepted.
    pub lost_until_ms: u64,
    /// How long unknown keys of that window are treated as possibly used.
    pub in_force_until_ms: u64,
    /// When a person settled the whole lost window.
    pub settled_ms: Option<u64>,
    /// Who settled it.
    pub settled_by: Option<String>,
    /// On what evidence.
    pub settled_evidence: Option<String>,
}

/// A lost window that no person has settled, and how long it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnsettledLoss {
    pub(crate) window: LostWindow,
    pub(crate) in_force_until_ms: u64,
}

impl Adoption {
    /// Accepts a ledger at `now_ms`. Commits after the last one that is still there are lost; if none is there,
    /// everything since the known ledger was made is lost. `before` lists the acceptances in the ledger that
    /// this one replaces: a loss recorded there that is not settled stays lost.
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
            // The commits of a foreign ledger say nothing about the known one's; but the known ledger may have
            // replaced the foreign one.
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

    /// Whether the accepted ledger was, or replaced, the one with this id.
    fn came_from(&self, id: &str) -> bool {
        [self.known_id.as_deref(), self.found_id.as_deref()].contains(&Some(id))
    }
}

/// The lost window that matters at `now_ms`: from the start of the first unsettled loss to the end of the last.
pub(crate) fn lost_window(lost: &[UnsettledLoss], now_ms: u64) -> Option<LostWindow> {
    let in_force = lost.iter().filter(|lost| now_ms < lost.in_force_until_ms).map(|lost| lost.window);
    in_force.reduce(|all, one| LostWindow {
        from_ms: all.from_ms.min(one.from_ms),
        until_ms: all.until_ms.max(one.until_ms),
    })
}
