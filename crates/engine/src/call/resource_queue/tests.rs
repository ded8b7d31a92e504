//! Which calls wait for which, and in which order they go.

use std::{sync::Arc, time::Duration};

use servanda_effects::effect::{ClientKey, EffectKey};
use tokio::time::Instant;

use super::{QueueFull, QueuedChange, ResourceQueue, ResourceTurn, TURNS_MAX};

fn changes(tenant: &str, key: &str, resources: &[&str]) -> QueuedChange {
    let key = EffectKey {
        tenant: tenant.to_owned(),
        principal: "ada".to_owned(),
        tool: "bank.pay".to_owned(),
        contract_major: 1,
        client_key: ClientKey::Given(key.to_owned()),
    };
    QueuedChange { key, resources: resources.iter().map(|&name| name.to_owned()).collect() }
}

fn line_up(turns: &Arc<ResourceQueue>, key: &str, resources: &[&str]) -> ResourceTurn {
    turns.enqueue(changes("acme", key, resources)).unwrap()
}

#[test]
fn only_those_wait_that_change_the_same_thing_of_the_same_tenant_by_another_operation() {
    let table = [
        ("acme", "b", &["invoice/1"][..], false),
        ("acme", "b", &["customer/7", "invoice/*"], false),
        ("acme", "b", &["invoice/2"], true),
        ("acme", "b", &[], true),
        ("other", "b", &["invoice/1"], true),
        ("acme", "a", &["invoice/1"], true),
    ];
    for (tenant, key, resources, at_once) in table {
        let turns = Arc::new(ResourceQueue::default());
        let _first = line_up(&turns, "a", &["invoice/1"]);
        let second = turns.enqueue(changes(tenant, key, resources)).unwrap();
        assert_eq!(second.is_ready(), at_once, "{tenant} {key} {resources:?}");
    }
}

#[tokio::test]
async fn they_go_in_the_order_in_which_they_came() {
    let turns = Arc::new(ResourceQueue::default());
    let first = line_up(&turns, "a", &["invoice/1"]);
    let all = line_up(&turns, "b", &["invoice/*"]);
    let late = line_up(&turns, "c", &["invoice/2"]);
    assert!(first.is_ready() && !all.is_ready());
    assert!(!late.is_ready(), "no call overtakes, even if the first is not in its way");
    drop(first);
    assert!(all.wait_until(Instant::now()).await && !late.is_ready());
    drop(all);
    assert!(late.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gives_up_leaves_the_queue_and_nothing_behind() {
    let turns = Arc::new(ResourceQueue::default());
    let first = line_up(&turns, "a", &["invoice/1"]);
    let second = line_up(&turns, "b", &["invoice/1"]);
    let third = line_up(&turns, "c", &["invoice/1"]);
    assert!(!second.wait_until(Instant::now() + Duration::from_secs(1)).await);
    drop(second);
    assert!(!third.is_ready(), "the first still has its turn");
    drop(first);
    assert!(third.is_ready());
    drop(third);
    assert!(turns.state().places.is_empty());
}

#[test]
fn the_line_is_bounded() {
    let turns = Arc::new(ResourceQueue::default());
    let held: Vec<ResourceTurn> = (0..TURNS_MAX).map(|number| line_up(&turns, &number.to_string(), &[])).collect();
    assert_eq!(turns.enqueue(changes("acme", "x", &[])).unwrap_err(), QueueFull);
    drop(held);
    assert!(turns.enqueue(changes("acme", "x", &[])).is_ok());
}
