//! Reads everything that an upstream lists beside its tools, so that a person can agree to it.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};
use servanda_catalog::pins::{Definition, ListedKind};
use servanda_effects::PortFuture;
use servanda_mcp::fields::{member, method};
use servanda_upstream::{PerformFailure, RequestOptions, Upstream, UpstreamInquiry};
use tokio::time::Instant;

use crate::clock::within_ms;

/// How many pages and items of one list are read. A longer list is too long for a person to review.
const PAGES_MAX: usize = 50;
const ITEMS_MAX: usize = 1_000;
/// How long one upstream may take to give its lists.
const MS_MAX: u64 = 20_000;

/// Everything that an upstream lists beside its tools, by list and name. Items that no agent would be shown are left out, and so are
/// lists that cannot be read.
pub fn list_items(upstream: &Upstream) -> PortFuture<'_, BTreeMap<ListedKind, Vec<Definition>>> {
    Box::pin(async move {
        let deadline = within_ms(MS_MAX);
        let mut lists = BTreeMap::new();
        let Ok(offer) = upstream.offer(deadline).await else { return lists };
        let offered: Value = serde_json::from_str(&offer.capabilities).unwrap_or_default();
        for kind in ListedKind::ALL {
            let capability = if kind == ListedKind::Prompts { "prompts" } else { "resources" };
            if offered.get(capability).is_none() {
                continue;
            }
            match items(upstream, kind, deadline).await {
                Ok(items) => {
                    lists.insert(kind, items.iter().filter_map(|item| kind.read(item.get()).ok()).collect());
                }
                Err(error) => {
                    tracing::debug!(upstream = %upstream.id(), list = kind.word(), %error, "a list of an upstream could not be read");
                }
            }
        }
        lists
    })
}

async fn items(upstream: &Upstream, kind: ListedKind, deadline: Instant) -> Result<Vec<Box<RawValue>>, PerformFailure> {
    let (method, name) = match kind {
        ListedKind::Prompts => (method::PROMPTS_LIST, "prompts"),
        ListedKind::Resources => (method::RESOURCES_LIST, "resources"),
        ListedKind::ResourceTemplates => (method::RESOURCE_TEMPLATES_LIST, "resourceTemplates"),
    };
    let malformed = |error: serde_json::Error| PerformFailure::Malformed { why: error.to_string() };
    let (mut all, mut cursor) = (Vec::new(), None::<Box<RawValue>>);
    for _ in 0..PAGES_MAX {
        let params = cursor.iter().map(|cursor| ("cursor".to_owned(), cursor.clone())).collect();
        let answer =
            upstream.ask(UpstreamInquiry { method, name: None, params }, RequestOptions::for_gateway(deadline)).await?;
        let mut page: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&answer.result).map_err(malformed)?;
        let items = page.remove(name).map(|raw| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get()));
        all.extend(items.transpose().map_err(malformed)?.unwrap_or_default());
        cursor = page.remove(member::NEXT_CURSOR).filter(|next| next.get().starts_with('"'));
        if cursor.is_none() || all.len() > ITEMS_MAX {
            break;
        }
    }
    all.truncate(ITEMS_MAX);
    Ok(all)
}
