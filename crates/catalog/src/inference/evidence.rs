//! The evidence: what the words of a tool's name, its parameters and its author's hints say about what it does.

use servanda_contract::tool::{Action, OutputDomain};

use super::Descriptor;

/// What a tool seems to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The action.
    pub action: Action,
    /// How far it reaches.
    pub reach: Reach,
    /// Why, in words for the person who reads `servanda init`.
    pub why: String,
    /// Whether the evidence was enough; if not, the reading is the more dangerous one.
    pub certain: bool,
}

/// How far a tool reaches, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It changes nothing.
    ReadOnly,
    /// It changes something of the upstream's own.
    Internal,
    /// It is seen outside.
    External,
    /// It destroys, pays, grants, deploys or runs whatever it is given.
    Critical,
}

/// Words of a name and what they say.
const VERBS: [(Action, Reach, &[&str]); 9] = [
    (
        Action::Delete,
        Reach::Critical,
        &[
            "delete",
            "remove",
            "destroy",
            "drop",
            "purge",
            "erase",
            "wipe",
            "truncate",
            "rm",
            "unlink",
            "uninstall",
            "terminate",
            "kill",
            "revoke",
            "reset",
            "clear",
            "prune",
            "evict",
            "ban",
        ],
    ),
    (
        Action::Update,
        Reach::Critical,
        &[
            "pay",
            "charge",
            "refund",
            "transfer",
            "withdraw",
            "purchase",
            "buy",
            "order",
            "checkout_cart",
            "grant",
            "deploy",
            "execute",
            "exec",
            "run",
            "eval",
            "evaluate",
            "shell",
            "bash",
            "command",
            "script",
            "invoke",
            "trigger",
            "rollback",
            "shutdown",
            "restart",
            "reboot",
            "apply",
            "migrate",
            "approve",
            "sign",
        ],
    ),
    (
        Action::Create,
        Reach::External,
        &[
            "send",
            "mail",
            "email",
            "sms",
            "notify",
            "publish",
            "post",
            "tweet",
            "broadcast",
            "share",
            "invite",
            "reply",
            "submit",
            "call",
            "upload",
            "release",
        ],
    ),
    (Action::Merge, Reach::Internal, &["merge", "rebase", "squash", "join"]),
    (Action::Append, Reach::Internal, &["append", "comment", "push"]),
    (
        Action::Overwrite,
        Reach::Internal,
        &["write", "overwrite", "replace", "save", "put", "store", "import", "restore"],
    ),
    (
        Action::Create,
        Reach::Internal,
        &[
            "create", "add", "insert", "new", "make", "mkdir", "init", "register", "book", "schedule", "clone", "copy",
            "fork", "generate", "start", "open", "attach", "commit", "draft", "upsert", "enqueue", "record",
        ],
    ),
    (
        Action::Update,
        Reach::Internal,
        &[
            "update",
            "edit",
            "modify",
            "set",
            "change",
            "patch",
            "rename",
            "move",
            "assign",
            "unassign",
            "mark",
            "toggle",
            "enable",
            "disable",
            "close",
            "reopen",
            "void",
            "cancel",
            "archive",
            "lock",
            "unlock",
            "stage",
            "checkout",
            "switch",
            "tag",
            "label",
            "pin",
            "unpin",
            "sync",
            "stop",
            "pause",
            "resume",
            "click",
            "type",
            "fill",
            "press",
            "drag",
            "hover",
            "select",
            "navigate",
            "resize",
            "upload_file",
            "handle",
            "manage",
            "process",
            "convert_in_place",
            "sort_in_place",
            "transition",
            "link",
            "unlink_item",
            "subscribe",
            "unsubscribe",
            "follow",
            "unfollow",
            "complete",
            "configure",
            "install",
        ],
    ),
    (
        Action::Search,
        Reach::ReadOnly,
        &["search", "find", "query", "lookup", "grep", "glob", "locate", "match", "filter"],
    ),
];

/// Words that say a tool only looks.
const READ_VERBS: [&str; 45] = [
    "read",
    "get",
    "list",
    "fetch",
    "show",
    "view",
    "describe",
    "inspect",
    "status",
    "log",
    "logs",
    "diff",
    "count",
    "info",
    "tree",
    "stat",
    "stats",
    "head",
    "tail",
    "cat",
    "ls",
    "peek",
    "whoami",
    "ping",
    "echo",
    "help",
    "version",
    "check",
    "verify",
    "validate",
    "calculate",
    "compute",
    "estimate",
    "compare",
    "preview",
    "explain",
    "summarize",
    "report",
    "browse",
    "retrieve",
    "history",
    "blame",
    "allowed",
    "details",
    "download",
];

/// Parameters that carry a program: whatever the name says, the argument decides what happens.
const PROGRAM_PARAMETERS: [&str; 11] =
    ["sql", "query_sql", "command", "cmd", "script", "code", "expression", "shell", "program", "statement", "function"];
/// Words that make a `query` parameter a program.
const DATABASE_WORDS: [&str; 8] = ["sql", "database", "select", "insert", "update", "delete", "table", "statement"];

/// Reads the evidence about one tool.
pub(super) fn read(descriptor: &Descriptor) -> Reading {
    let words = words(&descriptor.name);
    let by_name = by_name(&words);
    let hints = &descriptor.annotations;
    if let Some(parameter) = program_parameter(descriptor)
        && !(by_name.as_ref().is_some_and(|(_, reach, _)| *reach == Reach::ReadOnly)
            && hints.read_only_hint == Some(true))
    {
        let why = format!("its `{parameter}` argument is a program, and what that does is not known here");
        return Reading { action: Action::Overwrite, reach: Reach::Critical, why, certain: false };
    }
    match by_name {
        Some((action, Reach::ReadOnly, word)) => looks(descriptor, action, &word),
        Some((action, reach, word)) => {
            let (reach, also) = match hints.open_world_hint {
                Some(true) if reach == Reach::Internal => (Reach::External, ", and its author says it reaches outside"),
                _ => (reach, ""),
            };
            let liar = if hints.read_only_hint == Some(true) { ", although its author says read-only" } else { "" };
            Reading { action, reach, why: format!("`{word}` in its name{also}{liar}"), certain: true }
        }
        None => unnamed(descriptor),
    }
}

/// A name that says "look": believed unless the author contradicts it.
fn looks(descriptor: &Descriptor, action: Action, word: &str) -> Reading {
    let hints = &descriptor.annotations;
    if hints.read_only_hint == Some(false) || hints.destructive_hint == Some(true) && hints.read_only_hint.is_none() {
        let why = format!("`{word}` in its name, but its author says it changes something");
        return Reading { action: Action::Update, reach: Reach::External, why, certain: false };
    }
    let agreed = if hints.read_only_hint == Some(true) { ", and its author agrees" } else { "" };
    Reading { action, reach: Reach::ReadOnly, why: format!("`{word}` in its name{agreed}"), certain: true }
}

/// A name that says nothing: the hint alone is not enough, the hint and the description together are.
fn unnamed(descriptor: &Descriptor) -> Reading {
    let first = descriptor.description.as_deref().and_then(|text| words(text).into_iter().next()).unwrap_or_default();
    let described = [
        "returns", "return", "provides", "displays", "lists", "gets", "reads", "shows", "searches", "finds", "computes",
    ];
    let looks = described.contains(&first.as_str()) || READ_VERBS.contains(&first.as_str());
    if descriptor.annotations.read_only_hint == Some(true) && looks {
        let why = format!("its author says read-only and its description begins with `{first}`");
        return Reading { action: Action::Read, reach: Reach::ReadOnly, why, certain: true };
    }
    let why = "nothing in its name says what it does, so it counts as a change seen outside".to_owned();
    Reading { action: Action::Update, reach: Reach::External, why, certain: false }
}

fn by_name(words: &[String]) -> Option<(Action, Reach, String)> {
    // `read_and_delete`: every word counts, the gravest wins. Otherwise the first one is the verb and the rest its object:
    // `get_order` looks, `update_email` changes something of its own.
    let joined = words.iter().any(|word| ["and", "or", "then", "that"].contains(&word.as_str()));
    let mut said = words.iter().filter_map(|word| verb(word).map(|(action, reach)| (action, reach, word.clone())));
    if joined { said.max_by_key(|(_, reach, _)| *reach) } else { said.next() }
}

/// What one word says.
fn verb(word: &str) -> Option<(Action, Reach)> {
    let known = |verbs: &[&str]| verbs.iter().any(|verb| is_form_of(word, verb));
    let changes = VERBS.iter().find(|(_, _, verbs)| known(verbs)).map(|(action, reach, _)| (*action, *reach));
    changes.or_else(|| READ_VERBS.contains(&word).then_some((Action::Read, Reach::ReadOnly)))
}

/// `deletes` and `deleted` are forms of `delete`; `settings` is not one of `set`.
fn is_form_of(word: &str, verb: &str) -> bool {
    word == verb || (verb.len() > 3 && (word.strip_suffix('s') == Some(verb) || word.strip_suffix('d') == Some(verb)))
}

/// The words of a name: `getUserById`, `get-user.by_id` and `get user` alike.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_was_lower = false;
    for character in text.chars() {
        let splits = !character.is_alphanumeric() || (character.is_uppercase() && before_was_lower);
        if splits && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
        before_was_lower = character.is_lowercase() || character.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn program_parameter(descriptor: &Descriptor) -> Option<String> {
    let properties = descriptor.input_schema.get("properties")?.as_object()?;
    let about_databases = || {
        let text = format!("{} {}", descriptor.name, descriptor.description.as_deref().unwrap_or_default());
        words(&text).iter().any(|word| DATABASE_WORDS.contains(&word.as_str()))
    };
    let carries = |name: &&String| {
        let name = name.to_lowercase();
        PROGRAM_PARAMETERS.contains(&name.as_str()) || (name == "query" && about_databases())
    };
    properties.keys().find(carries).cloned()
}

/// What a tool returns, as far as its name tells.
pub(super) fn output_domain(descriptor: &Descriptor, reading: &Reading) -> OutputDomain {
    let words = words(&descriptor.name);
    let has = |candidates: &[&str]| words.iter().any(|word| candidates.contains(&word.as_str()));
    if has(&["diff", "patch", "compare"]) {
        OutputDomain::Diff
    } else if has(&["pr", "pull", "prs"]) {
        OutputDomain::Pr
    } else if has(&["issue", "issues", "ticket", "tickets"]) {
        OutputDomain::Issue
    } else if has(&["branch", "branches", "tag", "tags", "ref", "refs", "commit"]) {
        OutputDomain::Ref
    } else if has(&["repo", "repos", "repository", "repositories"]) {
        OutputDomain::Repo
    } else if has(&["user", "users", "account", "accounts", "whoami", "me"]) {
        OutputDomain::User
    } else if reading.reach != Reach::ReadOnly && descriptor.output_schema.is_none() {
        OutputDomain::Ack
    } else if has(&["tree", "directory", "directories", "schema", "structure", "tables", "table"]) {
        OutputDomain::Structure
    } else if has(&["file", "files", "content", "contents", "document", "page", "text", "media"]) {
        OutputDomain::Content
    } else {
        OutputDomain::Data
    }
}
