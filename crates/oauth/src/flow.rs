//! The way to a token, as a state machine: the next action follows from what came back. It finds out where tokens are issued, becomes a
//! client there, lets the user consent if the grant needs it, and requests the token.
//!
//! Randomness and time are passed in. The caller fetches addresses and shows users the consent page.

use std::fmt;

use serde_json::Value;
use servanda_authority::Secret;
use servanda_contract::Timestamp;

use crate::{
    allowed_url::{AllowedUrl, DisallowedUrl},
    assertion::AssertionError,
    callback::{self, ConsentError, ExpectedCallback},
    client::{ClientAcquisition, ClientAuthMethod, OauthClient, OauthClientConfig, OauthClientError},
    discovery::{DiscoveredServer, DiscoveryError, DiscoveryInput, DiscoveryStep, DocumentFetch, OauthDiscovery},
    pkce,
    request::{Grant, TokenEndpoint, TokenPurpose, TokenRequest, token_request},
    scope::{InvalidOauthScopes, OauthScopes, ScopeSources},
    token_response::{self, IssuedTokens, RequestedTokenKind, TokenRequestError},
};

/// The type of token that one server issues and another accepts as a grant.
pub const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// What is wanted, and how to get it.
#[derive(Debug, Clone)]
pub struct FlowPlan {
    /// The gateway's client.
    pub client: OauthClientConfig,
    /// The scopes that the operator or the user named.
    pub scopes: Option<OauthScopes>,
    /// The scopes that were requested before.
    pub before: Option<OauthScopes>,
    /// Those that the upstream's challenge named.
    pub challenged: Option<OauthScopes>,
    /// How the token is requested.
    pub means: GrantSource,
}

/// How a token is requested.
#[derive(Debug, Clone)]
pub enum GrantSource {
    /// A user's consent.
    Consent(ConsentSession),
    /// The client itself.
    ClientCredentials,
    /// A token about the user, exchanged by the upstream's own authorization server.
    Exchange(SubjectToken),
    /// A token about the user, exchanged elsewhere for a grant that the upstream's authorization server accepts.
    Relayed(Box<RelayServer>),
    /// A signed assertion that is a grant by itself.
    Assertion(Secret),
}

/// What ties a consent together.
#[derive(Debug, Clone)]
pub struct ConsentSession {
    /// Where the browser returns to.
    pub redirect: String,
    /// Comes back with the answer.
    pub state: Secret,
    /// Proves that the client that redeems the code is the one that requested it.
    pub verifier: Secret,
    /// A client that registered itself earlier, with its issuer. It is valid at that issuer alone.
    pub earlier: Option<(String, OauthClient)>,
}

/// A token about a user.
#[derive(Debug, Clone)]
pub struct SubjectToken {
    /// The token.
    pub token: Secret,
    /// Its type.
    pub kind: String,
}

/// Another server in between.
#[derive(Debug, Clone)]
pub struct RelayServer {
    /// The token to exchange.
    pub subject: SubjectToken,
    /// Where it is exchanged, from the operator's configuration.
    pub endpoint: AllowedUrl,
    /// The issuer of that endpoint.
    pub issuer: String,
    /// The gateway's client there.
    pub client: OauthClient,
}

/// What the caller has to do next.
#[derive(Debug)]
pub enum FlowAction {
    /// Fetch a document.
    Fetch(AllowedUrl),
    /// Post a registration.
    Register(AllowedUrl, Value),
    /// Let the user open this address, and wait for what comes back.
    OpenBrowser(String),
    /// Post a request for a token.
    RequestToken(TokenRequest),
}

/// What came back.
#[derive(Debug)]
pub enum FlowEvent {
    /// The result of a fetch.
    Fetched(DocumentFetch),
    /// The answer to a post.
    Answered {
        /// The status.
        status: u16,
        /// The body, bounded.
        body: Secret,
    },
    /// The query that came back through the browser.
    Returned(String),
}

/// The state of a flow.
#[derive(Debug)]
pub struct TokenFlow {
    plan: FlowPlan,
    stage: FlowStage,
}

/// What follows.
#[derive(Debug)]
pub enum FlowStep {
    /// The caller has to do something.
    Do(Box<TokenFlow>, FlowAction),
    /// Tokens were issued.
    Granted(Box<GrantedTokens>),
}

/// Tokens, and everything that is needed to request the next ones.
#[derive(Debug, Clone)]
pub struct GrantedTokens {
    /// Who issued them.
    pub issuer: String,
    /// The endpoint that issued them.
    pub token_endpoint: AllowedUrl,
    /// The client they were issued to.
    pub client: OauthClient,
    /// The resource they are for.
    pub resource: String,
    /// The scopes that were asked for.
    pub scopes: OauthScopes,
    /// The tokens.
    pub tokens: IssuedTokens,
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// It is not known where to ask.
    #[error(transparent)]
    NotFound(#[from] DiscoveryError),
    /// The gateway has no client there.
    #[error(transparent)]
    NoClient(#[from] OauthClientError),
    /// Codes could be stolen on the way.
    #[error("the authorization server does not declare support for PKCE with S256")]
    Unproven,
    /// Users cannot give consent there.
    #[error("the authorization server has no page where users can give consent")]
    NoConsentPage,
    /// The user did not consent, or the answer came from elsewhere.
    #[error(transparent)]
    NoConsent(#[from] ConsentError),
    /// No token was issued.
    #[error(transparent)]
    NoTokens(#[from] TokenRequestError),
    /// The client's assertion could not be signed.
    #[error(transparent)]
    NotSigned(#[from] AssertionError),
    /// An address is not allowed.
    #[error("an address is not followed: {0}")]
    NotFollowed(#[from] DisallowedUrl),
    /// Too many scopes would be requested.
    #[error(transparent)]
    Scopes(#[from] InvalidOauthScopes),
    /// The caller passed an event that the flow was not waiting for.
    #[error("the flow got an answer that it was not waiting for")]
    OutOfTurn,
}

enum FlowStage {
    Searching(Box<OauthDiscovery>),
    Registering { found: Box<DiscoveredServer>, scopes: OauthScopes, method: ClientAuthMethod },
    Consenting(TokenRequestPlan),
    Relaying(TokenRequestPlan),
    Asking(TokenRequestPlan),
}

/// Everything that is needed to request a token.
#[derive(Debug)]
struct TokenRequestPlan {
    found: Box<DiscoveredServer>,
    client: OauthClient,
    scopes: OauthScopes,
}

impl TokenFlow {
    /// Begins the flow.
    pub fn begin(plan: FlowPlan, known: DiscoveryInput, now: Timestamp) -> Result<FlowStep, FlowError> {
        advance(plan, OauthDiscovery::begin(known)?, now)
    }

    /// Continues with what came back.
    pub fn step(self, event: FlowEvent, now: Timestamp) -> Result<FlowStep, FlowError> {
        let plan = self.plan;
        match (self.stage, event) {
            (FlowStage::Searching(search), FlowEvent::Fetched(look)) => advance(plan, search.step(look)?, now),
            (FlowStage::Registering { found, scopes, method }, FlowEvent::Answered { status, body }) => {
                let client = OauthClient::from_registration(status, body.expose(), method)?;
                begin_asking(plan, TokenRequestPlan { found, client, scopes }, now)
            }
            (FlowStage::Consenting(settled), FlowEvent::Returned(query)) => {
                let GrantSource::Consent(consent) = &plan.means else { return Err(FlowError::OutOfTurn) };
                let code = callback::read(&query, &settled.expected(consent))?;
                let grant = Grant::Code { code: &code, verifier: &consent.verifier, redirect: &consent.redirect };
                let action = settled.ask(&grant, now)?;
                Ok(FlowStep::Do(Box::new(Self { stage: FlowStage::Asking(settled), plan }), action))
            }
            (FlowStage::Relaying(settled), FlowEvent::Answered { status, body }) => {
                let grant = token_response::read(status, body.expose(), RequestedTokenKind::Typed(ID_JAG), now)?.access;
                let action = settled.ask(&Grant::JwtBearer(&grant), now)?;
                Ok(FlowStep::Do(Box::new(Self { stage: FlowStage::Asking(settled), plan }), action))
            }
            (FlowStage::Asking(settled), FlowEvent::Answered { status, body }) => {
                let tokens = token_response::read(status, body.expose(), RequestedTokenKind::Access, now)?;
                Ok(FlowStep::Granted(Box::new(settled.granted(tokens))))
            }
            _ => Err(FlowError::OutOfTurn),
        }
    }
}

fn advance(plan: FlowPlan, next: DiscoveryStep, now: Timestamp) -> Result<FlowStep, FlowError> {
    let found = match next {
        DiscoveryStep::Fetch(search, place) => {
            return Ok(FlowStep::Do(
                Box::new(TokenFlow { plan, stage: FlowStage::Searching(search) }),
                FlowAction::Fetch(place),
            ));
        }
        DiscoveryStep::Found(found) => found,
    };
    let scopes = plan.choose(&found)?;
    let redirect = match &plan.means {
        GrantSource::Consent(consent) => {
            if found.server.proves_codes == Some(false) {
                return Err(FlowError::Unproven);
            }
            if plan.client.id.is_none()
                && let Some((_, client)) = consent.earlier.as_ref().filter(|(issuer, _)| *issuer == found.server.issuer)
            {
                let client = client.clone();
                return begin_asking(plan, TokenRequestPlan { found, client, scopes }, now);
            }
            Some(consent.redirect.as_str())
        }
        _ => None,
    };
    match plan.client.acquisition(&found.server, redirect, &scopes)? {
        ClientAcquisition::Existing(client) => begin_asking(plan, TokenRequestPlan { found, client, scopes }, now),
        ClientAcquisition::Register { at, request, method } => {
            let stage = FlowStage::Registering { found, scopes, method };
            Ok(FlowStep::Do(Box::new(TokenFlow { plan, stage }), FlowAction::Register(at, request)))
        }
    }
}

fn begin_asking(plan: FlowPlan, settled: TokenRequestPlan, now: Timestamp) -> Result<FlowStep, FlowError> {
    let (action, stage) = match &plan.means {
        GrantSource::Consent(consent) => {
            (FlowAction::OpenBrowser(settled.consent_page(consent)?), FlowStage::Consenting(settled))
        }
        GrantSource::ClientCredentials => (settled.ask(&Grant::ClientCredentials, now)?, FlowStage::Asking(settled)),
        GrantSource::Assertion(assertion) => {
            (settled.ask(&Grant::JwtBearer(assertion), now)?, FlowStage::Asking(settled))
        }
        GrantSource::Exchange(subject) => {
            let grant = Grant::Exchange {
                subject: &subject.token,
                subject_type: &subject.kind,
                requested_type: None,
                audience: None,
            };
            (settled.ask(&grant, now)?, FlowStage::Asking(settled))
        }
        GrantSource::Relayed(relay) => (settled.relay(relay, now)?, FlowStage::Relaying(settled)),
    };
    Ok(FlowStep::Do(Box::new(TokenFlow { plan, stage }), action))
}

impl FlowPlan {
    fn choose(&self, found: &DiscoveredServer) -> Result<OauthScopes, InvalidOauthScopes> {
        let wishes = ScopeSources {
            configured: self.scopes.as_ref(),
            before: self.before.as_ref(),
            challenged: self.challenged.as_ref(),
            documented: found.scopes.as_ref(),
            offered: found.server.scopes.as_ref(),
            offline: matches!(self.means, GrantSource::Consent(_)),
        };
        wishes.choose()
    }
}

impl TokenRequestPlan {
    fn purpose(&self) -> TokenPurpose<'_> {
        TokenPurpose { resource: Some(&self.found.resource), scopes: &self.scopes }
    }

    fn ask(&self, grant: &Grant<'_>, now: Timestamp) -> Result<FlowAction, FlowError> {
        let server = &self.found.server;
        let endpoint = TokenEndpoint { address: &server.token_endpoint, issuer: &server.issuer };
        Ok(FlowAction::RequestToken(token_request(grant, &self.client, endpoint, self.purpose(), now)?))
    }

    /// Requests a grant from the server in between, for the upstream's own server.
    fn relay(&self, relay: &RelayServer, now: Timestamp) -> Result<FlowAction, FlowError> {
        let grant = Grant::Exchange {
            subject: &relay.subject.token,
            subject_type: &relay.subject.kind,
            requested_type: Some(ID_JAG),
            audience: Some(&self.found.server.issuer),
        };
        let endpoint = TokenEndpoint { address: &relay.endpoint, issuer: &relay.issuer };
        Ok(FlowAction::RequestToken(token_request(&grant, &relay.client, endpoint, self.purpose(), now)?))
    }

    fn expected(&self, consent: &ConsentSession) -> ExpectedCallback {
        let server = &self.found.server;
        ExpectedCallback {
            state: consent.state.clone(),
            issuer: server.issuer.clone(),
            names_itself: server.names_itself,
        }
    }

    /// The address that the user opens.
    fn consent_page(&self, consent: &ConsentSession) -> Result<String, FlowError> {
        let endpoint = self.found.server.authorization_endpoint.as_ref().ok_or(FlowError::NoConsentPage)?;
        let mut url = endpoint.url().clone();
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", &consent.redirect)
            .append_pair("state", consent.state.as_text().unwrap_or_default())
            .append_pair("code_challenge", &pkce::s256_challenge(&consent.verifier))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &self.found.resource);
        if let Some(line) = self.scopes.line() {
            query.append_pair("scope", &line);
        }
        drop(query);
        Ok(url.into())
    }

    fn granted(self, tokens: IssuedTokens) -> GrantedTokens {
        let DiscoveredServer { resource, server, .. } = *self.found;
        GrantedTokens {
            issuer: server.issuer,
            token_endpoint: server.token_endpoint,
            client: self.client,
            resource,
            scopes: self.scopes,
            tokens,
        }
    }
}

impl fmt::Debug for FlowStage {
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
