//! A batch as the parameters of one statement.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use servanda_contract::{CallRecord, Digest};
use servanda_effects::{
    call_history::CallCountKey,
    effect::{Effect, EffectId, LedgerClock},
};
use tokio_postgres::{Client, Row, Statement, types::ToSql};

use super::{
    batch::{ChangedEffect, EffectRevision},
    composite::CompositeValue,
    statements::{ConflictHandling, PreparedStatements},
};
use crate::{
    LedgerError,
    call_index::{CallIndexBatch, Term},
    codec::{CallRow, EffectRow, StoredEffect, quarantined, signed, unsigned},
    job::CallRecordWrite,
    leaves::Leaves,
    time::ClockReading,
};

/// The effects that a statement has written.
#[derive(Debug, Default)]
pub(super) struct WrittenEffects {
    pub(super) effects: BTreeSet<String>,
}

/// What one statement writes.
#[derive(Debug, Default)]
pub(super) struct BatchRows<'a> {
    fresh: Vec<EffectColumns<'a>>,
    changed: Vec<(EffectColumns<'a>, EffectRevision)>,
    calls: Vec<(Option<&'a str>, CallRow<'a>)>,
    quarantine: Vec<(Option<&'a str>, &'a str, i64, &'a [u8])>,
    /// What the records are found by and counted as, by the effect that they are written beside. Sorted.
    index: BTreeMap<Option<&'a str>, CallIndexBatch>,
    /// Leaves of the verifiable log in their order, by the effect that they are written beside.
    leaves: Vec<(Option<&'a str>, Leaves)>,
}

/// An effect, its digest, and the record that is stored with it.
#[derive(Debug)]
struct EffectColumns<'a> {
    row: EffectRow<'a>,
    digest: Digest,
    record: Option<&'a [u8]>,
}

impl<'a> BatchRows<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty()
            && self.changed.is_empty()
            && self.calls.is_empty()
            && self.index.is_empty()
            && self.leaves.is_empty()
    }

    /// Adds an effect that has to be written, and the revision that has to be there for it.
    pub(super) fn effect(&mut self, changed: &ChangedEffect<'a>) -> Result<(), LedgerError> {
        let ChangedEffect { effect, before, digest, record } = *changed;
        let columns = EffectColumns { row: EffectRow::new(effect)?, digest, record };
        match before {
            None => self.fresh.push(columns),
            Some(before) => self.changed.push((columns, before)),
        }
        Ok(())
    }

    /// Adds a record and what it is found by; with `beside`, it is only written if that effect is written.
    pub(super) fn call(
        &mut self,
        beside: Option<&'a EffectId>,
        recorded: &'a CallRecordWrite,
    ) -> Result<(), LedgerError> {
        let beside = beside.map(EffectId::as_str);
        self.push(beside, recorded)?;
        self.index(beside, &recorded.record);
        Ok(())
    }

    fn push(&mut self, beside: Option<&'a str>, recorded: &'a CallRecordWrite) -> Result<(), LedgerError> {
        let row = recorded.row()?;
        if let Some(body) = &recorded.quarantine {
            let (bytes_total, kept) = quarantined(body);
            self.quarantine.push((beside, row.call_id, bytes_total, kept));
        }
        self.calls.push((beside, row));
        Ok(())
    }

    /// Adds a record that is there already, and is only written if it has not ended.
    pub(super) fn known_call(&mut self, recorded: &'a CallRecordWrite) -> Result<(), LedgerError> {
        self.push(None, recorded)
    }

    /// Adds what a record is found by and counted as; with `beside`, it is only written if that effect is written.
    pub(super) fn index(&mut self, beside: Option<&'a str>, record: &CallRecord) {
        self.index.entry(beside).or_default().add(record);
    }

    /// Adds leaves; with `beside`, they are only written if that effect is written.
    pub(super) fn leaves(&mut self, beside: Option<&'a EffectId>, leaves: &Leaves) {
        let beside = beside.map(EffectId::as_str);
        match self.leaves.last_mut() {
            _ if leaves.is_empty() => {}
            Some((last, before)) if *last == beside => before.append(leaves),
            _ => self.leaves.push((beside, leaves.clone())),
        }
    }

    /// Sorts the rows in a fixed order, so that two batches never deadlock.
    pub(super) fn sort(&mut self) {
        self.fresh.sort_by_key(|fresh| fresh.digest);
        self.changed.sort_by_key(|(changed, _)| changed.row.effect_id);
        self.calls.sort_by_key(|(_, call)| call.call_id);
    }

    /// The statement that writes all of it. Get it before sending anything that has to come after the write:
    /// preparing it takes a round trip the first time.
    pub(super) async fn statement(
        &self,
        client: &Client,
        statements: &PreparedStatements,
        conflicts: ConflictHandling,
    ) -> Result<Statement, LedgerError> {
        let parts = [
            !self.fresh.is_empty(),
            !self.changed.is_empty(),
            !self.calls.is_empty(),
            !self.quarantine.is_empty(),
            !self.index.is_empty(),
            self.counts().next().is_some(),
            !self.leaves.is_empty(),
        ];
        Ok(statements.writing(client, parts, conflicts).await?)
    }

    /// Writes all of it, and returns which effects were written. It is sent when it is first polled.
    pub(super) async fn write(&self, client: &Client, statement: &Statement) -> Result<WrittenEffects, LedgerError> {
        let fresh: Vec<_> = self.fresh.iter().map(EffectColumns::fresh).collect();
        let changed: Vec<_> = self.changed.iter().map(|(after, before)| after.changed(*before)).collect();
        let calls: Vec<_> = self.calls.iter().map(call_beside).collect();
        let quarantine: Vec<_> = self.quarantine.iter().map(quarantine_beside).collect();
        let terms: Vec<_> = self.terms().map(term_beside).collect();
        let counts: Vec<_> = self.counts().collect();
        let stored: Vec<String> = counts.iter().map(|(_, key, _)| key.measure.to_string()).collect();
        let counts: Vec<_> = counts.iter().zip(&stored).map(count_beside).collect();
        let leaves: Vec<_> = self.leaves.iter().map(leaves_beside).collect();
        let parts: [(&(dyn ToSql + Sync), bool); 7] = [
            (&fresh, !fresh.is_empty()),
            (&changed, !changed.is_empty()),
            (&calls, !calls.is_empty()),
            (&quarantine, !quarantine.is_empty()),
            (&terms, !terms.is_empty()),
            (&counts, !counts.is_empty()),
            (&leaves, !leaves.is_empty()),
        ];
        let there = parts.iter().filter(|(_, is_there)| *is_there);
        let params: Vec<&(dyn ToSql + Sync)> = there.map(|(rows, _)| *rows).collect();
        let mut written = WrittenEffects::default();
        for row in &client.query(statement, &params).await? {
            written.effects.insert(row.try_get(0)?);
        }
        Ok(written)
    }

    fn terms(&self) -> impl Iterator<Item = (Option<&'a str>, Term, i64)> {
        self.index.iter().flat_map(|(beside, batch)| batch.terms.iter().map(|(term, span)| (*beside, *term, *span)))
    }

    fn counts(&self) -> impl Iterator<Item = (Option<&'a str>, &CallCountKey, u64)> {
        self.index.iter().flat_map(|(beside, batch)| batch.counts.iter().map(|(key, amount)| (*beside, key, *amount)))
    }
}

impl EffectColumns<'_> {
    /// The row as the composite type `new_effect`.
    fn fresh(&self) -> CompositeValue<'_, 19> {
        let Self { row, digest, record } = self;
        CompositeValue([
            row.effect_id.into(),
            digest.as_bytes()[..].into(),
            row.key.tenant.as_bytes().into(),
            row.key.principal.as_bytes().into(),
            row.request.as_bytes()[..].into(),
            row.state.into(),
            row.epoch.into(),
            row.owner.into(),
            row.needs_owner.into(),
            row.due_ms.into(),
            row.expires_ms.into(),
            row.body.as_str().into(),
            row.arguments.into(),
            row.answer.into(),
            (!row.key.client_key.can_come_again()).into(),
            row.holds.as_deref().into(),
            row.holds_until_ms.into(),
            row.upstream.into(),
            (*record).into(),
        ])
    }

    /// The row as the composite type `changed_effect`.
    fn changed(&self, before: EffectRevision) -> CompositeValue<'_, 17> {
        let Self { row, record, .. } = self;
        CompositeValue([
            row.effect_id.into(),
            row.state.into(),
            row.epoch.into(),
            row.owner.into(),
            row.needs_owner.into(),
            row.due_ms.into(),
            row.expires_ms.into(),
            row.body.as_str().into(),
            row.arguments.into(),
            row.answer.into(),
            signed(before.epoch).into(),
            before.state.name().into(),
            before.revision.into(),
            row.holds.as_deref().into(),
            row.holds_until_ms.into(),
            row.upstream.into(),
            (*record).into(),
        ])
    }
}

fn call_beside<'a>((beside, call): &'a (Option<&str>, CallRow<'_>)) -> CompositeValue<'a, 6> {
    CompositeValue([
        (*beside).into(),
        call.call_id.into(),
        call.outcome.into(),
        call.received_ms.into(),
        call.body.into(),
        call.effect_id.into(),
    ])
}

fn quarantine_beside<'a>(
    (beside, call_id, bytes_total, body): &'a (Option<&str>, &str, i64, &[u8]),
) -> CompositeValue<'a, 4> {
    CompositeValue([(*beside).into(), (*call_id).into(), (*bytes_total).into(), (*body).into()])
}

fn term_beside((beside, term, span): (Option<&str>, Term, i64)) -> CompositeValue<'_, 3> {
    CompositeValue([beside.into(), i64::from(term).into(), span.into()])
}

fn count_beside<'a>(
    ((beside, key, amount), measure): (&(Option<&'a str>, &'a CallCountKey, u64), &'a String),
) -> CompositeValue<'a, 6> {
    CompositeValue([
        (*beside).into(),
        key.tenant.as_bytes().into(),
        signed(key.width.ms()).into(),
        signed(key.start_ms).into(),
        measure.as_str().into(),
        signed(*amount).into(),
    ])
}

fn leaves_beside<'a>((beside, leaves): &'a (Option<&str>, Leaves)) -> CompositeValue<'a, 3> {
    CompositeValue([(*beside).into(), i64::from(leaves.count).into(), leaves.bytes.as_slice().into()])
}

/// The database's clock reading, from the columns of `read_clock`.
pub(super) fn clock_reading(row: &Row) -> Result<ClockReading, tokio_postgres::Error> {
    let kept = LedgerClock { seen_ms: unsigned(row.try_get(1)?), ledger_ms: unsigned(row.try_get(2)?) };
    Ok(ClockReading { clock_ms: row.try_get(0)?, kept })
}

/// An effect from the columns of `effect_columns`.
pub(super) fn effect(row: &Row) -> Result<Effect, LedgerError> {
    let stored = StoredEffect {
        effect_id: row.try_get(0)?,
        state: row.try_get(1)?,
        epoch: row.try_get(2)?,
        body: row.try_get(3)?,
        arguments: row.try_get(4)?,
        answer: row.try_get(5)?,
    };
    stored.decode()
}

/// The same, followed by its revision, which a compare-and-set compares with.
pub(super) fn locked(row: &Row) -> Result<(Arc<Effect>, EffectRevision), LedgerError> {
    let effect = effect(row)?;
    let before = EffectRevision { epoch: effect.epoch, state: effect.state, revision: row.try_get(6)? };
    Ok((Arc::new(effect), before))
}

/// Writes a record that is no longer stored with its effect. Returns whether it was written: a call that ended in another way stays as it is.
pub(super) async fn put_displaced(client: &Client, recorded: &CallRecordWrite) -> Result<bool, LedgerError> {
    let row = recorded.row()?;
    let columns: [&(dyn ToSql + Sync); 5] = [&row.call_id, &row.outcome, &row.received_ms, &row.body, &row.effect_id];
    Ok(client.execute(include_str!("../../sql/postgres/displaced_call.sql"), &columns).await? > 0)
}
