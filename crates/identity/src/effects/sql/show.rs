//! `SHOW`: settings of PostgreSQL, and the lists and definitions of MySQL and MariaDB. In MariaDB `SHOW` also reads the tables of plugins by
//! their names, and reading some of them sets counters back, so only listed words may follow it there.

use crate::effects::sql::lexer::{SqlToken, SqlTokenKind};
use crate::effects::{EffectFinding, SqlDialect};

/// Words that may stand between `SHOW` and what is shown.
const SCOPES: &str = "full extended global session local open storage count";
/// What MySQL and MariaDB show by words of their own grammar.
const SHOWN: &str = "binary character charset collation columns create databases engine engines errors events fields function grants index \
    indexes keys master package plugins privileges procedure processlist profiles replica schemas slave status table tables triggers \
    variables warnings";
/// Settings of PostgreSQL that may be shown where the engine is not stated. No plugin of MariaDB has such a name.
const SETTINGS: &str = "all application_name client_encoding data_directory datestyle default_transaction_isolation is_superuser lc_collate \
    max_connections search_path server_encoding server_version session_authorization shared_buffers standard_conforming_strings \
    statement_timeout time timezone transaction transaction_isolation work_mem";
/// Words of one statement.
const WORDS_MAX: usize = 12;

/// What the statement would do. With a condition it may compute anything.
pub(super) fn judge(dialect: SqlDialect, tokens: &[SqlToken<'_>]) -> EffectFinding {
    let plain = tokens.len() <= WORDS_MAX
        && tokens.iter().all(|token| matches!(token.kind, SqlTokenKind::Word | SqlTokenKind::Quoted | SqlTokenKind::Dot | SqlTokenKind::Text))
        // `PLUGINS SONAME` opens the library.
        && !tokens.iter().any(|token| token.is_word("where") || token.is_word("soname"));
    if !plain {
        return EffectFinding::unknown("SHOW of more than plain names");
    }
    let is_of = |list: &str, token: &SqlToken<'_>| list.split_ascii_whitespace().any(|word| token.is_word(word));
    let shown = tokens.iter().skip(1).find(|token| !is_of(SCOPES, token));
    let is_known = match dialect {
        SqlDialect::Postgres => true,
        SqlDialect::MySql => shown.is_some_and(|shown| is_of(SHOWN, shown)),
        SqlDialect::Generic => shown.is_some_and(|shown| is_of(SHOWN, shown) || is_of(SETTINGS, shown)),
        SqlDialect::Sqlite => false,
    };
    if is_known {
        EffectFinding::read("SHOW reads a setting or a catalog")
    } else {
        EffectFinding::unknown("SHOW of a name that is not known")
    }
}
