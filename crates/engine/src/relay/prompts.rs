//! Finds the prompt of an exposed name. Each upstream has a table, which is filled from its whole list, and filled again when the
//! upstream announces a change or a name is not found. A name is never taken apart to find its upstream.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_catalog::{
    Catalog,
    names::{ExposedNaming, is_reserved},
    pins::ListedKind,
};
use servanda_mcp::fields::method;
use servanda_upstream::{PerformFailure, RequestOptions, UpstreamInquiry};
use tokio::{task::JoinSet, time::Instant};

use super::visible_items;
use crate::{
    client::Requester,
    world::{PromptNames, UpstreamMember, WorldSnapshot},
};

/// How many pages and prompts of one list are read.
const PAGES_MAX: usize = 200;
const PROMPTS_MAX: usize = 20_000;

#[derive(Deserialize)]
struct PromptListPage {
    prompts: Vec<Box<RawValue>>,
    #[serde(default, rename = "nextCursor")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct ListedPromptName {
    name: String,
}

/// Finds a prompt among the upstreams that the requester may read: the upstream, and the prompt's own name there.
pub(super) async fn find(
    snapshot: &WorldSnapshot,
    exposed: &str,
    requester: &Requester,
    deadline: Instant,
) -> Option<(Arc<UpstreamMember>, String)> {
    let catalog = &snapshot.catalog;
    if snapshot.naming == ExposedNaming::Bare {
        if is_reserved(exposed) {
            return None;
        }
        let member = snapshot.members_read_by(requester).next()?;
        // A prompt that its server does not list has no definition that could mislead. The request goes to the server, which knows
        // whether there is such a prompt.
        if !member.prompts.holds(catalog) {
            look(catalog, member, Instant::now(), deadline).await;
        }
        return (!member.prompts.withholds(exposed)).then(|| (Arc::clone(member), exposed.to_owned()));
    }
    let found = |member: &Arc<UpstreamMember>| Some((Arc::clone(member), member.prompts.get(exposed)?));
    if let Some(found) =
        snapshot.members_read_by(requester).filter(|member| member.prompts.holds(catalog)).find_map(found)
    {
        return Some(found);
    }
    // All lists are read at once, so that an upstream that does not answer delays none of the others.
    let mut reading = JoinSet::new();
    let missed_at = Instant::now();
    for member in snapshot.members_read_by(requester).cloned() {
        let catalog = Arc::clone(catalog);
        reading.spawn(async move {
            look(&catalog, &member, missed_at, deadline).await;
            member
        });
    }
    while let Some(member) = reading.join_next().await {
        if let Some(found) = member.ok().as_ref().and_then(found) {
            return Some(found);
        }
    }
    None
}

async fn look(catalog: &Catalog, member: &UpstreamMember, missed_at: Instant, deadline: Instant) {
    if let Err(error) = read(catalog, member, missed_at, deadline).await {
        tracing::warn!(upstream = %member.id, %error, "the prompts of an upstream could not be read");
    }
}

/// Reads the list, unless another request has read it since the name was missed or shortly before.
async fn read(
    catalog: &Catalog,
    member: &UpstreamMember,
    missed_at: Instant,
    deadline: Instant,
) -> Result<(), PerformFailure> {
    let _reading = member.prompts.reading().await;
    if !member.prompts.may_be_read(catalog, missed_at) {
        return Ok(());
    }
    let (changes, pins_edition) = (member.prompts.changes(), catalog.pins_edition());
    let (mut names, mut withheld) = (BTreeMap::new(), BTreeSet::new());
    if member.offers("prompts", deadline).await?.is_some() {
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let page = page(member, cursor.as_deref(), deadline).await?;
            for prompt in page.prompts.into_iter().take(PROMPTS_MAX.saturating_sub(names.len() + withheld.len())) {
                let Ok(ListedPromptName { name }) = serde_json::from_str(prompt.get()) else { continue };
                if visible_items::visible_item(catalog, member, ListedKind::Prompts, &prompt).is_some() {
                    names.insert(member.naming.expose(&member.id, &name), name);
                } else {
                    withheld.insert(name);
                }
            }
            let repeated = page.next == cursor;
            cursor = page.next;
            if cursor.is_none() || repeated {
                break;
            }
        }
    }
    member.prompts.fill(PromptNames { names, withheld, changes, pins_edition });
    Ok(())
}

async fn page(
    member: &UpstreamMember,
    cursor: Option<&str>,
    deadline: Instant,
) -> Result<PromptListPage, PerformFailure> {
    let cursor = cursor.and_then(|cursor| serde_json::value::to_raw_value(cursor).ok());
    let params = cursor.map(|cursor| ("cursor".to_owned(), cursor)).into_iter().collect();
    let question = UpstreamInquiry { method: method::PROMPTS_LIST, name: None, params };
    let answer = member.server.ask(question, RequestOptions::for_gateway(deadline)).await?;
    serde_json::from_slice(&answer.result).map_err(|error| PerformFailure::Malformed { why: error.to_string() })
}
