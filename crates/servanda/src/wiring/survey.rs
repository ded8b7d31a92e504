//! Asks every upstream of a configuration at once for its tools, and stops the servers that were started for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use indicatif::ProgressBar;
use servanda_catalog::Inventory;
use servanda_config::LoadedConfig;
use servanda_engine::{discover, list_items};
use servanda_upstream::{Upstream, UpstreamError};

use super::upstream_set;
use crate::{
    failure::CommandFailure,
    screen::{Screen, count},
};

/// After this time, the user is told which upstream is awaited.
const SLOW_MS: u64 = 3_000;

/// What every upstream said, by id, in order.
pub(crate) type UpstreamSurvey = Vec<(String, Result<Inventory, UpstreamError>)>;

/// Asks every upstream, or the named ones.
pub(crate) async fn ask(
    loaded: &LoadedConfig,
    only: Option<&BTreeSet<String>>,
    screen: Screen,
) -> Result<UpstreamSurvey, CommandFailure> {
    let mut upstreams = upstream_set::upstreams(loaded, &upstream_set::notebook_for_command(loaded)?)?;
    upstreams.retain(|id, _| only.is_none_or(|only| only.contains(id)));
    Ok(ask_upstreams(upstreams, screen).await)
}

/// Asks these upstreams.
pub(crate) async fn ask_upstreams(upstreams: BTreeMap<String, Upstream>, screen: Screen) -> UpstreamSurvey {
    let waiting = screen.wait(format!("asking {}", count(upstreams.len(), "upstream")));
    let mut asking = tokio::task::JoinSet::new();
    for (id, upstream) in upstreams {
        let bar = waiting.clone();
        asking.spawn(async move {
            let offered = told_if_slow(&upstream, everything(&upstream), &bar, screen).await;
            upstream.shutdown().await;
            (id, offered)
        });
    }
    let mut survey = asking.join_all().await;
    survey.sort_by(|(one, _), (other, _)| one.cmp(other));
    waiting.finish_and_clear();
    survey
}

/// An upstream's tools, and its other lists.
async fn everything(upstream: &Upstream) -> Result<Inventory, UpstreamError> {
    let inventory = discover(upstream).await?;
    Ok(Inventory { listed: list_items(upstream).await, ..inventory })
}

/// Waits for an upstream; if that takes long, the user is told which one.
pub(crate) async fn told_if_slow<T>(
    upstream: &Upstream,
    asking: impl Future<Output = T>,
    waiting: &ProgressBar,
    screen: Screen,
) -> T {
    let mut asking = std::pin::pin!(asking);
    if let Ok(answer) = tokio::time::timeout(Duration::from_millis(SLOW_MS), &mut asking).await {
        return answer;
    }
    if !screen.json {
        let seconds = upstream.spec().limits.connect_ms_max / 1_000;
        let line = format!("waiting for `{}` to answer (up to {seconds} s)", upstream.id());
        waiting.suspend(|| screen.say(line));
    }
    asking.await
}
