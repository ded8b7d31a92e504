//! Tombstones in the shared database, made by the same step as every other change, and never of an effect that
//! another transaction is working on.

use std::sync::Arc;

use servanda_effects::effect::{EffectContext, EffectEvent, step};
use tokio_postgres::Client;

use super::{
    batch::ChangedEffect,
    rows::{self, BatchRows},
    statements::{ConflictHandling, PreparedStatements},
};
use crate::{
    LedgerError,
    codec::{key_digest, signed},
    leaves::{EffectStanding, LeafWriter, Leaves},
    time::StoreTime,
};

/// How long a process that has stopped beating and has left nothing open is remembered.
const OWNER_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Turns expired effects into tombstones. Effects whose key cannot come again are removed.
pub(super) async fn expire(
    client: &Client,
    told: (&PreparedStatements, Option<&LeafWriter>),
    time: &StoreTime,
    limit: u32,
) -> Result<u64, LedgerError> {
    let done = transact(client, told, time, limit).await;
    if done.is_err() && !client.is_closed() {
        let _ = client.batch_execute("rollback").await;
    }
    done
}

async fn transact(
    client: &Client,
    (statements, log): (&PreparedStatements, Option<&LeafWriter>),
    time: &StoreTime,
    limit: u32,
) -> Result<u64, LedgerError> {
    client.batch_execute("begin").await?;
    let now = time.now(rows::clock_reading(&client.query_one(&statements.clock, &[]).await?)?);
    let sql = include_str!("../../sql/postgres/expired_effects.sql");
    let found = client.query(sql, &[&signed(now.ledger_ms), &i64::from(limit)]).await?;
    let effects = found.iter().map(rows::locked).collect::<Result<Vec<_>, _>>()?;
    let around = EffectContext::at(now);
    let mut over: (Vec<&str>, Vec<i64>, Vec<&str>) = Default::default();
    let (mut kept, mut count) = (Vec::new(), 0);
    for (effect, before) in &effects {
        let Some(tombstone) = step(Some(effect), &EffectEvent::Expire, &around).change.map(Arc::new) else { continue };
        if tombstone.key.client_key.can_come_again() {
            let mut leaves = Leaves::default();
            if log.is_some() {
                leaves.effect(Some(EffectStanding::of(effect)), &tombstone)?;
            }
            kept.push((tombstone, *before, leaves));
        } else {
            over.0.push(effect.id.as_str());
            over.1.push(signed(effect.epoch));
            over.2.push(effect.state.name());
        }
        count += 1;
    }
    let mut tombstones = BatchRows::default();
    for (effect, before, leaves) in &kept {
        let digest = key_digest(&effect.key);
        tombstones.effect(&ChangedEffect { effect, before: Some(*before), digest, record: None })?;
        tombstones.leaves(Some(&effect.id), leaves);
    }
    if !tombstones.is_empty() {
        let statement = tombstones.statement(client, statements, ConflictHandling::Settle).await?;
        tombstones.write(client, &statement).await?;
    }
    client.execute(include_str!("../../sql/postgres/erase_effects.sql"), &[&over.0, &over.1, &over.2]).await?;
    let forgotten_ms = signed(now.ledger_ms.saturating_sub(OWNER_KEPT_MS));
    client.execute(include_str!("../../sql/postgres/forget_owners.sql"), &[&forgotten_ms]).await?;
    client.batch_execute("commit").await?;
    Ok(count)
}
