//! Tables for signatures, shapes and steps; `loopback` delivers over a real socket.

mod loopback;

use proptest::prelude::*;
use servanda_approval::{
    ApprovalCause, ApprovalDemand, Deadline, Ticket, TicketId, TicketKey, TicketNotice, TicketNoticeKind, TicketState,
};
use servanda_contract::{
    CallRecord, Digest, Proposal, TaxonomyClass, Timestamp,
    digest::DigestDomain,
    record::Outcome,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};
use servanda_effects::{NoteKind, effect::OwnerId};
use servanda_upstream::{WebhookResponse, WebhookSendError};

use super::{
    SigningSecret, SigningSecretError, WebhookFormat,
    delivery::{CallbackDelivery, CallbackRetryPolicy, DeliveryStep, DeliveryTurn, after_attempt},
    event, matches, ticket_events,
};

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

fn later(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(NOW.unix_ms() + ms)
}

/// The examples from the tests of the specification's reference libraries.
#[test]
fn signatures_are_those_of_the_specification() {
    let table = [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1_649_367_553,
            r#"{"email":"test@example.com","username":"test_user"}"#,
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
    ];
    for (secret, id, timestamp_sec, body, expected) in table {
        assert_eq!(SigningSecret::parse(secret).unwrap().sign(id, timestamp_sec, body), expected);
    }
}

#[test]
fn a_secret_is_long_enough_and_never_shown() {
    let table = [
        ("", Some(SigningSecretError::Empty)),
        ("whsec_", Some(SigningSecretError::Empty)),
        ("12345678901234567890123", Some(SigningSecretError::Short(23))),
        ("123456789012345678901234", None),
        ("whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM=", Some(SigningSecretError::Short(23))),
        ("whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0", None),
        ("whsec_not base64, however long it may be", Some(SigningSecretError::NotBase64)),
    ];
    for (text, expected) in table {
        let parsed = SigningSecret::parse(text);
        assert_eq!(parsed.as_ref().err().copied(), expected, "{text}");
        assert!(!format!("{parsed:?}").contains("1234567"), "{parsed:?}");
    }
    let long = "x".repeat(1_025);
    assert_eq!(SigningSecret::parse(&long).unwrap_err(), SigningSecretError::Long);
}

#[test]
fn patterns_mean_whole_names() {
    let table = [
        ("company__pay", "company__pay", true),
        ("company__pay", "company__pay_all", false),
        ("company__*", "company__pay", true),
        ("company__*", "other__company__pay", false),
        ("*", "anything", true),
        ("*__pay", "company__pay", true),
        ("*__pay", "company__pay_all", false),
        ("a*b*c", "a1b2c", true),
        ("a*b*c", "acb", false),
        ("a*a", "a", false),
        ("*pay*", "company__pay_all", true),
        ("", "x", false),
    ];
    for (pattern, name, expected) in table {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}

fn record(outcome: Outcome) -> CallRecord {
    let proposal = Proposal {
        call_id: "call_1".to_owned().into(),
        caller: servanda_contract::Caller::local().into(),
        tool: "company__close_books".to_owned(),
        arguments: bytes::Bytes::from_static(br#"{"month":"secret argument"}"#),
        received_at: NOW,
        trace_id: String::new(),
        chain: String::new(),
        caller_wait_ms: None,
        keys: servanda_contract::OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
    };
    CallRecord {
        contract: Some(
            servanda_contract::record::ContractReference {
                name: "company.close_books".to_owned(),
                version: "1.2.0".to_owned(),
                digest: Digest::compute(DigestDomain::Contract, &[b"x"]),
                upstream: "company".to_owned(),
                upstream_tool: "close_books".to_owned(),
                effect_class: servanda_contract::tool::EffectClass::N,
            }
            .into(),
        ),
        outcome,
        class: Some(TaxonomyClass::Success),
        finished_at: Some(later(90_000)),
        answer_digest: Some(Digest::compute(DigestDomain::Answer, &[b"{}"])),
        effect_id: Some("eff_1".to_owned()),
        task_id: Some("task_1".to_owned()),
        ..CallRecord::new(&proposal)
    }
}

/// Receivers parse this shape, so it must not change by accident.
#[test]
fn the_event_is_golden_and_has_neither_arguments_nor_answer() {
    let ends = [Outcome::Completed, Outcome::ToolError, Outcome::NotExecuted, Outcome::Quarantined, Outcome::Unknown];
    let mut shown = String::new();
    for outcome in ends {
        let made = event::from_record(&record(outcome), event::ending_of_outcome(outcome).unwrap(), later(100_000));
        assert!(!made.id.contains('.'), "{}", made.id);
        shown.extend([made.id.as_str(), "\n", &made.body, "\n"]);
    }
    let at = event::from_record(
        &record(Outcome::NotExecuted),
        servanda_effects::effect::EffectEnding::Unknown,
        later(100_000),
    );
    shown.extend([at.id.as_str(), "\n", &at.body, "\n"]);
    assert!(!shown.contains("secret argument"));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/callbacks/golden/events.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, &shown).unwrap();
    }
    assert_eq!(shown, std::fs::read_to_string(golden).unwrap());
    for outcome in
        [Outcome::Refused, Outcome::Dispatching, Outcome::InputRequired, Outcome::TaskCreated, Outcome::Replayed]
    {
        assert_eq!(event::ending_of_outcome(outcome), None, "{outcome:?} is no end of long work");
    }
}

fn delivery(attempts: u32) -> CallbackDelivery {
    let made = event::from_record(&record(Outcome::Completed), servanda_effects::effect::EffectEnding::Completed, NOW);
    let mut delivery = CallbackDelivery::new("books", &made, Some(OwnerId::from("one".to_owned())), NOW);
    delivery.attempts = attempts;
    delivery
}

/// Later versions must be able to read what is stored.
#[test]
fn what_is_kept_comes_back() {
    let note = delivery(3).note();
    assert_eq!((note.kind, note.key.as_str()), (NoteKind::Delivery, "msg_call_1_completed books"));
    assert_eq!(note.expires_at, None, "what is under way is never forgotten");
    assert_eq!(CallbackDelivery::from_note(&note), Some(delivery(3)));
    let newer = servanda_effects::Note { value: note.value.replace(r#""version":1"#, r#""version":2"#), ..note };
    assert_eq!(CallbackDelivery::from_note(&newer), None);
}

#[test]
fn what_follows_on_an_attempt() {
    let answered = |status, retry_after_ms| Ok(WebhookResponse { status, retry_after_ms });
    let failed = || Err(WebhookSendError("connection refused".to_owned()));
    // attempts before; the answer; when it is tried next, or the last answer if it is given up
    let table = [
        (0, answered(200, None), Err(None)),
        (0, answered(204, Some(9_000)), Err(None)),
        (11, answered(299, None), Err(None)),
        (0, failed(), Ok(4_000)),
        (0, answered(301, None), Ok(4_000)),
        (0, answered(400, None), Ok(4_000)),
        (0, answered(500, Some(60_000)), Ok(4_000)),
        (1, answered(500, None), Ok(12_000)),
        (2, answered(500, None), Ok(36_000)),
        (9, answered(500, None), Ok(11_520_000)),
        (0, answered(429, Some(60_000)), Ok(60_000)),
        (0, answered(503, Some(60_000)), Ok(60_000)),
        (0, answered(503, Some(1_000)), Ok(4_000)),
        (0, answered(503, None), Ok(4_000)),
        (0, answered(503, Some(u64::MAX)), Ok(14_400_000)),
        (0, answered(410, None), Err(Some("HTTP status 410"))),
        (10, failed(), Ok(11_520_000)),
        (11, failed(), Err(Some("connection refused"))),
        (11, answered(503, Some(60_000)), Err(Some("HTTP status 503"))),
    ];
    for (attempts, attempted, expected) in table {
        let next = after_attempt(delivery(attempts), &attempted, later(1_000), 0, CallbackRetryPolicy::default());
        match (next, expected) {
            (DeliveryStep::Done, Err(None)) => {}
            (DeliveryStep::Later(tried), Ok(wait_ms)) => {
                assert_eq!(tried.due_at, later(1_000 + wait_ms), "{attempts} {attempted:?}");
                assert_eq!((tried.attempts, tried.first_tried_at), (attempts + 1, Some(later(1_000))));
            }
            (DeliveryStep::GivenUp(over), Err(Some(why))) => {
                assert_eq!((over.given_up_at, over.last.as_deref()), (Some(later(1_000)), Some(why)));
                assert!(over.note().expires_at.is_some(), "what was given up is forgotten one day");
            }
            (got, _) => panic!("{attempts} {attempted:?}: {got:?}"),
        }
    }
}

/// A gateway that was down for a week still tries. It gives up only after a day of attempts.
#[test]
fn the_day_counts_from_the_first_attempt() {
    const DAY_MS: u64 = 86_400_000;
    let failed = Err(WebhookSendError("connection refused".to_owned()));
    let DeliveryStep::Later(tried) =
        after_attempt(delivery(0), &failed, later(7 * DAY_MS), 0, CallbackRetryPolicy::default())
    else {
        panic!("it was never tried")
    };
    let within = after_attempt(tried.clone(), &failed, later(8 * DAY_MS - 1), 0, CallbackRetryPolicy::default());
    assert!(matches!(within, DeliveryStep::Later(_)));
    assert!(matches!(
        after_attempt(tried, &failed, later(8 * DAY_MS), 0, CallbackRetryPolicy::default()),
        DeliveryStep::GivenUp(_)
    ));
}

#[test]
fn an_owner_goes_first_and_others_take_only_what_is_old() {
    let [one, two] = ["one", "two"].map(|owner| OwnerId::from(owner.to_owned()));
    let owned = delivery(0);
    let mut anybodys = delivery(0);
    anybodys.owner = None;
    let mut over = delivery(0);
    over.given_up_at = Some(NOW);
    let table = [
        (&owned, &one, later(0), DeliveryTurn::Now),
        (&owned, &two, later(0), DeliveryTurn::At(later(20_000))),
        (&owned, &two, later(19_999), DeliveryTurn::At(later(20_000))),
        (&owned, &two, later(20_000), DeliveryTurn::Now),
        (&anybodys, &two, later(0), DeliveryTurn::Now),
        (&over, &one, later(90_000), DeliveryTurn::NotOurs),
    ];
    for (delivery, own, now, expected) in table {
        assert_eq!(delivery.turn(own, now), expected, "{own:?} {now}");
    }
}

proptest! {
    #[test]
    fn waits_grow_within_their_limits(attempts in 0u32..11, random: u64) {
        let retry_policy = CallbackRetryPolicy::default();
        let failed = Err(WebhookSendError("no".to_owned()));
        let DeliveryStep::Later(tried) = after_attempt(delivery(attempts), &failed, NOW, random, retry_policy) else {
            return Err(TestCaseError::fail("it is not over"));
        };
        let wait_ms = tried.due_at.since_ms(NOW);
        let whole_ms = (retry_policy.first_wait_ms * 3u64.pow(attempts)).min(retry_policy.wait_ms_max);
        prop_assert!(wait_ms >= whole_ms - whole_ms / 5 && wait_ms <= whole_ms + whole_ms / 5);
    }
}

fn ticket() -> Ticket {
    let at = |ms: u64| Deadline { clock_ms: NOW.unix_ms() + ms, ledger_ms: ms };
    let digest = |text: &str| Digest::compute(DigestDomain::Payload, &[text.as_bytes()]);
    let subject = serde_json::json!({
        "tenant": "acme", "principal": "ada", "actors": [{"name": "<!channel> *bot*", "proven": true}], "run": "run-1",
        "call_id": "call_pay", "trace_id": "0af7651916cd43dd8448eb211c80319c", "tool": "bank__pay", "contract": "bank.pay",
        "contract_version": "1.2.0", "contract_digest": digest("contract"), "upstream": "bank", "payload": digest("payload"),
        "consequence": "Pays 12 EUR to <bob> & \u{202e}eve",
        "before": { "tool": "bank.balance", "at_ms": 1, "state": { "Ok": { "balance": "what a tool showed" } } },
        "upstream_preview": { "at_ms": 1, "preview": { "said": { "would": "what a tool showed" } } },
    });
    Ticket {
        id: TicketId::from("apr_1".to_owned()),
        key: TicketKey::from(digest("key")),
        subject: serde_json::from_value(subject).unwrap(),
        demand: ApprovalDemand {
            pattern: ApprovalPattern::Dual,
            groups: ["finance".to_owned()].into(),
            quorum: 2,
            presence: Presence::Session,
            decide_within_ms: 3_600_000,
            use_within_ms: 600_000,
            escalation: Vec::new(),
            causes: vec![ApprovalCause::Class],
            class: SideEffectClass::HighRiskExternal,
        },
        state: TicketState::Pending,
        decisions: Vec::new(),
        created_ms: NOW.unix_ms(),
        changed_ms: NOW.unix_ms(),
        decide_by: at(3_600_000),
        use_by: None,
        decided_ms: None,
        notices_sent: 0,
        outcome_sent: false,
        told: false,
        continues: None,
        reason: None,
        consumed: None,
        grant: None,
    }
}

#[test]
fn the_messages_about_tickets_are_golden_and_plain() {
    let waiting = ticket();
    let decision = serde_json::json!({
        "decision": {"ticket": "apr_1", "payload_hash": waiting.subject.payload, "verdict": "deny", "tenant": "acme",
            "approver": "olga", "presence": "session", "credential": "key_1", "at_ms": 1, "reason": "a reason for the agent"},
        "key_id": "0123456789abcdef", "signature": "c2lnbmF0dXJl",
    });
    let decisions = vec![serde_json::from_value(decision).unwrap()];
    let denied = Ticket { state: TicketState::Denied, decisions, ..waiting.clone() };
    let mut shown = String::new();
    for format in [WebhookFormat::Standard, WebhookFormat::Slack, WebhookFormat::Teams] {
        for (ticket, kind) in [(&waiting, TicketNoticeKind::Opened), (&denied, TicketNoticeKind::Outcome)] {
            let notice = TicketNotice { kind, number: 1 };
            let event = ticket_events::event(format, ticket, notice, Some("https://gateway.example"), NOW);
            assert!(!event.body.contains("a reason for the agent"));
            assert!(!event.body.contains("what a tool showed"), "what others say stays on the ticket's page");
            let body: serde_json::Value = serde_json::from_str(&event.body).unwrap();
            let body = serde_json::to_string_pretty(&body).unwrap();
            let name = format!("{format:?} {} {}", event.id, event.kind);
            shown.extend([&name, "\n", &body, "\n\n"].map(String::from));
        }
    }
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/callbacks/golden/ticket_events.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, &shown).unwrap();
    }
    assert_eq!(shown, std::fs::read_to_string(golden).unwrap());
}
