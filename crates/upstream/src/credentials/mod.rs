//! The sources of one upstream together: asks all of them within the request's time, sees to it that whatever they present
//! is known to the redaction before it leaves, and puts it where it belongs.
//!
//! Where no source is configured there is none of this, and nothing is asked.

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

/// How many tools are remembered that take something of ours.
const TOOLS_MAX: usize = 10_000;

/// What one upstream is shown.
#[derive(Debug)]
pub(crate) struct Credentials {
    sources: Vec<Arc<dyn CredentialSource>>,
    personal: bool,
    /// The arguments that are put in, by JSON pointer.
    arguments: BTreeSet<String>,
    /// Which of them a tool takes, as far as it was listed.
    taken: RwLock<BTreeMap<String, BTreeSet<String>>>,
}

/// What is presented, kept out of everything that comes back for as long as this lives, and for a while longer.
#[derive(Debug)]
pub(crate) struct RedactedCredentials {
    pub(crate) presented: PresentedCredentials,
    _kept: Vec<RedactionGuard>,
}

impl Credentials {
    /// None where there is no source.
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

    /// Whether users do not share connections.
    pub(crate) fn is_personal(&self) -> bool {
        self.personal
    }

    /// What is shown, known to the redaction. Cancel safe.
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
        let late = || MissingCredential::unavailable("what it is shown could not be had in time");
        let presented = tokio::time::timeout_at(credential_request.deadline, all).await.map_err(|_| late())??;
        let kept = if let Some(kept) = redaction.guards_if_known(&presented) {
            kept
        } else {
            // Boxed, because it is rare and every request would be larger by it.
            let learning = Box::pin(redaction.add_in_background(&presented));
            tokio::time::timeout_at(credential_request.deadline, learning).await.map_err(|_| late())??
        };
        Ok(RedactedCredentials { presented, _kept: kept })
    }

    /// What can be done about a request that was not let in: whatever one source can do. Cancel safe.
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
            let late =
                || Remedy::GiveUp(MissingCredential::unavailable("what it is shown could not be renewed in time"));
            match asked.unwrap_or_else(|_| late()) {
                Remedy::TryAgain => return Remedy::TryAgain,
                Remedy::GiveUp(why) => hopeless = hopeless.or(Some(why)),
            }
        }
        Remedy::GiveUp(hopeless.unwrap_or_else(|| MissingCredential::unavailable("the server does not let us in")))
    }

    /// Takes what is put in out of the definition of a tool, and remembers it.
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

    /// Whether a tool takes an argument; one that was never listed does.
    fn takes(&self, tool: &str, pointer: &str) -> bool {
        let all = self.taken.read().unwrap_or_else(PoisonError::into_inner);
        all.get(tool).is_none_or(|taken| taken.contains(pointer))
    }

    /// The body of a request with what is presented among its arguments.
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
                MissingCredential::unavailable(format!("the argument `{pointer}` cannot be put in: {why}"))
            })?;
        }
        Ok([part(0..range.start), &arguments, part(range.end..request.body.len())].concat())
    }
}

/// Waits for something as long as the request is waited for.
pub(crate) async fn within_deadline<T>(
    terms: &WireRequestTerms,
    work: impl Future<Output = T>,
) -> Result<T, PerformFailure> {
    tokio::select! {
        biased;
        () = terms.cancel.cancelled() => Err(PerformFailure::Cancelled { sent: false }),
        () = terms.pausable_deadline.over() => {
            let late = MissingCredential::unavailable("what it is shown could not be had in time");
            Err(PerformFailure::NotPresented(late))
        }
        done = work => Ok(done),
    }
}

/// Header fields as HTTP takes them.
pub(crate) fn header_map(headers: &[(String, Secret)]) -> Result<HeaderMap, MissingCredential> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let field = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_bytes(value.expose()).ok());
        let (key, mut value) = field.ok_or_else(|| {
            MissingCredential::unavailable(format!("the header `{name}` cannot carry what it is to carry"))
        })?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}
