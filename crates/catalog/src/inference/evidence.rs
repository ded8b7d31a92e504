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

/// Words that change something and are hardly ever anything else than verbs, gravest first.
const CHANGES: [(Action, Reach, &str); 9] = [
    (
        Action::Delete,
        Reach::Critical,
        "delete remove destroy drop purge erase wipe truncate rm unlink uninstall terminate kill revoke reset clear prune \
         evict ban",
    ),
    (
        Action::Update,
        Reach::Critical,
        "pay withdraw buy grant deploy execute exec eval evaluate invoke trigger rollback shutdown restart reboot apply \
         migrate approve",
    ),
    (Action::Create, Reach::External, "send notify publish tweet broadcast invite submit upload"),
    (Action::Merge, Reach::Internal, "merge rebase squash join"),
    (Action::Append, Reach::Internal, "append push"),
    (Action::Overwrite, Reach::Internal, "write overwrite replace save put import restore"),
    (
        Action::Create,
        Reach::Internal,
        "create add insert make mkdir init register generate start attach upsert enqueue",
    ),
    (
        Action::Update,
        Reach::Internal,
        "update edit modify set patch rename move assign unassign toggle enable disable close reopen void cancel archive \
         unlock stage checkout switch unpin sync stop pause resume click fill press drag hover navigate resize manage \
         transition subscribe unsubscribe follow unfollow configure install",
    ),
    (Action::Create, Reach::Internal, "clone fork"),
];

/// Words that change something as verbs and name things as nouns: `order_pizza` orders, `get_order` looks.
const CHANGES_OR_THINGS: [(Action, Reach, &str); 4] = [
    (Action::Update, Reach::Critical, "charge refund transfer purchase order run shell bash command script sign"),
    (Action::Create, Reach::External, "mail email sms post share reply call release report"),
    (Action::Append, Reach::Internal, "comment log"),
    (
        Action::Update,
        Reach::Internal,
        "change mark lock tag label pin type select handle process link complete store new book schedule copy open commit \
         draft record check",
    ),
];

/// Verbs that only look.
const LOOKS: &str = "get list read fetch show view describe inspect search find query lookup count retrieve browse ls cat head \
                     tail peek whoami grep glob locate filter match explain preview compare calculate compute estimate \
                     validate verify summarize echo ping help";
/// Of those, the ones that look for something.
const SEARCHES: &str = "search find query lookup grep glob locate filter match";
/// Things that are looked at; they say so only where nothing in the name changes anything.
const LOOKED_AT: &str = "status info stats stat history tree diff version details blame allowed download logs log report check \
                         directories schema";
/// Of those, the ones that are verbs unless they stand last: `monthly_report` is one, `report_spam` does something.
const LAST_ONLY: &str = "log logs report check";

/// Parameters that carry a program: whatever the name says, the argument decides what happens.
const PROGRAM_PARAMETERS: [&str; 11] =
    ["sql", "query_sql", "command", "cmd", "script", "code", "expression", "shell", "program", "statement", "function"];
/// Words that make a `query` parameter a program.
const DATABASE_WORDS: [&str; 8] = ["sql", "database", "select", "insert", "update", "delete", "table", "statement"];

/// Reads the evidence about one tool.
pub(super) fn read(descriptor: &Descriptor) -> Reading {
    let by_name = by_name(&words(&descriptor.name));
    let hints = descriptor.hints();
    let reads =
        by_name.as_ref().is_some_and(|saying| saying.reach == Reach::ReadOnly) && hints.read_only_hint == Some(true);
    if let Some(parameter) = program_parameter(descriptor)
        && !reads
    {
        let why = format!("its `{parameter}` argument is a program, and what that does is not known here");
        return Reading { action: Action::Overwrite, reach: Reach::Critical, why, certain: false };
    }
    match by_name {
        Some(Saying { action, reach: Reach::ReadOnly, word, .. }) => looks(descriptor, action, &word),
        Some(Saying { action, reach, word, certain }) => {
            let (reach, also) = match hints.open_world_hint {
                Some(true) if reach == Reach::Internal => (Reach::External, ", and its author says it reaches outside"),
                _ => (reach, ""),
            };
            let liar = if hints.read_only_hint == Some(true) { ", although its author says read-only" } else { "" };
            Reading { action, reach, why: format!("`{word}` in its name{also}{liar}"), certain }
        }
        None => unnamed(descriptor),
    }
}

/// A name that says "look": believed unless the author contradicts it.
fn looks(descriptor: &Descriptor, action: Action, word: &str) -> Reading {
    let hints = descriptor.hints();
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
    let looks = described.contains(&first.as_str()) || in_list(LOOKS, &first);
    if descriptor.hints().read_only_hint == Some(true) && looks {
        let why = format!("its author says read-only and its description begins with `{first}`");
        return Reading { action: Action::Read, reach: Reach::ReadOnly, why, certain: true };
    }
    let why = "nothing in its name says what it does, so it counts as a change seen outside".to_owned();
    Reading { action: Action::Update, reach: Reach::External, why, certain: false }
}

/// What a name says, with the word that says it, and whether it says so without contradiction.
struct Saying {
    action: Action,
    reach: Reach,
    word: String,
    certain: bool,
}

fn by_name(words: &[String]) -> Option<Saying> {
    let joined = words.iter().any(|word| ["and", "or", "then", "that"].contains(&word.as_str()));
    let verbs: Vec<Saying> = words.iter().filter_map(|word| change(word, &CHANGES)).collect();
    let maybe: Vec<Saying> = words.iter().filter_map(|word| change(word, &CHANGES_OR_THINGS)).collect();
    let first_verb = words.iter().position(|word| change(word, &CHANGES).is_some());
    let first_maybe = words.iter().position(|word| change(word, &CHANGES_OR_THINGS).is_some());
    let looking = words.iter().enumerate().find(|(_, word)| in_list(LOOKS, word));
    if let (Some((at, word)), true) = (looking, verbs.is_empty()) {
        // `get_order`: the verb looks, and what follows is its object.
        if first_maybe.is_none_or(|maybe| at < maybe && !joined) {
            return Some(look(word));
        }
    }
    if verbs.is_empty() && looking.is_none() {
        // `git_status` names what one looks at, `post_status` what one posts.
        let thing = looked_at(words).filter(|(at, _)| first_maybe.is_none_or(|maybe| maybe >= *at));
        if let Some((_, word)) = thing {
            return Some(look(word));
        }
    }
    if let ([_], Some(at), false) = (verbs.as_slice(), first_verb, joined) {
        // `update_email`: one verb, and what follows is its object.
        if looking.is_none_or(|(looking, _)| at < looking) {
            return verbs.into_iter().next();
        }
    }
    // Several verbs, or a look and a change in one name: the gravest counts, and somebody should look.
    let alone = verbs.len() + maybe.len() == 1 && looking.is_none();
    let gravest = verbs.into_iter().chain(maybe).max_by_key(|saying| saying.reach)?;
    Some(Saying { certain: alone, ..gravest })
}

fn look(word: &str) -> Saying {
    let action = if in_list(SEARCHES, word) { Action::Search } else { Action::Read };
    Saying { action, reach: Reach::ReadOnly, word: word.to_owned(), certain: true }
}

/// A thing one looks at, and where it stands.
fn looked_at(words: &[String]) -> Option<(usize, &String)> {
    let last = words.len().checked_sub(1)?;
    words.iter().enumerate().find(|(at, word)| in_list(LOOKED_AT, word) && (*at == last || !in_list(LAST_ONLY, word)))
}

/// What a word changes. `deletes` is a form of `delete`; `deleted` describes a thing.
fn change(word: &str, vocabulary: &[(Action, Reach, &str)]) -> Option<Saying> {
    let is_form_of = |verb: &str| word == verb || (verb.len() > 3 && word.strip_suffix('s') == Some(verb));
    let (action, reach, _) = vocabulary.iter().find(|(_, _, verbs)| verbs.split_whitespace().any(is_form_of))?;
    Some(Saying { action: *action, reach: *reach, word: word.to_owned(), certain: true })
}

fn in_list(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// The words of a name: `getUserById`, `get-user.by_id` and `get user` alike.
pub(super) fn words(text: &str) -> Vec<String> {
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
