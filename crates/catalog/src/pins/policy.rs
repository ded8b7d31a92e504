//! What follows from a pin, or from a missing one.

use std::{collections::BTreeMap, sync::Arc};

use servanda_contract::shared::Shared;

use super::{Definition, Difference, DifferenceSeverity, LockFile, compare};

/// Pins, and the policy for differences from them.
#[derive(Debug, Clone, Default)]
pub struct Pins {
    /// Every pin; `None` if there is no lock file.
    pub lock: Option<Arc<LockFile>>,
    /// The policy.
    pub policy: PinPolicy,
    /// Definitions that count as agreed to because they were the first ones seen, by upstream and own name, until a lock file
    /// has them.
    first_sights: BTreeMap<(String, String), Definition>,
}

/// The policy for differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PinPolicy {
    /// For changes that only add.
    pub additive: AdditiveChangePolicy,
    /// For tools without a pin. By default, they pass if nothing is pinned at all, and are held otherwise.
    pub missing: Option<MissingPinPolicy>,
}

/// The policy for changes that only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdditiveChangePolicy {
    /// They pass.
    #[default]
    Allow,
    /// The tool is held like any other changed tool.
    Hold,
}

/// The policy for a tool without a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingPinPolicy {
    /// Its first definition is pinned.
    Pin,
    /// It is held.
    Hold,
    /// It passes.
    Ignore,
}

/// What the pins say about a live definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinVerdict {
    /// It equals the pinned one, or differs only by what the policy allows.
    Agreed {
        /// The allowed differences.
        drift: Vec<Difference>,
    },
    /// It differs.
    Changed {
        /// The gravest severity.
        severity: DifferenceSeverity,
        /// The differences, gravest first.
        differences: Vec<Difference>,
    },
    /// The tool has no pin, and the policy requires one.
    Unpinned,
    /// The tool has no pin, and its first definition is to be pinned.
    FirstSight,
    /// The tool has no pin, and the policy requires none.
    Unguarded,
}

impl Pins {
    /// Pins of a lock file, if there is one.
    pub fn new(lock: Option<LockFile>, policy: PinPolicy) -> Self {
        Self { lock: lock.map(Arc::new), policy, first_sights: BTreeMap::new() }
    }

    /// Judges a live definition by its pin.
    pub fn judge(&self, upstream: &str, live: &Definition) -> PinVerdict {
        let differences = match self.lock.as_ref().and_then(|lock| lock.pin(upstream, &live.name)) {
            Some(pin) if pin.digest == live.digest() => Vec::new(),
            Some(pin) => compare(&pin.definition, live),
            None => match self.first_sights.get(&(upstream.to_owned(), live.name.clone())) {
                Some(first) => compare(first, live),
                None => return self.without_pin(),
            },
        };
        match differences.first().map(|gravest| gravest.severity) {
            None => PinVerdict::Agreed { drift: Vec::new() },
            Some(DifferenceSeverity::Additive) if self.policy.additive == AdditiveChangePolicy::Allow => {
                PinVerdict::Agreed { drift: differences }
            }
            Some(severity) => PinVerdict::Changed { severity, differences },
        }
    }

    /// Whether a tool that was never seen has to wait for its pin.
    pub fn holds_unseen(&self, upstream: &str, tool: &str) -> bool {
        let pinned = self.lock.as_ref().is_some_and(|lock| lock.pin(upstream, tool).is_some());
        !pinned && self.without_pin() == PinVerdict::Unpinned
    }

    /// Makes a definition share memory with the pinned one, or with its schemas, where they are equal. Its content stays the
    /// same.
    pub(crate) fn unify(&self, upstream: &str, live: &mut Shared<Definition>) {
        let Some(pin) = self.lock.as_ref().and_then(|lock| lock.pin(upstream, &live.name)) else { return };
        live.unify(&pin.definition);
        if live.is_same(&pin.definition) {
            return;
        }
        let (live, pinned) = (&mut **live, &pin.definition);
        live.input_schema.unify(&pinned.input_schema);
        if let (Some(live), Some(pinned)) = (&mut live.output_schema, &pinned.output_schema) {
            live.unify(pinned);
        }
    }

    /// Records a definition that counts as agreed to because it is the first one seen.
    pub(crate) fn note_first_sight(&mut self, upstream: &str, live: &Definition) {
        if self.judge(upstream, live) == PinVerdict::FirstSight {
            self.first_sights.insert((upstream.to_owned(), live.name.clone()), live.clone());
        }
    }

    /// Replaces the lock file.
    pub(crate) fn replace_lock(&mut self, lock: LockFile) {
        self.first_sights.retain(|(upstream, tool), _| lock.pin(upstream, tool).is_none());
        self.lock = Some(Arc::new(lock));
    }

    pub(crate) fn first_sights(&self) -> Vec<(String, Definition)> {
        self.first_sights.iter().map(|((upstream, _), definition)| (upstream.clone(), definition.clone())).collect()
    }

    fn without_pin(&self) -> PinVerdict {
        match (self.policy.missing, &self.lock) {
            (Some(MissingPinPolicy::Ignore), _) | (None, None) => PinVerdict::Unguarded,
            (Some(MissingPinPolicy::Pin), _) => PinVerdict::FirstSight,
            (Some(MissingPinPolicy::Hold), _) | (None, Some(_)) => PinVerdict::Unpinned,
        }
    }
}
