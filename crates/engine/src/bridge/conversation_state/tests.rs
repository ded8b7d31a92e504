//! The four cases as tables: events, and the actions that follow.

use serde_json::{json, value::RawValue};
use servanda_mcp::{ClientCapabilities, Era, RpcError};

use super::{
    ConversationAction, ConversationEvent, ConversationOutcome, ConversationState, QuestionTarget, ROUNDS_MAX,
    read_input_responses,
};
use crate::questions::{ClientQuestion, QUESTIONS_MAX, read_input_requests};

const FORM: &str = "elicitation/create";
const MODEL: &str = "sampling/createMessage";

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn question_target(era: Era) -> QuestionTarget {
    let capabilities = ClientCapabilities::parse(Some(&raw(&json!({"elicitation": {}, "roots": {}}))));
    QuestionTarget { era, capabilities, can_be_asked: true }
}

fn asking(method: &str) -> ClientQuestion {
    ClientQuestion::unseen(method, raw(&json!({"m": 1})))
}

fn asked(method: &str) -> ConversationEvent {
    ConversationEvent::Asked(asking(method))
}

fn came(answers: &serde_json::Value) -> ConversationEvent {
    ConversationEvent::ClientReturned(read_input_responses(&raw(answers)).unwrap())
}

fn wants(requests: &[(&str, &str)], state: Option<&str>) -> ConversationEvent {
    let requests = requests.iter().map(|(key, method)| ((*key).to_owned(), asking(method))).collect();
    ConversationEvent::WantsInput { requests, state: state.map(str::to_owned) }
}

fn replied(key: &str, reply: Result<serde_json::Value, &str>) -> ConversationEvent {
    let reply = reply.map(|value| raw(&value)).map_err(|why| RpcError::new(-1, why));
    ConversationEvent::Replied { key: key.to_owned(), reply }
}

/// An action in a word or two.
fn word(action: &ConversationAction) -> String {
    match action {
        ConversationAction::PassOn(asking) => format!("pass on {}", asking.method()),
        ConversationAction::Keep(key) => format!("keep {key}"),
        ConversationAction::Refuse => "refuse".to_owned(),
        ConversationAction::Gather => "gather".to_owned(),
        ConversationAction::Tell { input_requests } => format!("tell {input_requests}"),
        ConversationAction::TurnAway => "turn away".to_owned(),
        ConversationAction::Give { key, answer } => format!("give {key} {answer}"),
        ConversationAction::Decline(key) => format!("decline {key}"),
        ConversationAction::Ask { key, asking } => format!("ask {key} {}", asking.method()),
        ConversationAction::SendAgain(continuation) => {
            let responses = continuation.input_responses.as_ref().map_or("-", |raw| raw.get());
            format!("send again {responses} {}", continuation.request_state.as_deref().unwrap_or("-"))
        }
        ConversationAction::End(ConversationOutcome::Answer) => "end: answer".to_owned(),
        ConversationAction::End(ConversationOutcome::Input) => "end: input".to_owned(),
        ConversationAction::End(ConversationOutcome::Undeclared(required)) => format!("end: undeclared {required}"),
        ConversationAction::End(ConversationOutcome::NotGiven(what)) => {
            format!("end: {} not given, {}", what.method, what.why)
        }
    }
}

/// Plays events and compares the actions that follow each.
fn play(era: Era, script: Vec<(ConversationEvent, &[&str])>) {
    let mut conversation_state = ConversationState::new(question_target(era));
    for (number, (event, expected)) in script.into_iter().enumerate() {
        let shown = format!("{number}: {event:?}");
        let (next, actions) = conversation_state.step(event);
        assert_eq!(actions.iter().map(word).collect::<Vec<_>>(), expected, "{shown}");
        conversation_state = next;
    }
}

#[test]
fn legacy_requester_legacy_server_questions_pass() {
    play(
        Era::Legacy,
        vec![
            (asked(FORM), &["pass on elicitation/create"]),
            (asked(MODEL), &["refuse"]),
            (asked("tools/call"), &["refuse"]),
            (asked("roots/list"), &["pass on roots/list"]),
            (ConversationEvent::Concluded, &["end: answer"]),
        ],
    );
}

#[test]
fn modern_requester_modern_server_input_passes() {
    play(Era::Modern, vec![(wants(&[("a", FORM), ("b", "roots/list")], Some("s")), &["end: input"])]);
    play(Era::Modern, vec![(wants(&[], Some("s")), &["end: input"])]);
    play(Era::Modern, vec![(wants(&[("a", FORM), ("b", MODEL)], None), &[r#"end: undeclared {"sampling":{}}"#])]);
    play(Era::Modern, vec![(ConversationEvent::Concluded, &["end: answer"])]);
}

#[test]
fn legacy_requester_modern_server_everything_is_asked_at_once() {
    play(
        Era::Legacy,
        vec![
            (
                wants(&[("a", FORM), ("b", "roots/list")], Some("one")),
                &["ask a elicitation/create", "ask b roots/list"],
            ),
            (replied("b", Ok(json!({"roots": []}))), &[]),
            (
                replied("a", Ok(json!({"action": "decline"}))),
                &[r#"send again {"a":{"action":"decline"},"b":{"roots":[]}} one"#],
            ),
            (wants(&[], Some("two")), &["send again - two"]),
            (wants(&[("a", FORM)], None), &["ask a elicitation/create"]),
            (replied("a", Ok(json!({"action": "accept"}))), &[r#"send again {"a":{"action":"accept"}} -"#]),
            (ConversationEvent::Concluded, &["end: answer"]),
        ],
    );
}

#[test]
fn legacy_requester_modern_server_what_is_not_given_ends_it() {
    let not_taken = "end: sampling/createMessage not given, the client does not take this kind of question";
    play(Era::Legacy, vec![(wants(&[("a", FORM), ("b", MODEL)], None), &[not_taken])]);
    play(
        Era::Legacy,
        vec![
            (wants(&[("a", FORM), ("b", FORM)], None), &["ask a elicitation/create", "ask b elicitation/create"]),
            (replied("a", Err("User rejected")), &["end: elicitation/create not given, User rejected"]),
        ],
    );
    play(
        Era::Legacy,
        vec![
            (wants(&[("a", FORM)], None), &["ask a elicitation/create"]),
            (ConversationEvent::Lapsed, &["end: input not given, the client did not answer in time"]),
        ],
    );
    let mut conversation_state =
        ConversationState::new(QuestionTarget { can_be_asked: false, ..question_target(Era::Legacy) });
    let (_, actions) = conversation_state.step(wants(&[("a", FORM)], None));
    assert!(word(&actions[0]).starts_with("end: elicitation/create not given"), "there is nowhere to ask");
    conversation_state = ConversationState::new(question_target(Era::Legacy));
    let many: Vec<(String, String)> = (0..=QUESTIONS_MAX).map(|number| (number.to_string(), FORM.to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, method)| (key.as_str(), method.as_str())).collect();
    assert!(word(&conversation_state.step(wants(&many, None)).1[0]).contains("more than 64 things"));
}

#[test]
fn legacy_requester_modern_server_rounds_end() {
    let mut conversation_state = ConversationState::new(question_target(Era::Legacy));
    for round in 1..=ROUNDS_MAX + 1 {
        let (next, actions) = conversation_state.step(wants(&[], Some("s")));
        let ends = word(&actions[0]).starts_with("end:");
        assert_eq!(ends, round > ROUNDS_MAX, "round {round}");
        conversation_state = next;
    }
}

#[test]
fn modern_requester_legacy_server_questions_wait_for_the_requester() {
    let one = r#"{"ask-1":{"method":"elicitation/create","params":{"m":1}}"#;
    play(
        Era::Modern,
        vec![
            (asked(FORM), &["keep ask-1", "gather"]),
            (asked("roots/list"), &["keep ask-2"]),
            (asked(MODEL), &["refuse"]),
            (
                ConversationEvent::Gathered,
                &[&format!(r#"tell {one},"ask-2":{{"method":"roots/list","params":{{"m":1}}}}}}"#)],
            ),
            // Partial: what is open is asked again; what was not asked is ignored.
            (
                came(&json!({"ask-2": {"roots": []}, "ask-9": 7})),
                &[r#"give ask-2 {"roots":[]}"#, &format!("tell {one}}}")],
            ),
            // A question that comes while no client waits is told to the next one that comes back.
            (asked(FORM), &["keep ask-3"]),
            (ConversationEvent::Gathered, &[]),
            (
                came(&json!({"ask-1": {"action": "accept"}, "ask-2": {}})),
                &[
                    r#"give ask-1 {"action":"accept"}"#,
                    r#"tell {"ask-3":{"method":"elicitation/create","params":{"m":1}}}"#,
                ],
            ),
            (came(&json!({"ask-3": {"action": "cancel"}})), &[r#"give ask-3 {"action":"cancel"}"#]),
            (came(&json!({})), &["turn away"]),
            (ConversationEvent::Concluded, &["end: answer"]),
        ],
    );
}

#[test]
fn modern_requester_legacy_server_a_requester_that_stays_away_is_not_waited_for() {
    play(
        Era::Modern,
        vec![
            (asked(FORM), &["keep ask-1", "gather"]),
            (ConversationEvent::Gathered, &[r#"tell {"ask-1":{"method":"elicitation/create","params":{"m":1}}}"#]),
            (asked(FORM), &["keep ask-2"]),
            (ConversationEvent::Lapsed, &["decline ask-1", "decline ask-2"]),
            (asked(FORM), &["refuse"]),
            (ConversationEvent::Concluded, &["end: answer"]),
        ],
    );
}

#[test]
fn modern_requester_legacy_server_without_room_questions_are_declined_and_the_requester_goes_on_waiting() {
    play(
        Era::Modern,
        vec![
            (asked(FORM), &["keep ask-1", "gather"]),
            (ConversationEvent::Gathered, &[r#"tell {"ask-1":{"method":"elicitation/create","params":{"m":1}}}"#]),
            (ConversationEvent::NoRoom, &["decline ask-1"]),
            (came(&json!({})), &["turn away"]),
            (asked(FORM), &["keep ask-2", "gather"]),
        ],
    );
}

#[test]
fn only_objects_are_requests_and_responses() {
    for text in ["7", "[]", r#"{"a":7}"#, r#"{"a":{}}"#, r#"{"a":{"method":7}}"#, r#"{"a":{},"a":{}}"#] {
        let given = RawValue::from_string(text.to_owned()).unwrap();
        assert!(read_input_requests(&given).is_none(), "{text}");
    }
    for text in ["7", "[]", r#"{"a":1,"a":2}"#] {
        assert!(read_input_responses(&RawValue::from_string(text.to_owned()).unwrap()).is_none(), "{text}");
    }
}
