//! Gets tokens: takes a flow from step to step, and asks for the next tokens of a login.

use std::{fmt, sync::Arc};

use reqwest::Url;
use servanda_authority::Secret;
use servanda_contract::time::Clock;
use servanda_effects::PortFuture;
use servanda_upstream::MissingCredential;

use crate::{
    client::{OauthClient, OauthClientConfig},
    discovery::DiscoveryInput,
    fetch::{AuthServerUnreachable, OauthHttp},
    flow::{FlowAction, FlowError, FlowEvent, FlowPlan, FlowStep, GrantedTokens, SubjectToken, TokenFlow},
    login::Login,
    request::{Grant, TokenEndpoint, TokenPurpose, token_request},
    scope::OauthScopes,
    token_response::{self, RequestedTokenKind},
};

/// How many steps a flow may take.
const STEPS_MAX: usize = 32;

/// The terms on which tokens of an upstream are got. They are read anew whenever tokens are asked for: secrets among them
/// may have been changed by then.
pub trait UpstreamAccessSource: Send + Sync + fmt::Debug {
    /// The terms as they are now.
    fn access(&self) -> PortFuture<'_, Result<UpstreamAccess, MissingCredential>>;

    /// The upstream's address, which no secret is needed for.
    fn url(&self) -> &Url;
}

/// An upstream, as tokens for it are got.
#[derive(Debug, Clone)]
pub struct UpstreamAccess {
    /// Its id in the configuration.
    pub upstream: String,
    /// Its address.
    pub url: Url,
    /// The issuer that the operator wants.
    pub issuer: Option<String>,
    /// Who we are.
    pub client: OauthClientConfig,
    /// The scopes that the operator wants.
    pub scopes: Option<OauthScopes>,
    /// Addresses that the operator wrote down.
    pub named: Vec<Url>,
    /// What tokens are asked for by, where that is not a user's consent.
    pub grant: UnattendedGrant,
}

/// What tokens are asked for by, without anybody being there.
#[derive(Debug, Clone)]
pub enum UnattendedGrant {
    /// The client itself.
    Client,
    /// A signed statement that is a grant by itself.
    Assertion(Secret),
    /// A statement of the gateway's about the user, exchanged by the upstream's authorization server.
    Statement,
    /// Something that the operator keeps, exchanged by the upstream's authorization server.
    Subject(SubjectToken),
    /// The same, exchanged elsewhere for a grant that the upstream's authorization server takes.
    Relayed {
        /// What is exchanged.
        subject: SubjectToken,
        /// Where.
        endpoint: Url,
        /// Who we are there.
        client: OauthClient,
    },
}

/// Shows a user an address, and waits for what comes back by way of their browser.
pub trait ConsentBrowser: Send + Sync {
    /// The query that came back; none if nothing came in time.
    fn show<'a>(&'a self, address: &'a str) -> PortFuture<'a, Option<String>>;
}

/// Nobody is there to agree to anything.
#[derive(Debug, Clone, Copy)]
pub struct NoBrowser;

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Somebody did not answer.
    #[error(transparent)]
    Unreachable(#[from] AuthServerUnreachable),
    /// Somebody said no.
    #[error(transparent)]
    NotGranted(#[from] FlowError),
    /// Nobody came back.
    #[error("nobody agreed in time")]
    Nobody,
    /// The login cannot be gone on with.
    #[error("the login was made with a client that is not configured any more")]
    OtherClient,
}

/// Takes a flow to its end.
pub async fn obtain(
    oauth_http: &OauthHttp,
    plan: FlowPlan,
    known: DiscoveryInput,
    clock: &Arc<dyn Clock>,
    window: &dyn ConsentBrowser,
) -> Result<GrantedTokens, GrantError> {
    let mut turn = TokenFlow::begin(plan, known, clock.now())?;
    for _ in 0..STEPS_MAX {
        let (flow, action) = match turn {
            FlowStep::Do(flow, action) => (flow, action),
            FlowStep::Granted(granted) => return Ok(*granted),
        };
        let event = match action {
            FlowAction::Fetch(place) => FlowEvent::Fetched(oauth_http.fetch(&place).await),
            FlowAction::Register(place, request) => oauth_http.register(&place, &request).await?,
            FlowAction::RequestToken(request) => oauth_http.request_token(&request).await?,
            FlowAction::OpenBrowser(address) => {
                FlowEvent::Returned(window.show(&address).await.ok_or(GrantError::Nobody)?)
            }
        };
        turn = flow.step(event, clock.now())?;
    }
    Err(FlowError::OutOfTurn.into())
}

/// Asks for the next tokens of a login, where its last ones came from.
pub async fn renew(
    oauth_http: &OauthHttp,
    login: &Login,
    configured: &OauthClientConfig,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Login>, GrantError> {
    let Some(refresh) = login.refresh_token() else { return Ok(None) };
    let client = login.client(configured).ok_or(GrantError::OtherClient)?;
    let place = oauth_http.trust().follow(&login.token_endpoint).map_err(FlowError::from)?;
    let endpoint = TokenEndpoint { address: &place, issuer: &login.issuer };
    let purpose = TokenPurpose { resource: &login.resource, scopes: &login.asked };
    let request = token_request(&Grant::Refresh(refresh), &client, endpoint, purpose, clock.now());
    let FlowEvent::Answered { status, body } = oauth_http.request_token(&request.map_err(FlowError::from)?).await?
    else {
        return Err(FlowError::OutOfTurn.into());
    };
    let tokens = token_response::read(status, body.expose(), RequestedTokenKind::Access, clock.now())
        .map_err(FlowError::from)?;
    Ok(Some(login.renewed(tokens, clock.now())))
}

impl GrantError {
    /// Whether asking again cannot help before somebody does something.
    pub fn is_final(&self) -> bool {
        match self {
            Self::NotGranted(FlowError::NoTokens(why)) => why.is_final(),
            Self::NotGranted(FlowError::NotFound(why)) => *why != crate::discovery::DiscoveryError::Unreachable,
            Self::Unreachable(_) => false,
            Self::NotGranted(_) | Self::Nobody | Self::OtherClient => true,
        }
    }
}

impl UpstreamAccess {
    /// An oauth http for it.
    pub async fn oauth_http(&self) -> Result<OauthHttp, AuthServerUnreachable> {
        OauthHttp::new(&self.url, &self.named).await
    }
}

impl ConsentBrowser for NoBrowser {
    fn show<'a>(&'a self, _address: &'a str) -> PortFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}
