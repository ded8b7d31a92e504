//! What the demo notices, and how it fits lines; the demo itself is tested by running it.

use servanda_contract::{CallId, FieldError, GateName, Refusal, TaxonomyClass};

use super::{
    outcome::{DemoOutcome, PlayedStep},
    page::{clause, fit, reason, wrap},
    tour::{CHAPTERS, DemoExpectation, DemoStep},
};

fn refusal(gate: GateName, class: TaxonomyClass) -> Box<Refusal> {
    Box::new(Refusal::new(CallId::new(), gate, class, "no; never".to_owned(), String::new()))
}

fn played(step: &'static DemoStep, ending: DemoOutcome) -> PlayedStep {
    PlayedStep { step, call_id: "call_1".to_owned(), took_ms: 1, ending }
}

fn step(wanted: impl Fn(&DemoExpectation) -> bool) -> &'static DemoStep {
    CHAPTERS.iter().flat_map(|chapter| chapter.steps).find(|step| wanted(&step.expected)).unwrap()
}

#[test]
fn a_step_that_ends_otherwise_is_noticed() {
    let passes = step(|expected| matches!(expected, DemoExpectation::Passes { .. }));
    let typed = step(|expected| matches!(expected, DemoExpectation::Refused { gate: GateName::Types, .. }));
    let stopped = step(|expected| matches!(expected, DemoExpectation::ToldToStop { .. }));
    let mismatch = || DemoOutcome::Refused(refusal(GateName::Types, TaxonomyClass::TypeMismatch));
    let table = [
        (passes, DemoOutcome::Passed(1.into()), true),
        (passes, DemoOutcome::ToolError("no".to_owned()), false),
        (passes, mismatch(), false),
        (typed, mismatch(), true),
        (typed, DemoOutcome::Refused(refusal(GateName::Bounds, TaxonomyClass::OutOfBounds)), false),
        (typed, DemoOutcome::Refused(refusal(GateName::Types, TaxonomyClass::OutOfBounds)), false),
        (typed, DemoOutcome::Passed(1.into()), false),
        (stopped, mismatch(), false),
    ];
    for (step, ending, good) in table {
        let played = played(step, ending);
        assert_eq!(played.surprise().is_none(), good, "{played:?}");
    }
}

#[test]
fn the_tour_has_a_refusal_of_every_stage_that_can_be_provoked() {
    use GateName::{
        Behaviour, Bounds, Budget, Confirmation, Observe, Parse, Perform, Policy, Resolve, Scope, Semantics, State,
        Structure, Types,
    };
    let stages = [
        Resolve,
        Parse,
        Structure,
        Types,
        Bounds,
        Semantics,
        Behaviour,
        Scope,
        Policy,
        State,
        Confirmation,
        Budget,
        Perform,
        Observe,
    ];
    for gate in stages {
        step(|expected| matches!(expected, DemoExpectation::Refused { gate: at, .. } if *at == gate));
    }
}

#[test]
fn reasons_name_the_pointer_instead_of_the_field() {
    let error = |pointer: &str, message: &str| FieldError {
        field: "end".to_owned(),
        pointer: pointer.to_owned(),
        expected: String::new(),
        actual: String::new(),
        message: message.to_owned(),
        did_you_mean: None,
    };
    let table = [
        (vec![], "no; never"),
        (vec![error("/end", "`end` must be later")], "/end must be later"),
        (vec![error("/end", "`end`: it is over")], "/end: it is over"),
        (vec![error("/end", "it ends too early"), error("/a", "b")], "/end: it ends too early (+1)"),
        (vec![error("", "not JSON")], "not JSON"),
    ];
    for (errors, shown) in table {
        let refusal = refusal(GateName::Types, TaxonomyClass::TypeMismatch).with_field_errors(errors);
        assert_eq!(reason(&refusal), shown);
    }
    assert_eq!(reason(&refusal(GateName::Perform, TaxonomyClass::Timeout)), "no", "its last words are cut");
}

#[test]
fn text_is_cut_and_broken_to_its_width() {
    assert_eq!(clause("did you mean `send_mail`? look again"), "did you mean `send_mail`?");
    assert_eq!(clause("stop repairing: these were refused; ask"), "stop repairing: these were refused");
    assert_eq!(clause("wait"), "wait");
    assert_eq!(fit("ünï\u{1b}[1m", 4), "ünï…");
    assert_eq!(fit("a\nb", 9), "a b");
    assert_eq!(wrap("one two three", 8, 3), ["one two", "three"]);
    assert_eq!(wrap("one two three four", 8, 2), ["one two", "three f…"]);
    assert_eq!(wrap("", 8, 2), [""]);
}
