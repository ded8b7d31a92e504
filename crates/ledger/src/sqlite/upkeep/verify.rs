//! Reads a whole file: runs SQLite's own check, and checks every row.

use std::path::Path;

use rusqlite::{Connection, Row};

use super::super::{dictionary::SqliteDictionaryLookup, effects::stored, migrate, open_read_only, tickets};
use crate::{
    LedgerError,
    codec::{EffectRow, StoredCall, StoredEffect, effect_columns, key_digest},
    report::LedgerVerification,
};

/// Problems that are reported at most.
const PROBLEMS_MAX: usize = 20;

/// Reads everything in one snapshot.
pub(crate) fn verify(path: &Path) -> Result<LedgerVerification, LedgerError> {
    let connection = open_read_only(path)?;
    migrate::require(&connection)?;
    let connection = connection.unchecked_transaction()?;
    let mut verified = LedgerVerification::default();
    let mut check = connection.prepare(&format!("pragma integrity_check({PROBLEMS_MAX})"))?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?;
    verified.problems.extend(lines.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|line| line != "ok"));
    let effects =
        concat!("select ", effect_columns!(), ", key_digest, tenant, principal, due_ms, expires_ms from effects");
    verified.effects = each(&connection, effects, &mut verified.problems, effect)?;
    let calls = "select call_id, record, body from calls";
    let lookup = SqliteDictionaryLookup::default();
    verified.calls = each(&connection, calls, &mut verified.problems, |row| {
        let stored = StoredCall { call_id: row.get(0)?, record: row.get(1)?, body: row.get(2)? };
        lookup.decode(&connection, &stored).map(drop)
    })?;
    let tickets = "select ticket_id, key_digest, state, changed_ms, body, arguments from tickets";
    each(&connection, tickets, &mut verified.problems, |row| tickets::stored(row)?.decode().map(drop))?;
    Ok(verified)
}

/// Checks every row. Returns how many there are.
fn each(
    connection: &Connection,
    sql: &str,
    problems: &mut Vec<String>,
    look: impl Fn(&Row<'_>) -> Result<(), LedgerError>,
) -> Result<u64, LedgerError> {
    let mut statement = connection.prepare(sql)?;
    let (mut rows, mut count) = (statement.query([])?, 0);
    while let Some(row) = rows.next()? {
        count += 1;
        if let Err(problem) = look(row)
            && problems.len() < PROBLEMS_MAX
        {
            problems.push(problem.to_string());
        }
    }
    Ok(count)
}

fn effect(row: &Row<'_>) -> Result<(), LedgerError> {
    let stored: StoredEffect = stored(row)?;
    let effect_id = stored.effect_id.clone();
    let effect = stored.decode()?;
    let (digest, tenant, principal): (Vec<u8>, String, String) = (row.get(6)?, row.get(7)?, row.get(8)?);
    let times: (i64, i64) = (row.get(9)?, row.get(10)?);
    let says = EffectRow::new(&effect)?;
    let same = digest == key_digest(says.key).as_bytes()
        && (tenant, principal) == (says.key.tenant.clone(), says.key.principal.clone())
        && times == (says.due_ms, says.expires_ms);
    if same {
        return Ok(());
    }
    Err(LedgerError::Effect { effect_id, reason: "its columns and its body disagree".to_owned() })
}
