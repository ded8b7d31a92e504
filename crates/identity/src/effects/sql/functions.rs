//! The known functions that a query may call, by engine. The names are data (`functions/*.txt`), read once. The lists have
//! built-in functions only: a user-defined function may do anything, so a name that is not listed is `unknown`.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::effects::{EffectFinding, SqlDialect, shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionBehaviour {
    Harmless,
    /// Harmless without arguments; with an argument it sets the value that it otherwise returns.
    Asks,
    Writes,
    Outside,
    Runs,
}

type FunctionTable = HashMap<&'static str, FunctionBehaviour>;

static POSTGRES: LazyLock<FunctionTable> = LazyLock::new(|| table(include_str!("functions/postgres.txt")));
static SQLITE: LazyLock<FunctionTable> = LazyLock::new(|| table(include_str!("functions/sqlite.txt")));
static MYSQL: LazyLock<FunctionTable> = LazyLock::new(|| table(include_str!("functions/mysql.txt")));

/// A function as it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionCall<'a> {
    pub(super) schema: Option<&'a str>,
    pub(super) name: &'a str,
    /// A quoted name is a user's function wherever the engine reads the built-in one as a keyword, and keeps its case in PostgreSQL.
    pub(super) quoted: bool,
    pub(super) has_arguments: bool,
}

/// The effect of calling it; `None` if it is known to have none.
pub(super) fn judge(dialect: SqlDialect, called: FunctionCall<'_>) -> Option<EffectFinding> {
    let name = called.name.to_ascii_lowercase();
    let own_schema = called.schema.is_some_and(|schema| {
        // MySQL may have a database of either name.
        dialect != SqlDialect::Postgres
            || !(schema.eq_ignore_ascii_case("pg_catalog") || schema.eq_ignore_ascii_case("information_schema"))
    });
    let own_name = called.quoted && dialect != SqlDialect::Sqlite;
    let conduct = match dialect {
        SqlDialect::Postgres => POSTGRES.get(name.as_str()).copied(),
        SqlDialect::Sqlite => SQLITE.get(name.as_str()).copied(),
        SqlDialect::MySql => MYSQL.get(name.as_str()).copied(),
        SqlDialect::Generic => worst(&name),
    };
    match conduct {
        // Under another schema it is another function, but one with the name of a writing function is not trusted.
        Some(FunctionBehaviour::Writes) => {
            Some(EffectFinding::write(format!("calls {}(), which changes state", shown(&name))))
        }
        Some(FunctionBehaviour::Outside) => {
            Some(EffectFinding::unknown(format!("calls {}(), which reaches outside the database", shown(&name))))
        }
        Some(FunctionBehaviour::Runs) => {
            Some(EffectFinding::unknown(format!("calls {}(), which runs a query it is given as text", shown(&name))))
        }
        Some(FunctionBehaviour::Asks) if called.has_arguments => {
            Some(EffectFinding::write(format!("calls {}() with a value, which sets it", shown(&name))))
        }
        Some(FunctionBehaviour::Harmless | FunctionBehaviour::Asks) if !own_schema && !own_name => None,
        _ => Some(EffectFinding::unknown(format!("calls {}(), a function that is not known", shown(called.name)))),
    }
}

/// Whether MySQL or MariaDB has a function of that name.
pub(super) fn is_of_mysql(name: &str) -> bool {
    MYSQL.contains_key(name.to_ascii_lowercase().as_str())
}

/// Whether any engine has a function of that name that may change something.
pub(super) fn changes(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [&POSTGRES, &SQLITE, &MYSQL].iter().any(|table| {
        table
            .get(name.as_str())
            .is_some_and(|conduct| !matches!(conduct, FunctionBehaviour::Harmless | FunctionBehaviour::Asks))
    })
}

/// Whether SQLite has a table-valued function of that name that may change something. Every PRAGMA with a result has such a function.
pub(super) fn is_acting_table_of_sqlite(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    match SQLITE.get(name.as_str()) {
        Some(conduct) => *conduct != FunctionBehaviour::Harmless,
        None => name.starts_with("pragma_"),
    }
}

/// For an engine that is not stated: a function that writes in one engine writes; one that is harmless in one and unknown to
/// the others passes.
fn worst(name: &str) -> Option<FunctionBehaviour> {
    let mut found = None;
    for table in [&POSTGRES, &SQLITE, &MYSQL] {
        if let (Some(conduct), None | Some(FunctionBehaviour::Harmless | FunctionBehaviour::Asks)) =
            (table.get(name).copied(), found)
            && (found.is_none() || conduct != FunctionBehaviour::Harmless)
        {
            found = Some(conduct);
        }
    }
    found
}

fn table(data: &'static str) -> FunctionTable {
    let mut table = HashMap::with_capacity(data.len() / 12);
    for line in data.lines() {
        let Some((conduct, names)) = line.split_once(": ") else { continue };
        let conduct = match conduct {
            "harmless" => FunctionBehaviour::Harmless,
            "asks" => FunctionBehaviour::Asks,
            "writes" => FunctionBehaviour::Writes,
            "outside" => FunctionBehaviour::Outside,
            "runs" => FunctionBehaviour::Runs,
            _ => continue,
        };
        table.extend(names.split_ascii_whitespace().map(|name| (name, conduct)));
    }
    table
}

/// The operators that come with PostgreSQL. Another one is a user's function in disguise.
pub(super) fn is_builtin_operator(sign: &str) -> bool {
    const BUILTIN: &str = " !! !~ !~* !~~ !~~* # ## #- #> #>> % & && &< &<| &> * *< *<= *<> *= *> *>= + - -> ->> -|- / < <-> << <<= <<| \
         <= <> <@ <^ = > >= >> >>= >^ ? ?# ?& ?- ?-| ?| ?|| @ @-@ @> @? @@ @@@ ^ ^@ | |&> |/ |>> || ||/ ~ ~* ~<=~ ~<~ ~= ~>=~ ~>~ ~~ ~~* != \
         => := : :: <=> <#> <+> % %> <% <<% %>> ";
    BUILTIN.split(' ').any(|known| known == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_listed_twice_with_different_conducts() {
        for data in [
            include_str!("functions/postgres.txt"),
            include_str!("functions/sqlite.txt"),
            include_str!("functions/mysql.txt"),
        ] {
            let mut seen = HashMap::new();
            for line in data.lines().filter(|line| !line.starts_with('#')) {
                let (conduct, names) = line.split_once(": ").expect("`conduct: names`");
                assert!(["harmless", "asks", "writes", "outside", "runs"].contains(&conduct), "{conduct}");
                for name in names.split(' ') {
                    assert_eq!(name, name.to_ascii_lowercase());
                    assert_eq!(seen.insert(name, conduct).unwrap_or(conduct), conduct, "{name}");
                }
            }
        }
    }

    #[test]
    fn a_schema_or_quotes_make_another_function() {
        let called = |schema, name, quoted| FunctionCall { schema, name, quoted, has_arguments: true };
        let call = |schema, name, quoted| judge(SqlDialect::Postgres, called(schema, name, quoted));
        assert_eq!(call(None, "LOWER", false), None);
        assert_eq!(call(Some("pg_catalog"), "lower", false), None);
        assert!(call(Some("mine"), "lower", false).is_some());
        assert!(call(None, "Lower", true).is_some());
        assert!(call(None, "lower", true).is_some(), "`\"coalesce\"(1)` is a user's function");
        assert!(judge(SqlDialect::MySql, called(None, "count", true)).is_some());
        assert!(judge(SqlDialect::Generic, called(Some("pg_catalog"), "abs", false)).is_some());
        assert_eq!(judge(SqlDialect::Sqlite, called(None, "abs", true)), None);
        assert!(call(Some("mine"), "setval", false).is_some());
    }
}
