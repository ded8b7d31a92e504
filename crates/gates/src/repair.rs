//! Repair loops end. A chain of refused proposals is followed by fingerprints of its arguments and errors. When
//! the same arguments come twice, the same errors keep coming, or the attempts are used up, the refusal tells
//! the agent to stop.
//!
//! Only refusals are counted, and only their text changes: a valid call always passes, and ends the chain.

use servanda_contract::{
    Digest, Refusal,
    refusal::{RepairProgress, RepairStop},
};

/// The limits of a chain.
#[derive(Debug, Clone, Copy)]
pub struct RepairLimits {
    /// The most refused attempts of one chain.
    pub attempts_max: u32,
    /// How often the same errors may come.
    pub same_errors_max: u32,
}

/// The state of one repair chain.
#[derive(Debug, Clone, Default)]
pub struct RepairChain {
    attempts: u32,
    arguments_seen: Vec<Digest>,
    last_errors: Option<Digest>,
    same_errors: u32,
}

impl Default for RepairLimits {
    fn default() -> Self {
        Self { attempts_max: 5, same_errors_max: 3 }
    }
}

impl RepairChain {
    /// Records a repairable refusal, and writes into it how far the chain has come.
    pub fn note(&mut self, refusal: &mut Refusal, arguments: Digest, limits: RepairLimits) {
        self.attempts = self.attempts.saturating_add(1);
        let errors = refusal.errors_digest();
        self.same_errors = if self.last_errors == Some(errors) { self.same_errors.saturating_add(1) } else { 1 };
        self.last_errors = Some(errors);
        let stopped = if self.arguments_seen.contains(&arguments) {
            Some(RepairStop::SameArguments)
        } else if self.attempts >= limits.attempts_max {
            Some(RepairStop::AttemptsExhausted)
        } else if self.same_errors >= limits.same_errors_max {
            Some(RepairStop::SameErrors)
        } else {
            None
        };
        // Bounded by attempts_max: beyond it only the last fingerprints matter.
        let keep = usize::try_from(limits.attempts_max).unwrap_or(usize::MAX);
        if self.arguments_seen.len() >= keep && !self.arguments_seen.is_empty() {
            self.arguments_seen.remove(0);
        }
        self.arguments_seen.push(arguments);
        let progress = RepairProgress { attempt: self.attempts, attempts_max: limits.attempts_max, stopped };
        match stopped {
            None => refusal.repair = Some(progress),
            Some(reason) => refusal.stop_repairing(progress, stop_hint(reason)),
        }
    }
}

fn stop_hint(reason: RepairStop) -> String {
    let why = match reason {
        RepairStop::SameArguments => "these very arguments were refused before",
        RepairStop::SameErrors => "the same errors came again and again",
        RepairStop::AttemptsExhausted => "the attempts of this chain are used up",
    };
    format!("stop repairing: {why}; ask the user for the missing facts, or leave this tool alone")
}
