//! A grant as a store keeps it: what was signed, which calls drew on it, what is left for each of its calls, and how it ended. Deliberately not
//! here: writing a draw, which is `grant_step`'s, inside the transaction that dispatches the call.

use serde::{Deserialize, Serialize};
use servanda_authority::attestation::AttestationPublicKey;
use servanda_contract::{CallId, Digest, cost::decimal};

use crate::{Deadline, GrantExpectation, GrantFault, SignedGrant, TicketId};

/// A grant as a store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingGrant {
    /// What the person allowed.
    pub signed: SignedGrant,
    /// When it ends, on both clocks of the store.
    pub until: Deadline,
    /// The calls that drew on it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<GrantDraw>,
    /// Who took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<GrantRevocation>,
}

/// A call that drew on a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantDraw {
    /// The call.
    pub call_id: CallId,
    /// Its effect.
    pub effect_id: String,
    /// H of the call.
    pub payload: Digest,
    /// Which call of the grant it was, counted from zero.
    pub call: usize,
    /// What it took of the grant's money, in millionths.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost_micros: u64,
    /// When, by the store's clock.
    pub at_ms: u64,
}

/// That a person took a grant back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRevocation {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When, by the store's clock.
    pub at_ms: u64,
}

/// Why a grant cannot be drawn on any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantEnd {
    /// A person took it back.
    Revoked,
    /// Its time is over.
    Expired,
    /// It was drawn on as often as it may be.
    UsedUp,
    /// Its money is spent, or what is left is too little for the call.
    Spent,
}

/// Evidence: a known key signed the grant, and one of its calls is of this caller and contract, may give what the call needs, has its time not
/// over, admits the arguments and is not used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedGrant {
    ticket: TicketId,
    payload: Digest,
    digest: Digest,
    call: usize,
    cost_micros: u64,
}

impl StandingGrant {
    /// Why it cannot be drawn on any more for any call, if it cannot.
    pub fn end(&self, now_ms: u64, ledger_ms: u64) -> Option<GrantEnd> {
        let grant = &self.signed.grant;
        if self.revoked.is_some() {
            Some(GrantEnd::Revoked)
        } else if self.until.has_passed(now_ms, ledger_ms) {
            Some(GrantEnd::Expired)
        } else if grant.calls.iter().enumerate().all(|(number, call)| self.uses(number) >= call.uses_max) {
            Some(GrantEnd::UsedUp)
        } else if grant.cost_max.as_ref().is_some_and(|ceiling| self.spent_micros() >= ceiling.micros()) {
            Some(GrantEnd::Spent)
        } else {
            None
        }
    }

    /// Why one of its calls, at this cost, cannot be drawn on once more although the grant stands, if it cannot.
    pub fn lack(&self, call: usize, cost_micros: u64) -> Option<GrantEnd> {
        let grant = &self.signed.grant;
        let has_uses = grant.calls.get(call).is_some_and(|granted| self.uses(call) < granted.uses_max);
        let after = self.spent_micros().checked_add(cost_micros);
        let has_money =
            grant.cost_max.as_ref().is_none_or(|ceiling| after.is_some_and(|after| after <= ceiling.micros()));
        match (has_uses, has_money) {
            (false, _) => Some(GrantEnd::UsedUp),
            (true, false) => Some(GrantEnd::Spent),
            (true, true) => None,
        }
    }

    /// How often one of its calls was drawn on.
    pub fn uses(&self, call: usize) -> u32 {
        let uses = self.draws.iter().filter(|draw| draw.call == call).count();
        u32::try_from(uses).unwrap_or(u32::MAX)
    }

    /// What its calls took of its money, in millionths.
    pub fn spent_micros(&self) -> u64 {
        self.draws.iter().fold(0, |sum, draw| sum.saturating_add(draw.cost_micros))
    }

    /// What was spent of its money in words: `1.20 of 5.00 EUR`; none if it has no limit of money.
    pub fn money_in_words(&self) -> Option<String> {
        let ceiling = self.signed.grant.cost_max.as_ref()?;
        Some(format!("{} of {}", decimal(self.spent_micros()), ceiling.describe()))
    }

    /// Which use of its call, counted from one, a call was, and how many that call has.
    pub fn use_of(&self, call_id: &CallId) -> Option<(usize, u32)> {
        let position = self.draws.iter().position(|draw| draw.call_id == *call_id)?;
        let call = self.draws.get(position)?.call;
        let number = self.draws.iter().take(position + 1).filter(|draw| draw.call == call).count();
        Some((number, self.signed.grant.calls.get(call)?.uses_max))
    }

    /// Checks that one of its calls covers a call. Whether a call of it admits the arguments is for its policy to say.
    pub fn verify(
        &self,
        keys: &[AttestationPublicKey],
        expected: &GrantExpectation<'_>,
        admits: impl Fn(usize) -> bool,
    ) -> Result<VerifiedGrant, GrantFault> {
        self.signed.check(keys)?;
        let grant = &self.signed.grant;
        let mut fault = GrantFault::OtherCalls("another tool");
        for (number, call) in grant.calls.iter().enumerate() {
            let checked = grant.check_call(call, expected).and_then(|()| {
                if admits(number) { grant.cost_micros(expected.price) } else { Err(GrantFault::Bounds) }
            });
            match checked.map(|cost_micros| (cost_micros, self.lack(number, cost_micros))) {
                Ok((cost_micros, None)) => {
                    let (ticket, digest) = (grant.ticket.clone(), self.signed.digest());
                    return Ok(VerifiedGrant { ticket, payload: *expected.payload, digest, call: number, cost_micros });
                }
                Ok((_, Some(lack))) => fault = GrantFault::UsedUp(lack.describe()),
                Err(other) => fault = other,
            }
        }
        Err(fault)
    }
}

impl GrantEnd {
    /// The end in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Revoked => "a person took it back",
            Self::Expired => "its time is over",
            Self::UsedUp => "it is used up",
            Self::Spent => "its money is spent, or too little is left",
        }
    }
}

impl VerifiedGrant {
    /// The ticket that it is kept with.
    pub const fn ticket(&self) -> &TicketId {
        &self.ticket
    }

    /// H of the call.
    pub const fn payload(&self) -> &Digest {
        &self.payload
    }

    /// The digest of the grant.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Which call of the grant covers the call, counted from zero.
    pub const fn call(&self) -> usize {
        self.call
    }

    /// What the call takes of the grant's money, in millionths.
    pub const fn cost_micros(&self) -> u64 {
        self.cost_micros
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_nothing(micros: &u64) -> bool {
    *micros == 0
}
