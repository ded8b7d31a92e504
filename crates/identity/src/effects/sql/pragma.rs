//! SQLite's PRAGMAs: which ask, which change the database, which take a protection away. It follows what SQLite itself answers
//! (`sqlite3_stmt_readonly`), and is stricter where a setting weakens a later statement's checks.

use crate::effects::sql::lexer::{SqlToken, SqlTokenKind};
use crate::effects::{EffectFinding, shown};

/// Ask only, whatever their argument.
const ASKS: &str = " collation_list compile_options data_version database_list foreign_key_check foreign_key_list freelist_count function_list \
    index_info index_list index_xinfo integrity_check module_list page_count pragma_list quick_check stats \
    table_info table_list table_xinfo ";
/// These ask if they have no value. With a value they set something of this connection, which others may share.
const OF_THE_CONNECTION: &str = " analysis_limit automatic_index busy_timeout cache_size cache_spill case_sensitive_like cell_size_check checkpoint_fullfsync count_changes \
    empty_result_callbacks full_column_names fullfsync hard_heap_limit parser_trace read_uncommitted reverse_unordered_selects short_column_names \
    soft_heap_limit threads wal_autocheckpoint data_store_directory temp_store_directory lock_status ";
/// Ask without a value; with one they change the file, or what later statements may do to it.
const SETS: &str = " application_id auto_vacuum default_cache_size defer_foreign_keys encoding foreign_keys ignore_check_constraints journal_size_limit \
    legacy_alter_table legacy_file_format locking_mode max_page_count mmap_size page_size query_only recursive_triggers schema_version secure_delete synchronous temp_store \
    trusted_schema user_version writable_schema key rekey ";
/// Change something even without a value.
const CHANGES: &str = " incremental_vacuum journal_mode optimize wal_checkpoint ";

/// What `PRAGMA [schema.]name [= value | (value)]` does.
pub(super) fn judge(tokens: &[SqlToken<'_>]) -> EffectFinding {
    let name_at = if tokens.get(2).is_some_and(|token| token.kind == SqlTokenKind::Dot) { 3 } else { 1 };
    let Some(name) = tokens.get(name_at).filter(|token| token.kind == SqlTokenKind::Word) else {
        return EffectFinding::unknown("PRAGMA without a name");
    };
    let value = tokens.get(name_at + 1..).unwrap_or_default();
    let lower = name.text.to_ascii_lowercase();
    let listed = |list: &str| list.split_ascii_whitespace().any(|known| known == lower);
    if listed(CHANGES) {
        return EffectFinding::write(format!("PRAGMA {lower} changes the database"));
    }
    match (listed(ASKS), listed(SETS), listed(OF_THE_CONNECTION), value) {
        (true, ..) if is_question(value) => EffectFinding::read(format!("PRAGMA {lower} asks")),
        (_, true, _, []) | (_, _, true, []) => EffectFinding::read(format!("PRAGMA {lower} without a value asks")),
        (_, true, ..) => {
            EffectFinding::write(format!("PRAGMA {lower} with a value changes the database or its checks"))
        }
        (_, _, true, _) => EffectFinding::unknown(format!("PRAGMA {lower} with a value changes the connection")),
        _ => EffectFinding::unknown(format!("PRAGMA {} is not known", shown(name.text))),
    }
}

/// Whether the value is empty, or one name, text or number in parentheses or behind `=`.
fn is_question(value: &[SqlToken<'_>]) -> bool {
    let is_one = |token: &SqlToken<'_>| {
        matches!(token.kind, SqlTokenKind::Word | SqlTokenKind::Quoted | SqlTokenKind::Text | SqlTokenKind::Number)
    };
    match value {
        [] => true,
        [open, one, close] => open.kind == SqlTokenKind::Open && close.kind == SqlTokenKind::Close && is_one(one),
        [sign, one] => sign.text == "=" && is_one(one),
        _ => false,
    }
}
