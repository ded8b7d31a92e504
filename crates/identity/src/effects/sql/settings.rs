//! `SET`: some settings of a session only say how queries are planned and what is reported; others take a
//! protection away, or change what a later statement means or stores. A setting that is not known is `unknown`.

use crate::effects::sql::SqlStatement;
use crate::effects::sql::lexer::SqlTokenKind;
use crate::effects::{EffectFinding, ProgramEffect, shown};

/// Settings of a session that change neither the rows nor the stored data of later statements. `timezone` and `datestyle` are not here,
/// because they change what a text means as a time; nor `bytea_output` and `group_concat_max_len`, because they change a value's text;
/// nor time limits, because they make later statements fail.
const HARMLESS: &str = " application_name client_min_messages cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost \
    cursor_tuple_fraction effective_cache_size effective_io_concurrency force_parallel_mode from_collapse_limit \
    geqo geqo_threshold hash_mem_multiplier jit join_collapse_limit lc_messages \
    log_statement_stats maintenance_work_mem max_parallel_workers_per_gather min_parallel_table_scan_size parallel_leader_participation \
    parallel_setup_cost parallel_tuple_cost plan_cache_mode random_page_cost seq_page_cost track_io_timing work_mem \
    ";

/// What a `SET` does.
pub(super) fn judge(statement: SqlStatement<'_>) -> EffectFinding {
    let tokens = statement.tokens;
    let has = |word: &str| tokens.iter().any(|token| token.is_word(word));
    let at = usize::from(tokens.get(1).is_some_and(|token| token.is_word("session") || token.is_word("local"))) + 1;
    let Some(name) = tokens.get(at) else { return EffectFinding::unknown("SET without a name") };
    let lower = name.text.to_ascii_lowercase();
    match lower.as_str() {
        "password" => return EffectFinding::new(ProgramEffect::Ddl, "SET PASSWORD changes an account"),
        "global" | "persist" | "persist_only" => {
            return EffectFinding::write("SET GLOBAL changes the server for everybody");
        }
        "role" | "authorization" => return EffectFinding::write("SET ROLE changes who the session is"),
        "transaction" | "characteristics" if has("write") => {
            return EffectFinding::write("SET TRANSACTION READ WRITE takes a protection away");
        }
        "transaction" | "characteristics" => {
            return EffectFinding::unknown("SET TRANSACTION changes the session's transactions");
        }
        "transaction_read_only" | "default_transaction_read_only" | "session_replication_role" | "row_security" => {
            return EffectFinding::write(format!("SET {lower} takes a protection away"));
        }
        _ => {}
    }
    let value = match tokens.get(at + 1..).unwrap_or_default() {
        [assign, value @ ..] if assign.text == "=" || assign.is_word("to") => value,
        _ => &[],
    };
    let simple =
        matches!(value, [one] if matches!(one.kind, SqlTokenKind::Word | SqlTokenKind::Text | SqlTokenKind::Number));
    let known = lower.starts_with("enable_") || HARMLESS.split_ascii_whitespace().any(|known| known == lower);
    if known && simple && name.kind == SqlTokenKind::Word {
        return EffectFinding::read(format!("SET {lower} is the session's own"));
    }
    EffectFinding::unknown(format!("SET {} may change what later statements do", shown(name.text)))
}
