//! A batch as the arrays of one statement.

use std::collections::BTreeSet;

use servanda_contract::Digest;
use servanda_gates::effect::{Effect, EffectId};
use tokio_postgres::{Client, Row, types::ToSql};

use super::{
    batch::{Before, Changed},
    statements::Statements,
};
use crate::{
    LedgerError,
    codec::{CallRow, EffectRow, StoredEffect, quarantined, signed},
    queue::Recorded,
};

/// What a statement has written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) effects: BTreeSet<String>,
    pub(super) clock_ms: Option<i64>,
}

/// What one statement writes.
#[derive(Debug, Default)]
pub(super) struct Rows<'a> {
    fresh: Vec<EffectColumns<'a>>,
    changed: Vec<(EffectColumns<'a>, Before)>,
    calls: Vec<(Option<&'a str>, CallRow<'a>)>,
    quarantine: Vec<(Option<&'a str>, &'a str, i64, &'a [u8])>,
}

/// An effect, what it is found by, and the record that is kept with it.
#[derive(Debug)]
struct EffectColumns<'a> {
    row: EffectRow<'a>,
    digest: Digest,
    record: Option<&'a str>,
}

impl<'a> Rows<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.changed.is_empty() && self.calls.is_empty()
    }

    /// An effect that has to be written, and what has to be there for it.
    pub(super) fn effect(&mut self, changed: &Changed<'a>) -> Result<(), LedgerError> {
        let Changed { effect, before, digest, record } = *changed;
        let columns = EffectColumns { row: EffectRow::of(effect)?, digest, record };
        match before {
            None => self.fresh.push(columns),
            Some(before) => self.changed.push((columns, before)),
        }
        Ok(())
    }

    /// A record; with `beside`, only if that effect is written.
    pub(super) fn call(&mut self, beside: Option<&'a EffectId>, recorded: &'a Recorded) {
        let (beside, row) = (beside.map(EffectId::as_str), recorded.row());
        if let Some(body) = &recorded.quarantine {
            let (bytes_total, kept) = quarantined(body);
            self.quarantine.push((beside, row.call_id, bytes_total, kept));
        }
        self.calls.push((beside, row));
    }

    /// In one order, so that no two batches wait for each other's rows.
    pub(super) fn sort(&mut self) {
        self.fresh.sort_by_key(|fresh| fresh.digest);
        self.changed.sort_by_key(|(changed, _)| changed.row.effect_id);
        self.calls.sort_by_key(|(_, call)| call.call_id);
    }

    /// Writes all of it, and says which effects were written, and when by the database's clock. A statement that does less
    /// is cheaper to start.
    pub(super) async fn write(&self, client: &Client, statements: &Statements) -> Result<Written, LedgerError> {
        let plain: Vec<[String; 3]> = self.calls.iter().map(|(_, call)| storable(call)).collect();
        let calls = self.calls_columns(&plain);
        let (statement, columns) =
            if !self.quarantine.is_empty() || (!self.fresh.is_empty() && !self.changed.is_empty()) {
                let columns = [self.fresh_columns(), self.changed_columns(), calls, self.quarantine_columns()];
                (&statements.write_batch, columns.into_iter().flatten().collect::<Columns<'_>>())
            } else if self.changed.is_empty() {
                (&statements.write_new, self.fresh_columns().into_iter().chain(calls).collect())
            } else {
                (&statements.write_changed, self.changed_columns().into_iter().chain(calls).collect())
            };
        let params: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect();
        let mut written = Written::default();
        for row in &client.query(statement, &params).await? {
            written.effects.insert(row.try_get(0)?);
            written.clock_ms = Some(row.try_get(1)?);
        }
        Ok(written)
    }

    fn fresh_columns(&self) -> Columns<'_> {
        let fresh = &self.fresh;
        vec![
            column(fresh, |fresh| fresh.row.effect_id),
            column(fresh, |fresh| &fresh.digest.as_bytes()[..]),
            column(fresh, |fresh| fresh.row.key.tenant.as_bytes()),
            column(fresh, |fresh| fresh.row.key.principal.as_bytes()),
            column(fresh, |fresh| &fresh.row.request.as_bytes()[..]),
            column(fresh, |fresh| fresh.row.state),
            column(fresh, |fresh| fresh.row.epoch),
            column(fresh, |fresh| fresh.row.owner),
            column(fresh, |fresh| fresh.row.needs_owner),
            column(fresh, |fresh| fresh.row.due_ms),
            column(fresh, |fresh| fresh.row.expires_ms),
            column(fresh, |fresh| fresh.row.body.as_str()),
            column(fresh, |fresh| fresh.row.arguments),
            column(fresh, |fresh| fresh.row.answer),
            column(fresh, |fresh| fresh.record),
            column(fresh, |fresh| !fresh.row.key.client_key.can_come_again()),
        ]
    }

    fn changed_columns(&self) -> Columns<'_> {
        let changed = &self.changed;
        vec![
            column(changed, |(after, _)| after.row.effect_id),
            column(changed, |(after, _)| after.row.state),
            column(changed, |(after, _)| after.row.epoch),
            column(changed, |(after, _)| after.row.owner),
            column(changed, |(after, _)| after.row.needs_owner),
            column(changed, |(after, _)| after.row.due_ms),
            column(changed, |(after, _)| after.row.expires_ms),
            column(changed, |(after, _)| after.row.body.as_str()),
            column(changed, |(after, _)| after.row.arguments),
            column(changed, |(after, _)| after.row.answer),
            column(changed, |(after, _)| after.record),
            column(changed, |(_, before)| signed(before.epoch)),
            column(changed, |(_, before)| before.state.name()),
            column(changed, |(_, before)| before.revision),
        ]
    }

    fn calls_columns<'b>(&'b self, plain: &'b [[String; 3]]) -> Columns<'b> {
        let calls = &self.calls;
        vec![
            column(calls, |(beside, _)| *beside),
            column(calls, |(_, call)| call.call_id),
            column(plain, |[tenant, _, _]| tenant.as_str()),
            column(plain, |[_, principal, _]| principal.as_str()),
            column(plain, |[_, _, tool]| tool.as_str()),
            column(calls, |(_, call)| call.outcome),
            column(calls, |(_, call)| call.class),
            column(calls, |(_, call)| call.received_ms),
            column(calls, |(_, call)| call.finished_ms),
            column(calls, |(_, call)| call.record),
        ]
    }

    fn quarantine_columns(&self) -> Columns<'_> {
        let quarantine = &self.quarantine;
        vec![
            column(quarantine, |(beside, ..)| *beside),
            column(quarantine, |(_, call_id, ..)| *call_id),
            column(quarantine, |(_, _, bytes_total, _)| *bytes_total),
            column(quarantine, |(.., body)| *body),
        ]
    }
}

/// The arrays of a statement, in its order.
type Columns<'a> = Vec<Box<dyn ToSql + Sync + Send + 'a>>;

/// An effect as it was read, by the columns of `effect_columns`.
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

/// The same, with its revision behind: what a compare-and-set compares with.
pub(super) fn locked(row: &Row) -> Result<(Effect, Before), LedgerError> {
    let effect = effect(row)?;
    let before = Before { epoch: effect.epoch, state: effect.state, revision: row.try_get(6)? };
    Ok((effect, before))
}

/// A record that is not kept with its effect any more.
pub(super) async fn put_displaced(client: &Client, recorded: &Recorded) -> Result<(), LedgerError> {
    let row = recorded.row();
    let [tenant, principal, tool] = storable(&row);
    let columns: [&(dyn ToSql + Sync); 9] = [
        &row.call_id,
        &tenant,
        &principal,
        &tool,
        &row.outcome,
        &row.class,
        &row.received_ms,
        &row.finished_ms,
        &row.record,
    ];
    client.execute(include_str!("../../sql/postgres/displaced_call.sql"), &columns).await?;
    Ok(())
}

fn column<'a, R, T: ToSql + Sync + Send + 'a>(
    rows: &'a [R],
    value: impl Fn(&'a R) -> T,
) -> Box<dyn ToSql + Sync + Send + 'a> {
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

/// Text here cannot hold every character that a client may send. The record can; these columns are only for finding it.
fn storable(call: &CallRow<'_>) -> [String; 3] {
    [call.tenant, call.principal, call.tool].map(|text| text.replace('\0', "\u{fffd}"))
}
