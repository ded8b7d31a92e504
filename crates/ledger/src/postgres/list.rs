//! Lists effects, a page at a time.

use servanda_effects::effect::{Effect, EffectId, EffectQuery};
use tokio_postgres::Client;

use super::rows;
use crate::{
    LedgerError,
    listing::{ListingDialect, list_statement},
};

/// Rows that are read at once if the query has conditions that no column can answer.
const PAGE_MAX: usize = 500;

/// Lists effects, newest first. At most one page of effects that do not match is in memory at a time.
pub(super) async fn list(client: &Client, query: EffectQuery) -> Result<Vec<Effect>, LedgerError> {
    let EffectQuery { states, filter, mut after, limit } = query;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page_max = if filter.is_empty() { limit } else { PAGE_MAX };
    let mut found = Vec::new();
    while found.len() < limit {
        let below = if after.is_some() { "effect_id < $1" } else { "$1::text is null" };
        let sql = list_statement(&states, ListingDialect { below, limit: "$2", by_unknown_index: "" });
        let page_rows = i64::try_from(page_max).unwrap_or(i64::MAX);
        let page = client.query(&sql, &[&after.as_ref().map(EffectId::as_str), &page_rows]).await?;
        let is_last = page.len() < page_max;
        for row in &page {
            let effect = rows::effect(row)?;
            after = Some(effect.id.clone());
            if filter.matches(&effect) && found.len() < limit {
                found.push(effect);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}
