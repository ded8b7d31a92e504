//! Asks every upstream of a configuration at once what it offers, and ends those that were started for it.

use std::collections::{BTreeMap, BTreeSet};

use servanda_catalog::Inventory;
use servanda_engine::discover;
use servanda_upstream::{Upstream, UpstreamError};

use crate::{
    config::Loaded,
    failure::Failure,
    screen::{Screen, count},
    wiring,
};

/// What every upstream said, by id, in order.
pub(crate) type Survey = Vec<(String, Result<Inventory, UpstreamError>)>;

/// Asks every upstream, or those named.
pub(crate) async fn ask(loaded: &Loaded, only: Option<&BTreeSet<String>>, screen: Screen) -> Result<Survey, Failure> {
    let mut upstreams = wiring::upstreams(loaded, &wiring::fleeting())?;
    upstreams.retain(|id, _| only.is_none_or(|only| only.contains(id)));
    Ok(of(upstreams, screen).await)
}

/// Asks these.
pub(crate) async fn of(upstreams: BTreeMap<String, Upstream>, screen: Screen) -> Survey {
    let waiting = screen.wait(format!("asking {}", count(upstreams.len(), "upstream")));
    let mut asking = tokio::task::JoinSet::new();
    for (id, upstream) in upstreams {
        asking.spawn(async move {
            let offered = discover(&upstream).await;
            upstream.shutdown().await;
            (id, offered)
        });
    }
    let mut survey = asking.join_all().await;
    survey.sort_by(|(one, _), (other, _)| one.cmp(other));
    waiting.finish_and_clear();
    survey
}
