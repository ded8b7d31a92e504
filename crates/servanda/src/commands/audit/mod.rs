//! `servanda audit`: shows how far the verifiable log has come, copies it to a folder for others, verifies a copy offline, proves that the log
//! has a call, and exports and searches leaves. Works beside running gateways; what is done with a copy needs neither a configuration nor a
//! ledger.

mod copy;
mod export;
mod leaves;
mod places;
mod prove;
mod search;
mod verify;

use std::path::Path;

use serde_json::json;
use servanda_audit::{Checkpoint, SignedNote, VerifierKey};
use servanda_authn::log_key::{LOG_KEY_PLACE, published_log_key};
use servanda_effects::NoteKind;
use servanda_ledger::LedgerReader;

use self::places::{LedgerLog, LogFolder, LogPlace};
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
    if let Some(AuditCommand::Export { since_leaf, dir }) = &args.command {
        let (log, checkpoint) = log(config, dir.as_deref()).await?;
        return export::run(&log, &checkpoint, *since_leaf, screen);
    }
    if let Some(AuditCommand::Search(args)) = &args.command {
        let (log, checkpoint) = log(config, args.dir.as_deref()).await?;
        return search::run(&log, &checkpoint, args, screen);
    }
    let reader = ledger(config).await?;
    match &args.command {
        None
        | Some(
            AuditCommand::Status | AuditCommand::Verify(_) | AuditCommand::Export { .. } | AuditCommand::Search(_),
        ) => status(&reader, screen).await,
        Some(AuditCommand::Key) => {
            let key = key(&reader).await?;
            if screen.json { screen.json(&json!({ "key": key.to_string() })) } else { screen.data(key) }
        }
        Some(AuditCommand::Copy { folder }) => copy::run(reader, folder, screen).await,
        Some(AuditCommand::Prove(args)) => prove::run(reader, args, screen).await,
    }
}

async fn ledger(config: &Path) -> Result<LedgerReader, CommandFailure> {
    let place = configuration::ledger_place(&configuration::read(config)?)?;
    if place.is_missing() {
        return Err(nothing_signed());
    }
    Ok(place.read().await?)
}

/// A copy of the log, or the one in the ledger, and its checkpoint.
async fn log(config: &Path, folder: Option<&Path>) -> Result<(LogPlace, Checkpoint), CommandFailure> {
    if let Some(folder) = folder {
        let folder = LogFolder(folder.to_owned());
        let (_, checkpoint) = leaves::checkpoint_of(&folder)?;
        return Ok((LogPlace::Folder(folder), checkpoint));
    }
    let reader = ledger(config).await?;
    let (_, checkpoint) = signed(&reader).await?.ok_or_else(nothing_signed)?;
    Ok((LogPlace::Ledger(LedgerLog(reader)), checkpoint))
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
    leaves::parsed(&text).map(Some)
}

fn nothing_signed() -> CommandFailure {
    CommandFailure::failed("nothing is signed yet: no gateway has written the log of this ledger")
        .hint("`servanda serve` writes and signs it, unless `audit.log` is false")
}

/// So many leaves, in words.
fn counted(number: u64) -> String {
    match usize::try_from(number).unwrap_or(usize::MAX) {
        1 => "1 leaf".to_owned(),
        number => count(number, "leave"),
    }
}
