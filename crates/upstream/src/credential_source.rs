//! The port that gives an upstream the credentials it shows a server to prove on whose behalf a request is made.
//!
//! The gateway asks for them just before a request is sent, after every decision is made: the code that decides, records or proposes never
//! holds them. A source says what to show, and what to do when the server rejects it. Where the values come from (a store, an authorization
//! server, a key) is up to the source. The time it may take is limited by the request's deadline.

use std::{collections::BTreeSet, fmt, sync::Arc};

use servanda_authority::{AuthenticatedCaller, CredentialMethod, Secret, rights::Scope};
use servanda_contract::{
    CallId, Caller, Digest,
    tool::{EffectClass, SideEffectClass},
};
use servanda_effects::PortFuture;
use tokio::time::Instant;

use crate::UpstreamName;

/// How often a source is asked what to do about one request that the server rejected.
pub const REJECTIONS_MAX: usize = 2;

/// Knows which credentials one server needs.
pub trait CredentialSource: Send + Sync + fmt::Debug {
    /// The credentials for this request. Called just before the request is sent, and again after [`Remedy::TryAgain`].
    ///
    /// Must be cancel safe: the gateway stops waiting at [`CredentialRequest::deadline`].
    fn present<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>>;

    /// Says what to do after the server answered a request that carried the presented credentials with 401 or 403. Called at most
    /// [`REJECTIONS_MAX`] times for one request. Such an answer means that the server did not execute the request, so the request is
    /// repeated.
    ///
    /// Must be cancel safe.
    fn rejected<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
        rejection: &'a CredentialRejection,
    ) -> PortFuture<'a, Remedy>;

    /// Whether the credentials belong to a single user. If so, every user (tenant and principal) has their own connections, sessions and
    /// processes to the server, which no other user shares; the shared connection is used by the gateway alone.
    fn is_personal(&self) -> bool;

    /// The tool arguments that this source fills in, as JSON pointers. Agents do not see these arguments.
    fn argument_pointers(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What the credentials are requested for.
#[derive(Debug, Clone)]
pub struct CredentialRequest {
    /// The server.
    pub upstream: UpstreamName,
    /// The user; none is the gateway itself, as when it asks what the server offers.
    pub on_behalf_of: Option<Arc<Caller>>,
    /// The user's checked credential. None when the gateway resumes a call from its records.
    pub authority: Option<Arc<AuthenticatedCaller>>,
    /// The call, if the request is one.
    pub call: Option<CredentialCall>,
    /// When the gateway stops waiting for the request.
    pub deadline: Instant,
}

/// What a source may know about a call.
#[derive(Debug, Clone)]
pub struct CredentialCall {
    /// Its id.
    pub call_id: CallId,
    /// The tool, as the server names it.
    pub tool: String,
    /// Digest of the arguments as they were decided about: without the values that a source adds.
    pub arguments: Digest,
    /// What it may do.
    pub effect: EffectClass,
    /// The contract that allowed it, as far as the source needs it.
    pub requirements: Option<Arc<CallRequirements>>,
}

/// What a call needs according to its contract, for sources that tell the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequirements {
    /// The contract's name.
    pub tool: String,
    /// Every scope of the contract.
    pub scopes: BTreeSet<Scope>,
    /// How grave its side effect is.
    pub class: SideEffectClass,
}

/// The user on whose behalf a request is made.
#[derive(Debug, Clone)]
pub enum RequestUser {
    /// A user whose credential was checked.
    Holder(Arc<AuthenticatedCaller>),
    /// A user whose call is on record. Only their identity is known.
    Recorded(Arc<Caller>),
}

/// The credentials to show. Every value is redacted from everything that the server sends back.
#[derive(Debug, Clone, Default)]
pub struct PresentedCredentials {
    /// Header fields, for HTTP. When a value has two words (`Bearer x`) and contains none of `hidden`, the second word is the secret.
    pub headers: Vec<(String, Secret)>,
    /// Values for arguments of a tool call, by JSON pointer. They are inserted as strings.
    pub arguments: Vec<(String, Secret)>,
    /// Environment variables, for a process that is about to be started.
    pub environment: Vec<(String, Secret)>,
    /// The secret parts of the other values, where a value is not secret as a whole, and further values that the server may repeat, such as
    /// the password inside an encoded header. A value that contains one of these is not searched for as a whole.
    pub hidden: Vec<Secret>,
    /// Beginnings of values that are new for every call; redaction takes the rest of the token after the beginning. A value with such a
    /// beginning is not searched for by itself: that would cost more than the call.
    pub stems: Vec<Secret>,
}

/// Why there are no credentials to show, so that nothing is sent. Never contains a secret value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{told}")]
pub struct MissingCredential {
    /// The kind of problem.
    pub lack: CredentialLack,
    /// What is missing or wrong.
    pub told: String,
    /// What an operator or the user can do about it, for example `servanda secret set crm-token`.
    pub hint: Option<String>,
}

/// Why a credential is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialLack {
    /// It cannot be had at present: a store or an authorization server is unreachable, or the secret is not set.
    Unavailable,
    /// This user has none or may not have one: consent, a login or a right is missing.
    NotPermitted,
}

/// How a server rejected a request's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRejection {
    /// 401 or 403.
    pub status: u16,
    /// Its `WWW-Authenticate` fields joined with commas, bounded.
    pub www_authenticate: Option<String>,
    /// How many times this request was rejected before.
    pub rejected_before: usize,
}

/// What to do about a rejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// The source has other credentials: ask for them and repeat the request.
    TryAgain,
    /// The gateway can do nothing about it.
    GiveUp(MissingCredential),
}

impl RequestUser {
    /// Tenant and principal.
    pub fn user(&self) -> (&str, &str) {
        match self {
            Self::Holder(authority) => (authority.tenant(), authority.principal()),
            Self::Recorded(caller) => (&caller.tenant, &caller.principal),
        }
    }

    /// Tenant and principal of a user whose use of limited resources is counted. None in local mode, where all callers are one principal. A
    /// record does not say how its caller authenticated, so recorded users are always counted.
    pub(crate) fn limited_user(&self) -> Option<(&str, &str)> {
        match self {
            Self::Holder(authority) if *authority.method() == CredentialMethod::Local => None,
            Self::Holder(_) | Self::Recorded(_) => Some(self.user()),
        }
    }

    pub(crate) fn caller(&self) -> Arc<Caller> {
        match self {
            Self::Holder(authority) => Arc::new(authority.caller()),
            Self::Recorded(caller) => Arc::clone(caller),
        }
    }

    pub(crate) fn authority(&self) -> Option<Arc<AuthenticatedCaller>> {
        match self {
            Self::Holder(authority) => Some(Arc::clone(authority)),
            Self::Recorded(_) => None,
        }
    }
}

impl PresentedCredentials {
    /// A header field.
    pub fn header(name: impl Into<String>, value: Secret) -> Self {
        Self { headers: vec![(name.into(), value)], ..Self::default() }
    }

    /// Adds the credentials of another source.
    #[must_use]
    pub fn merged_with(mut self, other: Self) -> Self {
        self.headers.extend(other.headers);
        self.arguments.extend(other.arguments);
        self.environment.extend(other.environment);
        self.hidden.extend(other.hidden);
        self.stems.extend(other.stems);
        self
    }
}

impl MissingCredential {
    /// The credential cannot be had at present.
    pub fn unavailable(told: impl Into<String>) -> Self {
        Self { lack: CredentialLack::Unavailable, told: told.into(), hint: None }
    }

    /// This user has no such credential.
    pub fn not_permitted(told: impl Into<String>) -> Self {
        Self { lack: CredentialLack::NotPermitted, told: told.into(), hint: None }
    }

    /// Adds a hint that says what to do.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
