//! `servanda connect`: adds the gateway to a client's list of servers. Shows the difference with secrets masked, asks, keeps a backup, and
//! records enough for `disconnect` to undo it.

mod allow;
mod consent;
mod difference;
mod list;
mod plan;

use std::path::{Path, PathBuf};

use serde_json::json;
use servanda_clients::{
    ClientFolders, ClientName, KnownClient,
    connections::{ClientFileConnection, ClientFileConnections, PriorFileState, RemovedServer},
    entry::{Door, GatewayLocation},
    file::{ClientFile, digest, shown},
    notation::Notation,
};
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;

pub(super) use self::consent::{FileChangeDecision, FileChangeTerms, ProposedFileChange, ask};
use self::{
    allow::{AllowRequest, SettingsChange},
    plan::{ConnectPlan, ConnectRequest},
};
use crate::{
    cli::ConnectArgs,
    commands::{
        running_gateway::{self, ListeningGateway},
        version_control,
    },
    configuration,
    failure::CommandFailure,
    screen::Screen,
};

/// The longest name in a client's list. Clients join it with a tool's name, and the sum must stay short.
const NAME_CHARS_MAX: usize = 32;

pub(crate) async fn run(config: &Path, args: &ConnectArgs, screen: Screen) -> Result<(), CommandFailure> {
    if args.client.is_none() && args.file.is_none() {
        return list::run(config, args, &client_folders()?, screen);
    }
    let loaded = configuration::read(config).map_err(needs_configuration)?;
    let gateway = gateway(&loaded)?;
    let client = args.client.map(ClientName::client);
    let file = ClientFile::read(&path(args, client)?)?;
    let text = file.text.as_deref().unwrap_or_default();
    let notation = client.map_or_else(|| Notation::detect(&file.path, text), |client| client.notation);
    let listen = loaded.listen()?;
    let running =
        if args.stdio { ListeningGateway::NoGateway } else { running_gateway::ask(listen, &loaded.file).await };
    let around = client_folders()?;
    let mut request = ConnectRequest {
        client: client.or_else(|| notation.client()),
        notation,
        file: &file,
        name: checked_name(args.name.as_deref())?,
        gateway: &gateway,
        wanted: if args.stdio { Some(Door::Stdio) } else { args.http.then_some(Door::Http) },
        running,
        replace: args.replace,
        allow: false,
        loaded: &loaded,
    };
    let rule = AllowRequest { args, client: request.client, file: &file, notation, around: &around };
    let name = plan::name_in(&request, &notation.servers(text).unwrap_or_default());
    request.allow = rule.is_wanted(&name, screen)?;
    let mut plan = plan::plan(&request)?;
    let settings = if request.allow { rule.settings_change(&plan.name)? } else { None };
    plan.notes.extend(rule.obstacle(&plan.name).filter(|_| request.allow));
    let connections = ClientFileConnections::read(&loaded.folder)?;
    let is_connected = file.text.as_deref() == Some(plan.after.as_str());
    if is_connected && settings.is_none() {
        return already(&loaded, connections, &file, &plan, args, screen);
    }
    for note in &plan.notes {
        if !screen.json {
            screen.say(format_args!("note: {note}"));
        }
    }
    let own = (!is_connected).then_some(ProposedFileChange { file: &file, after: Some(&plan.after) });
    let beside = settings.as_ref().map(|change| ProposedFileChange { file: &change.file, after: Some(&change.after) });
    let changes: Vec<_> = own.into_iter().chain(beside).collect();
    match ask(&changes, FileChangeTerms { yes: args.yes, dry_run: args.dry_run }, screen)? {
        FileChangeDecision::Show(diff) => show(&[], &plan, &diff, &file, screen),
        FileChangeDecision::Write(diff) => {
            let written = write_all(&loaded, connections, (&file, is_connected), &plan, settings.as_ref(), args)?;
            show(&written, &plan, &diff, &file, screen)?;
            after(client, &plan, args, &loaded.folder, screen);
            Ok(())
        }
    }
}

/// A file that was written, and the backup of what it was.
#[derive(Debug)]
struct WrittenFile {
    shown: String,
    backup: Option<PathBuf>,
}

/// Writes the client's file, unless it is connected already, and then its settings.
fn write_all(
    loaded: &LoadedConfig,
    mut connections: ClientFileConnections,
    (file, is_connected): (&ClientFile, bool),
    plan: &ConnectPlan,
    settings: Option<&SettingsChange>,
    args: &ConnectArgs,
) -> Result<Vec<WrittenFile>, CommandFailure> {
    let mut written = Vec::new();
    if is_connected {
        record_by_hand(loaded, &mut connections, file, plan, args)?;
    } else {
        let backup = write(loaded, connections, file, plan, args)?;
        written.push(WrittenFile { shown: file.shown.clone(), backup });
    }
    if let Some(change) = settings {
        let backup = allow::write(loaded, change, file)?;
        written.push(WrittenFile { shown: change.file.shown.clone(), backup });
    }
    Ok(written)
}

/// The folders that locations of client files depend on.
pub(super) fn client_folders() -> Result<ClientFolders, CommandFailure> {
    ClientFolders::from_environment()
        .ok_or_else(|| CommandFailure::failed("HOME is not set, so clients' files cannot be found"))
}

fn needs_configuration(failure: CommandFailure) -> CommandFailure {
    match failure.hint_text() {
        Some(hint) if hint.contains("servanda init") => {
            failure.hint("run `servanda init` first: it makes the configuration that the client will be connected to")
        }
        _ => failure,
    }
}

fn gateway(loaded: &LoadedConfig) -> Result<GatewayLocation, CommandFailure> {
    Ok(GatewayLocation {
        program: std::env::current_exe()?,
        config: std::path::absolute(&loaded.file)?,
        listen: loaded.config.listen.clone(),
    })
}

fn path(args: &ConnectArgs, client: Option<&KnownClient>) -> Result<PathBuf, CommandFailure> {
    if let Some(file) = &args.file {
        return Ok(file.clone());
    }
    let Some(client) = client else { return Err(CommandFailure::bad_input("which client, or which file?")) };
    let around = &client_folders()?;
    client.file(args.scope, around).map(|(_, file)| file).ok_or_else(|| {
        let scopes = client.files(around).into_iter().map(|(scope, _)| scope.word()).collect::<Vec<_>>().join(" or ");
        CommandFailure::bad_input(format!("{} has no file of that scope", client.title))
            .hint(format!("--scope {scopes}"))
    })
}

fn checked_name(name: Option<&str>) -> Result<Option<&str>, CommandFailure> {
    let plain = |name: &str| {
        let word = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
        !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(word)
    };
    match name {
        Some(name) if !plain(name) => {
            Err(CommandFailure::bad_input(format!("`{name}` is not a name that every client accepts"))
                .hint(format!("letters, digits, - and _, at most {NAME_CHARS_MAX} of them")))
        }
        name => Ok(name),
    }
}

/// Makes the backup, then the record, then the change. In this order nothing is lost, and everything can be undone, whatever fails in
/// between.
fn write(
    loaded: &LoadedConfig,
    mut connections: ClientFileConnections,
    file: &ClientFile,
    plan: &ConnectPlan,
    args: &ConnectArgs,
) -> Result<Option<PathBuf>, CommandFailure> {
    file.check_unchanged()?;
    let now = SystemClock.now();
    let backup = file.keep(now)?;
    let earlier = connections.for_file(&file.path).cloned();
    let mut connection = record_connection(file, plan, args, backup.as_deref(), earlier.as_ref());
    connection.since = now.to_string();
    connections.record(connection.clone());
    connections.write(&loaded.folder)?;
    match file.write(&plan.after) {
        Ok(made) if made.is_empty() => {}
        Ok(made) => {
            connection.made_folders = made;
            connections.record(connection);
            connections.write(&loaded.folder)?;
        }
        Err(failure) => {
            connections.remove(&file.path);
            connections.connections.extend(earlier);
            connections.write(&loaded.folder)?;
            if let Some(backup) = backup {
                // The file is unchanged and needs no backup.
                let _ = std::fs::remove_file(backup);
            }
            return Err(failure.into());
        }
    }
    Ok(backup)
}

/// The record of a connection. If a file is connected again and was not changed in between, the record keeps the file's state before the
/// first connection.
fn record_connection(
    file: &ClientFile,
    plan: &ConnectPlan,
    args: &ConnectArgs,
    backup: Option<&Path>,
    earlier: Option<&ClientFileConnection>,
) -> ClientFileConnection {
    let mut taken_out: Vec<_> = earlier.map(|earlier| earlier.taken_out.clone()).unwrap_or_default();
    if let Some(backup) = backup {
        let taken = plan.taken_out.iter().map(|name| RemovedServer { name: name.clone(), backup: backup.to_owned() });
        taken_out.extend(taken);
    }
    let kept =
        |backup: &Path| PriorFileState::Kept { backup: backup.to_owned(), sha256: file.digest().unwrap_or_default() };
    let before = match earlier {
        None => Some(backup.map_or(PriorFileState::Absent, kept)),
        Some(earlier) if file.digest().as_deref() == Some(&earlier.after_sha256) => earlier.before.clone(),
        Some(_) => None,
    };
    ClientFileConnection {
        client: args.client.map(ClientName::word),
        file: file.path.clone(),
        name: plan.name.clone(),
        since: String::new(),
        before,
        after_sha256: digest(&plan.after),
        made_list: earlier.map_or(plan.made_list, |earlier| earlier.made_list),
        made_folders: earlier.map(|earlier| earlier.made_folders.clone()).unwrap_or_default(),
        taken_out,
        allow: earlier.and_then(|earlier| earlier.allow.clone()),
    }
}

/// Records a connection that a person made by hand, so that it can be undone.
fn record_by_hand(
    loaded: &LoadedConfig,
    connections: &mut ClientFileConnections,
    file: &ClientFile,
    plan: &ConnectPlan,
    args: &ConnectArgs,
) -> Result<(), CommandFailure> {
    if connections.for_file(&file.path).is_none() {
        let since = SystemClock.now().to_string();
        connections.record(ClientFileConnection {
            since,
            before: None,
            ..record_connection(file, plan, args, None, None)
        });
        connections.write(&loaded.folder)?;
    }
    Ok(())
}

/// There is nothing to change.
fn already(
    loaded: &LoadedConfig,
    mut connections: ClientFileConnections,
    file: &ClientFile,
    plan: &ConnectPlan,
    args: &ConnectArgs,
    screen: Screen,
) -> Result<(), CommandFailure> {
    if !args.dry_run {
        record_by_hand(loaded, &mut connections, file, plan, args)?;
    }
    if screen.json {
        return show(&[], plan, "", file, screen);
    }
    for note in plan.notes.iter().filter(|_| args.allow) {
        screen.say(format_args!("note: {note}"));
    }
    screen.say(format_args!(
        "{} is connected already, as `{}` ({}); nothing was changed",
        file.shown,
        plan.name,
        plan.door.word()
    ));
    Ok(())
}

fn show(
    written: &[WrittenFile],
    plan: &ConnectPlan,
    diff: &str,
    file: &ClientFile,
    screen: Screen,
) -> Result<(), CommandFailure> {
    if screen.json {
        let backup = written.iter().find(|one| one.shown == file.shown).and_then(|one| one.backup.as_deref());
        let beside: Vec<_> = written
            .iter()
            .filter(|one| one.shown != file.shown)
            .map(|one| json!({ "file": one.shown, "backup": one.backup }))
            .collect();
        return screen.json(&json!({
            "file": file.path, "name": plan.name, "door": plan.door.word(), "changed": !written.is_empty(), "diff": diff,
            "backup": backup, "taken_out": plan.taken_out, "notes": plan.notes, "settings": beside.first(),
        }));
    }
    if written.is_empty() {
        screen.say("nothing was changed: this was a dry run");
    }
    for WrittenFile { shown: name, backup } in written {
        match backup {
            None => screen.say(format_args!("wrote {name}")),
            Some(backup) => screen.say(format_args!("wrote {name}; what it was is kept as {}", shown(backup))),
        }
    }
    Ok(())
}

fn after(client: Option<&KnownClient>, plan: &ConnectPlan, args: &ConnectArgs, folder: &Path, screen: Screen) {
    if screen.json {
        return;
    }
    let undo = match (args.client, &args.file) {
        (Some(client), _) => client.word(),
        (None, Some(file)) => format!("--file {}", file.display()),
        (None, None) => String::new(),
    };
    if plan.door == Door::Http {
        screen.say("the gateway has to be running when the client looks for it: servanda serve");
    }
    if let Some(advice) = version_control::advice(folder) {
        screen.say(format_args!("note: {advice}"));
    }
    let then = client.map_or("start the client again", |client| client.then);
    screen.hint(format_args!("{then}; `servanda disconnect {undo}` undoes this"));
}
