//! The files in which clients list their servers: `mcpServers` (Claude, Cursor, Windsurf, Gemini and most others), `servers`
//! with `inputs` (VS Code), `context_servers` (Zed), `mcp_servers` (Codex); and the lists per project in `~/.claude.json`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use servanda_clients::{
    json::{JsoncMember, JsoncNode, line_and_column},
    likely_secrets::variable_name,
    notation::{CONTAINERS, servers_of},
};
use servanda_config::UpstreamConfig;

use crate::{
    ImportResult, ImportSource,
    entry::{self, ImportEntryError, ImportedEntry},
    is_this_gateway,
    variables::EditorContext,
};

/// Every server of a client's file as it would be imported, with its secrets, or why it cannot be.
pub fn listed(file: &Path, document: &Value) -> Vec<(String, Result<UpstreamConfig, ImportEntryError>)> {
    let editor = EditorContext::for_file(file, document.get("inputs"));
    let servers = servers_of(document).map(|(_, servers)| servers);
    let read = |server: &Value| entry::read(server, &editor).map(|entry| entry.upstream);
    servers.into_iter().flatten().map(|(name, server)| (name.clone(), read(server))).collect()
}

/// What the client asks its user for on behalf of a server, by the variable that replaces it in our file.
pub fn inputs_of(server: &Value) -> BTreeMap<String, String> {
    match server {
        Value::String(text) => {
            let ids = text.split("${input:").skip(1).filter_map(|rest| rest.split_once('}'));
            ids.map(|(id, _)| (variable_name(id), format!("${{input:{id}}}"))).collect()
        }
        Value::Array(items) => items.iter().flat_map(inputs_of).collect(),
        Value::Object(members) => members.values().flat_map(inputs_of).collect(),
        _ => BTreeMap::new(),
    }
}

/// Reads a client's file; none if it is not one.
pub(super) fn import(source: &ImportSource<'_>, document: &Value, places: &ServerLines) -> Option<ImportResult> {
    // VS Code once kept the servers in its settings.
    let document = document.get("mcp").filter(|settings| servers_of(settings).is_some()).unwrap_or(document);
    let listed = servers_of(document);
    let projects = document.get("projects").and_then(Value::as_object);
    let known = listed.is_some() || projects.is_some();
    let mut imported = ImportResult { bypass: true, ..ImportResult::default() };
    let editor = EditorContext::for_file(source.file, document.get("inputs"));
    for (name, server) in sorted(listed.map(|(_, servers)| servers)) {
        let listed = ListedServer { name, server, project: None, line: places.get(name).copied() };
        take(&mut imported, source, &editor, &listed);
    }
    if document.get("sandbox").is_some() {
        imported.notes.push("`sandbox` was not imported: upstreams are not sandboxed yet".to_owned());
    }
    if let Some(projects) = projects {
        import_projects(&mut imported, source, &editor, projects);
    }
    known.then_some(imported)
}

/// If the file knows the current project, imports its servers; otherwise those of all projects, each in its folder.
fn import_projects(
    imported: &mut ImportResult,
    source: &ImportSource<'_>,
    editor: &EditorContext,
    projects: &Map<String, Value>,
) {
    let folder = std::path::absolute(source.folder).unwrap_or_else(|_| source.folder.to_owned());
    let folder = folder.canonicalize().unwrap_or(folder);
    let with_servers = projects.iter().filter_map(|(path, project)| {
        let servers = project.get("mcpServers")?.as_object().filter(|servers| !servers.is_empty())?;
        Some((PathBuf::from(path), servers))
    });
    let with_servers: Vec<_> = with_servers.collect();
    let around = |path: &Path| path.canonicalize().is_ok_and(|path| folder.starts_with(path));
    let here = with_servers.iter().filter(|(path, _)| around(path)).max_by_key(|(path, _)| path.components().count());
    let here = here.map(|(path, _)| path.clone());
    for (path, servers) in &with_servers {
        if here.as_ref().is_some_and(|here| here != path) {
            let names = servers.keys().map(String::as_str).collect::<Vec<_>>().join("`, `");
            imported
                .notes
                .push(format!("`{names}` of the project {} was left out: run `servanda init` there", path.display()));
            continue;
        }
        for (name, server) in sorted(Some(servers)) {
            let id = servanda_catalog::names::to_upstream_id(name);
            let taken = imported.upstreams.contains_key(&id);
            let project = path.file_name().unwrap_or_default().to_string_lossy();
            let name = if taken { format!("{name}-{project}") } else { name.to_owned() };
            take(imported, source, editor, &ListedServer { name: &name, server, project: Some(path), line: None });
        }
    }
}

/// The line at which each server begins, if known.
pub(super) type ServerLines = BTreeMap<String, usize>;

/// The places of the servers in a text.
pub(super) fn server_lines(root: &JsoncNode, text: &str) -> ServerLines {
    let list = CONTAINERS.into_iter().find_map(|field| root.member(field)?.value.members());
    let place = |member: &JsoncMember| (member.key.clone(), line_and_column(text, member.start).0);
    list.into_iter().flatten().map(place).collect()
}

/// A server of the file.
struct ListedServer<'a> {
    name: &'a str,
    server: &'a Value,
    project: Option<&'a Path>,
    line: Option<usize>,
}

fn take(imported: &mut ImportResult, source: &ImportSource<'_>, editor: &EditorContext, listed: &ListedServer<'_>) {
    let ListedServer { name, project, .. } = *listed;
    let ImportedEntry { mut upstream, user_notes, asked, private } = match entry::read(listed.server, editor) {
        Ok(entry) => entry,
        Err(why) => {
            let line = listed.line.filter(|_| matches!(why, ImportEntryError::Malformed(_)));
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            return imported.leave_out(name, &format!("{line}{why}"));
        }
    };
    if is_this_gateway(&upstream, source.listen) {
        return imported.leave_out(name, "it is this gateway");
    }
    if upstream.command.is_some() {
        upstream.cwd = cwd(source, editor, upstream.cwd.take(), project);
    }
    if !user_notes.is_empty() {
        imported.notes.push(format!("`{name}`: not imported: {}", user_notes.join(", ")));
    }
    let id = servanda_catalog::names::to_upstream_id(name);
    for (variable, value) in private {
        let held = imported.held.insert(&id, &variable, &value);
        if let Some(reference) = upstream.env.get_mut(&variable) {
            *reference = format!("${{{held}}}");
        }
    }
    imported.asked.extend(asked);
    imported.take(name, upstream);
}

/// Where a server runs. A client's relative path is relative to the folder it has open; ours is relative to our file.
fn cwd(
    source: &ImportSource<'_>,
    editor: &EditorContext,
    cwd: Option<PathBuf>,
    project: Option<&Path>,
) -> Option<PathBuf> {
    let base = project.unwrap_or_else(|| editor.workspace());
    match cwd {
        None => project.map(Path::to_owned),
        Some(cwd) if cwd.is_absolute() || base.canonicalize().ok() == source.folder.canonicalize().ok() => Some(cwd),
        Some(cwd) => Some(base.join(cwd)),
    }
}

/// Sorted by name, so that the same file always gives the same notes.
fn sorted(servers: Option<&Map<String, Value>>) -> Vec<(&str, &Value)> {
    let mut servers: Vec<_> = servers.into_iter().flatten().map(|(name, server)| (name.as_str(), server)).collect();
    servers.sort_by_key(|(name, _)| *name);
    servers
}
