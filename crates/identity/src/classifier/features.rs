//! The features the learnt weights stand on. Each is a kind and a word, so that a weight can be read and a decision explained.
//! The trainer and the classifier share this file: what is counted in training is what is counted in use.

use super::{
    lexicon::{self, Class, Verb},
    reading::{NameReading, Reading, SentenceReading, singular},
    schema::Parameter,
    words::Form,
};

/// Where a feature comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The verb that counts in the name.
    NameVerb,
    /// What that verb does.
    NameClass,
    /// What that verb does, and where it stands.
    NamePlace,
    /// What another verb of the name does.
    NameOther,
    /// The first word of the name.
    NameFirst,
    /// The last word of the name.
    NameLast,
    /// Any word of the name.
    NameWord,
    /// The verb of the name and its last word.
    NameObject,
    /// The class of the name's verb with the class of the description's.
    NameLead,
    /// The title's first word.
    TitleLead,
    /// What the title's verb does.
    TitleClass,
    /// The description's first word that is no opener.
    Lead,
    /// What that word does, as a verb, and its form.
    LeadClass,
    /// That verb and its object.
    LeadObject,
    /// What the verbs joined to it do.
    LeadAlso,
    /// What the other verbs of the first sentence do.
    FirstClass,
    /// Any word of the first sentence.
    FirstWord,
    /// The leading verb of a later sentence.
    ThenVerb,
    /// What the verbs joined to it do.
    ThenAlso,
    /// What the leading verb of a later sentence does.
    ThenClass,
    /// Any word of a later sentence.
    ThenWord,
    /// What the description denies.
    Denied,
    /// A phrase the description contains.
    Says,
    /// An HTTP method the description names.
    Method,
    /// The whole name of a parameter.
    Parameter,
    /// A word of a parameter's name.
    ParameterWord,
    /// A word of a required parameter's name.
    RequiredWord,
    /// The verb after `to` in a parameter's description.
    ParameterTo,
    /// A word of a parameter's description.
    ParameterText,
    /// A verb among the values a parameter is limited to.
    Value,
    /// A word of the output schema's names.
    Output,
    /// Counts and shapes.
    Shape,
}

/// Every kind with its word in the model's file.
pub(super) const KINDS: [(Kind, &str); 32] = [
    (Kind::NameVerb, "name.verb"),
    (Kind::NameClass, "name.class"),
    (Kind::NamePlace, "name.place"),
    (Kind::NameOther, "name.other"),
    (Kind::NameFirst, "name.first"),
    (Kind::NameLast, "name.last"),
    (Kind::NameWord, "name.word"),
    (Kind::NameObject, "name.object"),
    (Kind::NameLead, "name.lead"),
    (Kind::TitleLead, "title.lead"),
    (Kind::TitleClass, "title.class"),
    (Kind::Lead, "lead"),
    (Kind::LeadClass, "lead.class"),
    (Kind::LeadObject, "lead.object"),
    (Kind::LeadAlso, "lead.also"),
    (Kind::FirstClass, "first.class"),
    (Kind::FirstWord, "first.word"),
    (Kind::ThenVerb, "then.verb"),
    (Kind::ThenAlso, "then.also"),
    (Kind::ThenClass, "then.class"),
    (Kind::ThenWord, "then.word"),
    (Kind::Denied, "denied"),
    (Kind::Says, "says"),
    (Kind::Method, "method"),
    (Kind::Parameter, "parameter"),
    (Kind::ParameterWord, "parameter.word"),
    (Kind::RequiredWord, "required.word"),
    (Kind::ParameterTo, "parameter.to"),
    (Kind::ParameterText, "parameter.text"),
    (Kind::Value, "value"),
    (Kind::Output, "output"),
    (Kind::Shape, "shape"),
];

impl Kind {
    /// Its word in the model's file and in evidence.
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| *word)
    }
}

/// A feature of a descriptor.
pub type Feature = (Kind, String);

/// The features of a reading, each once, in order.
pub(super) fn of(reading: &Reading) -> Vec<Feature> {
    let mut found = Found(Vec::with_capacity(128));
    let lead_class = reading.sentences.first().and_then(|first| first.verb).map_or("none", |verb| verb.class.word());
    if let Some(name) = &reading.name {
        of_name(name, lead_class, &mut found);
    }
    if let Some(title) = &reading.title {
        of_title(title, &mut found);
    }
    of_description(reading, &mut found);
    for parameter in &reading.parameters {
        of_parameter(parameter, &mut found);
    }
    of_shape(reading, &mut found);
    for name in reading.output.iter().flatten() {
        for word in super::words::of_identifier(name) {
            found.add(Kind::Output, singular(&word));
        }
    }
    found.0.sort_unstable();
    found.0.dedup();
    found.0
}

struct Found(Vec<Feature>);

impl Found {
    fn add(&mut self, kind: Kind, word: impl Into<String>) {
        self.0.push((kind, word.into()));
    }
}

fn of_name(name: &NameReading, lead_class: &str, found: &mut Found) {
    let last = name.words.len().saturating_sub(1);
    let class = name.head.map_or("none", |(_, verb)| verb.class.word());
    found.add(Kind::NameClass, class);
    found.add(Kind::NameLead, format!("{class} {lead_class}"));
    if let Some((at, verb)) = name.head {
        let place = match at {
            0 => "first",
            at if at == last => "last",
            _ => "inside",
        };
        found.add(Kind::NameVerb, verb.infinitive);
        found.add(Kind::NamePlace, format!("{class} {place}"));
        if let Some(object) = name.words.last().filter(|_| at < last) {
            found.add(Kind::NameObject, format!("{} {}", verb.infinitive, singular(object)));
        }
    }
    let head = name.head.map(|(at, _)| at);
    for (at, verb) in name.verbs.iter().filter(|(at, _)| Some(*at) != head) {
        let before = if head.is_some_and(|head| *at < head) { "before" } else { "after" };
        found.add(Kind::NameOther, format!("{} {before}", verb.class.word()));
        let joined = at.checked_sub(1).and_then(|before| name.words.get(before));
        if joined.is_some_and(|word| matches!(word.as_str(), "and" | "or" | "then")) {
            found.add(Kind::NameOther, format!("{} joined", verb.class.word()));
        }
    }
    if let (Some(first), Some(last)) = (name.words.first(), name.words.last()) {
        found.add(Kind::NameFirst, first.as_str());
        found.add(Kind::NameLast, singular(last));
    }
    for word in &name.words {
        found.add(Kind::NameWord, singular(word));
    }
}

fn of_title(title: &SentenceReading, found: &mut Found) {
    if let Some((_, lead)) = &title.lead {
        found.add(Kind::TitleLead, title.verb.map_or(lead.as_str(), |verb| verb.infinitive));
    }
    found.add(Kind::TitleClass, title.verb.map_or("none", |verb| verb.class.word()));
}

fn of_description(reading: &Reading, found: &mut Found) {
    for method in &reading.methods {
        found.add(Kind::Method, method.to_ascii_lowercase());
    }
    for (at, sentence) in reading.sentences.iter().enumerate() {
        for phrase in &sentence.phrases {
            found.add(Kind::Says, *phrase);
        }
        for verb in &sentence.denied {
            found.add(Kind::Denied, verb.class.word());
        }
        if at == 0 {
            of_first(sentence, found);
        } else {
            of_later(sentence, found);
        }
    }
}

fn of_first(sentence: &SentenceReading, found: &mut Found) {
    if let Some((_, lead)) = &sentence.lead {
        found.add(Kind::Lead, sentence.verb.map_or_else(|| singular(lead), |verb| verb.infinitive));
    }
    match sentence.verb {
        Some(verb) => {
            found.add(Kind::LeadClass, verb.class.word());
            found.add(Kind::LeadClass, format!("{} {}", verb.class.word(), form(verb)));
            if let Some(object) = &sentence.object {
                found.add(Kind::LeadObject, format!("{} {object}", verb.infinitive));
            }
            // "Resolves a name to an id" works something out; "resolves a thread" does not.
            let into = sentence.words.iter().any(|word| matches!(word.as_str(), "to" | "into" | "as"));
            if into && matches!(verb.class, Class::Compute | Class::Produce) {
                found.add(Kind::LeadObject, format!("{} one to another", verb.class.word()));
            }
            for word in sentence.words.iter().filter(|word| is_looked_at(word)) {
                found.add(Kind::LeadObject, format!("{} a {}", verb.class.word(), singular(word)));
            }
        }
        None => found.add(Kind::LeadClass, "none"),
    }
    for verb in &sentence.also {
        found.add(Kind::LeadAlso, verb.class.word());
    }
    for verb in &sentence.others {
        found.add(Kind::FirstClass, verb.class.word());
        found.add(Kind::FirstClass, format!("{} {}", verb.class.word(), form(*verb)));
    }
    for word in sentence.words.iter().filter(|word| is_content(word)) {
        found.add(Kind::FirstWord, stem(word));
    }
}

fn of_later(sentence: &SentenceReading, found: &mut Found) {
    if let Some(verb) = sentence.verb {
        found.add(Kind::ThenVerb, format!("{} {}", verb.infinitive, form(verb)));
        found.add(Kind::ThenClass, format!("{} {}", verb.class.word(), form(verb)));
    }
    for verb in &sentence.also {
        found.add(Kind::ThenAlso, format!("{} {}", verb.class.word(), form(*verb)));
    }
    for word in sentence.words.iter().filter(|word| is_content(word)) {
        found.add(Kind::ThenWord, stem(word));
    }
}

fn of_parameter(parameter: &Parameter, found: &mut Found) {
    if !parameter.nested {
        found.add(Kind::Parameter, parameter.words.join("_"));
        found.add(Kind::Shape, format!("takes {}", parameter.kind));
        if parameter.required {
            found.add(Kind::Shape, format!("needs {}", parameter.kind));
        }
    }
    for word in &parameter.words {
        found.add(Kind::ParameterWord, singular(word));
        if parameter.required {
            found.add(Kind::RequiredWord, singular(word));
        }
    }
    for sentence in &parameter.sentences {
        for pair in sentence.windows(2) {
            if let [to, word] = pair
                && to == "to"
                && let Some(verb) = lexicon::verb(word)
            {
                found.add(Kind::ParameterTo, verb.infinitive);
                found.add(Kind::ParameterTo, format!("class {}", verb.class.word()));
            }
        }
        for word in sentence.iter().filter(|word| is_content(word)) {
            found.add(Kind::ParameterText, stem(word));
        }
    }
    for value in &parameter.values {
        if let Some(verb) = super::words::of_identifier(value).first().and_then(|word| lexicon::verb_of_name(word)) {
            found.add(Kind::Value, verb.class.word());
        }
    }
}

/// Whether a parameter says where a result is to be written: `output_directory`, `savePath`, `filePath` "to save to".
pub(super) fn is_destination(parameter: &Parameter) -> bool {
    let has = |names: &[&str]| parameter.words.iter().any(|word| names.contains(&word.as_str()));
    let place = has(&["path", "file", "filename", "filepath", "dir", "directory", "folder"]);
    let said = parameter.sentences.iter().flatten().any(|word| {
        matches!(
            word.as_str(),
            "save"
                | "saved"
                | "saving"
                | "saves"
                | "output"
                | "write"
                | "written"
                | "stored"
                | "store"
                | "download"
                | "downloaded"
        )
    });
    place && (said || has(&["output", "out", "save", "target", "destination", "dest", "export", "download"]))
}

fn of_shape(reading: &Reading, found: &mut Found) {
    if reading.parameters.iter().any(is_destination) {
        found.add(Kind::Shape, "destination");
    }
    let top: Vec<&Parameter> = reading.parameters.iter().filter(|parameter| !parameter.nested).collect();
    let required = top.iter().filter(|parameter| parameter.required).count();
    found.add(Kind::Shape, format!("{} parameters", bucket(top.len())));
    found.add(Kind::Shape, format!("{} required", bucket(required)));
    if reading.parameters.len() > top.len() {
        found.add(Kind::Shape, "nested");
    }
    if reading.words == 0 {
        found.add(Kind::Shape, "undescribed");
    }
    if reading.foreign {
        found.add(Kind::Shape, "foreign");
    }
    let changing =
        reading.sentences.iter().skip(1).filter_map(|sentence| sentence.verb).filter(|verb| verb.class.changes());
    found.add(Kind::Shape, format!("{} later changes", bucket(changing.count())));
}

/// Things one runs or makes only to look at them: a report is run, a query is executed, a preview is generated.
fn is_looked_at(word: &str) -> bool {
    matches!(
        singular(word),
        "report"
            | "query"
            | "querie"
            | "search"
            | "analysis"
            | "scan"
            | "audit"
            | "check"
            | "preview"
            | "chart"
            | "diagram"
            | "url"
            | "link"
            | "summary"
            | "simulation"
            | "test"
            | "command"
            | "code"
            | "script"
            | "statement"
            | "job"
            | "task"
            | "file"
            | "image"
    )
}

fn bucket(count: usize) -> &'static str {
    match count {
        0 => "no",
        1 => "one",
        2 => "two",
        3..=5 => "few",
        6..=10 => "several",
        _ => "many",
    }
}

fn form(verb: Verb) -> &'static str {
    match verb.form {
        Form::Infinitive => "do",
        Form::Third => "does",
        Form::Gerund => "doing",
        Form::Participle => "done",
    }
}

/// A word in the form that is counted: the infinitive of a verb, the singular of anything else.
fn stem(word: &str) -> &str {
    match lexicon::verb(word) {
        Some(verb) if verb.form != Form::Participle => verb.infinitive,
        _ => singular(word),
    }
}

fn is_content(word: &str) -> bool {
    word.len() > 1 && word.len() < 20 && word.is_ascii() && !word.starts_with(|first: char| first.is_ascii_digit())
}
