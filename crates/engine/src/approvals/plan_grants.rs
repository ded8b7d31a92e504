//! The grant of a plan that an agent proposed. The person who approves the plan makes it, by that decision. Deliberately not here: the decision
//! (`deciding`), and whether an agent may propose the plan (`call/proposing`).

use servanda_approval::{ApprovalSettings, Approver, SignedGrant, Ticket};

use super::{Approvals, DecideError, Person, grants::DAY_MS};

impl Approvals {
    /// What the approval of a plan allows, signed for the person who decides; none if the ticket is about a call. It holds only if the store
    /// takes the decision.
    pub(super) async fn grant_of_plan(
        &self,
        ticket: &Ticket,
        (person, approver): (&Person, &Approver),
        settings: &ApprovalSettings,
        at_ms: u64,
    ) -> Result<Option<Box<SignedGrant>>, DecideError> {
        if !ticket.is_plan() {
            return Ok(None);
        }
        if settings.grant_days_max == 0 {
            return Err(DecideError::NoGrants);
        }
        let days = ticket.plan().ok_or(DecideError::OtherPayload)?.days.min(settings.grant_days_max);
        let until_ms = at_ms.saturating_add(u64::from(days).saturating_mul(DAY_MS));
        let grant = ticket.make_plan_grant(approver, person.credential.clone(), (at_ms, until_ms));
        let grant = grant.ok_or(DecideError::OtherPayload)?;
        let key = self.keys.signing_key().await?;
        let noted = self.note_grant(&grant).await;
        noted
            .map_err(|error| DecideError::Store(format!("the store did not take the decision: {}", error.reason())))?;
        let signed = grant.sign(&key).map_err(|error| DecideError::Store(error.to_string()))?;
        Ok(Some(Box::new(signed)))
    }
}
