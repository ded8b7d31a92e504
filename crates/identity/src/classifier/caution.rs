//! Rules of caution: what makes a tool count as changing something whatever the weights say. They only ever raise danger.
//!
//! The weights are learnt from authors, and authors are often wrong; these rules are not learnt.

use super::{
    features,
    lexicon::{self, Verb, VerbClass},
    reading::DescriptorReading,
    schema::Parameter,
    words,
};

/// Why a tool counts as changing something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caution {
    /// The rule.
    pub rule: CautionRule,
    /// The word or parameter that triggered it.
    pub word: String,
}

/// A rule of caution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CautionRule {
    /// The name's verb hardly ever means anything but a change.
    NameChanges,
    /// The name joins a change to something else: `get_or_create`.
    NameJoins,
    /// The description joins a change to its leading verb: "List, create or close".
    LeadJoins,
    /// The description's leading verb hardly ever means anything but a change.
    LeadChanges,
    /// An argument carries a program, and nothing says it may only read.
    Program,
    /// An argument chooses among actions, and one of them changes something.
    Choice,
    /// An argument says where to write a result.
    Destination,
    /// The description is in a script that the classifier cannot read, and the name does not say "look".
    Foreign,
    /// The descriptor says nothing about what the tool does.
    Silent,
}

impl CautionRule {
    /// The rule in words.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NameChanges => "the name's verb changes something",
            Self::NameJoins => "the name joins a change to something else",
            Self::LeadJoins => "the description joins a change to its first verb",
            Self::LeadChanges => "the description begins with a change",
            Self::Program => "an argument carries a program and nothing says it may only read",
            Self::Choice => "an argument chooses among actions and one of them changes something",
            Self::Destination => "an argument says where to write the result",
            Self::Foreign => "the description cannot be read and the name does not say that it only looks",
            Self::Silent => "nothing says what it does",
        }
    }
}

/// Parameters that carry a program, matched by the end of their names.
const PROGRAMS: [&str; 15] = [
    "sql",
    "command",
    "cmd",
    "script",
    "code",
    "shell",
    "program",
    "statement",
    "function",
    "cypher",
    "gremlin",
    "javascript",
    "python",
    "mutation",
    "argv",
];

/// Those of them that carry a program only if no word comes before them: a `code` runs, a `stateCode` does not.
const AMBIGUOUS_PROGRAMS: [&str; 5] = ["code", "function", "statement", "command", "program"];

/// Parameters that choose what is done.
pub(super) const CHOICES: [&str; 7] = ["action", "operation", "op", "method", "mode", "command", "verb"];

/// Every rule of caution that applies to a descriptor.
pub(super) fn find_cautions(reading: &DescriptorReading) -> Vec<Caution> {
    let mut found = Vec::new();
    let mut warn = |rule: CautionRule, word: Option<String>| found.extend(word.map(|word| Caution { rule, word }));
    let harmless = reading.says("changes nothing");
    warn(CautionRule::NameChanges, name_changes(reading).filter(|_| !harmless));
    warn(CautionRule::NameJoins, name_joins(reading));
    warn(CautionRule::LeadJoins, lead_joins(reading).filter(|_| !harmless && !reading.says("read-only")));
    warn(CautionRule::LeadChanges, lead_changes(reading).filter(|_| !harmless));
    warn(
        CautionRule::Program,
        program(reading).filter(|_| !reading.says("read-only") && !reading.says("only select") && !harmless),
    );
    warn(CautionRule::Choice, choice(reading));
    warn(
        CautionRule::Destination,
        reading
            .parameters
            .iter()
            .find(|parameter| features::is_destination(parameter))
            .map(|parameter| parameter.name.clone()),
    );
    warn(CautionRule::Foreign, (reading.foreign && !name_looks(reading)).then(String::new));
    warn(CautionRule::Silent, (reading.words == 0 && !name_looks(reading)).then(String::new));
    found
}

fn is_sure(verb: Verb) -> bool {
    !verb.or_noun && verb.class.changes() && verb.class != VerbClass::Run && verb.class != VerbClass::Drive
}

fn name_changes(reading: &DescriptorReading) -> Option<String> {
    let (_, verb) = reading.name.as_ref()?.head?;
    is_sure(verb).then(|| verb.infinitive.to_owned())
}

/// Whether a name says "look" and nothing else. `find_replace` and `status_update` do not: they begin or end with a verb that
/// changes something, and either that verb is not also a noun, or the looking verb may be one.
fn name_looks(reading: &DescriptorReading) -> bool {
    let Some(name) = reading.name.as_ref() else { return false };
    let last = name.words.len().saturating_sub(1);
    name.head.is_some_and(|(at, head)| {
        let mut verbs = name.verbs.iter();
        let in_place = |place: usize| place == 0 || place == last;
        let changes =
            verbs.any(|(place, verb)| in_place(*place) && verb.class.changes() && (!verb.or_noun || head.or_noun));
        head.class.looks() && !changes && (!head.or_noun || at == 0 || at == last)
    })
}

fn name_joins(reading: &DescriptorReading) -> Option<String> {
    let name = reading.name.as_ref()?;
    let joined = |at: usize| {
        at.checked_sub(1)
            .and_then(|before| name.words.get(before))
            .is_some_and(|word| matches!(word.as_str(), "and" | "or" | "then"))
    };
    // `read_that_writes`: after `that`, a word that may be a noun is a verb.
    let mut pairs = name.words.iter().zip(name.words.iter().skip(1));
    let that =
        || pairs.find_map(|(that, word)| lexicon::verb(word).filter(|verb| that == "that" && verb.class.changes()));
    let joint = name.verbs.iter().find(|(at, verb)| verb.class.changes() && joined(*at)).map(|(_, verb)| *verb);
    joint.or_else(that).map(|verb| verb.infinitive.to_owned())
}

fn lead_joins(reading: &DescriptorReading) -> Option<String> {
    let verb = reading.sentences.first()?.also.iter().find(|verb| verb.class.changes())?;
    Some(verb.infinitive.to_owned())
}

fn lead_changes(reading: &DescriptorReading) -> Option<String> {
    let verb = reading.sentences.first()?.verb?;
    is_sure(verb).then(|| verb.infinitive.to_owned())
}

pub(super) fn program(reading: &DescriptorReading) -> Option<String> {
    if only_studies(reading) {
        return None;
    }
    let about_sql = || {
        let words = reading.sentences.iter().flat_map(|sentence| &sentence.words);
        words.into_iter().any(|word| {
            matches!(
                word.as_str(),
                "sql"
                    | "ddl"
                    | "dml"
                    | "cypher"
                    | "gremlin"
                    | "sqlite"
                    | "mysql"
                    | "postgresql"
                    | "postgres"
                    | "insert"
            )
        })
    };
    let carries = |parameter: &&Parameter| {
        let (last, alone) = (parameter.words.last().map_or("", String::as_str), parameter.words.len() == 1);
        let named = PROGRAMS.contains(&last) && (alone || !AMBIGUOUS_PROGRAMS.contains(&last));
        let query = matches!(last, "query" | "queries") && about_sql();
        matches!(parameter.kind, "string" | "array" | "any") && parameter.values.is_empty() && (named || query)
    };
    reading
        .parameters
        .iter()
        .filter(|parameter| !parameter.nested)
        .find(carries)
        .map(|parameter| parameter.name.clone())
}

/// Whether the verb is one that looks at a program instead of running it: explain, validate, convert.
fn only_studies(reading: &DescriptorReading) -> bool {
    let name = reading.name.as_ref().and_then(|name| name.head).map(|(_, verb)| verb);
    let lead = reading.sentences.first().and_then(|sentence| sentence.verb);
    let studies = |verb: Verb| {
        matches!(verb.class, VerbClass::Compute)
            || matches!(
                verb.infinitive,
                "explain" | "validate" | "lint" | "describe" | "verify" | "help" | "preview" | "list"
            )
    };
    let looks = |verb: Verb| verb.class.looks() && !verb.or_noun;
    name.or(lead).is_some_and(|verb| studies(verb) || looks(verb))
}

fn choice(reading: &DescriptorReading) -> Option<String> {
    let changing = |value: &String| {
        let words = words::split_identifier(value);
        words.first().and_then(|word| lexicon::verb_of_name(word)).is_some_and(|verb| verb.class.changes())
    };
    let chooses = |parameter: &&Parameter| {
        // A filter (`list_events` with an optional `action`) chooses nothing.
        parameter.required
            && parameter.words.last().is_some_and(|last| CHOICES.contains(&last.as_str()))
            && parameter.values.iter().any(changing)
    };
    reading.parameters.iter().find(chooses).map(|parameter| parameter.name.clone())
}
