//! What a tool returns: the noun that its verb is about, read from the end of the name, then from the description.
//!
//! A word such as `comment` or `status` describes another thing, so the search goes on to that thing.

use servanda_contract::tool::{Action, ContentType, Mutability, OutputDomain};

use super::{
    caution,
    evidence::{ClassificationReason, EvidenceSource},
    lexicon::{self, VerbClass},
    reading::{DescriptorReading, NameReading, singular},
    words::is_listed,
};

/// Nouns and the domain they name, in the singular.
const NOUNS: [(OutputDomain, &str); 8] = [
    (OutputDomain::Diff, "diff compare comparison patch"),
    (OutputDomain::Pr, "pr pull mr mergerequest pullrequest"),
    (OutputDomain::Issue, "issue ticket bug story storie epic defect incident"),
    (OutputDomain::Ref, "branch branche ref commit revision sha head checkout"),
    (OutputDomain::Repo, "repo repository repositorie"),
    (
        OutputDomain::User,
        "user member account me myself self viewer whoami profile collaborator contributor person people athlete customer \
         employee contact assignee admin follower owner author identity",
    ),
    (
        OutputDomain::Structure,
        "tree directory directorie dir folder schema structure table column outline hierarchy mapping sitemap toc layout \
         collection database namespace index indexe indice keyspace catalog dataset symbol field bucket",
    ),
    (
        OutputDomain::Content,
        "file content document doc page text markdown html image screenshot media article note readme documentation \
         transcript pdf code snippet blob body paper picture photo audio video attachment webpage website url web summary \
         snapshot source template example prompt guide instruction svg chart diagram wiki svg speech music",
    ),
];

/// Words that describe another thing.
const OF_ANOTHER: &str = "comment status state detail info information metadata label review reaction list all one by id tool count \
                          history activity activitie link title description name assignee reviewer thread sub item member file \
                          pending request body reply log";

/// Those of them that are part of a thing named after them: "details of a pull request".
const PARTS: &str = "comment reply review reaction thread detail info information metadata title description body";

/// Those of them that are figures about a thing and not the thing itself.
const FIGURES: &str = "status count history activity activitie state log";

/// Words that mean bytes.
const BINARY: &str = "image screenshot photo picture audio video pdf zip binary png jpg jpeg gif mp3 mp4 wav media thumbnail \
                      speech music download attachment icon favicon logo base64 archive heapsnapshot";

/// A domain with its confidence and reasons.
pub(super) struct DomainJudgement {
    pub(super) domain: OutputDomain,
    pub(super) confidence: f64,
    pub(super) reasons: Vec<ClassificationReason>,
}

/// What the tool returns. For a change it is the changed pull request, issue, reference, repository or person; otherwise an
/// acknowledgement, unless the descriptor says that more is returned.
pub(super) fn judge(reading: &DescriptorReading, mutability: Mutability, action: Action) -> DomainJudgement {
    let named = noun(reading);
    if mutability == Mutability::Pure {
        return named.unwrap_or_else(|| DomainJudgement {
            domain: OutputDomain::Data,
            confidence: 0.6,
            reasons: vec![ClassificationReason::new(EvidenceSource::Default, "nothing names another domain")],
        });
    }
    let entity = named.filter(|named| {
        matches!(
            named.domain,
            OutputDomain::Pr | OutputDomain::Issue | OutputDomain::Ref | OutputDomain::Repo | OutputDomain::User
        )
    });
    match entity {
        Some(entity) if action != Action::Delete => entity,
        _ => acknowledgement(reading, action),
    }
}

fn acknowledgement(reading: &DescriptorReading, action: Action) -> DomainJudgement {
    let data = |confidence, from, what: &str| DomainJudgement {
        domain: OutputDomain::Data,
        confidence,
        reasons: vec![ClassificationReason::new(from, what)],
    };
    if caution::program(reading).is_some() {
        return data(0.7, EvidenceSource::Parameter, "what the program yields comes back");
    }
    let returns = reading.says("returns");
    let bare = |name: &String| {
        matches!(name.as_str(), "success" | "ok" | "status" | "message" | "error" | "result" | "content" | "isError")
    };
    if action != Action::Delete && reading.output.as_ref().is_some_and(|names| !names.iter().all(bare)) {
        return data(0.7, EvidenceSource::Output, "the output schema has more than an acknowledgement");
    }
    if action != Action::Delete && returns {
        return data(0.6, EvidenceSource::Description, "it says what it returns");
    }
    let reasons = vec![ClassificationReason::new(
        EvidenceSource::Default,
        "nothing says that more than an acknowledgement comes back",
    )];
    DomainJudgement { domain: OutputDomain::Ack, confidence: 0.6, reasons }
}

/// The content type: bytes if a word says so, otherwise text.
pub(super) fn content_type(
    reading: &DescriptorReading,
    mutability: Mutability,
) -> (ContentType, f64, Vec<ClassificationReason>) {
    let is_binary = |word: &str| is_listed(BINARY, singular(word));
    let text = || {
        (
            ContentType::Text,
            0.8,
            vec![ClassificationReason::new(EvidenceSource::Default, "nothing says that bytes come back")],
        )
    };
    if mutability == Mutability::Mutates {
        return text();
    }
    let converts = reading.sentences.first().is_some_and(|first| {
        first.words.iter().any(|word| {
            matches!(
                word.as_str(),
                "text" | "markdown" | "metadata" | "list" | "information" | "details" | "search" | "analyze"
            )
        }) || first.verb.is_some_and(|verb| verb.class == VerbClass::Compute)
    });
    if let Some(name) = &reading.name
        && let Some(last) = name.words.iter().rev().find(|word| !is_listed(OF_ANOTHER, singular(word)))
        && is_binary(last)
        && !converts
    {
        return (ContentType::Binary, 0.8, vec![ClassificationReason::new(EvidenceSource::Name, format!("`{last}`"))]);
    }
    let first = reading.sentences.first();
    match first.and_then(|first| first.words.iter().take(9).find(|word| is_binary(word))) {
        Some(word) if !converts => (
            ContentType::Binary,
            0.7,
            vec![ClassificationReason::new(EvidenceSource::Description, format!("`{word}`"))],
        ),
        _ => text(),
    }
}

fn noun(reading: &DescriptorReading) -> Option<DomainJudgement> {
    if let Some(name) = &reading.name {
        // `docx_to_markdown`: the result is named last.
        if let Some(at) = name.words.iter().position(|word| word == "to").filter(|_| converts(name))
            && let Some((domain, word)) = of_phrases(name.words.get(at + 1..).unwrap_or_default())
        {
            return Some(found(domain, 0.85, EvidenceSource::Name, word));
        }
        let head = name.head.filter(|(_, verb)| !verb.or_noun).map(|(at, _)| at);
        let words: Vec<String> =
            name.words.iter().enumerate().filter(|(at, _)| Some(*at) != head).map(|(_, word)| word.clone()).collect();
        if let Some((domain, word)) = of_phrases(&words) {
            // A list of files shows how they are arranged, not what is in them.
            let listed = name.head.is_some_and(|(_, verb)| verb.infinitive == "list") && singular(word) == "file";
            return Some(found(
                if listed { OutputDomain::Structure } else { domain },
                0.85,
                EvidenceSource::Name,
                word,
            ));
        }
    }
    let first = reading.sentences.first()?;
    let from = first.lead.as_ref().map_or(0, |(at, _)| *at + usize::from(first.verb.is_some()));
    let clause = first.words.get(from..)?;
    // "Search for repositories", "search across documents".
    let skipped = clause.iter().take_while(|word| is_divider(word)).count();
    let (domain, word) = of_phrases(clause.get(skipped..)?)?;
    Some(found(domain, 0.65, EvidenceSource::Description, word))
}

/// The domain of the first phrase, or of the second if the first only describes it: "a comment | on an issue".
fn of_phrases(words: &[String]) -> Option<(OutputDomain, &str)> {
    let mut phrases = words.split(|word| is_divider(word)).filter(|phrase| !phrase.is_empty());
    let first = phrases.next()?;
    let named = last_noun(first.iter().map(String::as_str).rev());
    if named.is_some() || !first.last().is_some_and(|last| is_listed(PARTS, singular(last))) {
        return named;
    }
    last_noun(phrases.next()?.iter().map(String::as_str).rev())
}

/// Words that separate a thing from its owner, its place and how it is found.
fn is_divider(word: &str) -> bool {
    matches!(
        word,
        "for"
            | "in"
            | "from"
            | "with"
            | "by"
            | "using"
            | ","
            | "("
            | ")"
            | "within"
            | "on"
            | "of"
            | "that"
            | "and"
            | "over"
            | "you"
            | "which"
            | "matching"
            | "to"
            | "across"
            | "through"
            | "into"
    )
}

fn converts(name: &NameReading) -> bool {
    name.head.is_none_or(|(_, verb)| verb.class == VerbClass::Compute)
}

fn found(domain: OutputDomain, confidence: f64, from: EvidenceSource, word: &str) -> DomainJudgement {
    DomainJudgement { domain, confidence, reasons: vec![ClassificationReason::new(from, format!("noun `{word}`"))] }
}

/// The last word that names a domain. A word that names nothing known ends the search; a word that describes another thing does
/// not.
fn last_noun<'a>(words: impl Iterator<Item = &'a str>) -> Option<(OutputDomain, &'a str)> {
    let mut fallback = None;
    let mut figures = false;
    for word in words {
        let stem = singular(word);
        let named = NOUNS.iter().find(|(_, nouns)| is_listed(nouns, stem)).map(|(domain, _)| (*domain, word));
        if is_listed(OF_ANOTHER, stem) {
            fallback = fallback.or(named);
            figures |= is_listed(FIGURES, stem);
            continue;
        }
        if let Some((domain, _)) = named {
            let thing = !matches!(domain, OutputDomain::Structure | OutputDomain::Content);
            return named.filter(|_| thing || !figures);
        }
        // A verb or a participle in between says nothing about the thing.
        if lexicon::verb_of_name(word).is_none_or(|verb| verb.or_noun) && !word.ends_with("ed") {
            return fallback;
        }
    }
    fallback
}
