//! Gets tokens: takes a flow from step to step, and asks for the next tokens of a login.

use std::{fmt, sync::Arc};

use reqwest::Url;
use servanda_authority::Secret;
use servanda_contract::time::Clock;
use servanda_effects::PortFuture;
use servanda_upstream::NotPresented;

use crate::{
    answer::{self, Kind},
    client::{Client, Configured},
    discovery::DiscoveryInput,
    fetch::{Courier, Unreachable},
    flow::{Action, Event, Flow, Granted, NotGranted, Plan, Subject, Turn},
    login::Login,
    request::{Endpoint, Grant, Purpose, token_request},
    scope::Scopes,
};

/// How many steps a flow may take.
const STEPS_MAX: usize = 32;

/// The terms on which tokens of an upstream are got. They are read anew whenever tokens are asked for: secrets among them
/// may have been changed by then.
pub trait Terms: Send + Sync + fmt::Debug {
    /// The terms as they are now.
    fn access(&self) -> PortFuture<'_, Result<Access, NotPresented>>;

    /// The upstream's address, which no secret is needed for.
    fn url(&self) -> &Url;
}

/// An upstream, as tokens for it are got.
#[derive(Debug, Clone)]
pub struct Access {
    /// Its id in the configuration.
    pub upstream: String,
    /// Its address.
    pub url: Url,
    /// The issuer that the operator wants.
    pub issuer: Option<String>,
    /// Who we are.
    pub client: Configured,
    /// The scopes that the operator wants.
    pub scopes: Option<Scopes>,
    /// Addresses that the operator wrote down.
    pub named: Vec<Url>,
    /// What tokens are asked for by, where that is not a user's consent.
    pub standing: Standing,
}

/// What tokens are asked for by, without anybody being there.
#[derive(Debug, Clone)]
pub enum Standing {
    /// The client itself.
    Client,
    /// A signed statement that is a grant by itself.
    Assertion(Secret),
    /// A statement of the gateway's about the user, exchanged by the upstream's authorization server.
    Statement,
    /// Something that the operator keeps, exchanged by the upstream's authorization server.
    Subject(Subject),
    /// The same, exchanged elsewhere for a grant that the upstream's authorization server takes.
    Relayed {
        /// What is exchanged.
        subject: Subject,
        /// Where.
        endpoint: Url,
        /// Who we are there.
        client: Client,
    },
}

/// Shows a user an address, and waits for what comes back by way of their browser.
pub trait Window: Send + Sync {
    /// The query that came back; none if nothing came in time.
    fn show<'a>(&'a self, address: &'a str) -> PortFuture<'a, Option<String>>;
}

/// Nobody is there to agree to anything.
#[derive(Debug, Clone, Copy)]
pub struct Unattended;

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGrant {
    /// Somebody did not answer.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// Somebody said no.
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// Nobody came back.
    #[error("nobody agreed in time")]
    Nobody,
    /// The login cannot be gone on with.
    #[error("the login was made with a client that is not configured any more")]
    OtherClient,
}

/// Takes a flow to its end.
pub async fn obtain(
    courier: &Courier,
    plan: Plan,
    known: DiscoveryInput,
    clock: &Arc<dyn Clock>,
    window: &dyn Window,
) -> Result<Granted, NoGrant> {
    let mut turn = Flow::begin(plan, known, clock.now())?;
    for _ in 0..STEPS_MAX {
        let (flow, action) = match turn {
            Turn::Do(flow, action) => (flow, action),
            Turn::Granted(granted) => return Ok(*granted),
        };
        let event = match action {
            Action::Look(place) => Event::Looked(courier.look(&place).await),
            Action::Register(place, request) => courier.register(&place, &request).await?,
            Action::Ask(request) => courier.ask(&request).await?,
            Action::Show(address) => Event::Returned(window.show(&address).await.ok_or(NoGrant::Nobody)?),
        };
        turn = flow.step(event, clock.now())?;
    }
    Err(NotGranted::OutOfTurn.into())
}

/// Asks for the next tokens of a login, where its last ones came from.
pub async fn renew(
    courier: &Courier,
    login: &Login,
    configured: &Configured,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Login>, NoGrant> {
    let Some(refresh) = login.refresh_token() else { return Ok(None) };
    let client = login.client(configured).ok_or(NoGrant::OtherClient)?;
    let place = courier.trust().follow(&login.token_endpoint).map_err(NotGranted::from)?;
    let endpoint = Endpoint { place: &place, issuer: &login.issuer };
    let purpose = Purpose { resource: &login.resource, scopes: &login.asked };
    let request = token_request(&Grant::Refresh(refresh), &client, endpoint, purpose, clock.now());
    let Event::Answered { status, body } = courier.ask(&request.map_err(NotGranted::from)?).await? else {
        return Err(NotGranted::OutOfTurn.into());
    };
    let tokens = answer::read(status, body.expose(), Kind::Access, clock.now()).map_err(NotGranted::from)?;
    Ok(Some(login.renewed(tokens, clock.now())))
}

impl NoGrant {
    /// Whether asking again cannot help before somebody does something.
    pub fn is_final(&self) -> bool {
        match self {
            Self::NotGranted(NotGranted::NoTokens(why)) => why.is_final(),
            Self::NotGranted(NotGranted::NotFound(why)) => *why != crate::discovery::NotFound::Unreachable,
            Self::Unreachable(_) => false,
            Self::NotGranted(_) | Self::Nobody | Self::OtherClient => true,
        }
    }
}

impl Access {
    /// A courier for it.
    pub async fn courier(&self) -> Result<Courier, Unreachable> {
        Courier::new(&self.url, &self.named).await
    }
}

impl Window for Unattended {
    fn show<'a>(&'a self, _address: &'a str) -> PortFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}
