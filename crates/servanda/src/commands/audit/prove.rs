//! `servanda audit prove`: the leaves about a call, each with a proof (C2SP tlog-proof) that anybody verifies with the log's key.

use serde::Serialize;
use servanda_audit::{AuditLeaf, LogProof, TrustedTiles, leaf::AuditEvent};
use servanda_ledger::LedgerReader;

use super::{nothing_signed, places::LedgerLog, signed};
use crate::{failure::CommandFailure, screen::Screen};

/// A leaf and its proof.
#[derive(Debug, Serialize)]
struct ProvenLeaf {
    index: u64,
    /// The leaf as it is in the log, byte for byte.
    leaf: String,
    proof: String,
}

pub(super) async fn run(reader: LedgerReader, call_id: &str, screen: Screen) -> Result<(), CommandFailure> {
    let (note, checkpoint) = signed(&reader).await?.ok_or_else(nothing_signed)?;
    let log = LedgerLog(reader);
    let damaged = |fault: &dyn std::fmt::Display| {
        CommandFailure::failed(format!("the log does not hold: {fault}")).hint("run `servanda ledger verify`")
    };
    let mut tiles = TrustedTiles::open(&log, checkpoint.size(), checkpoint.root()).map_err(|fault| damaged(&fault))?;
    let mut proven = Vec::new();
    for bundle in 0..checkpoint.size().div_ceil(256) {
        let leaves = tiles.bundle(bundle).map_err(|fault| damaged(&fault))?;
        for (index, leaf) in (bundle * 256..).zip(leaves) {
            if is_about(&leaf, call_id) {
                let proof =
                    LogProof::make(&mut tiles, index, note.clone()).map_err(|fault| damaged(&fault))?.to_string();
                proven.push(ProvenLeaf { index, leaf: String::from_utf8_lossy(&leaf).into_owned(), proof });
            }
        }
    }
    if proven.is_empty() {
        return Err(CommandFailure::failed(format!("no signed leaf is about the call `{call_id}`"))
            .hint("a leaf is signed within about a second; `servanda calls` lists calls"));
    }
    if screen.json {
        return screen.json(&proven);
    }
    for leaf in &proven {
        screen.data(format_args!("{}\n\n{}", leaf.leaf, leaf.proof))?;
    }
    screen.hint("`servanda audit prove CALL_ID --json` has leaves and proofs as members");
    Ok(())
}

/// Whether a leaf names the call. The text is looked for first: most leaves are about other calls.
fn is_about(leaf: &[u8], call_id: &str) -> bool {
    let text = String::from_utf8_lossy(leaf);
    if !text.contains(call_id) {
        return false;
    }
    let Ok(leaf) = AuditLeaf::from_bytes(leaf) else { return false };
    let call = match &leaf.event {
        AuditEvent::Decision(decision) => Some(&decision.call),
        AuditEvent::Outcome(outcome) => Some(&outcome.call),
        AuditEvent::Call(call) => Some(&call.decision.call),
        AuditEvent::Effect(effect) => Some(&effect.call),
        AuditEvent::Ticket(ticket) => ticket.call.as_ref(),
        AuditEvent::Change(change) => change.call.as_ref(),
        AuditEvent::Approval(_) => None,
    };
    call.is_some_and(|call| call == call_id)
}
