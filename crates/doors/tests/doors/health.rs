//! The answers of `/livez`, `/healthz` and `/readyz`, their shape, and their values while the door drains.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};
use servanda_doors::http::{Health, HealthProblem};

use crate::{
    fixture::within,
    http_client::{Server, modern},
};

/// A gateway whose health the test sets.
#[derive(Debug, Default)]
struct Told {
    is_stuck: AtomicBool,
    has_no_store: AtomicBool,
}

impl Health for Told {
    fn alive(&self) -> Result<(), HealthProblem> {
        let stuck = HealthProblem { code: "stuck", message: "a loop stands still" };
        if self.is_stuck.load(Ordering::SeqCst) { Err(stuck) } else { Ok(()) }
    }

    fn store(&self) -> Result<(), HealthProblem> {
        self.ready()
    }

    fn ready(&self) -> Result<(), HealthProblem> {
        let away = HealthProblem { code: "store_away", message: "the store is away" };
        if self.has_no_store.load(Ordering::SeqCst) { Err(away) } else { Ok(()) }
    }

    fn store_wrote_ms_ago(&self) -> Option<u64> {
        Some(7)
    }
}

/// Sends a health check without a credential, and with a `Host` that `/mcp` would refuse.
async fn ask(server: &Server, path: &str) -> (u16, Value) {
    let asked = reqwest::Client::builder().no_proxy().build().unwrap().get(format!("http://{}{path}", server.address));
    let answer = within(asked.header("host", "balancer.example").send()).await.unwrap();
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.headers()["content-type"], "application/json");
    let status = answer.status().as_u16();
    assert_eq!(answer.headers().contains_key("retry-after"), status == 503);
    (status, serde_json::from_slice(&within(answer.bytes()).await.unwrap()).unwrap())
}

#[tokio::test]
async fn each_says_how_it_is_and_turns_back_by_itself() {
    let told = Arc::new(Told::default());
    let server = Server::start_with(|options| options.health = told.clone()).await;
    let ready = json!({ "status": "ready", "store": { "wrote_ms_ago": 7 } });
    let well = json!({ "status": "ok", "checks": { "process": "ok", "store": "ok" } });
    assert_eq!(ask(&server, "/livez").await, (200, json!({ "status": "alive" })));
    assert_eq!(ask(&server, "/healthz").await, (200, well.clone()));
    assert_eq!(ask(&server, "/readyz").await, (200, ready.clone()));
    told.has_no_store.store(true, Ordering::SeqCst);
    let not_ready = json!({ "status": "not_ready", "reason": "store_away", "message": "the store is away", "store": { "wrote_ms_ago": 7 } });
    assert_eq!(ask(&server, "/readyz").await, (503, not_ready));
    let not_well = json!({ "status": "not_ok", "reason": "store_away", "message": "the store is away",
        "checks": { "process": "ok", "store": "store_away" } });
    assert_eq!(ask(&server, "/healthz").await, (503, not_well));
    assert_eq!(ask(&server, "/livez").await.0, 200, "a restart would not help");
    told.is_stuck.store(true, Ordering::SeqCst);
    let stuck = json!({ "status": "not_alive", "reason": "stuck", "message": "a loop stands still" });
    assert_eq!(ask(&server, "/livez").await, (503, stuck));
    assert_eq!(ask(&server, "/healthz").await.1["checks"], json!({ "process": "stuck", "store": "store_away" }));
    told.has_no_store.store(false, Ordering::SeqCst);
    assert_eq!(ask(&server, "/readyz").await, (200, ready));
}

#[tokio::test]
async fn a_door_that_drains_says_so_and_takes_nothing_new() {
    let mut server = Server::start().await;
    let pending = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let started = server.started().await;
    server.shutdown.cancel();
    let (status, told) = ask(&server, "/readyz").await;
    assert_eq!((status, &told["reason"]), (503, &json!("draining")), "{told}");
    assert_eq!(ask(&server, "/healthz").await.0, 200);
    assert_eq!(ask(&server, "/livez").await.0, 200, "it is not to be killed: it finishes what is under way");
    let (status, told) = ask(&server, "/mcp").await;
    assert_eq!((status, &told["reason"]), (503, &json!("draining")), "{told}");
    assert!(!server.task.is_finished());
    started.release.send(()).unwrap();
    assert_eq!(pending.await.unwrap().json()["result"]["resultType"], "complete");
    within(server.task).await.unwrap().unwrap();
}
