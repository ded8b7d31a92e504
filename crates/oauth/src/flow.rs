//! The way to a token, as a machine: what to do next follows from what came back. It finds out where tokens are to be had,
//! becomes a client there, lets the user agree where it takes one, and asks for the token.
//!
//! Randomness and time are handed in; addresses are fetched and users shown somewhere by the shell.

use std::fmt;

use serde_json::Value;
use servanda_authority::Secret;
use servanda_contract::Timestamp;

use crate::{
    answer::{self, Kind, NoTokens, Tokens},
    assertion::NotSigned,
    callback::{self, Expected, NoConsent},
    client::{Client, Configured, NoClient, ProofMethod, Way},
    discovery::{Found, DiscoveryInput, Look, Next, NotFound, Search},
    place::{NotFollowed, Place},
    proof,
    request::{Endpoint, Grant, Purpose, TokenRequest, token_request},
    scope::{BadScopes, Scopes, Wishes},
};

/// The kind of token that one server issues for another to take as a grant.
pub const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// What is wanted, and by what means.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Who we are.
    pub client: Configured,
    /// The scopes that the operator or the user named.
    pub scopes: Option<Scopes>,
    /// Those that were asked for before.
    pub before: Option<Scopes>,
    /// Those that the upstream's challenge named.
    pub challenged: Option<Scopes>,
    /// By what a token is asked for.
    pub means: Means,
}

/// By what a token is asked for.
#[derive(Debug, Clone)]
pub enum Means {
    /// A user's consent.
    Consent(Consent),
    /// The client itself.
    ClientCredentials,
    /// A statement about the user, exchanged by the upstream's own authorization server.
    Exchange(Subject),
    /// A statement about the user, exchanged elsewhere for a grant that the upstream's authorization server takes.
    Relayed(Box<Relay>),
    /// A signed statement that is a grant by itself.
    Assertion(Secret),
}

/// What ties a consent together.
#[derive(Debug, Clone)]
pub struct Consent {
    /// Where the browser comes back to.
    pub redirect: String,
    /// Comes back with it.
    pub state: Secret,
    /// Proves that whoever redeems the code asked for it.
    pub verifier: Secret,
    /// A client that registered itself earlier, with the issuer it did so at. It is the client of that issuer alone.
    pub earlier: Option<(String, Client)>,
}

/// A statement about a user.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The statement.
    pub token: Secret,
    /// Its kind.
    pub kind: String,
}

/// Another server in between.
#[derive(Debug, Clone)]
pub struct Relay {
    /// The statement.
    pub subject: Subject,
    /// Where it is exchanged; the operator's word.
    pub place: Place,
    /// Whose endpoint that is.
    pub issuer: String,
    /// Who we are there.
    pub client: Client,
}

/// What the shell does next.
#[derive(Debug)]
pub enum Action {
    /// Fetch a document.
    Look(Place),
    /// Post a registration.
    Register(Place, Value),
    /// Let the user open that address, and wait for what comes back.
    Show(String),
    /// Post a request for a token.
    Ask(TokenRequest),
}

/// What came back.
#[derive(Debug)]
pub enum Event {
    /// To a look.
    Looked(Look),
    /// To something posted.
    Answered {
        /// The status.
        status: u16,
        /// The body, bounded.
        body: Secret,
    },
    /// By way of the browser: a query.
    Returned(String),
}

/// Where a flow stands.
#[derive(Debug)]
pub struct Flow {
    plan: Plan,
    stage: Stage,
}

/// What follows.
#[derive(Debug)]
pub enum Turn {
    /// There is something to do.
    Do(Box<Flow>, Action),
    /// There are tokens.
    Granted(Box<Granted>),
}

/// Tokens, and everything that the next ones are asked for with.
#[derive(Debug, Clone)]
pub struct Granted {
    /// Who issued them.
    pub issuer: String,
    /// Where.
    pub token_endpoint: Place,
    /// To whom.
    pub client: Client,
    /// For which resource.
    pub resource: String,
    /// The scopes that were asked for.
    pub scopes: Scopes,
    /// The tokens.
    pub tokens: Tokens,
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    /// It is not known where to ask.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// We are nobody there.
    #[error(transparent)]
    NoClient(#[from] NoClient),
    /// Codes could be stolen on the way.
    #[error("the authorization server does not say that it knows PKCE with S256")]
    Unproven,
    /// Users cannot agree there.
    #[error("the authorization server has no address at which users agree")]
    NoConsentPage,
    /// The user did not agree, or somebody else answered.
    #[error(transparent)]
    NoConsent(#[from] NoConsent),
    /// There was no token.
    #[error(transparent)]
    NoTokens(#[from] NoTokens),
    /// The client's statement could not be signed.
    #[error(transparent)]
    NotSigned(#[from] NotSigned),
    /// We are sent where we do not go.
    #[error("an address is not followed: {0}")]
    NotFollowed(#[from] NotFollowed),
    /// What is asked for would be too much.
    #[error(transparent)]
    Scopes(#[from] BadScopes),
    /// The shell brought what was not asked for.
    #[error("the flow was answered out of turn")]
    OutOfTurn,
}

enum Stage {
    Searching(Box<Search>),
    Registering { found: Box<Found>, scopes: Scopes, method: ProofMethod },
    Consenting(Settled),
    Relaying(Settled),
    Asking(Settled),
}

/// Everything is known that a token is asked for with.
#[derive(Debug)]
struct Settled {
    found: Box<Found>,
    client: Client,
    scopes: Scopes,
}

impl Flow {
    /// Begins.
    pub fn begin(plan: Plan, known: DiscoveryInput, now: Timestamp) -> Result<Turn, NotGranted> {
        advance(plan, Search::begin(known)?, now)
    }

    /// What follows on what came back.
    pub fn step(self, event: Event, now: Timestamp) -> Result<Turn, NotGranted> {
        let plan = self.plan;
        match (self.stage, event) {
            (Stage::Searching(search), Event::Looked(look)) => advance(plan, search.step(look)?, now),
            (Stage::Registering { found, scopes, method }, Event::Answered { status, body }) => {
                let client = Client::registered(status, body.expose(), method)?;
                begin_asking(plan, Settled { found, client, scopes }, now)
            }
            (Stage::Consenting(settled), Event::Returned(query)) => {
                let Means::Consent(consent) = &plan.means else { return Err(NotGranted::OutOfTurn) };
                let code = callback::read(&query, &settled.expected(consent))?;
                let grant = Grant::Code { code: &code, verifier: &consent.verifier, redirect: &consent.redirect };
                let action = settled.ask(&grant, now)?;
                Ok(Turn::Do(Box::new(Self { stage: Stage::Asking(settled), plan }), action))
            }
            (Stage::Relaying(settled), Event::Answered { status, body }) => {
                let grant = answer::read(status, body.expose(), Kind::Typed(ID_JAG), now)?.access;
                let action = settled.ask(&Grant::JwtBearer(&grant), now)?;
                Ok(Turn::Do(Box::new(Self { stage: Stage::Asking(settled), plan }), action))
            }
            (Stage::Asking(settled), Event::Answered { status, body }) => {
                let tokens = answer::read(status, body.expose(), Kind::Access, now)?;
                Ok(Turn::Granted(Box::new(settled.granted(tokens))))
            }
            _ => Err(NotGranted::OutOfTurn),
        }
    }
}

fn advance(plan: Plan, next: Next, now: Timestamp) -> Result<Turn, NotGranted> {
    let found = match next {
        Next::At(search, place) => {
            return Ok(Turn::Do(Box::new(Flow { plan, stage: Stage::Searching(search) }), Action::Look(place)));
        }
        Next::Found(found) => found,
    };
    let scopes = plan.choose(&found)?;
    let redirect = match &plan.means {
        Means::Consent(consent) => {
            if found.server.proves_codes == Some(false) {
                return Err(NotGranted::Unproven);
            }
            if plan.client.id.is_none()
                && let Some((_, client)) = consent.earlier.as_ref().filter(|(issuer, _)| *issuer == found.server.issuer)
            {
                let client = client.clone();
                return begin_asking(plan, Settled { found, client, scopes }, now);
            }
            Some(consent.redirect.as_str())
        }
        _ => None,
    };
    match plan.client.way(&found.server, redirect, &scopes)? {
        Way::Are(client) => begin_asking(plan, Settled { found, client, scopes }, now),
        Way::Register { at, request, method } => {
            let stage = Stage::Registering { found, scopes, method };
            Ok(Turn::Do(Box::new(Flow { plan, stage }), Action::Register(at, request)))
        }
    }
}

fn begin_asking(plan: Plan, settled: Settled, now: Timestamp) -> Result<Turn, NotGranted> {
    let (action, stage) = match &plan.means {
        Means::Consent(consent) => (Action::Show(settled.consent_page(consent)?), Stage::Consenting(settled)),
        Means::ClientCredentials => (settled.ask(&Grant::ClientCredentials, now)?, Stage::Asking(settled)),
        Means::Assertion(assertion) => (settled.ask(&Grant::JwtBearer(assertion), now)?, Stage::Asking(settled)),
        Means::Exchange(subject) => {
            let grant = Grant::Exchange {
                subject: &subject.token,
                subject_type: &subject.kind,
                requested_type: None,
                audience: None,
            };
            (settled.ask(&grant, now)?, Stage::Asking(settled))
        }
        Means::Relayed(relay) => (settled.relay(relay, now)?, Stage::Relaying(settled)),
    };
    Ok(Turn::Do(Box::new(Flow { plan, stage }), action))
}

impl Plan {
    fn choose(&self, found: &Found) -> Result<Scopes, BadScopes> {
        let wishes = Wishes {
            configured: self.scopes.as_ref(),
            before: self.before.as_ref(),
            challenged: self.challenged.as_ref(),
            documented: found.scopes.as_ref(),
            offered: found.server.scopes.as_ref(),
            offline: matches!(self.means, Means::Consent(_)),
        };
        wishes.choose()
    }
}

impl Settled {
    fn purpose(&self) -> Purpose<'_> {
        Purpose { resource: &self.found.resource, scopes: &self.scopes }
    }

    fn ask(&self, grant: &Grant<'_>, now: Timestamp) -> Result<Action, NotGranted> {
        let server = &self.found.server;
        let endpoint = Endpoint { place: &server.token_endpoint, issuer: &server.issuer };
        Ok(Action::Ask(token_request(grant, &self.client, endpoint, self.purpose(), now)?))
    }

    /// At the server in between, for a grant that the upstream's own takes.
    fn relay(&self, relay: &Relay, now: Timestamp) -> Result<Action, NotGranted> {
        let grant = Grant::Exchange {
            subject: &relay.subject.token,
            subject_type: &relay.subject.kind,
            requested_type: Some(ID_JAG),
            audience: Some(&self.found.server.issuer),
        };
        let endpoint = Endpoint { place: &relay.place, issuer: &relay.issuer };
        Ok(Action::Ask(token_request(&grant, &relay.client, endpoint, self.purpose(), now)?))
    }

    fn expected(&self, consent: &Consent) -> Expected {
        let server = &self.found.server;
        Expected { state: consent.state.clone(), issuer: server.issuer.clone(), names_itself: server.names_itself }
    }

    /// The address that the user opens.
    fn consent_page(&self, consent: &Consent) -> Result<String, NotGranted> {
        let endpoint = self.found.server.authorization_endpoint.as_ref().ok_or(NotGranted::NoConsentPage)?;
        let mut url = endpoint.url().clone();
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", &consent.redirect)
            .append_pair("state", consent.state.as_text().unwrap_or_default())
            .append_pair("code_challenge", &proof::challenge(&consent.verifier))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &self.found.resource);
        if let Some(line) = self.scopes.line() {
            query.append_pair("scope", &line);
        }
        drop(query);
        Ok(url.into())
    }

    fn granted(self, tokens: Tokens) -> Granted {
        let Found { resource, server, .. } = *self.found;
        Granted {
            issuer: server.issuer,
            token_endpoint: server.token_endpoint,
            client: self.client,
            resource,
            scopes: self.scopes,
            tokens,
        }
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Searching(_) => "Searching",
            Self::Registering { .. } => "Registering",
            Self::Consenting(_) => "Consenting",
            Self::Relaying(_) => "Relaying",
            Self::Asking(_) => "Asking",
        })
    }
}

#[cfg(test)]
mod tests;
