//! Plans a connection: from the text of a client's file to the new text, with notes about it. It neither reads nor writes files, except
//! those that a server's entry refers to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use servanda_catalog::names;
use servanda_clients::{
    HttpStyle, KnownClient,
    entry::{Door, GatewayLocation, value_behind},
    file::ClientFile,
    notation::{Notation, NotationError},
};
use servanda_config::{AuthMode, LoadedConfig, UpstreamConfig};
use servanda_import as import;

use crate::{commands::running_gateway::ListeningGateway, failure::CommandFailure};

/// The gateway's name if none is given.
const NAME: &str = "servanda";

/// What the user asked for.
#[derive(Debug)]
pub(super) struct ConnectRequest<'a> {
    pub(super) client: Option<&'a KnownClient>,
    pub(super) notation: Notation,
    pub(super) file: &'a ClientFile,
    pub(super) name: Option<&'a str>,
    pub(super) gateway: &'a GatewayLocation,
    pub(super) wanted: Option<Door>,
    /// Whether a gateway answers at the address now.
    pub(super) running: ListeningGateway,
    pub(super) replace: bool,
    /// Whether the client is to let every tool of the gateway pass.
    pub(super) allow: bool,
    pub(super) loaded: &'a LoadedConfig,
}

/// The planned change.
#[derive(Debug)]
pub(super) struct ConnectPlan {
    pub(super) after: String,
    pub(super) name: String,
    pub(super) door: Door,
    pub(super) taken_out: Vec<String>,
    /// Whether the file had no list of servers.
    pub(super) made_list: bool,
    pub(super) notes: Vec<String>,
}

/// Plans the change.
pub(super) fn plan(request: &ConnectRequest<'_>) -> Result<ConnectPlan, CommandFailure> {
    let document = request.notation.document(text(request)).map_err(|why| unusable(request, &why))?;
    let servers = request.notation.servers(text(request)).map_err(|why| unusable(request, &why))?;
    let name = name_in(request, &servers);
    let there = servers.iter().find(|(there, _)| *there == name).map(|(_, server)| server);
    let there_door = there.and_then(|server| request.gateway.door_of(server));
    if there.is_some() && there_door.is_none() {
        return Err(CommandFailure::bad_input(format!("`{}` has another server called `{name}`", request.file.shown))
            .hint("give the gateway another name with --name"));
    }
    let mut notes = Vec::new();
    let door = door(request, there_door, &mut notes)?;
    let replaced =
        if request.replace { replaced(request, &document, &name, &mut notes)? } else { ReplacedServers::default() };
    if !request.replace {
        note_others(request, &servers, &name, &mut notes);
    }
    let mut env = env_of(there);
    env.extend(replaced.values);
    let fresh = request.gateway.entry(request.client, door, &env).ok_or_else(|| only_commands(request))?;
    let fresh = match request.client.filter(|_| request.allow) {
        Some(client) => client.allow.in_entry(fresh),
        None => fresh,
    };
    // Members that a person added to our entry are kept.
    let kept = there.filter(|_| there_door == Some(door));
    let entry = kept.map_or_else(|| fresh.clone(), |there| merged(there, &fresh));
    note_needed(request, door, &env, &mut notes);
    let put = if there == Some(&entry) {
        Ok(text(request).to_owned())
    } else {
        request.notation.put(text(request), &name, &entry)
    };
    let edited = replaced.names.iter().fold(put, |text, other| request.notation.take_out(&text?, other, false));
    let by_hand = |why: NotationError| {
        let written = request.notation.put("", &name, &entry).unwrap_or_default();
        unusable(request, &why).hint(format!("write it there yourself, beside what is there:\n{written}"))
    };
    Ok(ConnectPlan {
        after: edited.map_err(by_hand)?,
        name,
        door,
        taken_out: replaced.names,
        made_list: document.get(request.notation.container()).is_none(),
        notes,
    })
}

/// The gateway's name in a client's list: the one that the user gives, or the one that it has, or the usual one.
pub(super) fn name_in(request: &ConnectRequest<'_>, servers: &[(String, Value)]) -> String {
    let ours = servers.iter().find(|(_, server)| request.gateway.door_of(server).is_some());
    request.name.or(ours.map(|(name, _)| name.as_str())).unwrap_or(NAME).to_owned()
}

fn merged(there: &Value, fresh: &Value) -> Value {
    let mut merged = there.clone();
    if let (Some(merged), Some(fresh)) = (merged.as_object_mut(), fresh.as_object()) {
        merged.extend(fresh.clone());
    }
    merged
}

fn text<'a>(request: &ConnectRequest<'a>) -> &'a str {
    request.file.text.as_deref().unwrap_or_default()
}

fn unusable(request: &ConnectRequest<'_>, why: &NotationError) -> CommandFailure {
    CommandFailure::bad_input(format!("`{}`: {why}; nothing was changed", request.file.shown))
        .hint("correct the file, or name another with --file")
}

fn only_commands(request: &ConnectRequest<'_>) -> CommandFailure {
    let title = request.client.map_or("this client", |client| client.title);
    CommandFailure::bad_input(format!(
        "{title} starts its servers as commands and reaches none at an address of this machine"
    ))
    .hint("leave out --http")
}

/// How the client will reach the gateway, and why that way.
fn door(request: &ConnectRequest<'_>, there: Option<Door>, notes: &mut Vec<String>) -> Result<Door, CommandFailure> {
    let listen = &request.gateway.listen;
    let commands_only = request.client.is_some_and(|client| client.http == HttpStyle::None);
    let door = match (request.wanted, there) {
        (Some(wanted), _) => wanted,
        (None, Some(there)) => there,
        (None, None) if commands_only => Door::Stdio,
        (None, None) if request.running == ListeningGateway::Ours => {
            notes.push(format!(
                "a gateway answers at {listen}, so the client is sent there (--stdio has it start its own)"
            ));
            Door::Http
        }
        (None, None) if request.running == ListeningGateway::Another => {
            notes.push(format!(
                "the gateway at {listen} has another configuration, so the client starts one itself; with another `listen` in \
                 {config} both can be served",
                config = request.loaded.file.display()
            ));
            Door::Stdio
        }
        (None, None) => {
            notes.push(format!(
                "no gateway answers at {listen}, so the client starts one itself (--http sends it there)"
            ));
            Door::Stdio
        }
    };
    if request.wanted == Some(Door::Http) && request.running == ListeningGateway::Another {
        notes.push(format!(
            "the gateway that answers at {listen} now has another configuration: end it, or choose another `listen`"
        ));
    }
    if door == Door::Http && request.loaded.config.auth.mode == AuthMode::Required {
        notes.push(
            "callers need a credential (`auth.mode: required`): add a header `Authorization: Bearer KEY` to the entry, with a key that \
             `servanda keys create` made; the client cannot connect without it"
                .to_owned(),
        );
    }
    if door == Door::Stdio && request.loaded.config.auth.mode == AuthMode::Required {
        notes.push(
            "a gateway that the client starts itself asks for no credential: its caller is the local operator, `local/local`; --http has \
             the client show a key"
                .to_owned(),
        );
    }
    if door == Door::Http && listen.ends_with(":0") {
        return Err(CommandFailure::bad_input(format!(
            "the gateway listens at {listen}, which is another address every time"
        ))
        .hint("choose a port as `listen` in the configuration, or connect with --stdio"));
    }
    Ok(door)
}

/// Servers that are replaced by the gateway.
#[derive(Debug, Default)]
struct ReplacedServers {
    names: Vec<String>,
    /// Values that only the client's file has, and that the gateway's configuration refers to.
    values: BTreeMap<String, String>,
}

/// The servers to remove from the client's file: those behind the gateway. A server that could be behind the gateway and is not causes an
/// error; one that cannot be behind it stays.
fn replaced(
    request: &ConnectRequest<'_>,
    document: &Value,
    own: &str,
    notes: &mut Vec<String>,
) -> Result<ReplacedServers, CommandFailure> {
    let mut replaced = ReplacedServers::default();
    let mut missing = Vec::new();
    for (name, server) in import::listed(&request.file.path, document) {
        if name == own {
            continue;
        }
        let raw = document.get(request.notation.container()).and_then(|servers| servers.get(&name));
        let raw = raw.unwrap_or(&Value::Null);
        match (server, request.loaded.config.upstreams.get(&names::to_upstream_id(&name))) {
            _ if request.gateway.door_of(raw).is_some() => replaced.names.push(name),
            (Ok(theirs), Some(ours)) => {
                if ours.url.is_some() != theirs.url.is_some() {
                    notes.push(format!("`{name}` is reached in another way behind the gateway"));
                }
                replaced.values.extend(values(ours, &theirs));
                // The client can keep asking its user for these values.
                let needed = import::needed(ours);
                let inputs = import::inputs_of(raw).into_iter().filter(|(variable, _)| needed.contains(variable));
                replaced.values.extend(inputs);
                replaced.names.push(name);
            }
            (Ok(_), None) => missing.push(name),
            (Err(why), _) => notes.push(format!("`{name}` stays, and the agent keeps reaching it directly: {why}")),
        }
    }
    if missing.is_empty() {
        return Ok(replaced);
    }
    Err(CommandFailure::bad_input(format!("`{}` would be lost: not behind the gateway yet", missing.join("`, `")))
        .hint(format!("run `servanda init --from {}` first", request.file.shown)))
}

/// The values in the client's file that our configuration has as references.
fn values(ours: &UpstreamConfig, theirs: &UpstreamConfig) -> BTreeMap<String, String> {
    let pairs = |ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>| {
        let both = ours.iter().filter_map(|(name, value)| value_behind(value, theirs.get(name)?));
        both.collect::<Vec<_>>()
    };
    let mut values: BTreeMap<_, _> = pairs(&ours.env, &theirs.env).into_iter().collect();
    values.extend(pairs(&ours.headers, &theirs.headers));
    values.extend(ours.args.iter().zip(&theirs.args).filter_map(|(ours, theirs)| value_behind(ours, theirs)));
    values.extend(ours.url.iter().zip(&theirs.url).filter_map(|(ours, theirs)| value_behind(ours, theirs)));
    values
}

fn env_of(entry: Option<&Value>) -> BTreeMap<String, String> {
    let env = entry.and_then(|entry| entry.get("env")).and_then(Value::as_object);
    env.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// Notes servers beside the gateway, because agents can bypass the gateway through them.
fn note_others(request: &ConnectRequest<'_>, servers: &[(String, Value)], own: &str, notes: &mut Vec<String>) {
    let other = |(name, server): &&(String, Value)| name != own && request.gateway.door_of(server).is_none();
    let others: Vec<_> = servers.iter().filter(other).map(|(name, _)| name.as_str()).collect();
    if !others.is_empty() {
        notes.push(format!(
            "the agent keeps reaching `{}` directly; --replace takes out what is behind the gateway",
            others.join("`, `")
        ));
    }
}

/// Notes variables that are needed: a gateway that a client starts has the client's environment, which is seldom a shell's.
fn note_needed(request: &ConnectRequest<'_>, door: Door, env: &BTreeMap<String, String>, notes: &mut Vec<String>) {
    let needed: BTreeSet<String> = request.loaded.config.upstreams.values().flat_map(import::needed).collect();
    let given = |name: &String| name == "HOME" || door == Door::Stdio && env.contains_key(name);
    let needed: Vec<_> = needed.into_iter().filter(|name| !given(name)).collect();
    if needed.is_empty() {
        return;
    }
    let place = match door {
        Door::Stdio => "where the client is started, or under \"env\" of its entry",
        Door::Http => "where `servanda serve` is started",
    };
    notes.push(format!("the gateway needs {}: set it {place}", needed.join(", ")));
    let lost: Vec<_> = needed.iter().filter(|name| env.contains_key(*name)).map(String::as_str).collect();
    if !lost.is_empty() {
        notes.push(format!("the value of {} will be in the backup only", lost.join(", ")));
    }
}
