//! What is left when the process dies or fails around a commit (matrix 1, 2, 5, 9): nothing before the commit,
//! everything after it. A child process of this test does it, because a whole process has to die. Needs the
//! feature `faults`.
#![allow(clippy::disallowed_methods, reason = "the child is this test itself")]

use std::process::Command;

use servanda_effects::{
    TicketStore,
    budget::{BalanceQuery, BudgetStore as _, EntryReply},
    effect::{EffectStore, EffectTarget},
    ticket_store::TicketQuery,
};

use servanda_approval::{Ticket, TicketState};

use super::{
    budgets::pay,
    cluster::Cluster,
    samples::{begin, begun, key},
    ticket_samples::{approved, dispatch, usage},
};
use crate::{CallQuery, Ledger};

/// The variable that tells the child where its ledger is.
const PLACE: &str = "SERVANDA_TRIAL_LEDGER";

async fn open(place: &str) -> Ledger {
    if place.starts_with("postgres") {
        Ledger::connect(place).await.unwrap()
    } else {
        Ledger::open(place.as_ref()).unwrap()
    }
}

/// The child: one call begins, and meets its fault.
#[tokio::test]
async fn child() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let ledger = open(&place).await;
    let began = servanda_effects::effect::EffectStore::apply(&ledger, begun(begin("k"))).await;
    assert!(began.is_err(), "no call may be told that it owns the effect: {began:?}");
}

#[tokio::test]
async fn before_a_commit_nothing_is_there_and_after_it_everything() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start();
    let rules = [
        ("ledger.before_commit=error", true, false),
        ("ledger.before_commit=kill", false, false),
        ("ledger.after_commit=error", true, true),
        ("ledger.after_commit=kill", false, true),
    ];
    for (number, (rule, lives, there)) in rules.into_iter().enumerate() {
        let mut places = vec![folder.path().join(format!("{number}.db")).display().to_string()];
        if let Some(cluster) = &cluster {
            places.push(cluster.schema().await);
        }
        for place in places {
            // Made before, so that the only commit is the one under test.
            open(&place).await.close().await;
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "tests::faulty::child"]).env(PLACE, &place).env("SERVANDA_FAULTS", rule);
            let output = child.output().unwrap();
            assert_eq!(output.status.success(), lives, "{rule}: {output:?}");
            let ledger = open(&place).await;
            let found =
                servanda_effects::effect::EffectStore::find(&ledger, EffectTarget::Key(key("k"))).await.unwrap();
            assert_eq!(found.is_some(), there, "{rule} at {place}");
            let calls = ledger.reader().await.unwrap().find(&CallQuery::Latest, 9).await.unwrap();
            assert_eq!(
                calls.len(),
                usize::from(there),
                "I6: the record is there if and only if the effect is ({rule})"
            );
        }
    }
}

/// The child of the other test: a reservation is made, and meets its fault.
#[tokio::test]
async fn reserving_child() {
    let Ok(place) = std::env::var(PLACE) else { return };
    drop(open(&place).await.apply_entry(pay("call_1", None, 10, 10)).await);
}

/// Whatever happened to the process, when another process repeats the entry it counts once: there is enough for
/// one and not for two.
#[tokio::test]
async fn what_a_dead_process_reserved_is_reserved_once() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start();
    for (number, (rule, there)) in
        [("ledger.before_commit=kill", 0), ("ledger.after_commit=kill", 10)].into_iter().enumerate()
    {
        let mut places = vec![folder.path().join(format!("{number}.db")).display().to_string()];
        if let Some(cluster) = &cluster {
            places.push(cluster.schema().await);
        }
        for place in places {
            open(&place).await.close().await;
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "tests::faulty::reserving_child"]).env(PLACE, &place).env("SERVANDA_FAULTS", rule);
            assert!(!child.output().unwrap().status.success(), "{rule}");
            let ledger = open(&place).await;
            let reserved = async || {
                let standings = ledger.balances(BalanceQuery { tenant: None, limit: 9 }).await.unwrap();
                standings.iter().map(|standing| standing.reserved).sum::<u64>()
            };
            assert_eq!(reserved().await, there, "{rule} at {place}");
            assert_eq!(ledger.apply_entry(pay("call_1", None, 10, 10)).await.unwrap(), EntryReply::Reserved);
            assert_eq!(reserved().await, 10, "{rule} at {place}");
            assert!(matches!(ledger.apply_entry(pay("call_2", None, 10, 1)).await.unwrap(), EntryReply::Exhausted(_)));
        }
    }
}

/// The ticket of the trial below.
async fn the_ticket(ledger: &Ledger) -> Ticket {
    let query = TicketQuery { tenant: None, states: Vec::new(), before: None, limit: 9 };
    ledger.list_tickets(query).await.unwrap().remove(0)
}

/// The child of the next test: an approved call is dispatched, and meets its fault.
#[tokio::test]
async fn dispatching_child() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let ledger = open(&place).await;
    let ticket = the_ticket(&ledger).await;
    let began = ledger.apply(dispatch("k", usage(&ticket, "call_k"))).await;
    assert!(began.is_err(), "no call may be told that it owns the effect: {began:?}");
}

/// The effect is dispatched and the approval is used, or neither: an approval is never lost, and never used twice.
#[tokio::test]
async fn a_dispatch_and_the_use_of_its_approval_survive_together() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start();
    let rules = [
        ("ledger.before_commit=error", false),
        ("ledger.before_commit=kill", false),
        ("ledger.after_commit=error", true),
        ("ledger.after_commit=kill", true),
    ];
    for (number, (rule, there)) in rules.into_iter().enumerate() {
        let mut places = vec![folder.path().join(format!("{number}.db")).display().to_string()];
        if let Some(cluster) = &cluster {
            places.push(cluster.schema().await);
        }
        for place in places {
            let before = open(&place).await;
            approved(&before, "pay").await;
            before.close().await;
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "tests::faulty::dispatching_child"]).env(PLACE, &place).env("SERVANDA_FAULTS", rule);
            let output = child.output().unwrap();
            assert_eq!(output.status.success(), rule.ends_with("error"), "{rule}: {output:?}");
            let ledger = open(&place).await;
            let found = EffectStore::find(&ledger, EffectTarget::Key(key("k"))).await.unwrap();
            let ticket = the_ticket(&ledger).await;
            let expected = if there { TicketState::Consumed } else { TicketState::Approved };
            assert_eq!((found.is_some(), ticket.state), (there, expected), "{rule} at {place}");
            let used = ticket.consumed.map(|used| used.effect_id);
            assert_eq!(used, found.map(|effect| effect.id.to_string()), "{rule} at {place}");
            let calls = ledger.reader().await.unwrap().find(&CallQuery::Latest, 9).await.unwrap();
            assert_eq!(calls.len(), usize::from(there), "{rule} at {place}");
        }
    }
}
