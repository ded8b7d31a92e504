//! Finds out where tokens for an upstream are to be had, as a machine: what to look at next follows from what was found.
//!
//! A document that is there and is not believed ends the search. Looking on would let whoever put it there choose which of
//! our fallbacks is used.

use reqwest::Url;

use crate::{
    allowed_url::{AllowedUrl, DisallowedUrl, NetworkTrust},
    metadata::{AuthServerMetadata, MetadataError, ProtectedResourceMetadata},
    scope::OauthScopes,
    well_known,
};

/// What is known before.
#[derive(Debug, Clone)]
pub struct DiscoveryInput {
    /// The upstream.
    pub trust: NetworkTrust,
    /// Whether it asked for a token. One that lets everybody in is not taken for a server of old that says nothing.
    pub challenged: bool,
    /// Where its challenge says that its document is.
    pub resource_metadata: Option<String>,
    /// The issuer that the operator wants, or that our credentials belong to.
    pub issuer: Option<String>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct DiscoveredServer {
    /// The resource's identifier, as it is published.
    pub resource: String,
    /// The scopes for its basic use.
    pub scopes: Option<OauthScopes>,
    /// Who issues tokens for it.
    pub server: AuthServerMetadata,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct OauthDiscovery {
    known: DiscoveryInput,
    stage: DiscoveryStage,
}

#[derive(Debug, Clone)]
enum DiscoveryStage {
    /// For the resource's document; those that come next, the last first.
    Resource { next: Vec<Url> },
    /// For the server's.
    Server { resource: String, scopes: Option<OauthScopes>, issuer: String, next: Vec<Url>, may_be_undocumented: bool },
}

/// What a look at an address brought.
#[derive(Debug, Clone)]
pub enum DocumentFetch {
    /// A JSON document.
    Document(Vec<u8>),
    /// Nothing is there.
    Nothing,
    /// Nobody knows: the server could not be reached or is out of order.
    Unknown,
}

/// What comes next.
#[derive(Debug)]
pub enum DiscoveryStep {
    /// Look there.
    Fetch(Box<OauthDiscovery>, AllowedUrl),
    /// It is over.
    Found(Box<DiscoveredServer>),
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// A document is there and does not count.
    #[error(transparent)]
    NotBelieved(#[from] MetadataError),
    /// We are sent where we do not go.
    #[error("the upstream names an address that is not followed: {0}")]
    NotFollowed(#[from] DisallowedUrl),
    /// The document that the challenge names is not there.
    #[error("the document that the upstream's challenge names is not there")]
    NoResource,
    /// No document of the server is there.
    #[error("the authorization server publishes nothing about itself")]
    NoServer,
    /// The upstream takes tokens of others now.
    #[error("the upstream does not take tokens of the authorization server that was agreed on")]
    OtherServer,
    /// Somebody did not answer.
    #[error("a document could not be fetched")]
    Unreachable,
}

impl OauthDiscovery {
    /// Where to begin.
    pub fn begin(known: DiscoveryInput) -> Result<DiscoveryStep, DiscoveryError> {
        let next = match &known.resource_metadata {
            Some(address) => vec![known.trust.follow(address)?.url().clone()],
            None => reversed(well_known::resource_urls(known.trust.upstream())),
        };
        Self { known, stage: DiscoveryStage::Resource { next } }.next_candidate()
    }

    /// What follows on a look at the address that was named last.
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
            // Servers of 2025-03-26 have no such document: they issue their tokens themselves.
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
