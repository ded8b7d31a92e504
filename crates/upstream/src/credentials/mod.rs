//! Combines the credential sources of one upstream: asks all of them within the request's deadline, registers everything they present with
//! the redaction before it is sent, and puts it where it belongs.
//!
//! An upstream without a source skips all of this.

pub(crate) mod injection;
pub(crate) mod redaction;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use servanda_authority::Secret;

pub use self::injection::is_argument_pointer;
use self::redaction::{Redaction, RedactionGuard};
use crate::{
    CredentialRejection, CredentialRequest, CredentialSource, MissingCredential, PerformFailure, PresentedCredentials,
    Remedy, UpstreamListedTool,
    request::{WireRequest, WireRequestTerms},
};

/// How many tools that take an inserted argument are remembered.
const TOOLS_MAX: usize = 10_000;

/// The credentials of one upstream.
#[derive(Debug)]
pub(crate) struct Credentials {
    sources: Vec<Arc<dyn CredentialSource>>,
    personal: bool,
    /// The arguments that are inserted, by JSON pointer.
    arguments: BTreeSet<String>,
    /// Which of them each listed tool takes.
    taken: RwLock<BTreeMap<String, BTreeSet<String>>>,
}

/// Presented credentials. They are redacted from everything that comes back as long as this lives, and for a while longer.
#[derive(Debug)]
pub(crate) struct RedactedCredentials {
    pub(crate) presented: PresentedCredentials,
    _kept: Vec<RedactionGuard>,
}

impl Credentials {
    /// None if there is no source.
    pub(crate) fn new(sources: Vec<Arc<dyn CredentialSource>>) -> Option<Self> {
        if sources.is_empty() {
            return None;
        }
        Some(Self {
            personal: sources.iter().any(|source| source.is_personal()),
            arguments: sources.iter().flat_map(|source| source.argument_pointers()).collect(),
            taken: RwLock::default(),
            sources,
        })
    }

    /// Whether every user has their own connections.
    pub(crate) fn is_personal(&self) -> bool {
        self.personal
    }

    /// The credentials to show, registered with the redaction. Cancel safe.
    pub(crate) async fn present(
        &self,
        redaction: &Arc<Redaction>,
        credential_request: &CredentialRequest,
    ) -> Result<RedactedCredentials, MissingCredential> {
        let all = async {
            let mut presented = PresentedCredentials::default();
            for source in &self.sources {
                presented = presented.merged_with(source.present(credential_request).await?);
            }
            Ok(presented)
        };
        let late = || MissingCredential::unavailable("the credentials could not be obtained before the deadline");
        let presented = tokio::time::timeout_at(credential_request.deadline, all).await.map_err(|_| late())??;
        let kept = if let Some(kept) = redaction.guards_if_known(&presented) {
            kept
        } else {
            // Boxed because it is rare, and because it would make the future of every request larger.
            let learning = Box::pin(redaction.add_in_background(&presented));
            tokio::time::timeout_at(credential_request.deadline, learning).await.map_err(|_| late())??
        };
        Ok(RedactedCredentials { presented, _kept: kept })
    }

    /// What to do about a rejected request: the first remedy that a source has. Cancel safe.
    pub(crate) async fn rejected(
        &self,
        credential_request: &CredentialRequest,
        rejection: &CredentialRejection,
    ) -> Remedy {
        let mut hopeless = None;
        for source in &self.sources {
            let asked =
                tokio::time::timeout_at(credential_request.deadline, source.rejected(credential_request, rejection))
                    .await;
            let late = || {
                Remedy::GiveUp(MissingCredential::unavailable(
                    "the credentials could not be renewed before the deadline",
                ))
            };
            match asked.unwrap_or_else(|_| late()) {
                Remedy::TryAgain => return Remedy::TryAgain,
                Remedy::GiveUp(why) => hopeless = hopeless.or(Some(why)),
            }
        }
        Remedy::GiveUp(hopeless.unwrap_or_else(|| MissingCredential::unavailable("the server rejects the credentials")))
    }

    /// Removes the inserted arguments from a tool's definition and remembers which the tool takes.
    pub(crate) fn hide(&self, tool: &mut UpstreamListedTool) {
        if self.arguments.is_empty() {
            return;
        }
        let (definition, taken) = match injection::remove_arguments(&tool.definition, &self.arguments) {
            Some((definition, taken)) => (Some(definition), taken),
            None => (None, BTreeSet::new()),
        };
        if let Some(definition) = definition {
            tool.definition = definition;
        }
        let mut all = self.taken.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() < TOOLS_MAX || all.contains_key(&tool.name) {
            all.insert(tool.name.clone(), taken);
        }
    }

    /// Whether a tool takes an argument. A tool that was never listed counts as taking it.
    fn takes(&self, tool: &str, pointer: &str) -> bool {
        let all = self.taken.read().unwrap_or_else(PoisonError::into_inner);
        all.get(tool).is_none_or(|taken| taken.contains(pointer))
    }

    /// The body of a request with the credentials inserted into its arguments.
    pub(crate) fn body(
        &self,
        request: &WireRequest<'_>,
        presented: &PresentedCredentials,
    ) -> Result<Vec<u8>, MissingCredential> {
        let (Some(range), Some(tool)) = (&request.arguments, request.name) else { return Ok(request.body.clone()) };
        let part = |range: std::ops::Range<usize>| request.body.get(range).unwrap_or_default();
        let mut arguments = part(range.clone()).to_vec();
        for (pointer, value) in presented.arguments.iter().filter(|(pointer, _)| self.takes(tool, pointer)) {
            arguments = injection::insert_argument(&arguments, pointer, value).map_err(|why| {
                MissingCredential::unavailable(format!("the argument `{pointer}` cannot be inserted: {why}"))
            })?;
        }
        Ok([part(0..range.start), &arguments, part(range.end..request.body.len())].concat())
    }
}

/// Awaits work for as long as the request is awaited.
pub(crate) async fn within_deadline<T>(
    terms: &WireRequestTerms,
    work: impl Future<Output = T>,
) -> Result<T, PerformFailure> {
    tokio::select! {
        biased;
        () = terms.cancel.cancelled() => Err(PerformFailure::Cancelled { sent: false }),
        () = terms.pausable_deadline.over() => {
            let late = MissingCredential::unavailable("the credentials could not be obtained before the deadline");
            Err(PerformFailure::NotPresented(late))
        }
        done = work => Ok(done),
    }
}

/// Header fields as HTTP needs them.
pub(crate) fn header_map(headers: &[(String, Secret)]) -> Result<HeaderMap, MissingCredential> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let field = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_bytes(value.expose()).ok());
        let (key, mut value) = field.ok_or_else(|| {
            MissingCredential::unavailable(format!("the value for the header `{name}` is not a valid header value"))
        })?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}
