//! An upstream that is down, slow or failing delays only its own recovery, and its breaker keeps calls away from it.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_catalog::{Catalog, names::ExposedNaming};
use servanda_contract::{CallId, Digest, ToolContract, digest::DigestDomain, tool::EffectClass};
use servanda_effects::effect::{
    BeginMode, BeginRequest, ClientKey, DispatchOrder, EffectChange, EffectEvent, EffectId, EffectKey, EffectState,
    EffectStore as _, EffectTarget, OwnerId,
};
use servanda_gates::{RegisteredContracts, admit};
use servanda_mcp::Era;

use super::effects::died;
use crate::{
    Authorities,
    deferred::recovery::RecoveryLanes,
    testing::{EngineHarness, EngineTestClock, ScriptedServer, draft, text},
    world::{WorldSnapshot, server::UpstreamServer},
};

const ORPHANS: usize = 1_000;
const MINUTE_MS: u64 = 60_000;

/// Two upstreams, each with a tool that deduplicates by key.
struct Town {
    harness: EngineHarness,
    clock: Arc<EngineTestClock>,
    dead: Arc<ScriptedServer>,
    live: Arc<ScriptedServer>,
}

fn keyed_tool(upstream: &str) -> ToolContract {
    let mut contract = draft(upstream, "pay", true);
    contract.effect = Some(
        serde_json::from_value(json!({
            "class": "K", "key": {"argument": "idem"}, "key_window_sec": 36_000, "mutation_class": "write_irreversible",
            "manifest": [{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }],
        }))
        .unwrap(),
    );
    contract
}

impl Town {
    fn new(dead: Arc<ScriptedServer>) -> Self {
        let live = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "done")) });
        let contracts =
            ["dead", "live"].map(|upstream| admit(keyed_tool(upstream), &RegisteredContracts::new()).unwrap());
        let catalog = Arc::new(Catalog::new(contracts, ExposedNaming::Prefixed).unwrap());
        let servers = BTreeMap::from([
            ("dead".to_owned(), dead.clone() as Arc<dyn UpstreamServer>),
            ("live".to_owned(), live.clone() as Arc<dyn UpstreamServer>),
        ]);
        let authorities = Arc::new(Authorities::with_default_policies(&catalog).unwrap());
        let clock = EngineTestClock::new();
        let snapshot = WorldSnapshot::with_servers(catalog, servers, ExposedNaming::Prefixed, authorities);
        Self { harness: EngineHarness::in_snapshot(snapshot, Arc::default(), clock.clone()), clock, dead, live }
    }

    /// Leaves an effect as a process does that dies while it works on the effect.
    async fn leave(&self, upstream: &str, name: &str, class: EffectClass, go: BeginMode) -> EffectTarget {
        let contract = keyed_tool(upstream);
        let key = EffectKey {
            tenant: "acme".to_owned(),
            principal: "ada".to_owned(),
            tool: contract.identity.name.clone(),
            contract_major: contract.identity.major(),
            client_key: ClientKey::Given(name.to_owned()),
        };
        let order = DispatchOrder {
            exposed_tool: format!("{upstream}__pay"),
            upstream: upstream.to_owned(),
            upstream_tool: "pay".to_owned(),
            contract_version: contract.identity.version.clone(),
            contract_digest: Digest::compute(DigestDomain::Proposal, &[b"contract"]),
            upstream_key: format!("sv-{name}"),
            arguments: Bytes::from_static(br#"{"text":"hello","idem":"x"}"#),
            timeout_ms: 1_000,
            key_window_ms: Some(36_000_000),
            dedup_window_ms: 36_000_000,
            keeps_answer: true,
            resources: Vec::new(),
            reads: Vec::new(),
            overlaps: false,
            actors: Vec::new(),
        };
        let begin = BeginRequest {
            id: EffectId::new(),
            key: key.clone(),
            request: Digest::compute(DigestDomain::Proposal, &[name.as_bytes()]),
            class,
            owner: OwnerId::from("own_gone".to_owned()),
            call_id: CallId::new(),
            order,
            mode: go,
            continues: None,
        };
        let target = EffectTarget::Key(key);
        let event = EffectEvent::Begin(Box::new(begin));
        let change = EffectChange::new(target.clone(), event);
        self.harness.effects.apply(change).await.unwrap();
        target
    }

    /// A thousand orphans of the dead upstream; after them one of the other upstream, and orphans that need no upstream.
    async fn crashed(&self) -> Left {
        for number in 0..ORPHANS {
            self.leave("dead", &format!("a{number:04}"), EffectClass::K, BeginMode::Dispatch).await;
        }
        self.clock.pass_ms(1);
        let lost = self.leave("dead", "z-lost", EffectClass::N, BeginMode::Dispatch).await;
        let claimed = self.leave("dead", "z-claimed", EffectClass::K, BeginMode::Claim { lease_ms: 1_000 }).await;
        let live = self.leave("live", "z-live", EffectClass::K, BeginMode::Dispatch).await;
        self.clock.pass_ms(MINUTE_MS);
        Left { lost, claimed, live }
    }

    async fn state(&self, target: &EffectTarget) -> EffectState {
        self.harness.effects.find(target.clone()).await.unwrap().unwrap().state
    }

    fn calls(server: &ScriptedServer) -> usize {
        server.heard().iter().filter(|line| line.starts_with("tools/call")).count()
    }
}

struct Left {
    lost: EffectTarget,
    claimed: EffectTarget,
    live: EffectTarget,
}

/// A server that is down, one that never answers, and one whose every call fails.
fn dead_ones() -> [Arc<ScriptedServer>; 3] {
    let server = |capabilities: Value, hangs: bool| {
        ScriptedServer::new(Era::Modern, &capabilities, move |_| async move {
            if hangs { std::future::pending().await } else { Err(died()) }
        })
    };
    [server(json!("down"), false), server(json!({}), true), server(json!({}), false)]
}

#[tokio::test]
async fn a_dead_upstream_delays_no_orphans_of_others() {
    for dead in dead_ones() {
        let town = Town::new(dead);
        let left = town.crashed().await;
        let mut lanes = RecoveryLanes::default();
        // One round, without waiting for its end: it does not end while a server hangs.
        lanes.begin(town.harness.engine.long_running()).await;
        let expected = [EffectState::OutcomeUnknown, EffectState::FailedRetryable, EffectState::Completed];
        let mut found = expected;
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
            found = [town.state(&left.lost).await, town.state(&left.claimed).await, town.state(&left.live).await];
            if found == expected {
                break;
            }
        }
        assert_eq!(found, expected, "lost, claimed and another's");
        assert_eq!(Town::calls(&town.live), 1);
    }
}

/// The number of hanging calls is bounded, and the next round skips that upstream and continues with the others.
#[tokio::test]
async fn a_slow_upstream_gets_a_few_at_once_and_the_next_round_is_for_the_others() {
    let [_, hangs, _] = dead_ones();
    let town = Town::new(hangs);
    let mut waits_for = town.crashed().await.live;
    let mut lanes = RecoveryLanes::default();
    for round in 1..=4 {
        lanes.begin(town.harness.engine.long_running()).await;
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
            if town.state(&waits_for).await == EffectState::Completed {
                break;
            }
        }
        assert_eq!(town.state(&waits_for).await, EffectState::Completed, "round {round}");
        waits_for = town.leave("live", &format!("late{round}"), EffectClass::K, BeginMode::Dispatch).await;
        town.clock.pass_ms(MINUTE_MS);
        // Wait until the lane of the settled orphan has ended.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(Town::calls(&town.dead), 4, "a few at once, and no more while they hang");
}

/// Of a thousand orphans, a failing server gets as many calls as open its breaker, plus those that were already under way.
#[tokio::test]
async fn a_failing_upstream_is_left_alone_by_its_breaker() {
    let [_, _, fails] = dead_ones();
    let town = Town::new(fails);
    town.crashed().await;
    for _ in 0..3 {
        let mut lanes = RecoveryLanes::default();
        lanes.begin(town.harness.engine.long_running()).await;
        lanes.finish().await;
    }
    let calls = Town::calls(&town.dead);
    assert!((10..=20).contains(&calls), "{calls} calls of a server whose every call fails");
}
