//! `servanda connect` without a client: lists the known clients, which are installed here, and which are connected.

use std::path::{Path, PathBuf};

use serde::Serialize;
use servanda_clients::{
    ClientFileScope, ClientFolders, KnownClient,
    connections::{ClientFileConnection, ClientFileConnections},
    entry::GatewayLocation,
    file::ClientFile,
};

use crate::{
    cli::ConnectArgs,
    configuration,
    failure::CommandFailure,
    screen::{Screen, TextStyle, lines, paint, table},
};

/// The state of one client.
#[derive(Debug, Serialize)]
struct Row {
    client: String,
    title: &'static str,
    found: bool,
    connected: Option<String>,
    file: String,
    scope: &'static str,
}

pub(super) fn run(
    config: &Path,
    args: &ConnectArgs,
    around: &ClientFolders,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let asked =
        args.replace || args.allow || args.yes || args.dry_run || args.stdio || args.http || args.name.is_some();
    if asked {
        return Err(CommandFailure::bad_input("which client is to be connected?")
            .hint("`servanda connect` lists them; `servanda connect --file PATH` connects any other client's file"));
    }
    let loaded = configuration::read(config);
    let gateway = loaded.as_ref().ok().map(super::gateway).transpose()?;
    let mut rows: Vec<_> = KnownClient::all().iter().map(|client| row(client, gateway.as_ref(), around)).collect();
    let folder = config.parent().unwrap_or(Path::new(""));
    rows.extend(ClientFileConnections::read(folder)?.connections.iter().filter_map(|there| named_row(there, around)));
    if screen.json {
        return screen.json(&rows);
    }
    let mut shown = table(&["client", "status", "file"]);
    for row in &rows {
        shown.add_row([row.client.clone(), status(row), row.file.clone()]);
    }
    screen.data(lines(&shown))?;
    match loaded {
        Ok(_) => screen
            .hint("`servanda connect CLIENT` shows what it would change and asks; --file PATH is for any other client"),
        Err(failure) => {
            screen.say(format_args!("note: nothing can be connected yet: {failure}"));
            let hint = failure.hint_text().filter(|hint| !hint.contains("servanda init"));
            screen.hint(hint.unwrap_or("run `servanda init` first"));
        }
    }
    Ok(())
}

/// One column for people. Whether a client is installed is only said if it is not connected.
fn status(row: &Row) -> String {
    match &row.connected {
        Some(how) => paint(&format!("connected {how}").replace("as servanda ", ""), TextStyle::Good),
        None if row.found => "installed".to_owned(),
        None => paint("not installed", TextStyle::Quiet),
    }
}

/// The row of a connected file that is at no known location of a known client.
fn named_row(there: &ClientFileConnection, around: &ClientFolders) -> Option<Row> {
    let known =
        KnownClient::all().iter().any(|client| client.files(around).iter().any(|(_, file)| *file == there.file));
    (!known).then(|| Row {
        client: there.client.clone().unwrap_or_else(|| "(--file)".to_owned()),
        title: "",
        found: there.file.exists(),
        connected: Some(format!("as {}", there.name)),
        file: around.shown(&there.file),
        scope: "",
    })
}

/// The row of a client: with its connected file, or the file that would be connected.
fn row(client: &KnownClient, gateway: Option<&GatewayLocation>, around: &ClientFolders) -> Row {
    let files = client.files(around);
    let connected = files.iter().find_map(|(scope, file)| {
        let text = ClientFile::read(file).ok()?.text?;
        let servers = client.notation.servers(&text).ok()?;
        let words =
            servers.iter().find_map(|(name, server)| Some(format!("as {name} ({})", gateway?.door_of(server)?.word())));
        Some((*scope, file.clone(), Some(words?)))
    });
    let usual = files.into_iter().next().map(|(scope, file)| (scope, file, None));
    let (scope, file, words) = connected.or(usual).unwrap_or((ClientFileScope::User, PathBuf::new(), None));
    Row {
        client: client.name.word(),
        title: client.title,
        found: client.is_found(around),
        connected: words,
        file: around.shown(&file),
        scope: scope.word(),
    }
}
