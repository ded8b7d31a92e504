//! People's decisions: each is signed, and the store decides whether it counts. The approval of a plan comes with its grant, and the store
//! takes both or neither.

use servanda_approval::{
    ApprovalDecision, ApprovalSettings, ApprovalVerdict, Ineligible, PasskeyAssertionRecord, Ticket, TicketEvent,
    TicketId, TicketReply, TicketState, check_eligible,
};
use servanda_contract::Digest;
use servanda_effects::{JournalError, ticket_store::TicketTarget};

use super::{Approvals, AttestationKeysError, Person};

/// The longest reason of a decision.
const REASON_CHARS_MAX: usize = 500;

/// What a person decides about a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonDecision {
    /// The ticket.
    pub ticket: TicketId,
    /// H of the call that the person was shown.
    pub payload: Digest,
    /// Yes or no.
    pub verdict: ApprovalVerdict,
    /// Why.
    pub reason: Option<String>,
    /// What the person's passkey signed, after it was checked.
    pub passkey: Option<PasskeyAssertionRecord>,
    /// Whether the person says that they use the emergency role.
    pub break_glass: bool,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum DecisionOutcome {
    /// The call may be made.
    Approved(Box<Ticket>),
    /// More people have to approve.
    Recorded {
        /// How many.
        missing: u8,
        /// The ticket.
        ticket: Box<Ticket>,
    },
    /// The call was denied.
    Denied(Box<Ticket>),
}

/// Why a decision does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// There is no such ticket, or it is another tenant's.
    #[error("there is no ticket `{0}`")]
    NoTicket(TicketId),
    /// The person may not decide.
    #[error(transparent)]
    Ineligible(#[from] Ineligible),
    /// The ticket is over.
    #[error("the ticket is over: {}", .0.describe())]
    Over(TicketState),
    /// The ticket is for another payload than the person was shown, or its stored arguments were changed.
    #[error("the call is not the one that you were shown: open the ticket again")]
    OtherPayload,
    /// The reason is too long.
    #[error("a reason has at most {REASON_CHARS_MAX} characters")]
    Reason,
    /// The ticket is about a plan, and the operator allows no grants.
    #[error("this gateway makes no grants, so no plan is approved: `approvals.grant_days_max` is 0")]
    NoGrants,
    /// The ticket is about a plan whose values the person does not see, and a grant would hold them.
    #[error(
        "some values of the plan are masked for you, and its approval would allow them: a person who sees all of it decides"
    )]
    Masked,
    /// A passkey has to sign the decision.
    #[error("this decision needs your passkey")]
    Passkey,
    /// The decision cannot be signed.
    #[error(transparent)]
    Keys(#[from] AttestationKeysError),
    /// The store did not take it, or it is not known whether it did.
    #[error("{0}")]
    Store(String),
}

impl Approvals {
    /// Takes a person's decision.
    pub async fn decide(
        &self,
        person: &Person,
        decision: PersonDecision,
        settings: &ApprovalSettings,
    ) -> Result<DecisionOutcome, DecideError> {
        let PersonDecision { ticket: id, payload, verdict, reason, passkey, break_glass } = decision;
        let reason = reason.map(|reason| reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        if reason.as_ref().is_some_and(|reason| reason.chars().nth(REASON_CHARS_MAX).is_some()) {
            return Err(DecideError::Reason);
        }
        let ticket = self.visible_ticket(person, &id).await?;
        let approver = person.as_approver(settings);
        if ticket.state != TicketState::Pending {
            return Err(DecideError::Over(ticket.state));
        }
        if ticket.subject.payload != payload || !ticket.is_intact() {
            return Err(DecideError::OtherPayload);
        }
        let at_ms = self.clock.now().unix_ms();
        // The store checks this again. Here it saves a signature that would not count, and says whether the emergency role is taken.
        let takes_emergency_role = check_eligible(&ticket, &approver, at_ms)?;
        let approves_plan = ticket.is_plan() && verdict == ApprovalVerdict::Approve;
        if takes_emergency_role && (!break_glass || approves_plan) {
            return Err(Ineligible::OtherGroup.into());
        }
        let is_masked = |level: &String| !person.sees(level, settings);
        if approves_plan && ticket.subject.sensitive.values().any(is_masked) {
            return Err(DecideError::Masked);
        }
        if person.presence == servanda_contract::tool::Presence::Passkey && passkey.is_none() {
            return Err(DecideError::Passkey);
        }
        let statement = ApprovalDecision {
            ticket: id.clone(),
            payload_hash: payload,
            verdict,
            tenant: person.tenant.clone(),
            approver: person.principal.clone(),
            groups: person.groups.clone(),
            presence: person.presence,
            credential: person.credential.clone(),
            at_ms,
            reason,
            break_glass: takes_emergency_role,
        };
        let key = self.keys.signing_key().await?;
        let signed = statement.sign(passkey, &key).map_err(|error| DecideError::Store(error.to_string()))?;
        let grant = match verdict {
            ApprovalVerdict::Approve => self.grant_of_plan(&ticket, (person, &approver), settings, at_ms).await?,
            ApprovalVerdict::Deny => None,
        };
        let event = TicketEvent::Decide { decision: Box::new(signed), approver: Box::new(approver), grant };
        let applied = self.apply(TicketTarget::Id(id.clone()), event).await.map_err(|error| store_error(&error))?;
        let Some(ticket) = applied.ticket.map(|ticket| Box::new((*ticket).clone())) else {
            return Err(DecideError::NoTicket(id));
        };
        outcome(&applied.reply, ticket)
    }

    /// A ticket of the person's tenant.
    pub async fn visible_ticket(&self, person: &Person, id: &TicketId) -> Result<Ticket, DecideError> {
        let found =
            self.tickets.find_ticket(TicketTarget::Id(id.clone())).await.map_err(|error| store_error(&error))?;
        let visible = found.filter(|ticket| ticket.subject.tenant == person.tenant);
        visible.ok_or_else(|| DecideError::NoTicket(id.clone()))
    }
}

fn outcome(reply: &TicketReply, ticket: Box<Ticket>) -> Result<DecisionOutcome, DecideError> {
    Ok(match reply {
        TicketReply::Approved => DecisionOutcome::Approved(ticket),
        TicketReply::Recorded { missing } => DecisionOutcome::Recorded { missing: *missing, ticket },
        TicketReply::Denied { .. } => DecisionOutcome::Denied(ticket),
        TicketReply::NotEligible(ineligible) => return Err((*ineligible).into()),
        TicketReply::OtherPayload => return Err(DecideError::OtherPayload),
        TicketReply::NotFound => return Err(DecideError::NoTicket(ticket.id)),
        _ => return Err(DecideError::Over(ticket.state)),
    })
}

fn store_error(error: &JournalError) -> DecideError {
    DecideError::Store(format!("the store did not take the decision: {}", error.reason()))
}
