//! Guards of grants that are behind others, each met alone.

use servanda_contract::tool::{ApprovalPattern, Presence};

use super::samples::{HOUR_MS, START_MS, approved_by, approver, demand, digest, key, request};
use crate::{
    ApprovalGrant, Deadline, GrantExpectation, GrantFault, GrantTerms, SignedGrant, StandingGrant, Ticket,
    VerifiedGrant,
};

fn signed(ticket: &Ticket, change: impl FnOnce(&mut ApprovalGrant)) -> SignedGrant {
    let calls = vec![ticket.granted_call(ticket.proposed_bounds().unwrap(), 2)];
    let terms = GrantTerms { calls, cost_max: None, until_ms: START_MS + HOUR_MS };
    let mut grant = ticket.make_grant(terms, &approver("bob"), "console".to_owned(), START_MS);
    change(&mut grant);
    grant.sign(&key(1)).unwrap()
}

/// A call that needs this presence, under a grant that a person made with that one.
fn covers(made_with: Presence, asked_then: Presence, asked_now: Presence) -> Result<VerifiedGrant, GrantFault> {
    let ticket = approved_by(request(), &["bob"]);
    let grant = signed(&ticket, |grant| (grant.presence, grant.calls[0].demand.presence) = (made_with, asked_then));
    let mut demand = demand(ApprovalPattern::Operator, 1);
    demand.presence = asked_now;
    let (subject, payload) = (&ticket.subject, digest("a call"));
    let expected = GrantExpectation {
        tenant: &subject.tenant,
        principal: &subject.principal,
        actors: &subject.actors,
        tool: &subject.contract,
        contract_digest: &subject.contract_digest,
        demand: &demand,
        payload: &payload,
        price: None,
        now_ms: START_MS + 1,
    };
    let until = Deadline { clock_ms: START_MS + HOUR_MS, ledger_ms: u64::MAX };
    let grant = StandingGrant { signed: grant, until, draws: Vec::new(), revoked: None };
    grant.verify(&[key(1).public().clone()], &expected, |_| true)
}

#[test]
fn the_maker_s_own_presence_has_to_be_enough_and_so_has_the_demand_of_then() {
    use Presence::{Fresh, Session};
    let more = Err(GrantFault::NeedsPeople("more than when the grant was made"));
    for (made_with, asked_then, asked_now) in
        [(Fresh, Fresh, Fresh), (Fresh, Fresh, Session), (Session, Session, Session)]
    {
        assert!(covers(made_with, asked_then, asked_now).is_ok(), "{made_with:?} {asked_then:?} {asked_now:?}");
    }
    assert_eq!(covers(Session, Fresh, Fresh), more, "the approval asked for it, and the maker was not there");
    assert_eq!(covers(Fresh, Session, Fresh), more, "the maker was there, and nothing asked for it");
}
