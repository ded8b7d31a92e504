//! What upstreams offer: asked once, and again whenever one says that its list changed or comes back after a failure.
//! The catalog is told; an upstream that cannot be asked changes nothing there.

use std::sync::Arc;

use servanda_catalog::{Catalog, inference::Descriptor};
use servanda_upstream::{Counterpart, RejectedTool, Upstream, UpstreamError};
use tokio_util::sync::CancellationToken;

/// How long to wait before asking an upstream again that could not be asked, doubled up to the maximum.
const RETRY_MS: (u64, u64) = (1_000, 60_000);

/// How often an upstream is asked at the most.
const ASK_INTERVAL_MS_MIN: u64 = 1_000;

/// What an upstream offers, read for inference.
#[derive(Debug)]
pub struct Discovered {
    /// The tools.
    pub tools: Vec<Descriptor>,
    /// Definitions that cannot be used.
    pub rejected: Vec<RejectedTool>,
}

/// Asks an upstream for its tools. One bad definition never hides the others.
pub async fn discover(upstream: &Upstream) -> Result<Discovered, UpstreamError> {
    let list = upstream.tools(&Counterpart::nobody()).await?;
    let mut discovered = Discovered { tools: Vec::new(), rejected: list.rejected };
    for (position, tool) in list.tools.into_iter().enumerate() {
        match serde_json::from_str(tool.definition.get()) {
            Ok(descriptor) => discovered.tools.push(descriptor),
            Err(error) => {
                let reason = format!("`{}`: {error}", tool.name);
                discovered.rejected.push(RejectedTool { position, reason });
            }
        }
    }
    Ok(discovered)
}

/// Keeps the catalog told of what an upstream offers, until stopped.
pub async fn follow(upstream: Upstream, id: String, catalog: Arc<Catalog>, stop: CancellationToken) {
    let nobody = Counterpart::nobody();
    let mut changes = upstream.changes();
    let (mut wait_ms, wait_ms_max) = RETRY_MS;
    loop {
        changes.borrow_and_update();
        let asked = tokio::select! {
            asked = upstream.tools(&nobody) => asked,
            () = stop.cancelled() => return,
        };
        let retry_after_ms = match asked {
            Ok(list) => {
                wait_ms = RETRY_MS.0;
                catalog.observe(&id, list.tools.into_iter().map(|tool| tool.name));
                None
            }
            Err(error) => {
                tracing::warn!(upstream = %id, %error, "the upstream could not be asked for its tools");
                let this_ms = wait_ms;
                wait_ms = wait_ms.saturating_mul(2).min(wait_ms_max);
                Some(this_ms)
            }
        };
        // A server that announces changes without end is asked once a second, not once an announcement.
        tokio::select! {
            () = pause(Some(ASK_INTERVAL_MS_MIN)) => {}
            () = stop.cancelled() => return,
        }
        tokio::select! {
            said = changes.changed() => if said.is_err() { return },
            () = pause(retry_after_ms) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn pause(ms: Option<u64>) {
    match ms {
        Some(ms) => tokio::time::sleep(std::time::Duration::from_millis(ms)).await,
        None => std::future::pending().await,
    }
}
