//! Who waits for whom, and in which order they go.

use std::{sync::Arc, time::Duration};

use servanda_effects::effect::{ClientKey, EffectKey};
use tokio::time::Instant;

use super::{Changes, Crowded, TURNS_MAX, Turn, Turns};

fn changes(tenant: &str, key: &str, resources: &[&str]) -> Changes {
    let key = EffectKey {
        tenant: tenant.to_owned(),
        principal: "ada".to_owned(),
        tool: "bank.pay".to_owned(),
        contract_major: 1,
        client_key: ClientKey::Given(key.to_owned()),
    };
    Changes { key, resources: resources.iter().map(|&name| name.to_owned()).collect() }
}

fn line_up(turns: &Arc<Turns>, key: &str, resources: &[&str]) -> Turn {
    turns.line_up(changes("acme", key, resources)).unwrap()
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
        let turns = Arc::new(Turns::default());
        let _first = line_up(&turns, "a", &["invoice/1"]);
        let second = turns.line_up(changes(tenant, key, resources)).unwrap();
        assert_eq!(second.has_come(), at_once, "{tenant} {key} {resources:?}");
    }
}

#[tokio::test]
async fn they_go_in_the_order_in_which_they_came() {
    let turns = Arc::new(Turns::default());
    let first = line_up(&turns, "a", &["invoice/1"]);
    let all = line_up(&turns, "b", &["invoice/*"]);
    let late = line_up(&turns, "c", &["invoice/2"]);
    assert!(first.has_come() && !all.has_come());
    assert!(!late.has_come(), "nobody overtakes, even where the first is not in the way");
    drop(first);
    assert!(all.comes(Instant::now()).await && !late.has_come());
    drop(all);
    assert!(late.has_come());
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_leaves_the_line_and_nothing_behind() {
    let turns = Arc::new(Turns::default());
    let first = line_up(&turns, "a", &["invoice/1"]);
    let second = line_up(&turns, "b", &["invoice/1"]);
    let third = line_up(&turns, "c", &["invoice/1"]);
    assert!(!second.comes(Instant::now() + Duration::from_secs(1)).await);
    drop(second);
    assert!(!third.has_come(), "the first still has its turn");
    drop(first);
    assert!(third.has_come());
    drop(third);
    assert!(turns.line().places.is_empty());
}

#[test]
fn the_line_is_bounded() {
    let turns = Arc::new(Turns::default());
    let held: Vec<Turn> = (0..TURNS_MAX).map(|number| line_up(&turns, &number.to_string(), &[])).collect();
    assert_eq!(turns.line_up(changes("acme", "x", &[])).unwrap_err(), Crowded);
    drop(held);
    assert!(turns.line_up(changes("acme", "x", &[])).is_ok());
}
