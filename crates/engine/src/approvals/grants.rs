//! Grants: what people allow from now on. A person makes one from a ticket that people approved, and takes it back; calls draw on it
//! (`call/granting`).
//!
//! A grant is kept with its ticket. Notes say which tickets have one, by caller and tool and by tenant; they are an index and nothing more,
//! so a note without a grant means nothing.

use std::collections::BTreeMap;

use servanda_approval::{
    ApprovalGrant, ApprovalSettings, ArgumentBound, BoundFault, GRANT_USES_MAX, GrantKey, GrantObstacle, GrantTerms,
    NarrowedBound, Ticket, TicketEvent, TicketId, TicketReply, argument_leaves, grant_obstacle,
};
use servanda_contract::{Timestamp, digest::hex};
use servanda_effects::{JournalError, Note, NoteKind, ticket_store::TicketTarget};

use super::{Approvals, GrantFailure, Person, WantedBound, WantedGrant, wanted_grants::REASON_CHARS_MAX};

/// The most grants that are looked at for one call, the newest first.
pub(crate) const GRANTS_LOOKED_AT_MAX: u32 = 20;
/// The most grants of a page.
pub const GRANTS_PAGE_MAX: u32 = 50;
/// How many calls a grant covers if the person does not say otherwise.
pub const GRANT_USES_USUAL: u32 = 20;
/// What the keys of notes begin with that list the grants of a tenant.
const TENANTS: &str = "tenant.";
pub(super) const DAY_MS: u64 = 24 * 3_600_000;
/// How long the list of a tenant has grants that ended.
const LISTED_MS: u64 = 90 * DAY_MS;

impl Approvals {
    /// The grant that a person would make: checked, not signed, and not in force.
    pub async fn draft_grant(
        &self,
        person: &Person,
        wanted: &WantedGrant,
        settings: &ApprovalSettings,
    ) -> Result<(Ticket, ApprovalGrant), GrantFailure> {
        let ticket = self.visible_ticket(person, &wanted.ticket).await?;
        if settings.grant_days_max == 0 {
            return Err(GrantFailure::SwitchedOff);
        }
        if let Some(obstacle) = grant_obstacle(&ticket) {
            return Err(obstacle.into());
        }
        if ticket.subject.payload != wanted.payload || !ticket.is_intact() {
            return Err(GrantFailure::OtherPayload);
        }
        if !(1..=GRANT_USES_MAX).contains(&wanted.uses_max) {
            return Err(GrantFailure::Uses);
        }
        if !(1..=settings.grant_days_max).contains(&wanted.days) {
            return Err(GrantFailure::Days { days_max: settings.grant_days_max });
        }
        let at_ms = self.clock.now().unix_ms();
        let approver = person.as_approver(settings);
        ticket.check_grant_maker(&approver, at_ms)?;
        let mut calls = vec![ticket.granted_call(bounds(&ticket, &wanted.narrowed)?, wanted.uses_max)];
        let until_ms = at_ms.saturating_add(u64::from(wanted.days).saturating_mul(DAY_MS));
        calls.extend(self.planned_calls(person, &ticket, &wanted.further, settings).await?);
        let terms = GrantTerms { calls, cost_max: wanted.cost_max.clone(), until_ms };
        let grant = ticket.make_grant(terms, &approver, person.credential.clone(), at_ms);
        // As the store and every use will.
        ticket.check_maker_of(&grant, &approver, at_ms)?;
        Ok((ticket, grant))
    }

    /// Makes a grant. The store decides once more whether the person may.
    pub async fn make_grant(
        &self,
        person: &Person,
        wanted: &WantedGrant,
        settings: &ApprovalSettings,
    ) -> Result<Ticket, GrantFailure> {
        let (ticket, grant) = self.draft_grant(person, wanted, settings).await?;
        let key = self.keys.signing_key().await?;
        self.note_grant(&grant).await.map_err(|error| store_error(&error))?;
        let signed = grant.sign(&key).map_err(|error| GrantFailure::Store(error.to_string()))?;
        let event = TicketEvent::Grant { grant: Box::new(signed), approver: Box::new(person.as_approver(settings)) };
        self.change_grant(ticket.id, event).await
    }

    /// Notes which ticket has the grant. Before the grant itself is written, because one that no note names would never be found; a note
    /// without a grant means nothing.
    pub(super) async fn note_grant(&self, grant: &ApprovalGrant) -> Result<(), JournalError> {
        let (ticket, until_ms) = (&grant.ticket, grant.until_ms);
        let of_calls = grant.keys();
        let of_calls = of_calls.iter().map(|key| (note_of_calls(key, ticket), until_ms.saturating_add(DAY_MS)));
        let of_tenant = (note_of_tenant(&grant.tenant, ticket), until_ms.saturating_add(LISTED_MS));
        for (key, kept_ms) in of_calls.chain([of_tenant]) {
            let expires_at = Some(Timestamp::from_unix_ms(kept_ms));
            let note = Note { kind: NoteKind::Grant, key, value: ticket.to_string(), expires_at };
            self.notebook.write(note).await?;
        }
        Ok(())
    }

    /// Takes a grant back. Calls that drew on it before are not undone.
    pub async fn revoke_grant(
        &self,
        person: &Person,
        id: &TicketId,
        reason: &str,
        settings: &ApprovalSettings,
    ) -> Result<Ticket, GrantFailure> {
        let reason = reason.trim();
        if reason.is_empty() || reason.chars().nth(REASON_CHARS_MAX).is_some() {
            return Err(GrantFailure::Reason);
        }
        let ticket = self.visible_ticket(person, id).await?;
        if ticket.grant.is_none() {
            return Err(GrantFailure::NoGrant(id.clone()));
        }
        if !may_revoke(person, &ticket, settings) {
            return Err(GrantFailure::NotTheirs);
        }
        let event = TicketEvent::Revoke { by: person.principal.clone(), reason: reason.to_owned() };
        self.change_grant(id.clone(), event).await
    }

    /// The tickets of a tenant that have a grant, the newest first, after the ticket `after`. Without a tenant those of all, tenant by tenant.
    pub async fn grants(
        &self,
        tenant: Option<&str>,
        after: Option<&TicketId>,
        limit: u32,
    ) -> Result<Vec<Ticket>, JournalError> {
        let prefix = tenant.map_or_else(|| TENANTS.to_owned(), tenant_prefix);
        let after = tenant.zip(after).map_or_else(|| prefix.clone(), |(tenant, id)| note_of_tenant(tenant, id));
        let tickets = self.tickets_of_notes(&prefix, &after, limit.min(GRANTS_PAGE_MAX)).await?;
        let is_wanted = |ticket: &Ticket| tenant.is_none_or(|tenant| ticket.subject.tenant == tenant);
        Ok(tickets.into_iter().filter(is_wanted).collect())
    }

    /// The tickets whose grants may cover a caller's calls of a tool.
    pub(crate) async fn grants_for(&self, key: &GrantKey) -> Result<Vec<Ticket>, JournalError> {
        let prefix = calls_prefix(key);
        self.tickets_of_notes(&prefix, &prefix, GRANTS_LOOKED_AT_MAX).await
    }

    /// Forgets a grant that ended, so that calls do not look at it again. It stays in the list of its tenant.
    pub(crate) async fn forget_ended(&self, key: &GrantKey, ticket: &TicketId) {
        if let Err(error) = self.notebook.erase(NoteKind::Grant, &note_of_calls(key, ticket)).await {
            tracing::debug!(%ticket, reason = error.reason(), "a grant that ended is looked at once more");
        }
    }

    async fn tickets_of_notes(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<Ticket>, JournalError> {
        let notes = self.notebook.list(NoteKind::Grant, after, limit, self.clock.now()).await?;
        let mut found = Vec::new();
        for note in notes.into_iter().take_while(|note| note.key.starts_with(prefix)) {
            let target = TicketTarget::Id(TicketId::from(note.value));
            found.extend(self.tickets.find_ticket(target).await?.filter(|ticket| ticket.grant.is_some()));
        }
        Ok(found)
    }

    async fn change_grant(&self, id: TicketId, event: TicketEvent) -> Result<Ticket, GrantFailure> {
        let applied = self.apply(TicketTarget::Id(id.clone()), event).await.map_err(|error| store_error(&error))?;
        let Some(ticket) = applied.ticket else { return Err(GrantFailure::NoTicket(id)) };
        match applied.reply {
            TicketReply::Done => Ok((*ticket).clone()),
            TicketReply::NotEligible(ineligible) => Err(ineligible.into()),
            TicketReply::OtherPayload => Err(GrantFailure::OtherPayload),
            TicketReply::GrantEnded(end) => Err(GrantFailure::Over(end)),
            _ => Err(grant_obstacle(&ticket).map_or(GrantFailure::NoTicket(id), GrantFailure::Obstacle)),
        }
    }
}

/// Whether a person may take the grant of a ticket back: its maker, the user whose agent it is for, and people who decide or operate.
pub fn may_revoke(person: &Person, ticket: &Ticket, settings: &ApprovalSettings) -> bool {
    use servanda_approval::PersonRole::{Admin, Approver, BreakGlass, Operator};
    let Some(standing) = &ticket.grant else { return false };
    let grant = &standing.signed.grant;
    let is_theirs = grant.approver == person.principal || grant.principal == person.principal;
    let roles = person.roles(settings);
    let has_role = [Admin, Approver, BreakGlass, Operator].iter().any(|role| roles.contains(role));
    grant.tenant == person.tenant && (is_theirs || has_role)
}

/// Whether the person who made the grant of a ticket may still make it, by the operator's settings as they are now.
pub(crate) fn is_maker_still_eligible(ticket: &Ticket, settings: &ApprovalSettings) -> bool {
    let Some(standing) = &ticket.grant else { return false };
    let grant = &standing.signed.grant;
    let maker = Person {
        tenant: grant.tenant.clone(),
        principal: grant.approver.clone(),
        groups: grant.groups.clone(),
        presence: grant.presence,
        credential: String::new(),
    };
    settings.grant_days_max > 0 && ticket.check_maker_of(grant, &maker.as_approver(settings), grant.at_ms).is_ok()
}

/// The proposed bounds, narrower where the person wants that.
fn bounds(ticket: &Ticket, narrowed: &BTreeMap<String, WantedBound>) -> Result<Vec<ArgumentBound>, GrantFailure> {
    let proposed = ticket.proposed_bounds()?;
    let leaves = argument_leaves(&ticket.subject.arguments).map_err(GrantObstacle::Arguments)?;
    let unknown = narrowed.keys().find(|pointer| proposed.iter().all(|bound| bound.pointer != **pointer));
    if let Some(pointer) = unknown {
        return Err(GrantFailure::Bound { pointer: pointer.clone(), fault: BoundFault::Unreadable });
    }
    let narrow = |bound: &ArgumentBound| {
        let leaf = leaves.iter().find(|leaf| leaf.pointer == bound.pointer);
        let wanted = match (narrowed.get(&bound.pointer), leaf) {
            (Some(WantedBound::Exactly), Some(leaf)) => NarrowedBound::Exactly(&leaf.value),
            (Some(WantedBound::Text(text)), _) => NarrowedBound::Text(text),
            _ => NarrowedBound::AsProposed,
        };
        bound.narrowed(wanted).map_err(|fault| GrantFailure::Bound { pointer: bound.pointer.clone(), fault })
    };
    proposed.iter().map(narrow).collect()
}

fn calls_prefix(key: &GrantKey) -> String {
    format!("calls.{}.", hex(key.digest().as_bytes()))
}

fn tenant_prefix(tenant: &str) -> String {
    format!("{TENANTS}{}.", hex(tenant.as_bytes()))
}

fn note_of_calls(key: &GrantKey, ticket: &TicketId) -> String {
    format!("{}{}", calls_prefix(key), newest_first(ticket))
}

fn note_of_tenant(tenant: &str, ticket: &TicketId) -> String {
    format!("{}{}", tenant_prefix(tenant), newest_first(ticket))
}

/// The id with every hex digit turned round: ids made later sort before earlier ones.
fn newest_first(ticket: &TicketId) -> String {
    let turned = |character: char| character.to_digit(16).and_then(|digit| char::from_digit(15 - digit, 16));
    ticket.as_str().chars().map(|character| turned(character).unwrap_or(character)).collect()
}

fn store_error(error: &JournalError) -> GrantFailure {
    GrantFailure::Store(format!("the store did not take the grant: {}", error.reason()))
}
