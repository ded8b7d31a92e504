//! `servanda disconnect`: undoes what `connect` did. A file that was not changed since is restored byte for byte. In a changed file only
//! our entry is removed, and the servers that `connect` removed are restored.

mod allow;

use std::path::Path;

use serde_json::json;
use servanda_clients::{
    ClientName,
    connections::{ClientFileConnection, ClientFileConnections, PriorFileState, PriorFileText},
    file::{ClientFile, FILE_BYTES_MAX, shown},
    notation::NotationError,
    record_check::{RecordCheck, notation_of},
};
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;

use self::allow::SettingsUndo;
use super::connect::{FileChangeDecision, FileChangeTerms, ProposedFileChange, ask, client_folders};
use crate::{cli::DisconnectArgs, failure::CommandFailure, screen::Screen};

pub(crate) fn run(config: &Path, args: &DisconnectArgs, screen: Screen) -> Result<(), CommandFailure> {
    // The configuration is not read, so that a broken gateway can still be disconnected.
    let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut connections = ClientFileConnections::read(folder)?;
    let named = args.file.as_ref().map(std::path::absolute).transpose()?;
    let Some(connection) = chosen(&connections, named.as_deref(), args)? else { return not_connected(args, screen) };
    let check = RecordCheck { named: named.as_deref(), config: &std::path::absolute(config)?, folder };
    let file = check.file(&connection)?;
    let DisconnectPlan { after, exact, mut notes } = undo(&connection, &file)?;
    let rule = SettingsUndo::plan(&connection, check.settings(&connection)?, &mut notes);
    for note in notes.iter().filter(|_| !screen.json) {
        screen.say(format_args!("note: {note}"));
    }
    let is_gone = after == file.text;
    if is_gone && rule.is_none() {
        connections.remove(&connection.file);
        if !args.dry_run {
            connections.write(folder)?;
        }
        return show(&connection, "", None, &notes, screen);
    }
    let own = (!is_gone).then_some(ProposedFileChange { file: &file, after: after.as_deref() });
    let changes: Vec<_> = own.into_iter().chain(rule.as_ref().map(SettingsUndo::proposed)).collect();
    let diff = match ask(&changes, FileChangeTerms { yes: args.yes, dry_run: args.dry_run }, screen)? {
        FileChangeDecision::Show(diff) => return show(&connection, &diff, None, &notes, screen),
        FileChangeDecision::Write(diff) => diff,
    };
    // The rule goes first: a client without the gateway needs none, and a record that is still there can be undone again.
    let taken_out = rule.as_ref().map(SettingsUndo::write).transpose()?;
    if is_gone {
        connections.remove(&connection.file);
        connections.write(folder)?;
        return show(&connection, &diff, taken_out.as_deref(), &notes, screen);
    }
    // A file that is restored byte for byte needs no new backup.
    let backup = if exact { None } else { file.keep(SystemClock.now())? };
    match &after {
        Some(text) => drop(file.write(text)?),
        None => file.remove(&connection.made_folders)?,
    }
    connections.remove(&connection.file);
    connections.write(folder)?;
    if exact && let Some(PriorFileState::Kept { backup, .. }) = &connection.before {
        // The file was not changed after all.
        let _ = std::fs::remove_file(backup);
    }
    let how = match (exact, &backup) {
        (true, _) if after.is_none() => format!("removed {}, which was not there before", shown(&connection.file)),
        (true, _) => format!("{} is what it was, byte for byte", shown(&connection.file)),
        (false, Some(backup)) => {
            let (file, backup) = (shown(&connection.file), shown(backup));
            format!("the gateway was taken out of {file}; what it was until now is kept as {backup}")
        }
        (false, None) => format!("the gateway was taken out of {}", shown(&connection.file)),
    };
    let how = taken_out.map_or_else(|| how.clone(), |taken_out| format!("{how}\n{taken_out}"));
    show(&connection, &diff, Some(&how), &notes, screen)
}

/// The connection that the user means.
fn chosen(
    connections: &ClientFileConnections,
    named: Option<&Path>,
    args: &DisconnectArgs,
) -> Result<Option<ClientFileConnection>, CommandFailure> {
    let wanted = match (named, args.client, args.scope) {
        (Some(file), ..) => Some(file.to_owned()),
        (None, Some(client), Some(scope)) => {
            client.client().file(Some(scope), &client_folders()?).map(|(_, file)| file)
        }
        _ => None,
    };
    let word = args.client.map(ClientName::word);
    let meant = |connection: &&ClientFileConnection| match (&wanted, &word) {
        (Some(file), _) => connection.file == *file,
        (None, Some(word)) => connection.client.as_deref() == Some(word),
        (None, None) => true,
    };
    let found: Vec<_> = connections.connections.iter().filter(meant).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).clone())),
        several => {
            let titles = several.iter().map(|one| titled(one)).collect::<Vec<_>>().join(", ");
            let hint = if word.is_some() {
                "say which with --scope, or with --file"
            } else {
                "say which client, or which --file"
            };
            Err(CommandFailure::bad_input(format!("several clients are connected: {titles}")).hint(hint))
        }
    }
}

fn titled(connection: &ClientFileConnection) -> String {
    let file = shown(&connection.file);
    connection.client.as_ref().map_or_else(|| file.clone(), |client| format!("{client} ({file})"))
}

fn not_connected(args: &DisconnectArgs, screen: Screen) -> Result<(), CommandFailure> {
    if screen.json {
        return screen.json(&json!({ "changed": false, "file": null }));
    }
    let what = match (&args.file, args.client) {
        (Some(file), _) => format!("{} is not connected", file.display()),
        (None, Some(client)) => format!("{} is not connected", client.client().title),
        (None, None) => "no client is connected".to_owned(),
    };
    screen.say(format_args!("{what} with this configuration; nothing was changed"));
    screen.hint("`servanda connect` lists the clients and which of them are connected");
    Ok(())
}

/// The planned change.
struct DisconnectPlan {
    /// The new text; none if the file is to be removed.
    after: Option<String>,
    /// Whether the file is restored byte for byte.
    exact: bool,
    notes: Vec<String>,
}

fn undo(connection: &ClientFileConnection, file: &ClientFile) -> Result<DisconnectPlan, CommandFailure> {
    let mut notes = Vec::new();
    let Some(text) = &file.text else {
        notes.push(format!("{} is not there any more", shown(&connection.file)));
        return Ok(DisconnectPlan { after: None, exact: false, notes });
    };
    match connection.prior_text(file.digest().as_deref()) {
        Some(PriorFileText::Absent) => return Ok(DisconnectPlan { after: None, exact: true, notes }),
        Some(PriorFileText::Text(text)) => return Ok(DisconnectPlan { after: Some(text), exact: true, notes }),
        None => {}
    }
    if connection.before.is_some() {
        notes.push(format!(
            "{} or its backup was changed since it was connected, so only the gateway's entry is undone",
            shown(&connection.file)
        ));
    }
    let notation = notation_of(connection, text);
    let unusable = |why: NotationError| {
        CommandFailure::bad_input(format!("`{}`: {why}; nothing was changed", shown(&connection.file)))
            .hint(format!("take `{}` out by hand, or correct the file", connection.name))
    };
    let mut after = notation.take_out(text, &connection.name, connection.made_list).map_err(unusable)?;
    let there = notation.servers(&after).map_err(unusable)?;
    for taken in connection.taken_out.iter().filter(|taken| !there.iter().any(|(name, _)| *name == taken.name)) {
        let from = crate::files::read_text(&taken.backup, FILE_BYTES_MAX).map_err(|error| error.to_string());
        let put_back = |from: String| notation.put_back(&after, &taken.name, &from).map_err(|error| error.to_string());
        match from.and_then(put_back) {
            Ok(with) => after = with,
            Err(why) => {
                let (name, backup) = (&taken.name, shown(&taken.backup));
                notes.push(format!("`{name}` could not be put back from {backup}: {why}"));
            }
        }
    }
    // A file that `connect` made and that has no other content is removed.
    let empty =
        notation.document(&after).is_ok_and(|document| document.as_object().is_some_and(serde_json::Map::is_empty));
    let after = if empty && connection.before == Some(PriorFileState::Absent) { None } else { Some(after) };
    Ok(DisconnectPlan { after, exact: false, notes })
}

fn show(
    connection: &ClientFileConnection,
    diff: &str,
    how: Option<&str>,
    notes: &[String],
    screen: Screen,
) -> Result<(), CommandFailure> {
    if screen.json {
        let changed = how.is_some();
        return screen.json(&json!({ "file": connection.file, "name": connection.name, "changed": changed, "diff": diff, "notes": notes }));
    }
    match how {
        Some(how) => screen.say(how),
        None if diff.is_empty() => {
            screen.say(format_args!("{} has no entry of ours; nothing was changed", shown(&connection.file)));
        }
        None => screen.say("nothing was changed: this was a dry run"),
    }
    Ok(())
}
