//! The features that have learnt weights. Each is a kind and a word, so that a person can read a weight and explain a decision.
//! The trainer and the classifier share this file, so both count the same features.

use super::{
    lexicon::{self, Verb, VerbClass},
    reading::{DescriptorReading, NameReading, SentenceReading, singular},
    schema::Parameter,
    words::VerbForm,
};

/// Where a feature comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeatureKind {
    /// The name's main verb.
    NameVerb,
    /// The class of that verb.
    NameClass,
    /// The class of that verb, and its position.
    NamePlace,
    /// The class of another verb of the name.
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
    /// The class of the title's verb.
    TitleClass,
    /// The description's first word that is not an opener.
    Lead,
    /// The class of that word as a verb, and its form.
    LeadClass,
    /// That verb and its object.
    LeadObject,
    /// The classes of the verbs joined to it.
    LeadAlso,
    /// The classes of the other verbs of the first sentence.
    FirstClass,
    /// Any word of the first sentence.
    FirstWord,
    /// The leading verb of a later sentence.
    ThenVerb,
    /// The classes of the verbs joined to it.
    ThenAlso,
    /// The class of the leading verb of a later sentence.
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
pub(super) const KINDS: [(FeatureKind, &str); 32] = [
    (FeatureKind::NameVerb, "name.verb"),
    (FeatureKind::NameClass, "name.class"),
    (FeatureKind::NamePlace, "name.place"),
    (FeatureKind::NameOther, "name.other"),
    (FeatureKind::NameFirst, "name.first"),
    (FeatureKind::NameLast, "name.last"),
    (FeatureKind::NameWord, "name.word"),
    (FeatureKind::NameObject, "name.object"),
    (FeatureKind::NameLead, "name.lead"),
    (FeatureKind::TitleLead, "title.lead"),
    (FeatureKind::TitleClass, "title.class"),
    (FeatureKind::Lead, "lead"),
    (FeatureKind::LeadClass, "lead.class"),
    (FeatureKind::LeadObject, "lead.object"),
    (FeatureKind::LeadAlso, "lead.also"),
    (FeatureKind::FirstClass, "first.class"),
    (FeatureKind::FirstWord, "first.word"),
    (FeatureKind::ThenVerb, "then.verb"),
    (FeatureKind::ThenAlso, "then.also"),
    (FeatureKind::ThenClass, "then.class"),
    (FeatureKind::ThenWord, "then.word"),
    (FeatureKind::Denied, "denied"),
    (FeatureKind::Says, "says"),
    (FeatureKind::Method, "method"),
    (FeatureKind::Parameter, "parameter"),
    (FeatureKind::ParameterWord, "parameter.word"),
    (FeatureKind::RequiredWord, "required.word"),
    (FeatureKind::ParameterTo, "parameter.to"),
    (FeatureKind::ParameterText, "parameter.text"),
    (FeatureKind::Value, "value"),
    (FeatureKind::Output, "output"),
    (FeatureKind::Shape, "shape"),
];

impl FeatureKind {
    /// Its word in the model's file and in evidence.
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| *word)
    }
}

/// A feature of a descriptor.
pub type Feature = (FeatureKind, String);

/// The features of a reading, each once, in order.
pub(super) fn extract(reading: &DescriptorReading) -> Vec<Feature> {
    let mut found = FeatureCollector(Vec::with_capacity(128));
    let lead_class = reading.sentences.first().and_then(|first| first.verb).map_or("none", |verb| verb.class.word());
    if let Some(name) = &reading.name {
        add_name(name, lead_class, &mut found);
    }
    if let Some(title) = &reading.title {
        add_title(title, &mut found);
    }
    add_description(reading, &mut found);
    for parameter in &reading.parameters {
        add_parameter(parameter, &mut found);
    }
    add_shape(reading, &mut found);
    for name in reading.output.iter().flatten() {
        for word in super::words::split_identifier(name) {
            found.add(FeatureKind::Output, singular(&word));
        }
    }
    found.0.sort_unstable();
    found.0.dedup();
    found.0
}

struct FeatureCollector(Vec<Feature>);

impl FeatureCollector {
    fn add(&mut self, kind: FeatureKind, word: impl Into<String>) {
        self.0.push((kind, word.into()));
    }
}

fn add_name(name: &NameReading, lead_class: &str, found: &mut FeatureCollector) {
    let last = name.words.len().saturating_sub(1);
    let class = name.head.map_or("none", |(_, verb)| verb.class.word());
    found.add(FeatureKind::NameClass, class);
    found.add(FeatureKind::NameLead, format!("{class} {lead_class}"));
    if let Some((at, verb)) = name.head {
        let place = match at {
            0 => "first",
            at if at == last => "last",
            _ => "inside",
        };
        found.add(FeatureKind::NameVerb, verb.infinitive);
        found.add(FeatureKind::NamePlace, format!("{class} {place}"));
        if let Some(object) = name.words.last().filter(|_| at < last) {
            found.add(FeatureKind::NameObject, format!("{} {}", verb.infinitive, singular(object)));
        }
    }
    let head = name.head.map(|(at, _)| at);
    for (at, verb) in name.verbs.iter().filter(|(at, _)| Some(*at) != head) {
        let before = if head.is_some_and(|head| *at < head) { "before" } else { "after" };
        found.add(FeatureKind::NameOther, format!("{} {before}", verb.class.word()));
        let joined = at.checked_sub(1).and_then(|before| name.words.get(before));
        if joined.is_some_and(|word| matches!(word.as_str(), "and" | "or" | "then")) {
            found.add(FeatureKind::NameOther, format!("{} joined", verb.class.word()));
        }
    }
    if let (Some(first), Some(last)) = (name.words.first(), name.words.last()) {
        found.add(FeatureKind::NameFirst, first.as_str());
        found.add(FeatureKind::NameLast, singular(last));
    }
    for word in &name.words {
        found.add(FeatureKind::NameWord, singular(word));
    }
}

fn add_title(title: &SentenceReading, found: &mut FeatureCollector) {
    if let Some((_, lead)) = &title.lead {
        found.add(FeatureKind::TitleLead, title.verb.map_or(lead.as_str(), |verb| verb.infinitive));
    }
    found.add(FeatureKind::TitleClass, title.verb.map_or("none", |verb| verb.class.word()));
}

fn add_description(reading: &DescriptorReading, found: &mut FeatureCollector) {
    for method in &reading.methods {
        found.add(FeatureKind::Method, method.to_ascii_lowercase());
    }
    for (at, sentence) in reading.sentences.iter().enumerate() {
        for phrase in &sentence.phrases {
            found.add(FeatureKind::Says, *phrase);
        }
        for verb in &sentence.denied {
            found.add(FeatureKind::Denied, verb.class.word());
        }
        if at == 0 {
            add_first_sentence(sentence, found);
        } else {
            add_later_sentence(sentence, found);
        }
    }
}

fn add_first_sentence(sentence: &SentenceReading, found: &mut FeatureCollector) {
    if let Some((_, lead)) = &sentence.lead {
        found.add(FeatureKind::Lead, sentence.verb.map_or_else(|| singular(lead), |verb| verb.infinitive));
    }
    match sentence.verb {
        Some(verb) => {
            found.add(FeatureKind::LeadClass, verb.class.word());
            found.add(FeatureKind::LeadClass, format!("{} {}", verb.class.word(), form(verb)));
            if let Some(object) = &sentence.object {
                found.add(FeatureKind::LeadObject, format!("{} {object}", verb.infinitive));
            }
            // "Resolves a name to an id" computes something; "resolves a thread" does not.
            let into = sentence.words.iter().any(|word| matches!(word.as_str(), "to" | "into" | "as"));
            if into && matches!(verb.class, VerbClass::Compute | VerbClass::Produce) {
                found.add(FeatureKind::LeadObject, format!("{} one to another", verb.class.word()));
            }
            for word in sentence.words.iter().filter(|word| is_looked_at(word)) {
                found.add(FeatureKind::LeadObject, format!("{} a {}", verb.class.word(), singular(word)));
            }
        }
        None => found.add(FeatureKind::LeadClass, "none"),
    }
    for verb in &sentence.also {
        found.add(FeatureKind::LeadAlso, verb.class.word());
    }
    for verb in &sentence.others {
        found.add(FeatureKind::FirstClass, verb.class.word());
        found.add(FeatureKind::FirstClass, format!("{} {}", verb.class.word(), form(*verb)));
    }
    for word in sentence.words.iter().filter(|word| is_content(word)) {
        found.add(FeatureKind::FirstWord, stem(word));
    }
}

fn add_later_sentence(sentence: &SentenceReading, found: &mut FeatureCollector) {
    if let Some(verb) = sentence.verb {
        found.add(FeatureKind::ThenVerb, format!("{} {}", verb.infinitive, form(verb)));
        found.add(FeatureKind::ThenClass, format!("{} {}", verb.class.word(), form(verb)));
    }
    for verb in &sentence.also {
        found.add(FeatureKind::ThenAlso, format!("{} {}", verb.class.word(), form(*verb)));
    }
    for word in sentence.words.iter().filter(|word| is_content(word)) {
        found.add(FeatureKind::ThenWord, stem(word));
    }
}

fn add_parameter(parameter: &Parameter, found: &mut FeatureCollector) {
    if !parameter.nested {
        found.add(FeatureKind::Parameter, parameter.words.join("_"));
        found.add(FeatureKind::Shape, format!("takes {}", parameter.kind));
        if parameter.required {
            found.add(FeatureKind::Shape, format!("needs {}", parameter.kind));
        }
    }
    for word in &parameter.words {
        found.add(FeatureKind::ParameterWord, singular(word));
        if parameter.required {
            found.add(FeatureKind::RequiredWord, singular(word));
        }
    }
    for sentence in &parameter.sentences {
        for pair in sentence.windows(2) {
            if let [to, word] = pair
                && to == "to"
                && let Some(verb) = lexicon::verb(word)
            {
                found.add(FeatureKind::ParameterTo, verb.infinitive);
                found.add(FeatureKind::ParameterTo, format!("class {}", verb.class.word()));
            }
        }
        for word in sentence.iter().filter(|word| is_content(word)) {
            found.add(FeatureKind::ParameterText, stem(word));
        }
    }
    for value in &parameter.values {
        if let Some(verb) = super::words::split_identifier(value).first().and_then(|word| lexicon::verb_of_name(word)) {
            found.add(FeatureKind::Value, verb.class.word());
        }
    }
}

/// Whether a parameter says where to write a result: `output_directory`, `savePath`, `filePath` "to save to".
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

fn add_shape(reading: &DescriptorReading, found: &mut FeatureCollector) {
    if reading.parameters.iter().any(is_destination) {
        found.add(FeatureKind::Shape, "destination");
    }
    let top: Vec<&Parameter> = reading.parameters.iter().filter(|parameter| !parameter.nested).collect();
    let required = top.iter().filter(|parameter| parameter.required).count();
    found.add(FeatureKind::Shape, format!("{} parameters", bucket(top.len())));
    found.add(FeatureKind::Shape, format!("{} required", bucket(required)));
    if reading.parameters.len() > top.len() {
        found.add(FeatureKind::Shape, "nested");
    }
    if reading.words == 0 {
        found.add(FeatureKind::Shape, "undescribed");
    }
    if reading.foreign {
        found.add(FeatureKind::Shape, "foreign");
    }
    let changing =
        reading.sentences.iter().skip(1).filter_map(|sentence| sentence.verb).filter(|verb| verb.class.changes());
    found.add(FeatureKind::Shape, format!("{} later changes", bucket(changing.count())));
}

/// Things that are run or made only to look at them: a report is run, a query is executed, a preview is generated.
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
        VerbForm::Infinitive => "do",
        VerbForm::Third => "does",
        VerbForm::Gerund => "doing",
        VerbForm::Participle => "done",
    }
}

/// A word in the form that is counted: the infinitive of a verb, otherwise the singular.
fn stem(word: &str) -> &str {
    match lexicon::verb(word) {
        Some(verb) if verb.form != VerbForm::Participle => verb.infinitive,
        _ => singular(word),
    }
}

fn is_content(word: &str) -> bool {
    word.len() > 1 && word.len() < 20 && word.is_ascii() && !word.starts_with(|first: char| first.is_ascii_digit())
}
