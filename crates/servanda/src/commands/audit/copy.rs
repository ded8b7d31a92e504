//! `servanda audit copy`: the log's files in a folder. Files that the folder has already are not read again, so that a copy is brought up to
//! date by the same command. The checkpoint is written last: whoever reads it finds everything that it signs.

use std::path::Path;

use serde_json::json;
use servanda_audit::{
    TileSource as _,
    tile::{BUNDLE_BYTES_MAX, CHECKPOINT_PATH, TILE_LEVELS, TileKind, TilePath},
};
use servanda_ledger::LedgerReader;

use super::{counted, nothing_signed, places::LedgerLog, signed};
use crate::{failure::CommandFailure, screen::Screen};

pub(super) async fn run(reader: LedgerReader, folder: &Path, screen: Screen) -> Result<(), CommandFailure> {
    let (note, checkpoint) = signed(&reader).await?.ok_or_else(nothing_signed)?;
    let log = LedgerLog(reader);
    let mut written = 0_usize;
    let kinds = (0..TILE_LEVELS).map(|level| TileKind::Hashes { level });
    for kind in std::iter::once(TileKind::Entries).chain(kinds) {
        let mut index = 0;
        while let Some(path) = TilePath::of_tree(kind, index, checkpoint.size()) {
            written += usize::from(copy(&log, folder, &path)?);
            index += 1;
        }
    }
    write(folder, CHECKPOINT_PATH, note.to_string().as_bytes())?;
    if screen.json {
        return screen.json(&json!({ "folder": folder, "leaves": checkpoint.size(), "files_written": written }));
    }
    screen.page(format_args!("{} has {} of the log", folder.display(), counted(checkpoint.size())))?;
    let key = super::key(&log.0).await?;
    screen.hint(format_args!("servanda audit verify {} --key '{key}'", folder.display()));
    Ok(())
}

/// Copies a file that the folder does not have. Returns whether it was written.
fn copy(log: &LedgerLog, folder: &Path, path: &TilePath) -> Result<bool, CommandFailure> {
    let name = path.to_string();
    if folder.join(&name).exists() {
        return Ok(false);
    }
    let bytes = log.read(&name, BUNDLE_BYTES_MAX);
    let bytes = bytes.map_err(|error| CommandFailure::failed(format!("{name} cannot be read: {error}")))?;
    let bytes = bytes.ok_or_else(|| {
        CommandFailure::failed(format!("the ledger does not have {name}, which its checkpoint signs"))
            .hint("run `servanda ledger verify`")
    })?;
    write(folder, &name, &bytes)?;
    Ok(true)
}

/// Writes a file beside its place and moves it there, so that nobody reads half of it.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), CommandFailure> {
    let place = folder.join(name);
    let beside = place.with_extension("new");
    let made = place.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = made.and_then(|()| std::fs::write(&beside, bytes)).and_then(|()| std::fs::rename(&beside, &place));
    written.map_err(|error| {
        CommandFailure::failed(format!("`{}` cannot be written: {error}", place.display()))
            .hint("choose a folder that you may write to")
    })
}
