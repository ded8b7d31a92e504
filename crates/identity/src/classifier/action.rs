//! What a tool does, once it is known whether it changes anything. The verb decides; a verb in the name comes before one in the
//! description.

use servanda_contract::tool::{Action, Mutability};

use super::{
    caution,
    evidence::{ClassificationReason, EvidenceSource},
    lexicon::{self, Verb, VerbClass},
    reading::{DescriptorReading, NameReading, singular},
    words,
};

/// Verbs whose action differs from their class. A thing that is put, upserted or "created or updated" is replaced whole; a
/// thing that is attached, or added to something, is appended.
const EXCEPTIONS: [(Action, &str); 7] = [
    (Action::Overwrite, "upsert put write overwrite replace save"),
    (Action::Append, "append prepend push attach extend ingest enqueue"),
    (
        Action::Update,
        "start open launch connect login link associate tag label index star like follow bookmark vote rate react",
    ),
    (Action::Create, "commit release record snapshot backup"),
    (Action::Delete, "expire cease"),
    (Action::Merge, "merge squash combine consolidate join"),
    (Action::Search, "search find query grep glob locate filter match autocomplete"),
];

/// Parameters that hold a search term.
const LOOKING_FOR: [&str; 9] = ["query", "q", "search", "keyword", "keywords", "pattern", "term", "regex", "question"];

/// An action with its confidence and reasons.
pub(super) struct ActionJudgement {
    pub(super) action: Action,
    pub(super) confidence: f64,
    pub(super) reasons: Vec<ClassificationReason>,
    /// The verb that decided, and where it was found.
    pub(super) verb: Option<(EvidenceSource, &'static str)>,
}

impl ActionJudgement {
    fn from_verb(action: Action, confidence: f64, from: EvidenceSource, verb: Verb) -> Self {
        let reasons = vec![ClassificationReason::new(from, format!("verb `{}`", verb.infinitive))];
        Self { action, confidence, reasons, verb: Some((from, verb.infinitive)) }
    }

    fn from_reason(action: Action, confidence: f64, reason: ClassificationReason) -> Self {
        Self { action, confidence, reasons: vec![reason], verb: None }
    }
}

/// The action. It is `READ` or `SEARCH` exactly if nothing is changed.
pub(super) fn judge(reading: &DescriptorReading, mutability: Mutability) -> ActionJudgement {
    match mutability {
        Mutability::Pure => looking(reading),
        Mutability::Mutates => changing(reading),
    }
}

fn speaks_a_language(reading: &DescriptorReading) -> bool {
    let mut words = reading.sentences.iter().take(2).flat_map(|sentence| &sentence.words);
    words.any(|word| {
        matches!(word.as_str(), "sql" | "flux" | "promql" | "soql" | "groq" | "dax" | "cql" | "language" | "statement")
    })
}

fn exception(verb: Verb) -> Option<Action> {
    let listed = |words: &str| words::is_listed(words, verb.infinitive);
    EXCEPTIONS.iter().find(|(_, words)| listed(words)).map(|(action, _)| *action)
}

fn looking(reading: &DescriptorReading) -> ActionJudgement {
    // A query in a query language reads what it names; plain words search for something.
    let in_a_language = caution::program(reading).is_some() || speaks_a_language(reading);
    let searches =
        |verb: Verb| exception(verb) == Some(Action::Search) && !(verb.infinitive == "query" && in_a_language);
    let name = reading.name.as_ref().and_then(|name| name.head).map(|(_, verb)| verb);
    let lead = reading.sentences.first().and_then(|sentence| sentence.verb);
    for (verb, from, confidence) in [(name, EvidenceSource::Name, 0.95), (lead, EvidenceSource::Description, 0.85)] {
        if let Some(verb) = verb {
            let action = if searches(verb) { Action::Search } else { Action::Read };
            // A vague verb ("perform a web search") leaves the question to the parameters.
            if action == Action::Search || verb.class.looks() {
                return ActionJudgement::from_verb(action, confidence, from, verb);
            }
        }
    }
    let asked = reading.parameters.iter().find(|parameter| {
        parameter.required && parameter.words.last().is_some_and(|last| LOOKING_FOR.contains(&last.as_str()))
    });
    if let Some(parameter) = asked {
        let reason =
            ClassificationReason::new(EvidenceSource::Parameter, format!("it must be given `{}`", parameter.name));
        return ActionJudgement::from_reason(Action::Search, 0.6, reason);
    }
    ActionJudgement::from_reason(
        Action::Read,
        0.6,
        ClassificationReason::new(EvidenceSource::Default, "nothing says that it searches"),
    )
}

fn changing(reading: &DescriptorReading) -> ActionJudgement {
    if let Some(found) = reading.name.as_ref().and_then(|name| by_name(reading, name)) {
        return found;
    }
    let Some(first) = reading.sentences.first() else { return guess() };
    let lead = first.verb.filter(|verb| changes(*verb));
    if let Some(verb) = lead.or_else(|| first.also.iter().copied().find(|verb| changes(*verb))) {
        let create = |verb: &Verb| verb.class == VerbClass::Create;
        let update = |verb: &Verb| verb.class == VerbClass::Update;
        if create(&verb) && first.also.iter().any(update) {
            let reason = ClassificationReason::new(EvidenceSource::Description, "it creates or updates");
            return ActionJudgement::from_reason(Action::Overwrite, 0.7, reason);
        }
        let confidence = if lead.is_some() { 0.85 } else { 0.6 };
        return ActionJudgement::from_verb(meaning(reading, verb), confidence, EvidenceSource::Description, verb);
    }
    if let Some(found) = by_choice(reading) {
        return found;
    }
    let later = reading.sentences.iter().skip(1).filter_map(|sentence| sentence.verb);
    match first.others.iter().copied().chain(later).find(|verb| verb.class.changes()) {
        Some(verb) => ActionJudgement::from_verb(meaning(reading, verb), 0.5, EvidenceSource::Description, verb),
        None => guess(),
    }
}

fn guess() -> ActionJudgement {
    ActionJudgement::from_reason(
        Action::Update,
        0.3,
        ClassificationReason::new(EvidenceSource::Default, "nothing says how it changes things"),
    )
}

fn changes(verb: Verb) -> bool {
    verb.class.change().is_some()
}

fn by_name(reading: &DescriptorReading, name: &NameReading) -> Option<ActionJudgement> {
    let changing: Vec<(usize, Verb)> = name.verbs.iter().copied().filter(|(_, verb)| changes(*verb)).collect();
    let sure = name.head.filter(|(_, verb)| changes(*verb) && !verb.or_noun);
    let head = sure.or_else(|| changing.first().copied())?;
    let has = |class: VerbClass| changing.iter().any(|(_, verb)| verb.class == class);
    let joined = name.words.iter().any(|word| word == "or" || word == "and");
    // A comment on an issue is a thing of its own; an issue in a project is one more in the project.
    let of_its_own =
        |word: &String| matches!(singular(word), "comment" | "reply" | "review" | "reaction" | "note" | "message");
    let into =
        head.1.infinitive == "add" && name.words.iter().any(|word| word == "to") && !name.words.iter().any(of_its_own);
    let action = if joined && has(VerbClass::Create) && (has(VerbClass::Update) || has(VerbClass::Overwrite)) {
        Action::Overwrite
    } else if into {
        Action::Append
    } else {
        meaning(reading, head.1)
    };
    let confidence = if name.head == Some(head) { 0.9 } else { 0.6 };
    Some(ActionJudgement::from_verb(action, confidence, EvidenceSource::Name, head.1))
}

/// A parameter that chooses among actions: the tool may do the one that changes most.
fn by_choice(reading: &DescriptorReading) -> Option<ActionJudgement> {
    let gravest = [Action::Delete, Action::Overwrite, Action::Merge, Action::Update, Action::Create, Action::Append];
    for parameter in &reading.parameters {
        let actions: Vec<Action> = parameter
            .values
            .iter()
            .filter_map(|value| words::split_identifier(value).first().and_then(|word| lexicon::verb_of_name(word)))
            .filter_map(|verb| verb.class.change().map(|_| verb_action(verb)))
            .collect();
        if actions.len() > 1
            && let Some(action) = gravest.into_iter().find(|action| actions.contains(action))
        {
            let reason = ClassificationReason::new(
                EvidenceSource::Parameter,
                format!("`{}` chooses among actions", parameter.name),
            );
            return Some(ActionJudgement::from_reason(action, 0.5, reason));
        }
    }
    None
}

/// What a verb means in its sentence: running a given program is as grave as overwriting.
fn meaning(reading: &DescriptorReading, verb: Verb) -> Action {
    let program = caution::program(reading).is_some();
    if verb.class == VerbClass::Run && program { Action::Overwrite } else { verb_action(verb) }
}

fn verb_action(verb: Verb) -> Action {
    exception(verb).filter(|action| *action != Action::Search).or_else(|| verb.class.change()).unwrap_or(Action::Update)
}
