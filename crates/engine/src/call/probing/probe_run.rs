//! Takes one look: asks read-only tools through the gates and reads paths, all before one deadline.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::Value;
use servanda_contract::{Caller, Digest, digest::DigestDomain, json};
use servanda_gates::{CompiledProbe, CompiledProbes, ProbeQuery, ProbeSubject};
use tokio::time::Instant;

use crate::{
    call::Calls,
    internal_call::{self, InternalCall, InternalCallError},
    probes::{PathLimits, ProbeSnapshot, look_at_path},
    world::WorldSnapshot,
};

/// What to look at, and for which caller.
#[derive(Debug)]
pub(super) struct ProbeRun<'a> {
    pub(super) calls: &'a Calls,
    pub(super) snapshot: &'a WorldSnapshot,
    pub(super) probes: &'a CompiledProbes,
    pub(super) arguments: &'a Value,
    pub(super) caller: &'a Arc<Caller>,
}

impl ProbeRun<'_> {
    /// Takes all probes concurrently. The results are in the order of the contract.
    pub(super) async fn take_all(&self, until: Instant) -> Vec<ProbeSnapshot> {
        let looks = self.probes.iter().map(|probe| async move {
            let looked = tokio::time::timeout_at(until, self.take_one(probe, until)).await;
            looked.unwrap_or_else(|_| ProbeSnapshot::NotTaken("it took too long".to_owned()))
        });
        futures_util::future::join_all(looks).await
    }

    async fn take_one(&self, probe: &CompiledProbe, until: Instant) -> ProbeSnapshot {
        match &probe.subject {
            ProbeSubject::Tool(inquiry) => self.ask(inquiry, until).await.unwrap_or_else(ProbeSnapshot::NotTaken),
            ProbeSubject::Path(path) => self.read(path.clone()).await,
        }
    }

    async fn ask(&self, inquiry: &ProbeQuery, until: Instant) -> Result<ProbeSnapshot, String> {
        let tool = inquiry.tool.as_str();
        let exposed = internal_call::exposed_name(self.snapshot, |identity| identity.name == tool);
        let entry = exposed.and_then(|name| self.snapshot.catalog.entry(&name));
        let contract = &entry.ok_or_else(|| format!("there is no contract `{tool}`"))?.contract;
        // Some faults could not be known when the contract was admitted.
        if let Some(fault) = inquiry.fault(contract) {
            return Err(fault);
        }
        let arguments = inquiry.arguments(self.arguments, contract)?;
        let asking = InternalCall { tool, arguments, caller: Arc::clone(self.caller) };
        let answer = internal_call::ask_content(&self.calls.core, self.snapshot, asking, until)
            .await
            .map_err(InternalCallError::into_words)?;
        let part = match &inquiry.at {
            Some(at) => answer.pointer(at),
            None => Some(&answer),
        };
        let Some(part) = part else { return Ok(ProbeSnapshot::Nothing) };
        let canonical = json::canonicalize(part).map_err(|error| format!("its answer has no digest: {error}"))?;
        Ok(ProbeSnapshot::Digest(Digest::compute(DigestDomain::Seen, &[canonical.bytes()])))
    }

    async fn read(&self, path: std::path::PathBuf) -> ProbeSnapshot {
        let place = Arc::clone(&self.calls.path_places).acquire_owned().await;
        let Ok(place) = place else { return ProbeSnapshot::NotTaken("paths are no longer read".to_owned()) };
        let stop = Arc::new(AtomicBool::new(false));
        // Set when this look is dropped, so that its thread ends.
        let _stop_when_dropped = StopWhenDropped(Arc::clone(&stop));
        let looked = tokio::task::spawn_blocking(move || {
            let _place = place;
            look_at_path(&path, PathLimits::default(), &stop)
        });
        looked.await.unwrap_or_else(|_| ProbeSnapshot::NotTaken("the look ended without a result".to_owned()))
    }
}

struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
