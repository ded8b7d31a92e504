//! The text about effects that people read, and the settlements they may make.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clap::Parser as _;
use servanda_contract::{CallId, Digest, Timestamp, digest::DigestDomain, time::Clock, tool::EffectClass};
use servanda_effects::effect::{
    BeginMode, BeginRequest, ClientKey, DispatchEnd, DispatchOrder, Effect, EffectChange, EffectEvent, EffectFilter,
    EffectId, EffectKey, EffectQuery, EffectState, EffectStore, EffectTarget, InMemoryEffects, ManualSettlement,
    OwnerId, StoredAnswer,
};

use super::{EffectsAction, OperatorSettlement, SettlementSubscribers, bulk, find, page, requested_action, settle};
use crate::cli::{Cli, Command, SettleAs};

#[derive(Debug)]
struct Still(Mutex<u64>);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(*self.0.lock().unwrap())
    }
}

const NOW_MS: u64 = 1_794_735_332_007;

/// An effect with a client's key that was sent and ended like this.
async fn effect(effects: &InMemoryEffects, id: &str, end: Option<DispatchEnd>) {
    let digest = |text: &str| Digest::compute(DigestDomain::Payload, &[text.as_bytes()]);
    let key = EffectKey {
        tenant: "local".to_owned(),
        principal: "local".to_owned(),
        tool: "bank.pay".to_owned(),
        contract_major: 1,
        client_key: ClientKey::Given(format!("order {id}")),
    };
    let order = DispatchOrder {
        exposed_tool: "bank__pay".to_owned(),
        upstream: "bank".to_owned(),
        upstream_tool: "pay".to_owned(),
        contract_version: "1.2.0".to_owned(),
        contract_digest: digest("contract"),
        upstream_key: "k".to_owned(),
        arguments: Bytes::from_static(b"{}"),
        timeout_ms: 5_000,
        key_window_ms: None,
        dedup_window_ms: 3_600_000,
        keeps_answer: true,
        resources: vec!["invoice/inv_1007".to_owned()],
        reads: Vec::new(),
        overlaps: false,
        actors: Vec::new(),
    };
    let wanted = BeginRequest {
        id: EffectId::from(id.to_owned()),
        key: key.clone(),
        request: digest(id),
        class: EffectClass::N,
        owner: OwnerId::from("own_1".to_owned()),
        call_id: CallId::from("call_1".to_owned()),
        order,
        mode: BeginMode::Dispatch,
        continues: None,
    };
    let apply = |target, event| effects.apply(EffectChange::new(target, event));
    let begun = apply(EffectTarget::Key(key), EffectEvent::Begin(Box::new(wanted))).await.unwrap().effect.unwrap();
    if let Some(end) = end {
        apply(EffectTarget::Id(begun.id.clone()), EffectEvent::Settle(begun.claim(), end)).await.unwrap();
    }
}

async fn bank() -> InMemoryEffects {
    let effects = InMemoryEffects::new(Arc::new(Still(Mutex::new(NOW_MS))));
    effect(&effects, "eff_1", Some(DispatchEnd::Completed(StoredAnswer::Result(Bytes::from_static(b"{}"))))).await;
    effect(&effects, "eff_2", Some(DispatchEnd::Unknown("the upstream was lost before it answered: reset".to_owned())))
        .await;
    effect(&effects, "eff_3", None).await;
    effects
}

async fn shown(effects: &InMemoryEffects, id: &str) -> Effect {
    find(effects, id).await.unwrap()
}

/// No subscribers.
fn nobody() -> SettlementSubscribers {
    let catalog = servanda_catalog::Catalog::new([], servanda_catalog::names::ExposedNaming::Prefixed).unwrap();
    SettlementSubscribers { subscriptions: Vec::new(), catalog }
}

#[tokio::test]
async fn screens() {
    let effects = bank().await;
    let all = effects.list(EffectQuery { limit: 10, ..EffectQuery::default() }).await.unwrap();
    insta::assert_snapshot!("effects_list", page::list(&all, Timestamp::from_unix_ms(NOW_MS)));
    insta::assert_snapshot!("effects_unknown", page::page(&shown(&effects, "eff_2").await, None, None));
    let by = || "ada (uid 1000)".to_owned();
    let settled = settle(&effects, "eff_2", SettleAs::Completed, " bank statement ", by(), &nobody()).await.unwrap();
    insta::assert_snapshot!("effects_settled", page::page(&settled, None, None));
    assert_eq!(settled.state, EffectState::Completed);
}

#[tokio::test]
async fn what_contradicts_the_ledger_is_shown() {
    let effects = bank().await;
    let absent = shown(&effects, "eff_3").await;
    for end in [
        DispatchEnd::NotExecuted("refused".to_owned()),
        DispatchEnd::Completed(StoredAnswer::Result(Bytes::from_static(b"{}"))),
    ] {
        let event = EffectEvent::Settle(absent.claim(), end);
        let target = EffectTarget::Id(absent.id.clone());
        effects.apply(EffectChange::new(target, event)).await.unwrap();
    }
    let contradicted = shown(&effects, "eff_3").await;
    insta::assert_snapshot!("effects_conflict", page::page(&contradicted, None, None));
    let listed = page::list(&[contradicted], Timestamp::from_unix_ms(NOW_MS));
    assert!(listed.contains("completed, in conflict"), "{listed}");
}

#[tokio::test]
async fn only_an_unknown_outcome_is_settled_and_only_with_evidence() {
    let effects = bank().await;
    let telling = nobody();
    let settled = |handle: &'static str, evidence: &'static str| {
        settle(&effects, handle, SettleAs::NotExecuted, evidence, "ada".to_owned(), &telling)
    };
    for (handle, says) in [("eff_1", "completed"), ("eff_3", "dispatching")] {
        let failure = settled(handle, "seen").await.unwrap_err();
        assert!(failure.to_string().contains(says) && failure.hint_text().is_some(), "{failure}");
    }
    for evidence in ["", "  ", "two\nlines"] {
        assert!(settled("eff_2", evidence).await.is_err());
    }
    assert_eq!(settled("eff_2", "the log has no entry").await.unwrap().state, EffectState::FailedRetryable);
    assert!(settled("eff_2", "seen").await.is_err(), "once");
    assert!(settled("eff_9", "seen").await.unwrap_err().to_string().contains("no effect"));
    assert!(find(&effects, "eff_").await.unwrap_err().to_string().contains("more than one"));
}

#[test]
fn both_ways_to_say_it_mean_the_same() {
    let read = |words: &[&str]| {
        let cli = Cli::try_parse_from(["servanda", "effects"].iter().chain(words)).unwrap();
        let Command::Effects(args) = cli.command else { panic!("another command") };
        match requested_action(&args).unwrap() {
            EffectsAction::List { states, conditions, .. } => {
                let filter = conditions.filter(Timestamp::from_unix_ms(NOW_MS)).unwrap();
                if filter.is_empty() { format!("list {states:?}") } else { format!("list {states:?} {filter:?}") }
            }
            EffectsAction::Show(handle) => format!("show {handle}"),
            EffectsAction::Settle { handle, settle_as, evidence } => {
                format!("settle {handle} {settle_as:?} {evidence}")
            }
            EffectsAction::SettleMany { conditions, verdict, consent } => {
                let filter = conditions.filter(Timestamp::from_unix_ms(NOW_MS)).unwrap();
                format!("settle {filter:?} {:?} {} {}", verdict.settle_as, verdict.evidence, consent.yes)
            }
        }
    };
    let settled = "settle eff_1 NotExecuted seen";
    assert_eq!(read(&["settle", "eff_1", "--as", "not-executed", "--evidence", "seen"]), settled);
    assert_eq!(read(&["eff_1", "--settle", "not-executed", "--evidence", "seen"]), settled);
    assert_eq!(read(&["show", "eff_1"]), "show eff_1");
    assert_eq!(read(&["eff_1"]), "show eff_1");
    assert_eq!(read(&["--state", "outcome_unknown"]), "list [OutcomeUnknown]");
    assert_eq!(read(&[]), "list []");
    assert!(Cli::try_parse_from(["servanda", "effects", "--state", "lost"]).is_err());
    assert!(Cli::try_parse_from(["servanda", "effects", "--settle", "completed"]).is_err());
    let bank =
        EffectFilter { upstream: Some("bank".to_owned()), class: Some(EffectClass::N), ..EffectFilter::default() };
    assert_eq!(read(&["--filter", "upstream=bank", "--filter", "class=N"]), format!("list [] {bank:?}"));
    let words =
        ["settle", "--filter", "upstream=bank", "--filter", "class=N", "--as", "completed", "--evidence", "seen"];
    assert_eq!(read(&words), format!("settle {bank:?} Completed seen false"));
    let hour = EffectFilter {
        since_ms: Some(NOW_MS - 7_200_000),
        until_ms: Some(NOW_MS - 3_600_000),
        ..EffectFilter::default()
    };
    let words = ["settle", "--since", "2h", "--until", "1h", "--as", "completed", "--evidence", "seen", "--yes"];
    assert_eq!(read(&words), format!("settle {hour:?} Completed seen true"));
    let words = ["settle", "--all", "--as", "not-executed", "--evidence", "seen"];
    assert_eq!(read(&words), format!("settle {:?} NotExecuted seen false", EffectFilter::default()));
}

#[test]
fn what_is_not_said_clearly_settles_nothing() {
    let settle = ["servanda", "effects", "settle", "--as", "completed", "--evidence", "seen"];
    let typed: [&[&str]; 11] = [
        &[],
        &["eff_1", "--all"],
        &["eff_1", "--filter", "tool=bank__pay"],
        &["eff_1", "--yes"],
        &["--all", "--filter", "tool=bank__pay"],
        &["--all", "--since", "1h"],
        &["--all", "--yes", "--dry-run"],
        &["--filter", "tool="],
        &["--filter", "state=completed"],
        &["--filter", "class=X"],
        &["--since", "yesterday"],
    ];
    for words in typed {
        assert!(Cli::try_parse_from(settle.iter().chain(words)).is_err(), "{words:?}");
    }
    let before = [
        "servanda",
        "effects",
        "--filter",
        "tool=bank__pay",
        "settle",
        "--all",
        "--as",
        "completed",
        "--evidence",
        "x",
    ];
    assert!(Cli::try_parse_from(before).is_err(), "a condition that would not count");
    let typed: [&[&str]; 2] = [&["--filter", "class=N", "--filter", "class=K"], &["--since", "1h", "--until", "2h"]];
    for words in typed {
        let cli = Cli::try_parse_from(settle.iter().chain(words)).unwrap();
        let Command::Effects(args) = cli.command else { panic!("another command") };
        let EffectsAction::SettleMany { conditions, .. } = requested_action(&args).unwrap() else { panic!("not many") };
        assert!(conditions.filter(Timestamp::from_unix_ms(NOW_MS)).is_err(), "{words:?}");
    }
}

/// Effects whose outcome became known meanwhile are left alone.
#[tokio::test]
async fn many_are_settled_one_by_one_and_what_changed_meanwhile_is_left_alone() {
    let effects = InMemoryEffects::new(Arc::new(Still(Mutex::new(NOW_MS))));
    for number in 10..36 {
        effect(&effects, &format!("eff_{number}"), Some(DispatchEnd::Unknown("reset".to_owned()))).await;
    }
    effect(&effects, "eff_40", None).await;
    let verdict = OperatorSettlement { settle_as: SettleAs::NotExecuted, evidence: "the bank's list has none of them" };
    let (meant, more) = bulk::matching(&effects, EffectFilter::default()).await.unwrap();
    assert!(!more);
    let mut report = bulk::BulkSettleReport::new(meant, more, verdict);
    insta::assert_snapshot!("effects_bulk_preview", bulk::preview(&report));
    let by_hand = ManualSettlement { epoch: None, completed: true, by: "bob".to_owned(), evidence: "seen".to_owned() };
    let (target, event) = (EffectTarget::Id(EffectId::from("eff_12".to_owned())), EffectEvent::SettleByHand(by_hand));
    effects.apply(EffectChange::new(target, event)).await.unwrap();
    bulk::settle_each(&effects, &mut report, verdict, &nobody()).await.unwrap();
    insta::assert_snapshot!("effects_bulk_ending", bulk::ending(&report));
    assert_eq!(shown(&effects, "eff_12").await.settlement.unwrap().by, "bob");
    for id in ["eff_10", "eff_20", "eff_35"] {
        let settled = shown(&effects, id).await;
        assert_eq!(settled.state, EffectState::FailedRetryable);
        assert_eq!(settled.settlement.unwrap().evidence, "the bank's list has none of them");
    }
    assert_eq!(shown(&effects, "eff_40").await.state, EffectState::Dispatching);
    let (meant, _) = bulk::matching(&effects, EffectFilter::default()).await.unwrap();
    let none = bulk::BulkSettleReport::new(meant, false, verdict);
    insta::assert_snapshot!("effects_bulk_none", bulk::preview(&none));
}
