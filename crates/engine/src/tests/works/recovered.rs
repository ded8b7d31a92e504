//! What recovery does with long work whose process died.

use serde_json::json;

use super::super::conversations::result;
use super::{MINUTE_MS, TwoLives, fetch, of_class, plain, slow, takes_tasks, task, until_status};
use crate::{Gateway as _, RequestTerms, testing::call};

#[test]
fn what_a_dead_process_left_is_told_by_what_recovery_finds() {
    // class, the task's status afterwards, its message, calls that the upstream got
    let table = [
        ("K", "completed", "", 2),
        ("N", "failed", "outcome is unknown", 1),
        ("R", "failed", "its owner went away", 1),
    ];
    for (class, stands, says, calls) in table {
        let slow = slow(&[r#"{"progress":1}"#]);
        let lives = TwoLives::new(slow.server.clone(), vec![of_class(class)]);
        let id = lives.live(async |harness| {
            let created = task(harness.engine.call(call(&takes_tasks(), "write", RequestTerms::default())).await);
            while slow.server.heard().is_empty() {
                tokio::task::yield_now().await;
            }
            created["taskId"].clone()
        });
        slow.go.add_permits(2);
        lives.recover(10 * MINUTE_MS, async |harness| {
            let found = until_status(harness, &takes_tasks(), &id, stands).await;
            if stands == "failed" {
                assert!(found["error"]["message"].as_str().unwrap().contains(says), "{class}: {found}");
                let refusal = &found["error"]["data"];
                assert_eq!(refusal["effect"], if class == "N" { "unknown" } else { "none" }, "{class}");
                assert_eq!(refusal["retryable"], class != "N", "{class}: {found}");
            }
            let fetched = result(harness.engine.call(fetch(&plain(), &json!({"handle": id}))).await);
            assert_eq!(fetched["isError"] == true, stands == "failed", "{class}");
        });
        let sent = slow.server.heard().iter().filter(|line| line.starts_with("tools/call")).count();
        assert_eq!(sent, calls, "{class}");
    }
}
