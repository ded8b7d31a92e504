//! Finds out where tokens for an upstream are to be had, as a machine: what to look at next follows from what was found.
//!
//! A document that is there and is not believed ends the search. Looking on would let whoever put it there choose which of
//! our fallbacks is used.

use reqwest::Url;

use crate::{
    metadata::{NotBelieved, Resource, Server},
    place::{NotFollowed, Place, Trust},
    scope::Scopes,
    well_known,
};

/// What is known before.
#[derive(Debug, Clone)]
pub struct DiscoveryInput {
    /// The upstream.
    pub trust: Trust,
    /// Whether it asked for a token. One that lets everybody in is not taken for a server of old that says nothing.
    pub challenged: bool,
    /// Where its challenge says that its document is.
    pub resource_metadata: Option<String>,
    /// The issuer that the operator wants, or that our credentials belong to.
    pub issuer: Option<String>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The resource's identifier, as it is published.
    pub resource: String,
    /// The scopes for its basic use.
    pub scopes: Option<Scopes>,
    /// Who issues tokens for it.
    pub server: Server,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    known: DiscoveryInput,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    /// For the resource's document; those that come next, the last first.
    Resource { next: Vec<Url> },
    /// For the server's.
    Server { resource: String, scopes: Option<Scopes>, issuer: String, next: Vec<Url>, may_be_undocumented: bool },
}

/// What a look at an address brought.
#[derive(Debug, Clone)]
pub enum Look {
    /// A JSON document.
    Document(Vec<u8>),
    /// Nothing is there.
    Nothing,
    /// Nobody knows: the server could not be reached or is out of order.
    Unknown,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// Look there.
    At(Box<Search>, Place),
    /// It is over.
    Found(Box<Found>),
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// A document is there and does not count.
    #[error(transparent)]
    NotBelieved(#[from] NotBelieved),
    /// We are sent where we do not go.
    #[error("the upstream names an address that is not followed: {0}")]
    NotFollowed(#[from] NotFollowed),
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

impl Search {
    /// Where to begin.
    pub fn begin(known: DiscoveryInput) -> Result<Next, NotFound> {
        let next = match &known.resource_metadata {
            Some(address) => vec![known.trust.follow(address)?.url().clone()],
            None => reversed(well_known::of_resource(known.trust.upstream())),
        };
        Self { known, stage: Stage::Resource { next } }.look_on()
    }

    /// What follows on a look at the address that was named last.
    pub fn step(mut self, look: Look) -> Result<Next, NotFound> {
        match look {
            Look::Unknown => Err(NotFound::Unreachable),
            Look::Nothing => self.look_on(),
            Look::Document(document) => match &mut self.stage {
                Stage::Resource { .. } => {
                    let resource = Resource::believe(&document, &self.known.trust)?;
                    let issuer = self.choose(&resource.issuers)?;
                    self.look_for_server(resource.identifier, resource.scopes, issuer, false)
                }
                Stage::Server { resource, scopes, issuer, .. } => {
                    let server = Server::believe(&document, issuer, &self.known.trust)?;
                    let (resource, scopes) = (std::mem::take(resource), scopes.take());
                    Ok(Next::Found(Box::new(Found { resource, scopes, server })))
                }
            },
        }
    }

    fn look_on(mut self) -> Result<Next, NotFound> {
        let (Stage::Resource { next } | Stage::Server { next, .. }) = &mut self.stage;
        if let Some(url) = next.pop() {
            let place = self.known.trust.follow_url(url)?;
            return Ok(Next::At(Box::new(self), place));
        }
        match self.stage {
            Stage::Resource { .. } if self.known.resource_metadata.is_some() => Err(NotFound::NoResource),
            // Servers of 2025-03-26 have no such document: they issue their tokens themselves.
            Stage::Resource { .. } => {
                let own = self.known.trust.upstream().origin().ascii_serialization();
                let (issuer, alone) = match &self.known.issuer {
                    Some(issuer) => (issuer.clone(), false),
                    None => (own, self.known.challenged),
                };
                let resource = canonical(self.known.trust.upstream());
                self.look_for_server(resource, None, issuer, alone)
            }
            Stage::Server { resource, scopes, may_be_undocumented: true, .. } => {
                let server = Server::undocumented(&self.known.trust)?;
                Ok(Next::Found(Box::new(Found { resource, scopes, server })))
            }
            Stage::Server { .. } => Err(NotFound::NoServer),
        }
    }

    fn choose(&self, issuers: &[String]) -> Result<String, NotFound> {
        match &self.known.issuer {
            Some(wanted) if issuers.contains(wanted) => Ok(wanted.clone()),
            Some(_) => Err(NotFound::OtherServer),
            None => issuers.first().cloned().ok_or(NotFound::NoServer),
        }
    }

    fn look_for_server(
        self,
        resource: String,
        scopes: Option<Scopes>,
        issuer: String,
        may_be_undocumented: bool,
    ) -> Result<Next, NotFound> {
        let place = self.known.trust.follow(&issuer)?;
        let next = reversed(well_known::of_server(place.url()));
        let stage = Stage::Server { resource, scopes, issuer, next, may_be_undocumented };
        Self { known: self.known, stage }.look_on()
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
