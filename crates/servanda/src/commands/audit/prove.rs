//! `servanda audit prove`: the leaves about a call, each with a proof (C2SP tlog-proof) that anybody verifies with the log's key. The proof's
//! `extra`, which nothing authenticates, carries what opens the leaf's commitments, unless it shall stay sealed.

use serde::Serialize;
use servanda_audit::{
    LogProof,
    leaf::{AuditEvent, LeafOpening, LeafSalts},
};
use servanda_contract::CallRecord;
use servanda_ledger::{CallQuery, LedgerReader};

use super::{
    leaves::{damaged, each_leaf, tiles_of},
    nothing_signed,
    places::LedgerLog,
    signed,
};
use crate::{cli::ProveArgs, failure::CommandFailure, screen::Screen};

/// A leaf and its proof.
#[derive(Debug, Serialize)]
struct ProvenLeaf {
    index: u64,
    /// The leaf as it is in the log, byte for byte.
    leaf: String,
    proof: String,
    /// What the proof carries along.
    #[serde(skip_serializing_if = "Option::is_none")]
    opening: Option<LeafOpening>,
}

/// What opens the commitments of a call's leaves.
struct CallOpener {
    salts: LeafSalts,
    /// The record, which has the digests, if it is still kept.
    record: Option<CallRecord>,
}

pub(super) async fn run(reader: LedgerReader, args: &ProveArgs, screen: Screen) -> Result<(), CommandFailure> {
    let (note, checkpoint) = signed(&reader).await?.ok_or_else(nothing_signed)?;
    let opener = if args.sealed { None } else { CallOpener::read(&reader, &args.call_id).await? };
    let log = LedgerLog(reader);
    let mut tiles = tiles_of(&log, &checkpoint)?;
    let mut about = Vec::new();
    each_leaf(&mut tiles, 0, |index, bytes, leaf| {
        if leaf.event.call() == Some(args.call_id.as_str()) {
            about.push((index, bytes.to_vec(), leaf.clone()));
        }
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    if about.is_empty() {
        return Err(CommandFailure::failed(format!("no signed leaf is about the call `{}`", args.call_id))
            .hint("a leaf is signed within about a second; `servanda calls` lists calls"));
    }
    let mut proven = Vec::new();
    for (index, bytes, leaf) in about {
        let opening = opener.as_ref().and_then(|opener| opener.opening(&leaf.event));
        let mut proof = LogProof::make(&mut tiles, index, note.clone()).map_err(|fault| damaged(&fault))?;
        if let Some(opening) = &opening {
            proof.extra = serde_json::to_vec(opening).map_err(|error| CommandFailure::failed(error.to_string()))?;
        }
        let leaf = String::from_utf8_lossy(&bytes).into_owned();
        proven.push(ProvenLeaf { index, leaf, proof: proof.to_string(), opening });
    }
    if screen.json {
        return screen.json(&proven);
    }
    for ProvenLeaf { leaf, proof, opening, .. } in &proven {
        screen.data(format_args!("{leaf}\n\n{proof}"))?;
        for opened in opening.iter().flat_map(|opening| &opening.opens) {
            let digest = opened.digest.as_deref().unwrap_or("not kept");
            screen.data(format_args!("opens {}: digest {digest}", opened.member))?;
        }
    }
    if opener.is_some() {
        screen.hint(
            "`extra` has the salt of this call: whoever has it can tell whether a guess is right; --sealed leaves it out",
        );
    }
    Ok(())
}

impl CallOpener {
    async fn read(reader: &LedgerReader, call_id: &str) -> Result<Option<Self>, CommandFailure> {
        let Some(salts) = reader.log_salts().await? else { return Ok(None) };
        let found = reader.find(&CallQuery::Id(call_id.to_owned()), 1).await?;
        let record = found.into_iter().find(|record| record.call_id.as_str() == call_id);
        Ok(Some(Self { salts, record }))
    }

    /// What opens a leaf. A digest that is not what was committed to is left out: then the record is not that of the leaf.
    fn opening(&self, event: &AuditEvent) -> Option<LeafOpening> {
        let mut opening = LeafOpening::of(event, &self.salts)?;
        if let Some(record) = &self.record {
            opening.add_digest("input", record.arguments_digest.as_bytes());
            if let Some(answer) = &record.answer_digest {
                opening.add_digest("output", answer.as_bytes());
            }
        }
        Some(opening)
    }
}
