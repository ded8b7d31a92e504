//! Lists effects, a page at a time.

use servanda_effects::effect::{Effect, EffectId, EffectQuery};
use tokio_postgres::{Client, types::ToSql};

use super::rows;
use crate::{
    LedgerError,
    listing::{ListingDialect, list_statement},
};

/// Rows that are read at once if the query has conditions that no column can answer.
const PAGE_MAX: usize = 500;

/// PostgreSQL finds its indexes by itself.
pub(crate) const IN_SERVER: ListingDialect<'_> =
    ListingDialect { below: "effect_id < $1", limit: "$2", tenant: None, by_unknown_index: "", by_tenant_index: "" };

/// Lists effects, newest first. At most one page of effects that do not match is in memory at a time.
pub(super) async fn list(client: &Client, query: EffectQuery) -> Result<Vec<Effect>, LedgerError> {
    let EffectQuery { states, filter, mut after, limit } = query;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page_max = if filter.is_of_columns() { limit } else { PAGE_MAX };
    let tenant = filter.tenant.as_ref().map(String::as_bytes);
    let mut found = Vec::new();
    while found.len() < limit {
        let below = if after.is_some() { "effect_id < $1" } else { "$1::text is null" };
        let dialect = ListingDialect { below, tenant: tenant.map(|_| "$3"), ..IN_SERVER };
        let (last, page_rows) = (after.as_ref().map(EffectId::as_str), i64::try_from(page_max).unwrap_or(i64::MAX));
        let mut asked: Vec<&(dyn ToSql + Sync)> = vec![&last, &page_rows];
        asked.extend(tenant.as_ref().map(|tenant| tenant as &(dyn ToSql + Sync)));
        let page = client.query(&list_statement(&states, dialect), &asked).await?;
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
