//! Watches the effects while everything fails: every state change must be legal in the state machine.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::Scene;
use crate::effects::{self, Listing, Seen};

const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOKED_AT_MAX: usize = 2_000;
const WRONG_MAX: usize = 20;

/// Watches until the schedule is over, and returns the illegal steps.
pub async fn watch(scene: Arc<Scene>, folder: PathBuf) -> Vec<String> {
    let (mut before, mut wrong) = (Listing::new(), Vec::new());
    // A schedule of a million keys is judged only by its end.
    while !scene.is_over() && scene.keys_max == u64::MAX {
        // Without its database the gateway cannot list effects.
        if let Ok(now) = effects::list(&scene.setup, &folder, &[], LOOKED_AT_MAX).await {
            for (key, seen) in &now {
                if let Some(earlier) = before.get(key).filter(|earlier| !is_legal(earlier, seen, key)) {
                    wrong.push(format!(
                        "{key}: `{}` of epoch {} became `{}` of epoch {}",
                        earlier.state, earlier.epoch, seen.state, seen.epoch
                    ));
                }
            }
            before.extend(now);
        }
        sleep(LOOK_EVERY).await;
    }
    wrong.truncate(WRONG_MAX);
    wrong
}

/// Whether one state may be seen after another, however much happened in between.
fn is_legal(earlier: &Seen, later: &Seen, key: &str) -> bool {
    let is_n = key.contains("-n-");
    let follows = match earlier.state.as_str() {
        "completed" => ["completed", "compensated", "expired"].contains(&later.state.as_str()),
        "failed_final" => ["failed_final", "expired"].contains(&later.state.as_str()),
        "expired" => later.state == "expired",
        "compensated" => ["compensated", "expired"].contains(&later.state.as_str()),
        "outcome_unknown" if is_n => ["outcome_unknown", "completed", "failed_final"].contains(&later.state.as_str()),
        "dispatching" | "outcome_unknown" => earlier.id == later.id,
        _ => true,
    };
    follows && later.epoch >= earlier.epoch && !(is_n && later.dispatches > 1)
}
