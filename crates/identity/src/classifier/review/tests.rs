use servanda_contract::tool::{Action, Behaviour, Mutability, OutputDomain};

use super::{CONFIDENCE_MIN, DeclaredBehaviour, ObjectionSource, ReviewOutcome, review};
use crate::classifier::{
    Annotations, Classification, ClassificationEvidence, ClassificationReason, ClassifierOptions, Confidence,
    Descriptor, EvidenceSource, Gravity, classify,
};

fn found(mutability: Mutability, action: Action, sure: f64, of_action: f64) -> Classification {
    let confidence = Confidence { mutability: sure, action: of_action, output_domain: 0.5, content_type: 0.5 };
    let reasons = vec![ClassificationReason::new(EvidenceSource::Rule, "a reason")];
    Classification {
        behaviour: Behaviour::new(mutability, action, OutputDomain::Data),
        confidence,
        evidence: ClassificationEvidence {
            mutability: reasons.clone(),
            action: reasons,
            output_domain: Vec::new(),
            content_type: Vec::new(),
        },
        verb: None,
        cautions: Vec::new(),
        gravity: (Gravity::Ordinary, None),
        acts_only_through_program: false,
        looking: None,
    }
}

/// Which sources object, or the other outcome.
fn told(review: &ReviewOutcome) -> String {
    let by = |witness| if witness == ObjectionSource::Author { "author" } else { "definition" };
    match review {
        ReviewOutcome::Corroborated => "corroborated".to_owned(),
        ReviewOutcome::Cautious => "cautious".to_owned(),
        ReviewOutcome::Unclear => "unclear".to_owned(),
        ReviewOutcome::Settled { .. } => "settled".to_owned(),
        ReviewOutcome::Flagged { objections } => {
            objections.iter().map(|objection| by(objection.by)).collect::<Vec<_>>().join("+")
        }
    }
}

/// Declared action (a read means `PURE`), `readOnlyHint`, `destructiveHint`, the found action and its confidence, and the
/// outcome.
type Case = (Action, Option<bool>, Option<bool>, Action, f64, &'static str);

#[test]
fn whoever_says_more_danger_is_heard_and_nobody_else() {
    use Action::{Append, Create, Delete, Overwrite, Read, Search, Update};
    let (yes, no) = (Some(true), Some(false));
    let (sure, below) = (CONFIDENCE_MIN, CONFIDENCE_MIN - 0.01);
    let cases: [Case; 26] = [
        // A declared read.
        (Read, None, None, Read, sure, "corroborated"),
        (Read, yes, None, Search, sure, "corroborated"),
        (Read, None, None, Read, below, "unclear"),
        (Read, yes, None, Read, below, "corroborated"),
        (Read, yes, None, Update, below, "unclear"),
        (Read, None, None, Update, sure, "definition"),
        (Read, yes, None, Update, sure, "definition"),
        (Read, no, None, Read, sure, "author"),
        (Read, no, None, Update, sure, "author+definition"),
        (Read, None, yes, Read, sure, "author"),
        (Read, yes, yes, Read, sure, "corroborated"),
        (Read, None, no, Read, sure, "corroborated"),
        // A declared change: the declaration is more dangerous than the evidence, or says enough.
        (Delete, yes, None, Read, sure, "cautious"),
        (Create, None, None, Read, below, "unclear"),
        (Update, no, None, Update, sure, "corroborated"),
        (Update, no, None, Update, below, "corroborated"),
        (Delete, no, no, Create, sure, "corroborated"),
        // Something is destroyed although the declaration says that it is added or changed.
        (Create, None, None, Delete, sure, "definition"),
        (Append, None, None, Overwrite, sure, "definition"),
        (Update, None, None, Delete, sure, "definition"),
        (Update, None, None, Overwrite, sure, "corroborated"),
        (Overwrite, None, None, Delete, sure, "corroborated"),
        (Create, None, None, Delete, below, "unclear"),
        (Create, no, yes, Create, sure, "author"),
        (Create, no, None, Create, sure, "corroborated"),
        (Update, no, yes, Update, sure, "corroborated"),
    ];
    let of = |action| if matches!(action, Read | Search) { Mutability::Pure } else { Mutability::Mutates };
    for case in cases {
        let (declared, read_only_hint, destructive_hint, seen, sure, expected) = case;
        let hints = Annotations { read_only_hint, destructive_hint, ..Annotations::default() };
        let declaration =
            DeclaredBehaviour { mutability: of(declared), action: Some(declared), grave: false, reviewed: None };
        let reviewed = review(declaration, Some(hints), &found(of(seen), seen, sure, 0.9));
        assert_eq!(told(&reviewed), expected, "{case:?}");
        // A person who has reviewed it is not asked again, and nothing else changes.
        let settled = review(
            DeclaredBehaviour { reviewed: Some("why"), ..declaration },
            Some(hints),
            &found(of(seen), seen, sure, 0.9),
        );
        let flagged = !reviewed.open_objections().is_empty();
        assert_eq!(told(&settled), if flagged { "settled" } else { expected }, "{case:?}");
        assert!(settled.open_objections().is_empty());
    }
}

#[test]
fn an_action_that_is_not_declared_or_not_sure_is_not_held_against_anybody() {
    let destroys = |sure| found(Mutability::Mutates, Action::Delete, 0.99, sure);
    let declared = |action| DeclaredBehaviour { mutability: Mutability::Mutates, action, grave: false, reviewed: None };
    assert_eq!(told(&review(declared(None), None, &destroys(0.9))), "corroborated");
    assert_eq!(told(&review(declared(Some(Action::Create)), None, &destroys(CONFIDENCE_MIN - 0.01))), "corroborated");
    assert_eq!(told(&review(declared(Some(Action::Create)), None, &destroys(CONFIDENCE_MIN))), "definition");
    // A tool that is declared grave stays grave whatever it is called.
    let grave = DeclaredBehaviour { grave: true, ..declared(Some(Action::Create)) };
    let hints = Annotations { destructive_hint: Some(true), ..Annotations::default() };
    assert_eq!(told(&review(grave, Some(hints), &destroys(0.9))), "corroborated");
    let claimed = DeclaredBehaviour { mutability: Mutability::Pure, ..grave };
    assert_eq!(told(&review(claimed, Some(hints), &destroys(0.9))), "author+definition");
}

#[test]
fn an_objection_says_who_and_why() {
    let schema = serde_json::json!({ "type": "object", "properties": { "output_path": { "type": "string" } } });
    let descriptor = Descriptor {
        name: "delete_rows".to_owned(),
        description: Some("Delete rows of a table and write them to a file.".to_owned()),
        input_schema: schema.as_object().cloned(),
        ..Descriptor::default()
    };
    let found = classify(&descriptor, ClassifierOptions { names: true, annotations: false });
    let pure = DeclaredBehaviour { mutability: Mutability::Pure, action: None, grave: false, reviewed: None };
    let hints = Annotations { read_only_hint: Some(false), ..Annotations::default() };
    let reviewed = review(pure, Some(hints), &found);
    let lines: Vec<String> = reviewed.open_objections().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "the contract says PURE, its author says MUTATES (readOnlyHint: false)",
            "the contract says PURE, its definition says MUTATES (the name's verb changes something (`delete`); \
             the description joins a change to its first verb (`write`))",
        ]
    );
}
