//! `SET`: most settings are the session's own and change nothing, some take a protection away or change what later words mean.
//! A setting that is not known is `unknown`.

use crate::effects::sql::Statement;
use crate::effects::sql::lexer::Kind;
use crate::effects::{Effect, Finding, shown};

/// Settings of a session that no data depends on.
const HARMLESS: &str = " application_name bytea_output client_encoding client_min_messages cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost \
    cursor_tuple_fraction datestyle default_statistics_target effective_cache_size effective_io_concurrency extra_float_digits force_parallel_mode from_collapse_limit \
    geqo geqo_threshold hash_mem_multiplier idle_in_transaction_session_timeout intervalstyle jit join_collapse_limit lc_messages lc_monetary lc_numeric lc_time \
    lock_timeout log_statement_stats maintenance_work_mem max_parallel_workers_per_gather min_parallel_table_scan_size names parallel_leader_participation \
    parallel_setup_cost parallel_tuple_cost plan_cache_mode random_page_cost seq_page_cost statement_timeout timezone track_io_timing work_mem xmlbinary \
    xmloption max_execution_time character_set_results group_concat_max_len optimizer_switch ";

/// What a `SET` does.
pub(super) fn judge(statement: Statement<'_>) -> Finding {
    let tokens = statement.tokens;
    let has = |word: &str| tokens.iter().any(|token| token.is_word(word));
    let at = usize::from(tokens.get(1).is_some_and(|token| token.is_word("session") || token.is_word("local"))) + 1;
    let Some(name) = tokens.get(at) else { return Finding::unknown("SET without a name") };
    let lower = name.text.to_ascii_lowercase();
    match lower.as_str() {
        "password" => return Finding::new(Effect::Ddl, "SET PASSWORD changes an account"),
        "global" | "persist" | "persist_only" => return Finding::write("SET GLOBAL changes the server for everybody"),
        "role" | "authorization" => return Finding::write("SET ROLE changes who the session is"),
        "transaction" | "characteristics" if has("write") => {
            return Finding::write("SET TRANSACTION READ WRITE takes a protection away");
        }
        "transaction" | "characteristics" if has("snapshot") => {
            return Finding::unknown("SET TRANSACTION SNAPSHOT changes what is seen");
        }
        "transaction" | "characteristics" => return Finding::read("SET TRANSACTION chooses isolation"),
        "transaction_read_only" | "default_transaction_read_only" | "session_replication_role" | "row_security" => {
            return Finding::write(format!("SET {lower} takes a protection away"));
        }
        _ => {}
    }
    let single = tokens.get(at + 1).is_none_or(|token| !matches!(token.kind, Kind::Dot))
        && !tokens.iter().any(|token| matches!(token.kind, Kind::Open));
    let several = tokens.iter().filter(|token| token.text == "=").count() > 1;
    let zone = lower == "time" && tokens.get(at + 1).is_some_and(|token| token.is_word("zone"));
    let known = zone || lower.starts_with("enable_") || HARMLESS.split_ascii_whitespace().any(|known| known == lower);
    if known && single && !several {
        return Finding::read(format!("SET {lower} is the session's own"));
    }
    Finding::unknown(format!("SET {} may change what later statements do", shown(name.text)))
}
