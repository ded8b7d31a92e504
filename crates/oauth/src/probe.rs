//! Goes to an upstream without anything to show, to hear what it asks for.

use std::sync::{Mutex, PoisonError};

use servanda_effects::PortFuture;
use servanda_upstream::{CredentialSource, Errand, NotPresented, Presented, Rejection, Remedy};

use crate::challenge::Demand;

/// Shows nothing and remembers the last thing that was asked for.
#[derive(Debug, Default)]
pub struct Probe {
    heard: Mutex<Option<Demand>>,
}

impl Probe {
    /// What was asked for; none if everything was let in.
    pub fn heard(&self) -> Option<Demand> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CredentialSource for Probe {
    fn present<'a>(&'a self, _errand: &'a Errand) -> PortFuture<'a, Result<Presented, NotPresented>> {
        Box::pin(std::future::ready(Ok(Presented::default())))
    }

    fn rejected<'a>(&'a self, _errand: &'a Errand, rejection: &'a Rejection) -> PortFuture<'a, Remedy> {
        // A server that does not say what it wants wants a token all the same.
        let demand = Demand::of(rejection.www_authenticate.as_deref()).unwrap_or_default();
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(demand);
        Box::pin(std::future::ready(Remedy::GiveUp(NotPresented::not_permitted("the upstream asks for a login"))))
    }

    fn is_personal(&self) -> bool {
        false
    }
}
