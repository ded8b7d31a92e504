//! The rights that a call lacks: all at once, so that the caller asks for more only once, and in words for a refusal.
//!
//! The words name scopes, tools and the number of resources, but never an argument's value; resource names are made of
//! those.

use std::collections::BTreeSet;

use servanda_contract::{Timestamp, tool::SideEffectClass};

use super::{Scope, scope_line};
use crate::CredentialMethod;

/// What is missing; at least one member says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRights {
    /// The missing scopes.
    pub scopes_missing: BTreeSet<Scope>,
    /// Every scope that the call needs, for a challenge.
    pub scopes_needed: BTreeSet<Scope>,
    /// The tool, if it is not allowed.
    pub tool: Option<String>,
    /// The resources that are not allowed. For decisions and records; messages give only their number.
    pub resources: Vec<String>,
    /// The ceiling, if the call exceeds it.
    pub ceiling: Option<SideEffectClass>,
    /// When the credential expired, if it did.
    pub expired_at: Option<Timestamp>,
}

impl MissingRights {
    pub(super) fn is_empty(&self) -> bool {
        self.scopes_missing.is_empty()
            && self.tool.is_none()
            && self.resources.is_empty()
            && self.ceiling.is_none()
            && self.expired_at.is_none()
    }

    /// What is missing, in one sentence.
    pub fn message(&self) -> String {
        let mut parts = Vec::new();
        if let Some(expired_at) = self.expired_at {
            parts.push(format!("it expired at {expired_at}"));
        }
        if !self.scopes_missing.is_empty() {
            parts.push(format!("it lacks the scopes `{}`", scope_line(&self.scopes_missing)));
        }
        if let Some(tool) = &self.tool {
            parts.push(format!("it is not for the tool `{tool}`"));
        }
        if !self.resources.is_empty() {
            parts.push(format!("it is not for {} of the resources this call touches", self.resources.len()));
        }
        if let Some(ceiling) = self.ceiling {
            parts.push(format!("it allows nothing graver than {}", ceiling.word()));
        }
        format!("the credential does not cover this call: {}", parts.join("; "))
    }

    /// What to do next, in one sentence, depending on the kind of credential.
    pub fn hint(&self, method: &CredentialMethod) -> String {
        if self.expired_at.is_some() {
            return "get a new credential and call again".to_owned();
        }
        let scopes = scope_line(&self.scopes_needed);
        match method {
            CredentialMethod::AccessToken { .. } if self.only_scopes() => {
                format!("ask the authorization server for the scopes `{scopes}`")
            }
            CredentialMethod::ApiKey | CredentialMethod::Operator if self.only_scopes() => {
                format!("ask for a key with the scopes `{scopes}`")
            }
            _ => "get a wider credential from the person who gave you this one".to_owned(),
        }
    }

    /// Whether more scopes would be enough: only then does a step-up challenge help.
    pub fn only_scopes(&self) -> bool {
        let Self { tool, resources, ceiling, expired_at, .. } = self;
        tool.is_none() && resources.is_empty() && ceiling.is_none() && expired_at.is_none()
    }
}
