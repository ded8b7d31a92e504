//! Effects in the file: read, stepped and written inside the writer's transaction, so that nothing can come in between.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use servanda_approval::ApprovalUse;
use servanda_effects::effect::{
    AppliedChange, BeginRequest, Effect, EffectContext, EffectEvent, EffectId, EffectQuery, EffectReply, EffectState,
    EffectTarget, EffectTransition, ExclusiveResources, LedgerNow, Notice, ORPHANED_UPSTREAMS_MAX, OrphanQuery,
    OwnerId, is_blocking, notes_due, owner_silence_ms_max, step,
};

use super::{additions::BatchAdditions, batch_context::BatchContext, put, tickets};
use crate::{
    LedgerError,
    codec::{EffectRow, StoredCall, StoredEffect, decode_held_resources, key_digest, signed, unsigned},
    job::CallRecordWrite,
    leaves::DecisionTold,
    listing::{ListingDialect, list_statement},
    record_placement::{KeptRecordChange, RecordPlacement, displaced_record, place_record, written_record},
};

/// How long a process that has stopped beating and has left nothing open is remembered.
const OWNER_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// The effect, if there is one.
pub(super) fn find(connection: &Connection, target: &EffectTarget) -> Result<Option<Effect>, LedgerError> {
    let found = match target {
        EffectTarget::Key(key) => connection
            .prepare_cached(include_str!("../../sql/sqlite/effect_of_key.sql"))?
            .query_row(params![key_digest(key).as_bytes()], stored),
        EffectTarget::Id(id) => connection
            .prepare_cached(include_str!("../../sql/sqlite/effect_of_handle.sql"))?
            .query_row(params![id.as_str()], stored),
    };
    found.optional()?.map(StoredEffect::decode).transpose()
}

/// An event, and what is written with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventWithRecord<'a> {
    pub(super) target: &'a EffectTarget,
    pub(super) event: &'a EffectEvent,
    pub(super) recorded: Option<&'a CallRecordWrite>,
    pub(super) notices: &'a [Notice],
    pub(super) consumes: Option<&'a ApprovalUse>,
}

/// Applies an event, and writes its record and its notices if the effect changed. If the event dispatches the effect, the approval that it
/// uses is used up first; if it cannot be, nothing of this is written.
pub(super) fn apply(
    transaction: &Connection,
    BatchContext { recent, additions, now, lost_window, .. }: &mut BatchContext<'_>,
    changing: EventWithRecord<'_>,
) -> Result<AppliedChange, LedgerError> {
    let EventWithRecord { target, event, recorded, notices, consumes } = changing;
    let circumstances = |effect: Option<&Effect>| {
        let around = circumstances(transaction, effect, event, *now)?;
        Ok::<_, LedgerError>(EffectContext { lost_window: *lost_window, ..around })
    };
    // Most keys are new, so an insert is tried before the key is looked up. An approval is not used up on trial.
    if consumes.is_none() && matches!(target, EffectTarget::Key(_)) && matches!(event, EffectEvent::Begin(_)) {
        let around = circumstances(None)?;
        let EffectTransition { change, reply } = step(None, event, &around);
        if let Some(effect) = change.filter(|_| around.twin.is_none()).map(Arc::new)
            && insert(transaction, additions, &effect, written_record(&effect, recorded))?
        {
            recent.put(&effect);
            put_notices(transaction, notices, &effect)?;
            return Ok(AppliedChange { reply, effect: Some(effect) });
        }
    }
    let before = match recent.get(target) {
        None => find(transaction, target)?.map(Arc::new),
        known => known,
    };
    let around = circumstances(before.as_deref())?;
    let EffectTransition { change: changed, reply } = step(before.as_deref(), event, &around);
    let changed = changed.map(Arc::new);
    if let (Some(usage), Some(effect), EffectReply::Mine(_)) = (consumes, &changed, &reply)
        && !effect.is_only_claimed()
    {
        let used = tickets::consume(transaction, additions, usage, (effect.id.as_str(), *now))?;
        if !used.is_consumed() {
            return Ok(AppliedChange { reply: EffectReply::NotApproved(Box::new(used)), effect: before });
        }
    }
    if let Some(effect) = &changed {
        let recorded = written_record(effect, recorded);
        let written = match &before {
            Some(before) => replace(transaction, additions, (before, effect), recorded)?,
            None => insert(transaction, additions, effect, recorded)?,
        };
        if !written {
            let reason = "it changed between being read and being written".to_owned();
            return Err(LedgerError::Effect { effect_id: effect.id.to_string(), reason });
        }
        recent.put(effect);
        put_notices(transaction, notices, effect)?;
    }
    Ok(AppliedChange { reply, effect: changed.or(before) })
}

/// Writes the notices that are due for an effect that was written.
fn put_notices(transaction: &Connection, notices: &[Notice], effect: &Effect) -> Result<(), LedgerError> {
    notes_due(notices, effect).try_for_each(|note| put::put_first_note(transaction, note))
}

/// Turns expired effects into tombstones. Effects whose key cannot come again are removed.
pub(super) fn expire(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    limit: u32,
    now: LedgerNow,
) -> Result<u64, LedgerError> {
    let sql = include_str!("../../sql/sqlite/expired_effects.sql");
    let around = EffectContext::at(now);
    let mut count = 0;
    for effect in many(transaction, sql, params![signed(now.ledger_ms), limit])? {
        let Some(tombstone) = step(Some(&effect), &EffectEvent::Expire, &around).change else { continue };
        if tombstone.key.client_key.can_come_again() {
            replace(transaction, additions, (&effect, &tombstone), None)?;
        } else {
            let mut erase = transaction.prepare_cached(include_str!("../../sql/sqlite/erase_effect.sql"))?;
            erase.execute(params![effect.id.as_str(), signed(effect.epoch), effect.state.name()])?;
        }
        count += 1;
    }
    let mut forget = transaction.prepare_cached(include_str!("../../sql/sqlite/forget_owners.sql"))?;
    forget.execute(params![signed(now.ledger_ms.saturating_sub(OWNER_KEPT_MS))])?;
    Ok(count)
}

/// Lists effects, newest first. Rows that do not match are dropped at once, so that only a page is in memory.
pub(super) fn list(connection: &Connection, query: &EffectQuery) -> Result<Vec<Effect>, LedgerError> {
    let mut statement = connection.prepare_cached(&list_sql(query))?;
    // Negative means no limit: how many rows have to be read is not known in advance.
    let rows_max = if query.filter.is_of_columns() { i64::from(query.limit) } else { -1 };
    let after = query.after.as_ref().map(EffectId::as_str);
    let mut rows = match &query.filter.tenant {
        Some(tenant) => statement.query(params![after, rows_max, tenant])?,
        None => statement.query(params![after, rows_max])?,
    };
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let effect = stored(row)?.decode()?;
        if query.filter.matches(&effect) {
            found.push(effect);
        }
    }
    Ok(found)
}

/// Left alone, SQLite uses the primary key and walks through all effects.
pub(crate) const IN_FILE: ListingDialect<'_> = ListingDialect {
    below: "effect_id < ?1",
    limit: "?2",
    tenant: None,
    by_unknown_index: "indexed by effects_unknown_latest",
    by_tenant_index: "indexed by effects_of_tenant",
};

/// The statement of a list.
pub(crate) fn list_sql(query: &EffectQuery) -> String {
    let below = if query.after.is_some() { "effect_id < ?1" } else { "?1 is null" };
    let tenant = query.filter.tenant.as_ref().map(|_| "?3");
    list_statement(&query.states, ListingDialect { below, tenant, ..IN_FILE })
}

/// Effects that a process has to recover, some for every upstream.
pub(super) fn orphans(
    connection: &Connection,
    query: &OrphanQuery,
    now: LedgerNow,
) -> Result<Vec<Effect>, LedgerError> {
    let mut needed = connection.prepare_cached(include_str!("../../sql/sqlite/orphaned_upstreams.sql"))?;
    let upstreams = needed.query_map(params![ORPHANED_UPSTREAMS_MAX], |row| row.get::<_, String>(0))?;
    let silent_since_ms = signed(now.ledger_ms.saturating_sub(owner_silence_ms_max()));
    let mut orphans = Vec::new();
    for upstream in upstreams.collect::<Result<Vec<_>, _>>()? {
        let (ledger_ms, owner) = (signed(now.ledger_ms), query.owner.as_str());
        let after = query.after.get(&upstream);
        let (due_ms, id) = after.map_or((-1, ""), |after| (signed(after.due_ms), after.id.as_str()));
        let sql = include_str!("../../sql/sqlite/orphans.sql");
        let of = params![upstream, ledger_ms, silent_since_ms, query.each_max, owner, due_ms, id];
        orphans.extend(many(connection, sql, of)?);
        let sql = include_str!("../../sql/sqlite/own_orphans.sql");
        orphans.extend(many(connection, sql, params![upstream, ledger_ms, query.each_max, owner])?);
    }
    Ok(orphans)
}

fn circumstances(
    transaction: &Connection,
    effect: Option<&Effect>,
    event: &EffectEvent,
    now: LedgerNow,
) -> Result<EffectContext, LedgerError> {
    let owner_is_gone = match (effect, event) {
        (Some(effect), EffectEvent::Begin(_) | EffectEvent::Recover(_)) if under_way(effect) => {
            now.is_owner_gone(heard_ms(transaction, &effect.owner)?)
        }
        _ => false,
    };
    let twin = match (effect, event) {
        (None, EffectEvent::Begin(begin)) if !begin.key.client_key.can_come_again() => {
            let sql = "select effect_id from effects where state = 'outcome_unknown' and request = ?1 \
                       and tenant = ?2 and principal = ?3 limit 1";
            let mut statement = transaction.prepare_cached(sql)?;
            let same = params![begin.request.as_bytes(), begin.key.tenant, begin.key.principal];
            statement.query_row(same, |row| row.get(0)).optional()?.map(|id: String| EffectId::from(id))
        }
        _ => None,
    };
    let blocked_by = match event {
        EffectEvent::Begin(begin) if begin.order.takes_turns() => in_the_way(transaction, begin, now.ledger_ms)?,
        _ => None,
    };
    Ok(EffectContext { owner_is_gone, twin, blocked_by, ..EffectContext::at(now) })
}

/// Another effect under way that changes the same resource. There is one writer at a time, so that no two can
/// miss each other.
fn in_the_way(transaction: &Connection, begin: &BeginRequest, ledger_ms: u64) -> Result<Option<EffectId>, LedgerError> {
    let sql = "select effect_id, holds, holds_until_ms from effects \
               where tenant = ?1 and holds_until_ms > ?2 and key_digest <> ?3 order by effect_id";
    let mut statement = transaction.prepare_cached(sql)?;
    let key = key_digest(&begin.key);
    let mut rows = statement.query(params![begin.key.tenant, signed(ledger_ms), key.as_bytes()])?;
    while let Some(row) = rows.next()? {
        let (id, holds): (String, String) = (row.get(0)?, row.get(1)?);
        let (resources, until_ms) = (decode_held_resources(&id, &holds)?, Some(unsigned(row.get(2)?)));
        if is_blocking(ExclusiveResources { resources: &resources, until_ms }, begin, ledger_ms) {
            return Ok(Some(EffectId::from(id)));
        }
    }
    Ok(None)
}

fn under_way(effect: &Effect) -> bool {
    matches!(effect.state, EffectState::Claimed | EffectState::Dispatching)
}

/// The last heartbeat of an owner, in ledger time.
fn heard_ms(transaction: &Connection, owner: &OwnerId) -> Result<Option<u64>, LedgerError> {
    let mut statement = transaction.prepare_cached("select beat_ms from owners where owner = ?1")?;
    let beat_ms: Option<i64> = statement.query_row(params![owner.as_str()], |row| row.get(0)).optional()?;
    Ok(beat_ms.map(unsigned))
}

/// Inserts a new effect with its record. Returns whether it was inserted; if not, its key was used before.
fn insert(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    effect: &Effect,
    recorded: Option<&CallRecordWrite>,
) -> Result<bool, LedgerError> {
    let row = EffectRow::new(effect)?;
    let kept = place_record(None, effect, recorded).kept;
    let inserted = transaction.prepare_cached(include_str!("../../sql/sqlite/put_effect.sql"))?.execute(params![
        row.effect_id,
        key_digest(row.key).as_bytes(),
        row.key.tenant,
        row.key.principal,
        row.request.as_bytes(),
        row.state,
        row.epoch,
        row.owner,
        row.needs_owner,
        row.due_ms,
        row.expires_ms,
        row.body,
        row.arguments,
        row.answer,
        in_row(kept, recorded)?,
        row.holds,
        row.holds_until_ms,
        row.upstream,
    ])?;
    if inserted == 1 {
        put_record(transaction, additions, (None, kept), recorded)?;
        additions.effect(None, effect)?;
    }
    Ok(inserted == 1)
}

/// I1: a compare-and-set, although the transaction already locks the file: the write builds on exactly what was
/// read.
fn replace(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    (before, effect): (&Effect, &Effect),
    recorded: Option<&CallRecordWrite>,
) -> Result<bool, LedgerError> {
    let RecordPlacement { kept, displaces } = place_record(Some(before), effect, recorded);
    let open = if displaces { open_record(transaction, before)? } else { None };
    let row = EffectRow::new(effect)?;
    let changed = transaction.prepare_cached(include_str!("../../sql/sqlite/change_effect.sql"))?.execute(params![
        row.effect_id,
        row.state,
        row.epoch,
        row.owner,
        row.needs_owner,
        row.due_ms,
        row.expires_ms,
        row.body,
        row.arguments,
        row.answer,
        kept == KeptRecordChange::Same,
        in_row(kept, recorded)?,
        signed(before.epoch),
        before.state.name(),
        row.holds,
        row.holds_until_ms,
        row.upstream,
    ])?;
    if changed != 1 {
        return Ok(false);
    }
    if let Some(open) = open {
        let displaced = displaced_record(open.decode_open()?, effect)?;
        put::put_call(transaction, additions, (&displaced, DecisionTold::Before))?;
    }
    put_record(transaction, additions, (Some(before), kept), recorded)?;
    additions.effect(Some(before), effect)?;
    Ok(true)
}

/// Writes the record that comes with a change, unless the effect's row has it.
fn put_record(
    transaction: &Connection,
    additions: &mut BatchAdditions,
    (before, kept): (Option<&Effect>, KeptRecordChange),
    recorded: Option<&CallRecordWrite>,
) -> Result<(), LedgerError> {
    match (kept, recorded) {
        (_, None) | (KeptRecordChange::Same, _) => Ok(()),
        (KeptRecordChange::New, Some(recorded)) => additions.decision(&recorded.record),
        (KeptRecordChange::Nothing, Some(recorded)) => {
            let told = DecisionTold::with_effect(before, &recorded.record);
            put::put_call(transaction, additions, (recorded, told))
        }
    }
}

/// The record that is stored with an effect.
fn open_record(transaction: &Connection, effect: &Effect) -> Result<Option<StoredCall>, LedgerError> {
    let sql = "select record, open_record from effects \
               where effect_id = ?1 and (record is not null or open_record is not null)";
    let mut statement = transaction.prepare_cached(sql)?;
    let open = statement.query_row(params![effect.id.as_str()], |row| {
        Ok(StoredCall { call_id: effect.call_id.to_string(), record: row.get(0)?, body: row.get(1)? })
    });
    Ok(open.optional()?)
}

fn in_row(kept: KeptRecordChange, recorded: Option<&CallRecordWrite>) -> Result<Option<&[u8]>, LedgerError> {
    recorded.filter(|_| kept == KeptRecordChange::New).map(CallRecordWrite::body).transpose()
}

fn many(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Effect>, LedgerError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, stored)?.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter().map(StoredEffect::decode).collect()
}

pub(super) fn stored(row: &Row<'_>) -> Result<StoredEffect, rusqlite::Error> {
    Ok(StoredEffect {
        effect_id: row.get(0)?,
        state: row.get(1)?,
        epoch: row.get(2)?,
        body: row.get(3)?,
        arguments: row.get(4)?,
        answer: row.get(5)?,
    })
}
