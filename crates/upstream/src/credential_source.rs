//! The port through which an upstream gets what it shows a server to prove on whose behalf it comes.
//!
//! What is presented is asked for just before a request leaves, after everything was decided: nobody who decides, records or
//! proposes ever holds it. A source says what to show and what can be done when the server does not take it; where the values
//! come from, a store, an authorization server or a key, is the source's business. How long it may take is ours: the
//! request's deadline.

use std::{collections::BTreeSet, fmt, sync::Arc};

use servanda_authority::{AuthenticatedCaller, CredentialMethod, Secret, rights::Scope};
use servanda_contract::{
    CallId, Caller, Digest,
    tool::{EffectClass, SideEffectClass},
};
use servanda_effects::PortFuture;
use tokio::time::Instant;

use crate::UpstreamName;

/// How often a source is asked what to do about one request that the server did not let in.
pub const REJECTIONS_MAX: usize = 2;

/// Knows what to show one server.
pub trait CredentialSource: Send + Sync + fmt::Debug {
    /// What is shown with this request. Asked just before it is sent, and again after [`Remedy::TryAgain`].
    ///
    /// Must be cancel safe: whoever asks gives up at [`CredentialRequest::deadline`].
    fn present<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>>;

    /// What can be done: the server answered a request that carried what was presented with 401 or 403. Asked at most
    /// [`REJECTIONS_MAX`] times for one request. Such an answer means that the request was not executed, so it is repeated.
    ///
    /// Must be cancel safe.
    fn rejected<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
        rejection: &'a CredentialRejection,
    ) -> PortFuture<'a, Remedy>;

    /// Whether what is presented belongs to a single user. Then every user (tenant and principal) has connections, sessions
    /// and processes of their own to the server, which nobody else ever uses; the shared connection is the gateway's alone.
    fn is_personal(&self) -> bool;

    /// The arguments of tools that it presents values for, as JSON pointers: agents are not shown that there are such.
    fn argument_pointers(&self) -> Vec<String> {
        Vec::new()
    }
}

/// For what something is presented.
#[derive(Debug, Clone)]
pub struct CredentialRequest {
    /// The server.
    pub upstream: UpstreamName,
    /// On whose behalf; none is the gateway itself, as when it asks what the server offers.
    pub on_behalf_of: Option<Arc<Caller>>,
    /// Their checked credential, where it is at hand: not for what the gateway takes up again from its records.
    pub authority: Option<Arc<AuthenticatedCaller>>,
    /// The call, if it is one.
    pub call: Option<CredentialCall>,
    /// When the request is not waited for any more.
    pub deadline: Instant,
}

/// A call, as a source may know it.
#[derive(Debug, Clone)]
pub struct CredentialCall {
    /// Its id.
    pub call_id: CallId,
    /// The tool, as the server names it.
    pub tool: String,
    /// Of the arguments as they were decided about: without what is presented among them.
    pub arguments: Digest,
    /// What it may do.
    pub effect: EffectClass,
    /// Under which contract it was let through.
    pub requirements: Option<Arc<CallRequirements>>,
}

/// What a call was judged to need, for sources that tell the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequirements {
    /// The contract's name.
    pub tool: String,
    /// Every scope of the contract.
    pub scopes: BTreeSet<Scope>,
    /// How grave it is.
    pub class: SideEffectClass,
}

/// On whose behalf a request is made.
#[derive(Debug, Clone)]
pub enum RequestUser {
    /// Somebody whose credential was checked.
    Holder(Arc<AuthenticatedCaller>),
    /// Somebody whose call is on record: who they are is all that is left of it.
    Recorded(Arc<Caller>),
}

/// What is shown. Every value is taken out of whatever comes back from the server.
#[derive(Debug, Clone, Default)]
pub struct PresentedCredentials {
    /// Header fields, for HTTP. Of a value of two words (`Bearer x`) that has nothing hidden in it the second is the secret.
    pub headers: Vec<(String, Secret)>,
    /// Values for arguments of a tool call, by JSON pointer. They are put in as texts.
    pub arguments: Vec<(String, Secret)>,
    /// Variables, for a process that is started now.
    pub environment: Vec<(String, Secret)>,
    /// What is secret about the other values, where that is not all of them, and further values that the server may repeat,
    /// as the password inside of an encoded header. What has one of these inside is not looked for as a whole.
    pub hidden: Vec<Secret>,
    /// How values begin that are new for every call, where a token goes on from there. A value with such a beginning is not
    /// looked for by itself: that would cost more than the call.
    pub stems: Vec<Secret>,
}

/// Why nothing can be shown, so that nothing is sent. It never has a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{told}")]
pub struct MissingCredential {
    /// What kind of lack it is.
    pub lack: CredentialLack,
    /// What is the matter.
    pub told: String,
    /// What an operator or the user does about it, as `servanda secret set crm-token`.
    pub hint: Option<String>,
}

/// What kind of lack it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialLack {
    /// It cannot be had at present: a store or an authorization server is away, or nobody has set it.
    Unavailable,
    /// This user has none, or may have none: consent, a login or a right is missing.
    NotPermitted,
}

/// How a server did not let a request in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRejection {
    /// 401 or 403.
    pub status: u16,
    /// Its `WWW-Authenticate` fields, one after the other with commas between them, bounded.
    pub www_authenticate: Option<String>,
    /// How many times this request was rejected before.
    pub rejected_before: usize,
}

/// What is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// There is something else to show: it is asked for, and the request is made again.
    TryAgain,
    /// There is nothing to be done by us.
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

    /// Tenant and principal of a user who has a share of what is limited. None in local mode, where all callers are one principal.
    /// What is on record does not say how its caller was let in, so it has a share always.
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

    /// Together with what another source shows.
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
    /// It cannot be had at present.
    pub fn unavailable(told: impl Into<String>) -> Self {
        Self { lack: CredentialLack::Unavailable, told: told.into(), hint: None }
    }

    /// This user has none.
    pub fn not_permitted(told: impl Into<String>) -> Self {
        Self { lack: CredentialLack::NotPermitted, told: told.into(), hint: None }
    }

    /// With what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
