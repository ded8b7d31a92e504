//! The verbs that the classifier knows and what each does. The list is data (`data/verbs.txt`); the weights of verbs are
//! learnt.

use std::{collections::HashMap, sync::LazyLock};

use servanda_contract::tool::Action;

use super::words::{self, VerbForm};

/// What a verb does, coarsely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum VerbClass {
    /// Looks at something known.
    Read,
    /// Looks for something.
    Search,
    /// Computes something from its input.
    Compute,
    /// Makes something from its input; whether it is stored is open.
    Produce,
    /// Makes something that stays.
    Create,
    /// Sends something out, or pays.
    Send,
    /// Changes part of something.
    Update,
    /// Removes something.
    Delete,
    /// Joins things.
    Merge,
    /// Replaces something whole.
    Overwrite,
    /// Adds to something.
    Append,
    /// Runs a program that it is given.
    Run,
    /// Operates a browser, a screen, a player.
    Drive,
}

const CLASSES: [(VerbClass, &str); 13] = [
    (VerbClass::Read, "read"),
    (VerbClass::Search, "search"),
    (VerbClass::Compute, "compute"),
    (VerbClass::Produce, "produce"),
    (VerbClass::Create, "create"),
    (VerbClass::Send, "send"),
    (VerbClass::Update, "update"),
    (VerbClass::Delete, "delete"),
    (VerbClass::Merge, "merge"),
    (VerbClass::Overwrite, "overwrite"),
    (VerbClass::Append, "append"),
    (VerbClass::Run, "run"),
    (VerbClass::Drive, "drive"),
];

impl VerbClass {
    /// Its word.
    pub(super) fn word(self) -> &'static str {
        CLASSES.iter().find(|(class, _)| *class == self).map_or("", |(_, word)| *word)
    }

    /// Whether it changes something, judged by the verb alone.
    pub(super) fn changes(self) -> bool {
        !self.looks() && self != Self::Produce
    }

    /// Whether it only looks or computes.
    pub(super) fn looks(self) -> bool {
        matches!(self, Self::Read | Self::Search | Self::Compute)
    }

    /// The action of the verb if the tool changes something.
    pub(super) fn change(self) -> Option<Action> {
        match self {
            Self::Read | Self::Search | Self::Compute => None,
            Self::Produce | Self::Create | Self::Send => Some(Action::Create),
            Self::Update | Self::Run | Self::Drive => Some(Action::Update),
            Self::Delete => Some(Action::Delete),
            Self::Merge => Some(Action::Merge),
            Self::Overwrite => Some(Action::Overwrite),
            Self::Append => Some(Action::Append),
        }
    }
}

/// A verb found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verb {
    /// The infinitive.
    pub(super) infinitive: &'static str,
    /// What it does.
    pub(super) class: VerbClass,
    /// Whether the word is as often a noun.
    pub(super) or_noun: bool,
    /// The form in which it occurred.
    pub(super) form: VerbForm,
}

static VERBS: LazyLock<HashMap<&'static str, (VerbClass, bool)>> = LazyLock::new(|| {
    let mut verbs = HashMap::new();
    for line in include_str!("data/verbs.txt").lines().filter(|line| !line.starts_with('#')) {
        let Some((class, words)) = line.split_once(':') else { continue };
        let Some((class, _)) = CLASSES.iter().find(|(_, word)| *word == class) else { continue };
        for word in words.split_whitespace() {
            let or_noun = word.ends_with('~');
            verbs.entry(word.trim_end_matches('~')).or_insert((*class, or_noun));
        }
    }
    verbs
});

/// The verb that a word is, in any form.
pub(super) fn verb(word: &str) -> Option<Verb> {
    if !word.is_ascii() || word.len() > 24 {
        return None;
    }
    if let Some((infinitive, (class, or_noun))) = VERBS.get_key_value(word) {
        return Some(Verb { infinitive, class: *class, or_noun: *or_noun, form: VerbForm::Infinitive });
    }
    if !(word.ends_with('s') || word.ends_with("ing") || word.ends_with("ed") || word.ends_with("ise")) {
        return None;
    }
    words::infinitives(word).into_iter().find_map(|(stem, form)| {
        let known = VERBS.get_key_value(stem.as_str()).or_else(|| {
            // British spelling: `synchronise` is `synchronize`.
            VERBS.get_key_value(format!("{}ize", stem.strip_suffix("ise")?).as_str())
        });
        let (infinitive, (class, or_noun)) = known?;
        Some(Verb { infinitive, class: *class, or_noun: *or_noun, form })
    })
}

/// The verb that two words form together: to check in changes something, to check does not.
pub(super) fn phrasal(word: &str, next: Option<&String>) -> Option<Verb> {
    let together = match (word, next?.as_str()) {
        ("check" | "checks", "in") => "checkin",
        ("check" | "checks", "out") => "checkout",
        ("sign" | "signs", "up" | "in") => "signup",
        ("log" | "logs", "in") => "login",
        ("log" | "logs", "out") => "logout",
        // Power switches: the words alone are nouns and prepositions.
        ("power" | "powers", "on") => "activate",
        ("power" | "powers", "off") => "deactivate",
        ("power" | "powers", "cycle" | "cycles") => "reboot",
        ("turn" | "turns" | "switch" | "switches", "on") => "enable",
        ("turn" | "turns" | "switch" | "switches" | "shut" | "shuts", "off" | "down") => "disable",
        ("roll" | "rolls", "back") => "rollback",
        ("tear" | "tears", "down") => "teardown",
        ("spin" | "spins", "up") => "provision",
        _ => return None,
    };
    verb(together)
}

/// Agent nouns that end a name, and their verbs. A list, because most words with such an ending are things: `browser`,
/// `router`.
const DOERS: [(&str, &str); 22] = [
    ("analyzer", "analyze"),
    ("calculator", "calculate"),
    ("checker", "check"),
    ("converter", "convert"),
    ("explorer", "explore"),
    ("fetcher", "fetch"),
    ("finder", "find"),
    ("formatter", "format"),
    ("inspector", "inspect"),
    ("reader", "read"),
    ("scraper", "scrape"),
    ("searcher", "search"),
    ("validator", "validate"),
    ("creator", "create"),
    ("deleter", "delete"),
    ("editor", "edit"),
    ("executor", "execute"),
    ("publisher", "publish"),
    ("remover", "remove"),
    ("updater", "update"),
    ("uploader", "upload"),
    ("writer", "write"),
];

/// The verb of an agent noun: a `services_reader` reads.
pub(super) fn agent_noun_verb(word: &str) -> Option<Verb> {
    let (_, infinitive) = DOERS.iter().find(|(doer, _)| *doer == word)?;
    verb(infinitive).map(|verb| Verb { or_noun: false, ..verb })
}

/// The verb that a word of a name is: `deletes` is one, `deleted` describes a thing, and so does a plural such as `orders`.
pub(super) fn verb_of_name(word: &str) -> Option<Verb> {
    verb(word).filter(|verb| match verb.form {
        VerbForm::Infinitive => true,
        VerbForm::Third => !verb.or_noun,
        VerbForm::Gerund | VerbForm::Participle => false,
    })
}
