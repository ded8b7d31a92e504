//! Obtains tokens: runs a flow from step to step, and renews the tokens of a login.

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

/// How many steps a flow may have.
const STEPS_MAX: usize = 32;

/// The settings for obtaining an upstream's tokens. They are read again whenever tokens are requested, because secrets among them may have
/// changed.
pub trait UpstreamAccessSource: Send + Sync + fmt::Debug {
    /// The present settings.
    fn access(&self) -> PortFuture<'_, Result<UpstreamAccess, MissingCredential>>;

    /// The upstream's address, which needs no secret.
    fn url(&self) -> &Url;
}

/// An upstream, with the settings for obtaining its tokens.
#[derive(Debug, Clone)]
pub struct UpstreamAccess {
    /// Its id in the configuration.
    pub upstream: String,
    /// Its address.
    pub url: Url,
    /// The issuer that the operator wants.
    pub issuer: Option<String>,
    /// The gateway's client.
    pub client: OauthClientConfig,
    /// The scopes that the operator wants.
    pub scopes: Option<OauthScopes>,
    /// Further addresses from the operator's configuration.
    pub named: Vec<Url>,
    /// How tokens are requested without a user's consent.
    pub grant: UnattendedGrant,
}

/// How tokens are requested without a user being present.
#[derive(Debug, Clone)]
pub enum UnattendedGrant {
    /// The client itself.
    Client,
    /// A signed assertion that is a grant by itself.
    Assertion(Secret),
    /// A statement of the gateway about the user, exchanged by the upstream's authorization server.
    Statement,
    /// A token that the operator keeps, exchanged by the upstream's authorization server.
    Subject(SubjectToken),
    /// The same, exchanged elsewhere for a grant that the upstream's authorization server accepts.
    Relayed {
        /// The token to exchange.
        subject: SubjectToken,
        /// Where it is exchanged.
        endpoint: Url,
        /// The gateway's client there.
        client: OauthClient,
    },
}

/// Shows a user an address, and waits for what comes back through their browser.
pub trait ConsentBrowser: Send + Sync {
    /// The query that came back; none if nothing came in time.
    fn show<'a>(&'a self, address: &'a str) -> PortFuture<'a, Option<String>>;
}

/// There is no user who could consent.
#[derive(Debug, Clone, Copy)]
pub struct NoBrowser;

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// A server did not answer.
    #[error(transparent)]
    Unreachable(#[from] AuthServerUnreachable),
    /// A server refused.
    #[error(transparent)]
    NotGranted(#[from] FlowError),
    /// No answer came back through the browser.
    #[error("the user did not consent in time")]
    Nobody,
    /// The login cannot be continued.
    #[error("the login was made with a client that is no longer configured; log in again")]
    OtherClient,
}

/// Runs a flow to its end.
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

/// Requests the next tokens of a login from the endpoint that issued the last ones.
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
    let purpose = TokenPurpose { resource: Some(&login.resource), scopes: &login.asked };
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
    /// Whether asking again cannot help until an operator or the user does something.
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
    /// An HTTP client for this upstream's OAuth requests.
    pub async fn oauth_http(&self) -> Result<OauthHttp, AuthServerUnreachable> {
        OauthHttp::new(&self.url, &self.named).await
    }
}

impl ConsentBrowser for NoBrowser {
    fn show<'a>(&'a self, _address: &'a str) -> PortFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}
