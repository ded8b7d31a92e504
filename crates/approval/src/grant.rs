//! A grant: what a person allows from now on, as a statement that the gateway signs when the person makes it. It covers calls of one caller
//! like the approved ones, each within its bounds and a number of times, for some days and, where the person says so, up to a sum of money.
//!
//! It is kept with the ticket it was made from. Whether arguments are within the bounds is decided by a Cedar policy that says the same
//! (`servanda_policy`); what is left of it is `standing_grant`'s, and drawing on it is `grant_step`'s.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use servanda_authority::attestation::{AttestationKey, AttestationPublicKey, UnsignedStatement};
use servanda_contract::{Caller, CallerActor, Digest, cost::Price, digest::DigestDomain, json, tool::Presence};

use crate::{
    ApprovalDemand, CostCeiling, GrantedCall, TicketId, cost_ceiling::UncountedCost, granted_call::needs_people,
};

/// The domain of signatures under grants.
const DOMAIN: &str = "servanda/grant/v1";

/// What the grants for a caller's calls of a tool are looked up by. The contract's version is left out, so that a grant for an earlier one
/// can be told to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantKey(Digest);

/// What a person allows from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalGrant {
    /// The ticket that it was made from.
    pub ticket: TicketId,
    /// H of what was approved there: a call, or a plan.
    pub payload_hash: Digest,
    /// The tenant.
    pub tenant: String,
    /// The user for whom calls are made.
    pub principal: String,
    /// The agents that act for the user, the acting one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<CallerActor>,
    /// The calls, each with its own bounds and its own number of times.
    pub calls: Vec<GrantedCall>,
    /// The most that all calls together may cost; none if there is no limit of money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_max: Option<CostCeiling>,
    /// When it ends, in milliseconds since the epoch.
    pub until_ms: u64,
    /// The person who made it.
    pub approver: String,
    /// The person's groups.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// How sure the gateway was that the person made it.
    pub presence: Presence,
    /// Where the person signed in, and with which credential.
    pub credential: String,
    /// When it was made.
    pub at_ms: u64,
}

/// A grant with the gateway's signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedGrant {
    /// The grant.
    pub grant: ApprovalGrant,
    /// The key that signed it.
    pub key_id: String,
    /// The signature over its canonical bytes.
    pub signature: String,
}

/// The call that a grant must cover.
#[derive(Debug, Clone, Copy)]
pub struct GrantExpectation<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The user.
    pub principal: &'a str,
    /// The agents.
    pub actors: &'a [CallerActor],
    /// The contract's name.
    pub tool: &'a str,
    /// The contract's digest.
    pub contract_digest: &'a Digest,
    /// The approval that the call needs.
    pub demand: &'a ApprovalDemand,
    /// H of the call.
    pub payload: &'a Digest,
    /// The most that the call costs by its contract; none if that cannot be counted.
    pub price: Option<&'a Price>,
    /// The time.
    pub now_ms: u64,
}

/// Why a grant does not cover a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantFault {
    /// No known key signed it, or it was changed.
    #[error("no known key signed it, or it was changed afterwards")]
    Signature,
    /// It is for other calls.
    #[error("it is for other calls: {0}")]
    OtherCalls(&'static str),
    /// What the call needs cannot come from it.
    #[error("the call needs more than a grant can give: {0}")]
    NeedsPeople(&'static str),
    /// Its time is over.
    #[error("it has ended")]
    Expired,
    /// The arguments are not within its bounds.
    #[error("the arguments are not within its bounds")]
    Bounds,
    /// The call's number of times is used up, or what is left of the money is too little.
    #[error("{0}")]
    UsedUp(&'static str),
}

impl GrantKey {
    /// The key of a caller's calls of a tool.
    pub fn new(caller: &Caller, tool: &str) -> Self {
        let mut parts: Vec<&[u8]> = vec![caller.tenant.as_bytes(), caller.principal.as_bytes(), tool.as_bytes()];
        for actor in &caller.actors {
            parts.push(actor.name.as_bytes());
            parts.push(if actor.proven { b"proven" } else { b"claimed" });
        }
        Self(Digest::compute(DigestDomain::GrantKey, &parts))
    }

    /// The digest.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl ApprovalGrant {
    /// What it is looked up by: one key for each of its tools.
    pub fn keys(&self) -> BTreeSet<GrantKey> {
        let caller = Caller { actors: self.actors.clone(), ..Caller::named(&self.tenant, &self.principal) };
        self.calls.iter().map(|call| GrantKey::new(&caller, &call.tool_name)).collect()
    }

    /// How many times all of its calls together may be made.
    pub fn uses_max(&self) -> u32 {
        self.calls.iter().fold(0, |sum, call| sum.saturating_add(call.uses_max))
    }

    /// Its tools in words: `bank.pay`, or `bank.pay and 2 more calls`.
    pub fn tools_in_words(&self) -> String {
        let first = self.calls.first().map(|call| call.tool_name.clone()).unwrap_or_default();
        match self.calls.len() {
            0 | 1 => first,
            2 => format!("{first} and 1 more call"),
            all => format!("{first} and {} more calls", all - 1),
        }
    }

    /// Checks everything about a call but its arguments and what is left for it.
    pub(crate) fn check_call(&self, call: &GrantedCall, expected: &GrantExpectation<'_>) -> Result<(), GrantFault> {
        let same = [
            (self.tenant == expected.tenant && self.principal == expected.principal, "another caller"),
            (self.actors == expected.actors, "another agent"),
            (call.tool_name == expected.tool, "another tool"),
            (call.contract_digest == *expected.contract_digest, "another version of the contract"),
        ];
        if let Some((_, what)) = same.into_iter().find(|(is_same, _)| !is_same) {
            return Err(GrantFault::OtherCalls(what));
        }
        needs_people(expected.demand).map_or(Ok(()), |why| Err(GrantFault::NeedsPeople(why)))?;
        if !call.demand.still_satisfies(expected.demand) || self.presence < expected.demand.presence {
            return Err(GrantFault::NeedsPeople("more than when the grant was made"));
        }
        if expected.now_ms >= self.until_ms {
            return Err(GrantFault::Expired);
        }
        Ok(())
    }

    /// What a call with this price takes of its money: nothing if it has no limit of money.
    pub(crate) fn cost_micros(&self, price: Option<&Price>) -> Result<u64, GrantFault> {
        let Some(ceiling) = &self.cost_max else { return Ok(0) };
        ceiling.cost_micros(price).map_err(|uncounted| match uncounted {
            UncountedCost::Unknown => GrantFault::OtherCalls("calls whose cost can be counted"),
            UncountedCost::OtherCurrency => GrantFault::OtherCalls("calls that cost another currency"),
        })
    }

    /// Signs it.
    pub fn sign(self, key: &AttestationKey) -> Result<SignedGrant, UnsignedStatement> {
        let unsigned = SignedGrant { grant: self, key_id: key.public().key_id(), signature: String::new() };
        let signature = key.sign(DOMAIN, &unsigned.statement())?;
        Ok(SignedGrant { signature, ..unsigned })
    }
}

impl SignedGrant {
    /// The digest by which a draw names it.
    pub fn digest(&self) -> Digest {
        Digest::compute(DigestDomain::Grant, &[&self.statement(), self.signature.as_bytes()])
    }

    /// Checks that one of these keys signed it.
    pub fn check(&self, keys: &[AttestationPublicKey]) -> Result<(), GrantFault> {
        let key = keys.iter().find(|key| key.key_id() == self.key_id).ok_or(GrantFault::Signature)?;
        key.verify(DOMAIN, &self.statement(), &self.signature).map_err(|_| GrantFault::Signature)
    }

    fn statement(&self) -> Vec<u8> {
        let document = serde_json::json!({ "grant": self.grant, "key_id": self.key_id });
        // A statement of texts and numbers always has canonical bytes; without them no signature holds.
        json::canonicalize(&document).map(|canonical| canonical.bytes().to_vec()).unwrap_or_default()
    }
}
