//! Which repair chain a refused call belongs to, for a bounded number of chains and a bounded time.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use servanda_contract::{CallRecord, Refusal, Timestamp};
use servanda_gates::repair::{RepairChain, RepairLimits};

/// Chains remembered at once; the chain that was untouched for the longest time is dropped first.
const CHAINS_MAX: usize = 4_096;
/// How long a chain is remembered after its last refusal.
const CHAIN_IDLE_MS_MAX: u64 = 600_000;

/// The repair chains of all callers.
#[derive(Debug)]
pub(crate) struct RepairChains {
    limits: RepairLimits,
    chains: Mutex<HashMap<ChainKey, (RepairChain, Timestamp)>>,
}

/// Whose chain, of which intent, on which tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ChainKey {
    tenant: String,
    principal: String,
    chain: String,
    tool: String,
}

impl RepairChains {
    pub(crate) fn new(limits: RepairLimits) -> Self {
        Self { limits, chains: Mutex::default() }
    }

    /// Notes a refusal in its chain and writes into it how far the chain has come.
    pub(crate) fn refused(&self, call: &CallRecord, chain: &str, refusal: &mut Refusal) {
        if !refusal.repairable {
            return;
        }
        let now = call.received_at;
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(call, chain);
        if chains.len() >= CHAINS_MAX && !chains.contains_key(&key) {
            make_room(&mut chains, now);
        }
        let (chain, touched) = chains.entry(key).or_insert_with(|| (RepairChain::default(), now));
        if now.since_ms(*touched) > CHAIN_IDLE_MS_MAX {
            *chain = RepairChain::default();
        }
        *touched = now;
        chain.note(refusal, call.arguments_digest, self.limits);
    }

    /// Ends a chain: the call passed the gates.
    pub(crate) fn passed(&self, call: &CallRecord, chain: &str) {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        if !chains.is_empty() {
            chains.remove(&key(call, chain));
        }
    }
}

fn key(call: &CallRecord, chain: &str) -> ChainKey {
    ChainKey {
        tenant: call.caller.tenant.clone(),
        principal: call.caller.principal.clone(),
        chain: chain.to_owned(),
        tool: call.tool.clone(),
    }
}

fn make_room(chains: &mut HashMap<ChainKey, (RepairChain, Timestamp)>, now: Timestamp) {
    chains.retain(|_, (_, touched)| now.since_ms(*touched) <= CHAIN_IDLE_MS_MAX);
    if chains.len() >= CHAINS_MAX
        && let Some(oldest) = chains.iter().min_by_key(|(_, (_, touched))| *touched).map(|(key, _)| key.clone())
    {
        chains.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use servanda_contract::{
        CallId, Caller, GateName, Proposal, Refusal, TaxonomyClass, Timestamp, refusal::RepairStop,
    };

    use super::{CHAIN_IDLE_MS_MAX, CHAINS_MAX, CallRecord, RepairChains, RepairLimits};

    fn proposal(chain: &str, arguments: &str, at_ms: u64) -> Proposal {
        Proposal {
            call_id: CallId::new(),
            caller: Caller::local().into(),
            tool: "up__tool".to_owned(),
            arguments: Bytes::copy_from_slice(arguments.as_bytes()),
            received_at: Timestamp::from_unix_ms(at_ms),
            trace_id: String::new(),
            chain: chain.to_owned(),
            caller_wait_ms: None,
            keys: servanda_contract::OperationKeys::default(),
            aims: servanda_contract::expectation::Aims::default(),
        }
    }

    fn refuse(repairs: &RepairChains, proposal: &Proposal) -> Option<RepairStop> {
        let class = TaxonomyClass::TypeMismatch;
        let mut refusal = Refusal::new(proposal.call_id.clone(), GateName::Types, class, String::new(), String::new());
        repairs.refused(&CallRecord::new(proposal), &proposal.chain, &mut refusal);
        refusal.repair.and_then(|progress| progress.stopped)
    }

    #[test]
    fn the_same_arguments_twice_stop_the_chain_and_success_ends_it() {
        let repairs = RepairChains::new(RepairLimits::default());
        assert_eq!(refuse(&repairs, &proposal("c", "{}", 1)), None);
        assert_eq!(refuse(&repairs, &proposal("c", "{}", 2)), Some(RepairStop::SameArguments));
        assert_eq!(refuse(&repairs, &proposal("other", "{}", 2)), None, "chains are apart");
        repairs.passed(&CallRecord::new(&proposal("c", "{\"ok\":1}", 3)), "c");
        assert_eq!(refuse(&repairs, &proposal("c", "{}", 4)), None);
    }

    #[test]
    fn chains_are_forgotten_after_a_while_and_bounded_in_number() {
        let repairs = RepairChains::new(RepairLimits::default());
        assert_eq!(refuse(&repairs, &proposal("c", "{}", 1)), None);
        assert_eq!(refuse(&repairs, &proposal("c", "{}", 2 + CHAIN_IDLE_MS_MAX)), None);
        for number in 0..CHAINS_MAX + 50 {
            refuse(&repairs, &proposal(&number.to_string(), "{}", 1_000_000 + number as u64));
        }
        assert!(repairs.chains.lock().unwrap().len() <= CHAINS_MAX);
    }
}
