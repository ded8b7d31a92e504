//! Finds out where tokens for an upstream are issued, as a state machine: the next address to fetch follows from what was found.
//!
//! A document that exists and is not believed ends the search. Continuing would let the author of that document choose which fallback is
//! used.

use reqwest::Url;

use crate::{
    allowed_url::{AllowedUrl, DisallowedUrl, NetworkTrust},
    metadata::{AuthServerMetadata, MetadataError, ProtectedResourceMetadata},
    scope::OauthScopes,
    well_known,
};

/// What is known before the search.
#[derive(Debug, Clone)]
pub struct DiscoveryInput {
    /// The upstream, and how far it is trusted.
    pub trust: NetworkTrust,
    /// Whether it asked for a token. An upstream that accepts requests without one is not taken for an old server without documents.
    pub challenged: bool,
    /// Where the upstream's challenge says that its document is.
    pub resource_metadata: Option<String>,
    /// The issuer that the operator wants, or that the credentials belong to.
    pub issuer: Option<String>,
}

/// The result of the search.
#[derive(Debug, Clone)]
pub struct DiscoveredServer {
    /// The resource's identifier, as published.
    pub resource: String,
    /// The scopes for its basic use.
    pub scopes: Option<OauthScopes>,
    /// The server that issues tokens for it.
    pub server: AuthServerMetadata,
}

/// A running search.
#[derive(Debug, Clone)]
pub struct OauthDiscovery {
    known: DiscoveryInput,
    stage: DiscoveryStage,
}

#[derive(Debug, Clone)]
enum DiscoveryStage {
    /// Looking for the resource's document; the next addresses, the last first.
    Resource { next: Vec<Url> },
    /// Looking for the authorization server's document.
    Server { resource: String, scopes: Option<OauthScopes>, issuer: String, next: Vec<Url>, may_be_undocumented: bool },
}

/// The result of fetching an address.
#[derive(Debug, Clone)]
pub enum DocumentFetch {
    /// A JSON document.
    Document(Vec<u8>),
    /// There is no document.
    Nothing,
    /// Unknown: the server could not be reached or is out of order.
    Unknown,
}

/// What comes next.
#[derive(Debug)]
pub enum DiscoveryStep {
    /// Fetch this address.
    Fetch(Box<OauthDiscovery>, AllowedUrl),
    /// The search is over.
    Found(Box<DiscoveredServer>),
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// A document exists and is not believed.
    #[error(transparent)]
    NotBelieved(#[from] MetadataError),
    /// An address is not allowed.
    #[error("the upstream names an address that is not followed: {0}")]
    NotFollowed(#[from] DisallowedUrl),
    /// The document that the challenge names does not exist.
    #[error("the document that the upstream's challenge names does not exist")]
    NoResource,
    /// The authorization server has no document.
    #[error("the authorization server publishes no metadata document")]
    NoServer,
    /// The upstream now accepts tokens of other servers.
    #[error("the upstream does not accept tokens of the authorization server that was agreed on")]
    OtherServer,
    /// A server did not answer.
    #[error("a document could not be fetched")]
    Unreachable,
}

impl OauthDiscovery {
    /// Begins the search.
    pub fn begin(known: DiscoveryInput) -> Result<DiscoveryStep, DiscoveryError> {
        let next = match &known.resource_metadata {
            Some(address) => vec![known.trust.follow(address)?.url().clone()],
            None => reversed(well_known::resource_urls(known.trust.upstream())),
        };
        Self { known, stage: DiscoveryStage::Resource { next } }.next_candidate()
    }

    /// Continues with the result for the address that was named last.
    pub fn step(mut self, look: DocumentFetch) -> Result<DiscoveryStep, DiscoveryError> {
        match look {
            DocumentFetch::Unknown => Err(DiscoveryError::Unreachable),
            DocumentFetch::Nothing => self.next_candidate(),
            DocumentFetch::Document(document) => match &mut self.stage {
                DiscoveryStage::Resource { .. } => {
                    let resource = ProtectedResourceMetadata::verify(&document, &self.known.trust)?;
                    let issuer = self.choose(&resource.issuers)?;
                    self.discover_server(resource.identifier, resource.scopes, issuer, false)
                }
                DiscoveryStage::Server { resource, scopes, issuer, .. } => {
                    let server = AuthServerMetadata::verify(&document, issuer, &self.known.trust)?;
                    let (resource, scopes) = (std::mem::take(resource), scopes.take());
                    Ok(DiscoveryStep::Found(Box::new(DiscoveredServer { resource, scopes, server })))
                }
            },
        }
    }

    fn next_candidate(mut self) -> Result<DiscoveryStep, DiscoveryError> {
        let (DiscoveryStage::Resource { next } | DiscoveryStage::Server { next, .. }) = &mut self.stage;
        if let Some(url) = next.pop() {
            let place = self.known.trust.follow_url(url)?;
            return Ok(DiscoveryStep::Fetch(Box::new(self), place));
        }
        match self.stage {
            DiscoveryStage::Resource { .. } if self.known.resource_metadata.is_some() => {
                Err(DiscoveryError::NoResource)
            }
            // Servers of 2025-03-26 have no such document; they issue their tokens themselves.
            DiscoveryStage::Resource { .. } => {
                let own = self.known.trust.upstream().origin().ascii_serialization();
                let (issuer, alone) = match &self.known.issuer {
                    Some(issuer) => (issuer.clone(), false),
                    None => (own, self.known.challenged),
                };
                let resource = canonical(self.known.trust.upstream());
                self.discover_server(resource, None, issuer, alone)
            }
            DiscoveryStage::Server { resource, scopes, may_be_undocumented: true, .. } => {
                let server = AuthServerMetadata::undocumented(&self.known.trust)?;
                Ok(DiscoveryStep::Found(Box::new(DiscoveredServer { resource, scopes, server })))
            }
            DiscoveryStage::Server { .. } => Err(DiscoveryError::NoServer),
        }
    }

    fn choose(&self, issuers: &[String]) -> Result<String, DiscoveryError> {
        match &self.known.issuer {
            Some(wanted) if issuers.contains(wanted) => Ok(wanted.clone()),
            Some(_) => Err(DiscoveryError::OtherServer),
            None => issuers.first().cloned().ok_or(DiscoveryError::NoServer),
        }
    }

    fn discover_server(
        self,
        resource: String,
        scopes: Option<OauthScopes>,
        issuer: String,
        may_be_undocumented: bool,
    ) -> Result<DiscoveryStep, DiscoveryError> {
        let place = self.known.trust.follow(&issuer)?;
        let next = reversed(well_known::server_urls(place.url()));
        let stage = DiscoveryStage::Server { resource, scopes, issuer, next, may_be_undocumented };
        Self { known: self.known, stage }.next_candidate()
    }
}

/// The identifier of an upstream that publishes none: its address, without the slash that a parser adds.
fn canonical(upstream: &Url) -> String {
    let mut url = upstream.clone();
    url.set_fragment(None);
    let bare = url.path() == "/" && url.query().is_none();
    let text = url.to_string();
    if bare { text.trim_end_matches('/').to_owned() } else { text }
}

fn reversed(mut urls: Vec<Url>) -> Vec<Url> {
    urls.reverse();
    urls
}

#[cfg(test)]
mod tests;
