//! Reads a descriptor: its verbs and their places, what its sentences deny, which parameters it takes. It weighs nothing.

use std::{collections::HashSet, sync::LazyLock};

use serde_json::{Map, Value};

use super::{
    Descriptor,
    lexicon::{self, Verb, VerbClass},
    mask, phrases,
    schema::{self, Parameter},
    words::{self, Sentence, VerbForm},
};

/// How many sentences of a description are read.
const SENTENCES_MAX: usize = 40;

/// Words that come before the verb that says what a tool does: "This tool allows you to safely delete …".
const OPENING_WORDS: &str = "a an the this that these it tool tools api function endpoint helper utility command method operation \
                       action capability interface service mcp server use used uses useful using to for allow allows \
                       allowing lets let enables enabling you your user users agent agents can could will would should \
                       may must is are be been being when want wants need needs whenever if able ability please simply \
                       quickly easily safely automatically programmatically just only first always then also and or , \
                       i me my we our as in order which who primary purpose beta experimental deprecated preferred \
                       optional official supports support v1 v2 calls http based advanced powerful intelligent smart \
                       efficiently asynchronously directly quick simple given attempts attempt try tries by with";

/// Verbs that compute something and store nothing.
const STUDIES: [&str; 12] = [
    "analyse",
    "analyze",
    "calculate",
    "classify",
    "compute",
    "decode",
    "detect",
    "estimate",
    "infer",
    "measure",
    "predict",
    "parse",
];

/// Things that are reported: a description that begins with one says what the tool returns.
const TOLD: [&str; 26] = [
    "status",
    "info",
    "information",
    "stat",
    "statistic",
    "summary",
    "history",
    "log",
    "count",
    "detail",
    "overview",
    "metric",
    "health",
    "usage",
    "list",
    "report",
    "forecast",
    "diagram",
    "tree",
    "result",
    "content",
    "schema",
    "version",
    "balance",
    "price",
    "quote",
];

/// Words that deny what follows them.
const NEGATORS: [&str; 16] = [
    "not", "no", "never", "without", "cannot", "can't", "don't", "doesn't", "won't", "nothing", "isn't", "neither",
    "nor", "didn't", "avoid", "instead",
];

/// How far a denial reaches, in words.
const NEGATION_WORDS_MAX: usize = 4;

/// What a descriptor says, word by word.
#[derive(Debug, Default)]
pub(super) struct DescriptorReading {
    /// Its name; `None` if names are withheld.
    pub(super) name: Option<NameReading>,
    /// Its title's first words, read like a sentence.
    pub(super) title: Option<SentenceReading>,
    /// Its description, sentence by sentence.
    pub(super) sentences: Vec<SentenceReading>,
    /// HTTP methods written in capitals.
    pub(super) methods: Vec<&'static str>,
    /// Its parameters.
    pub(super) parameters: Vec<Parameter>,
    /// The names in its output schema; `None` if it has none.
    pub(super) output: Option<Vec<String>>,
    /// Whether its text is in a script that the classifier cannot read.
    pub(super) foreign: bool,
    /// How long the description is, in words.
    pub(super) words: usize,
}

/// What a name says.
#[derive(Debug)]
pub(super) struct NameReading {
    /// Its words.
    pub(super) words: Vec<String>,
    /// The verbs among them, with their places.
    pub(super) verbs: Vec<(usize, Verb)>,
    /// The main verb: the first that is hardly ever a noun, otherwise the first in a verb's position.
    pub(super) head: Option<(usize, Verb)>,
}

/// What a sentence says.
#[derive(Debug, Default)]
pub(super) struct SentenceReading {
    /// Its words.
    pub(super) words: Sentence,
    /// The first word that is not an opener, and its position.
    pub(super) lead: Option<(usize, String)>,
    /// That word as a verb, if it is one.
    pub(super) verb: Option<Verb>,
    /// Verbs joined to it by commas, `and`, `or`.
    pub(super) also: Vec<Verb>,
    /// What follows the verb, without articles.
    pub(super) object: Option<String>,
    /// The other verbs, denied or not, in order.
    pub(super) others: Vec<Verb>,
    /// Verbs it denies.
    pub(super) denied: Vec<Verb>,
    /// The phrases it contains.
    pub(super) phrases: Vec<&'static str>,
}

impl DescriptorReading {
    /// Whether any sentence of the description contains a phrase.
    pub(super) fn says(&self, phrase: &str) -> bool {
        self.sentences.iter().any(|sentence| sentence.phrases.contains(&phrase))
    }

    /// The verb that certainly reads: the name's, or the description's first one if the name has none or only words that may be
    /// nouns. No verb that certainly changes something may be beside it.
    pub(super) fn reading_verb(&self) -> Option<&'static str> {
        let lead = self.sentences.first().and_then(|sentence| sentence.verb);
        let head = self.name.as_ref().and_then(|name| name.head).map(|(_, verb)| verb);
        let changes = |verb: &Verb| verb.class.changes() && !verb.or_noun;
        if head.as_ref().is_some_and(changes) || lead.as_ref().is_some_and(changes) {
            return None;
        }
        let looks = |verb: &Verb| {
            let surely =
                matches!(verb.class, VerbClass::Read | VerbClass::Search) || STUDIES.contains(&verb.infinitive);
            surely && !verb.or_noun
        };
        let named = head.filter(looks).or_else(|| lead.filter(looks)).map(|verb| verb.infinitive);
        named.or_else(|| self.told_thing())
    }

    /// What the tool returns, if the description begins with a noun: "Logs of a container".
    fn told_thing(&self) -> Option<&'static str> {
        let sentence = self.sentences.first()?;
        let (at, lead) = sentence.lead.as_ref()?;
        let next = sentence.words.get(at + 1)?;
        let thing = TOLD.into_iter().find(|thing| *thing == singular(lead))?;
        matches!(next.as_str(), "of" | "for" | "about" | "from").then_some(thing)
    }
}

/// Reads a descriptor, without its name and title if `names` is false.
pub(super) fn read(descriptor: &Descriptor, names: bool) -> DescriptorReading {
    let clean = |text: &str| if names { text.to_owned() } else { mask::masked(text, &descriptor.name) };
    let description = descriptor.description.as_deref().unwrap_or_default();
    let description = clean(words::cut(description, words::DESCRIPTION_BYTES_MAX));
    let sentences: Vec<SentenceReading> =
        words::sentences(&description, SENTENCES_MAX).into_iter().map(read_sentence).collect();
    let title = descriptor.title.as_deref().filter(|_| names);
    let lead = sentences.first().and_then(|first| first.verb);
    DescriptorReading {
        name: names.then(|| reconcile(read_name(&descriptor.name), lead)),
        title: title.and_then(|title| words::sentences(title, 1).into_iter().next()).map(read_sentence),
        words: sentences.iter().map(|sentence| sentence.words.len()).sum(),
        methods: methods(&description),
        foreign: words::is_foreign(&description),
        sentences,
        parameters: descriptor
            .input_schema
            .as_ref()
            .map(|schema| schema::parameters(schema, clean))
            .unwrap_or_default(),
        output: descriptor.output_schema.as_ref().filter(|schema| !is_wrapped(schema)).map(schema::property_names),
    }
}

/// A word of the name that may be a noun is taken for one if the description begins with a verb that certainly only reads:
/// `schedule-one` with "Get …" schedules nothing.
fn reconcile(name: NameReading, lead: Option<Verb>) -> NameReading {
    let looks = lead.is_some_and(|verb| !verb.or_noun && matches!(verb.class, VerbClass::Read | VerbClass::Search));
    let head = name.head.filter(|(_, verb)| !(looks && verb.or_noun && verb.class.changes()));
    NameReading { head, ..name }
}

/// Some frameworks wrap every return value as `{"result": …}`, which says nothing.
fn is_wrapped(schema: &Map<String, Value>) -> bool {
    let names = schema::property_names(schema);
    names.is_empty() || matches!(names.as_slice(), [only] if only == "result")
}

fn read_name(name: &str) -> NameReading {
    let words = words::split_identifier(name);
    // `mark_as_read`, `can_create`: a word after a preposition or a question is not a verb of the name.
    let out_of_place = |at: usize| {
        at.checked_sub(1).and_then(|before| words.get(before)).is_some_and(|before| is_no_verbs_place(before))
    };
    let mut verbs: Vec<(usize, Verb)> = words
        .iter()
        .enumerate()
        .filter(|(at, _)| !out_of_place(*at))
        .filter_map(|(at, word)| {
            let verb = lexicon::phrasal(word, words.get(at + 1)).or_else(|| lexicon::verb_of_name(word))?;
            Some((at, verb))
        })
        .collect();
    let last = words.len().saturating_sub(1);
    if verbs.iter().all(|(_, verb)| verb.or_noun) {
        verbs.extend(words.last().and_then(|word| lexicon::agent_noun_verb(word)).map(|verb| (last, verb)));
    }
    let sure = verbs.iter().find(|(_, verb)| !verb.or_noun);
    let in_place = || verbs.iter().find(|(at, _)| *at == 0).or_else(|| verbs.iter().rev().find(|(at, _)| *at == last));
    let head = match (sure, verbs.first()) {
        // `query_create`, `copy_list`: a word that may be a noun is the verb if it comes first and no certain verb ends the
        // name.
        (Some(sure), Some(first)) if first.0 == 0 && first.1.or_noun && sure.0 > 0 && sure.0 < last => Some(*first),
        (Some(sure), _) => Some(*sure),
        _ => in_place().or_else(|| verbs.first()).copied(),
    };
    NameReading { words, verbs, head }
}

/// Reads one sentence.
pub(super) fn read_sentence(words: Sentence) -> SentenceReading {
    let mut reading = SentenceReading::default();
    let mut denied_until = 0;
    let mut joint = VerbLink::Run;
    let mut aside = 0_usize;
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "(" => aside += 1,
            ")" => aside = aside.saturating_sub(1),
            _ => {}
        }
        // Text in parentheses is an aside: it neither joins nor separates.
        if aside > 0 || word == ")" {
            continue;
        }
        if NEGATORS.contains(&word.as_str()) {
            denied_until = at + 1 + NEGATION_WORDS_MAX;
            continue;
        }
        let verb = lexicon::phrasal(word, words.get(at + 1)).or_else(|| lexicon::verb(word));
        let Some((lead, _)) = reading.lead else {
            if at >= denied_until && (verb.is_some() || !is_opener(word)) {
                reading.lead = Some((at, word.clone()));
                // "Unified search", "Enhanced statistics": a participle in front describes.
                reading.verb = verb.filter(|verb| verb.form != VerbForm::Participle);
            } else if let Some(verb) = verb {
                reading.denied.push(verb);
            }
            continue;
        };
        if matches!(word.as_str(), "," | "and" | "or" | "then") {
            joint = joint.after(word);
            // "does not read or change": a denial continues over `or`, and ends at any other joining word.
            denied_until = match word.as_str() {
                "or" if at < denied_until => at + 1 + NEGATION_WORDS_MAX,
                "or" => denied_until,
                _ => 0,
            };
            continue;
        }
        let verb = verb.filter(|verb| !(verb.or_noun && matches!(verb.form, VerbForm::Third | VerbForm::Participle)));
        match verb {
            Some(verb) if at < denied_until => reading.denied.push(verb),
            Some(verb) if joins(&reading, verb, joint, words.get(at + 1)) => reading.also.push(verb),
            Some(verb) => reading.others.push(verb),
            None => {}
        }
        if reading.object.is_none() && at > lead && !is_article(word) {
            reading.object = Some(singular(word).to_owned());
        }
        // An adverb does not separate joined verbs ("inspect and dynamically invoke"); another verb continues a list of verbs.
        joint = match (joint, verb) {
            (joint, None) if word.ends_with("ly") => joint,
            (VerbLink::List, Some(_)) => VerbLink::Run,
            _ => VerbLink::None,
        };
    }
    reading.phrases = phrases::find_phrases(&words);
    reading.words = words;
    reading
}

static OPENERS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| OPENING_WORDS.split_whitespace().collect());

fn is_opener(word: &str) -> bool {
    OPENERS.contains(word)
}

/// How a word is joined to the leading verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerbLink {
    /// In one run of verbs that starts with the leading one, directly after a separator: "List, create or close".
    List,
    /// In that run, without a separator since the last verb: "Get email campaigns".
    Run,
    /// By `and`, `or`, `then` after an object: "Convert a file and store it".
    Conjunction,
    /// Not at all.
    None,
}

impl VerbLink {
    fn after(self, word: &str) -> Self {
        match self {
            Self::List | Self::Run => Self::List,
            _ if word == "," => Self::None,
            _ => Self::Conjunction,
        }
    }
}

/// Whether a verb is joined to the leading one. After an object, it must have the same form and its own object, because
/// "history and order book" joins nouns.
fn joins(reading: &SentenceReading, verb: Verb, joint: VerbLink, next: Option<&String>) -> bool {
    let Some(lead) = reading.verb.filter(|lead| lead.form == verb.form) else { return false };
    let has_object = next.is_some_and(|next| {
        matches!(
            next.as_str(),
            "it" | "them"
                | "the"
                | "a"
                | "an"
                | "this"
                | "its"
                | "their"
                | "any"
                | "all"
                | "to"
                | "new"
                | "each"
                | "your"
                | "one"
                | "with"
        )
    });
    match joint {
        VerbLink::List => lead.class != verb.class || !verb.or_noun,
        VerbLink::Conjunction => has_object,
        VerbLink::Run | VerbLink::None => false,
    }
}

fn is_article(word: &str) -> bool {
    matches!(
        word,
        "a" | "an"
            | "the"
            | "all"
            | "one"
            | "of"
            | "your"
            | "their"
            | "its"
            | "single"
            | "new"
            | "existing"
            | "specific"
            | "given"
            | "specified"
            | "multiple"
            | "for"
            | "from"
            | "on"
            | "in"
            | "to"
            | "about"
            | "with"
            | "any"
            | "current"
    )
}

fn is_no_verbs_place(word: &str) -> bool {
    matches!(
        word,
        "as" | "by"
            | "for"
            | "of"
            | "from"
            | "to"
            | "with"
            | "in"
            | "on"
            | "per"
            | "into"
            | "via"
            | "a"
            | "an"
            | "the"
            | "can"
            | "is"
            | "has"
            | "have"
            | "should"
    )
}

/// A word without the ending of a plural.
pub(super) fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') && !stem.ends_with('u') && !stem.ends_with('i') => stem,
        _ => word,
    }
}

/// HTTP methods in capitals: authors who wrap an API often name the request.
fn methods(text: &str) -> Vec<&'static str> {
    ["GET", "POST", "PUT", "PATCH", "DELETE"]
        .into_iter()
        .filter(|method| {
            text.match_indices(method).any(|(at, _)| {
                let edge = |character: Option<char>| {
                    character.is_none_or(|character| !character.is_alphanumeric() && character != '_')
                };
                edge(text.get(..at).and_then(|before| before.chars().next_back()))
                    && edge(text.get(at + method.len()..).and_then(|after| after.chars().next()))
            })
        })
        .collect()
}
