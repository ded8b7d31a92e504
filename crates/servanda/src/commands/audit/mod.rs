//! `servanda audit`: shows how far the verifiable log has come, copies it to a folder for others, verifies a copy offline, and proves that the
//! log has a call. Works beside running gateways; verifying a copy needs neither a configuration nor a ledger.

mod copy;
mod places;
mod prove;
mod verify;

use std::path::Path;

use serde_json::json;
use servanda_audit::{Checkpoint, SignedNote, VerifierKey};
use servanda_authn::log_key::{LOG_KEY_PLACE, published_log_key};
use servanda_effects::NoteKind;
use servanda_ledger::LedgerReader;

use crate::{
    cli::{AuditArgs, AuditCommand},
    configuration,
    failure::CommandFailure,
    screen::{Screen, count},
};

pub(crate) async fn run(config: &Path, args: &AuditArgs, screen: Screen) -> Result<(), CommandFailure> {
    if let Some(AuditCommand::Verify(args)) = &args.command {
        return verify::run(args, screen);
    }
    let place = configuration::ledger_place(&configuration::read(config)?)?;
    if place.is_missing() {
        return Err(nothing_signed());
    }
    let reader = place.read().await?;
    match &args.command {
        None | Some(AuditCommand::Status | AuditCommand::Verify(_)) => status(&reader, screen).await,
        Some(AuditCommand::Key) => {
            let key = key(&reader).await?;
            if screen.json { screen.json(&json!({ "key": key.to_string() })) } else { screen.data(key) }
        }
        Some(AuditCommand::Copy { folder }) => copy::run(reader, folder, screen).await,
        Some(AuditCommand::Prove { call_id }) => prove::run(reader, call_id, screen).await,
    }
}

async fn status(reader: &LedgerReader, screen: Screen) -> Result<(), CommandFailure> {
    let (key, signed) = (key(reader).await?, signed(reader).await?);
    let size = signed.as_ref().map_or(0, |(_, checkpoint)| checkpoint.size());
    if screen.json {
        let root = signed.as_ref().map(|(_, checkpoint)| checkpoint.root().to_string());
        return screen.json(&json!({ "leaves": size, "root": root, "key": key.to_string() }));
    }
    let root = signed.map_or_else(|| "-".to_owned(), |(_, checkpoint)| checkpoint.root().to_string());
    screen.page(format_args!("leaves  {size}\nroot    {root}\nkey     {key}"))?;
    screen.hint("`servanda audit copy DIR` makes a copy that anybody can verify with this key");
    Ok(())
}

/// The key that verifies the log.
async fn key(reader: &LedgerReader) -> Result<VerifierKey, CommandFailure> {
    let note = reader.note(NoteKind::Secret, LOG_KEY_PLACE).await?;
    note.as_ref().and_then(published_log_key).ok_or_else(nothing_signed)
}

/// The checkpoint that was signed last, if one was.
async fn signed(reader: &LedgerReader) -> Result<Option<(SignedNote, Checkpoint)>, CommandFailure> {
    let Some(text) = reader.log_checkpoint().await? else { return Ok(None) };
    let damaged = || CommandFailure::failed("the log's checkpoint cannot be read").hint("run `servanda ledger verify`");
    let note: SignedNote = text.parse().map_err(|_| damaged())?;
    let checkpoint = note.text().parse().map_err(|_| damaged())?;
    Ok(Some((note, checkpoint)))
}

fn nothing_signed() -> CommandFailure {
    CommandFailure::failed("nothing is signed yet: no gateway has written the log of this ledger")
        .hint("`servanda serve` writes and signs it, unless `audit.log` is false")
}

/// So many leaves, in words.
fn leaves(number: u64) -> String {
    match usize::try_from(number).unwrap_or(usize::MAX) {
        1 => "1 leaf".to_owned(),
        number => count(number, "leave"),
    }
}
