//! What a ticket says of the call that it is about: who calls what, with which bytes.
//!
//! Deliberately not here: the words and states that are shown with it, which its opener adds.

use std::collections::BTreeMap;

use bytes::Bytes;
use servanda_approval::TicketSubject;
use servanda_contract::{Digest, Proposal};
use servanda_gates::CompiledContract;

use super::context::CallContext;

/// The subject of a ticket for a call, with the digest of what is approved and its bytes, and nothing to show yet.
pub(super) fn ticket_subject(
    proposal: &Proposal,
    contract: &CompiledContract,
    context: &CallContext,
    (payload, arguments): (Digest, Bytes),
) -> TicketSubject {
    let (written, caller) = (contract.contract(), &proposal.caller);
    let run = proposal.keys.run_id.clone().or_else(|| caller.session.clone());
    TicketSubject {
        tenant: caller.tenant.clone(),
        principal: caller.principal.clone(),
        actors: caller.actors.clone(),
        credential: caller.credential.clone(),
        client: caller.client.clone(),
        run: run.unwrap_or_else(|| context.requester.affinity.to_string()),
        call_id: proposal.call_id.clone(),
        trace_id: proposal.trace_id.clone(),
        tool: proposal.tool.clone(),
        contract: written.identity.name.clone(),
        contract_version: written.identity.version.clone(),
        contract_digest: contract.digest(),
        upstream: written.binding.upstream.clone(),
        payload,
        arguments,
        consequence: None,
        after: None,
        before: None,
        upstream_preview: None,
        compensation: None,
        operation: None,
        price: None,
        sensitive: BTreeMap::new(),
        plan: Vec::new(),
    }
}
