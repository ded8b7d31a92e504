//! What was decided under one text: about single calls, and about all later ones.

use std::collections::BTreeMap;

use crate::call::{CallId, Scope};

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be done.
    Approved,
    /// It may not.
    Rejected,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    exact: BTreeMap<CallId, Verdict>,
    /// The messages for the callers of rejected calls. They outlive a lasting rejection, under which the calls stay rejected.
    messages: BTreeMap<CallId, String>,
    lasting: Option<LastingVerdict>,
}

#[derive(Debug, Clone)]
struct LastingVerdict {
    verdict: Verdict,
    scope: Scope,
    message: Option<String>,
}

impl Record {
    pub(super) fn decide_call(&mut self, id: &CallId, verdict: Verdict, message: Option<&str>) {
        self.exact.insert(id.clone(), verdict);
        self.tell(id, message.filter(|_| verdict == Verdict::Rejected));
    }

    /// Replaces everything that was decided before.
    pub(super) fn decide_all(&mut self, id: &CallId, scope: Scope, verdict: Verdict, message: Option<&str>) {
        self.exact.clear();
        if verdict == Verdict::Approved {
            self.messages.clear();
        }
        let message = message.filter(|_| verdict == Verdict::Rejected);
        self.tell(id, message);
        self.lasting = Some(LastingVerdict { verdict, scope, message: message.map(str::to_owned) });
    }

    /// What was decided about exactly this call.
    pub(super) fn exact(&self, id: &CallId) -> Option<Verdict> {
        self.exact.get(id).copied()
    }

    /// The verdict for this call; a lasting verdict counts only for the same tool.
    pub(super) fn verdict(&self, id: &CallId, scope: &Scope) -> Option<Verdict> {
        self.exact(id).or_else(|| self.lasting(Some(scope)).map(|lasting| lasting.verdict))
    }

    /// What is filed here, for any tool: for display, never for a decision.
    pub(super) fn shown(&self, id: &CallId) -> Option<Verdict> {
        self.exact(id).or_else(|| self.lasting(None).map(|lasting| lasting.verdict))
    }

    /// The message for the caller of a rejected call.
    pub(super) fn message(&self, id: &CallId, scope: &Scope) -> Option<&str> {
        let exact = self.exact(id);
        if exact == Some(Verdict::Approved) {
            return None;
        }
        let lasting = self.lasting(Some(scope)).filter(|lasting| lasting.verdict == Verdict::Rejected);
        if exact.is_none() && lasting.is_none() {
            return None;
        }
        let own = self.messages.get(id).map(String::as_str);
        own.or_else(|| lasting.and_then(|lasting| lasting.message.as_deref()))
    }

    fn lasting(&self, scope: Option<&Scope>) -> Option<&LastingVerdict> {
        self.lasting.as_ref().filter(|lasting| scope.is_none_or(|scope| lasting.scope == *scope))
    }

    fn tell(&mut self, id: &CallId, message: Option<&str>) {
        match message {
            Some(message) => self.messages.insert(id.clone(), message.to_owned()),
            None => self.messages.remove(id),
        };
    }
}
