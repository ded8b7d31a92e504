//! What pages are made with: the engine, the sessions, and the person behind a request.

use std::{collections::BTreeSet, sync::Arc};

use http::HeaderMap;
use servanda_approval::{ApprovalSettings, Approver, PersonRole, Ticket};
use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::CallHistory;
use servanda_engine::{Authorities, Engine, approvals::Approvals};

use crate::{
    cookie,
    fault::PageFault,
    passkey::PasskeyChallenges,
    session::{SessionToken, Sessions, SignedIn},
    sign_in::{OneTimeLinks, PersonAuthenticator, SignInAttempts},
};

/// What pages are made with.
#[derive(Debug)]
pub(crate) struct ConsoleContext {
    pub(crate) engine: Arc<Engine>,
    pub(crate) history: Arc<dyn CallHistory>,
    pub(crate) sessions: Sessions,
    pub(crate) authenticator: Arc<dyn PersonAuthenticator>,
    pub(crate) challenges: PasskeyChallenges,
    pub(crate) attempts: SignInAttempts,
    pub(crate) links: Arc<OneTimeLinks>,
    pub(crate) clock: Arc<dyn Clock>,
    /// How a person gets another one-time link.
    pub(crate) link_hint: String,
}

/// The person behind a request, and what the operator lets them do at present.
#[derive(Debug)]
pub(crate) struct ConsoleViewer {
    pub(crate) signed_in: SignedIn,
    roles: BTreeSet<PersonRole>,
    authorities: Arc<Authorities>,
}

impl ConsoleContext {
    /// The approvals.
    pub(crate) fn approvals(&self) -> &Arc<Approvals> {
        self.engine.approvals()
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The session that a request's cookie opens, if it does.
    pub(crate) async fn signed_in(&self, headers: &HeaderMap) -> Result<Option<SignedIn>, PageFault> {
        let Some(token) = cookie::read(headers).and_then(SessionToken::read) else { return Ok(None) };
        let Some(signed_in) = self.sessions.find(token).await? else { return Ok(None) };
        self.still_valid(signed_in).await
    }

    /// The person behind a request, or that there is none.
    pub(crate) async fn viewer(&self, headers: &HeaderMap) -> Result<ConsoleViewer, PageFault> {
        let signed_in = self.signed_in(headers).await?.ok_or(PageFault::SignedOut)?;
        Ok(self.viewer_of(signed_in))
    }

    /// The same without using the session: for what a page asks by itself.
    pub(crate) async fn viewer_without_use(&self, headers: &HeaderMap) -> Result<ConsoleViewer, PageFault> {
        let token = cookie::read(headers).and_then(SessionToken::read).ok_or(PageFault::SignedOut)?;
        let signed_in = self.sessions.look(token).await?.ok_or(PageFault::SignedOut)?;
        let signed_in = self.still_valid(signed_in).await?.ok_or(PageFault::SignedOut)?;
        Ok(self.viewer_of(signed_in))
    }

    fn viewer_of(&self, signed_in: SignedIn) -> ConsoleViewer {
        let authorities = self.engine.authorities();
        let roles = signed_in.person.roles(authorities.approvals());
        ConsoleViewer { signed_in, roles, authorities }
    }

    /// The session, if what it was opened with is still valid; otherwise it ends.
    async fn still_valid(&self, signed_in: SignedIn) -> Result<Option<SignedIn>, PageFault> {
        let is_valid = self.authenticator.is_still_valid(&signed_in.record.method).await;
        if is_valid.map_err(|unavailable| PageFault::StoreAway(unavailable.to_string()))? {
            return Ok(Some(signed_in));
        }
        tracing::info!(
            method = signed_in.record.method.recorded(),
            "a session ends: what it was opened with is no longer valid"
        );
        self.sessions.close(&signed_in.token).await?;
        Ok(None)
    }
}

impl ConsoleViewer {
    /// The operator's settings.
    pub(crate) fn settings(&self) -> &ApprovalSettings {
        self.authorities.approvals()
    }

    /// The tenant.
    pub(crate) fn tenant(&self) -> &str {
        &self.signed_in.person.tenant
    }

    /// Whether the person has a role, and so sees every ticket of the tenant.
    pub(crate) fn has_role(&self) -> bool {
        !self.roles.is_empty()
    }

    /// Whether the person sees a ticket: everybody sees what their own agents ask for.
    pub(crate) fn sees_ticket(&self, ticket: &Ticket) -> bool {
        let person = &self.signed_in.person;
        ticket.subject.tenant == person.tenant && (self.has_role() || ticket.subject.principal == person.principal)
    }

    /// Whether the person settles effects, holds tools back and releases them.
    pub(crate) fn may_operate(&self) -> bool {
        self.signed_in.person.may_operate(self.settings())
    }

    /// Whether the person sees values of this sensitivity.
    pub(crate) fn sees_value(&self, sensitivity: &str) -> bool {
        self.signed_in.person.sees(sensitivity, self.settings())
    }

    /// Whether the person sees every argument of a ticket, and so every text into which arguments are filled.
    pub(crate) fn sees_all_values(&self, ticket: &Ticket) -> bool {
        ticket.subject.sensitive.values().all(|sensitivity| self.sees_value(sensitivity))
    }

    /// The person as one who decides.
    pub(crate) fn as_approver(&self) -> Approver {
        let person = &self.signed_in.person;
        Approver {
            tenant: person.tenant.clone(),
            principal: person.principal.clone(),
            groups: person.groups.clone(),
            roles: self.roles.clone(),
            presence: person.presence,
        }
    }
}
