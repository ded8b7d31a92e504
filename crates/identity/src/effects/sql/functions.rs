//! What is known of functions that a query may call, by engine. The names are data (`functions/*.txt`), read once. It knows
//! built-in functions only: a user's own may do anything, so a name that is not listed is `unknown`.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::effects::{Dialect, Finding, shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    Harmless,
    /// Harmless without arguments; with an argument it sets the value that it tells.
    Asks,
    Writes,
    Outside,
    Runs,
}

type Table = HashMap<&'static str, Conduct>;

static POSTGRES: LazyLock<Table> = LazyLock::new(|| table(include_str!("functions/postgres.txt")));
static SQLITE: LazyLock<Table> = LazyLock::new(|| table(include_str!("functions/sqlite.txt")));
static MYSQL: LazyLock<Table> = LazyLock::new(|| table(include_str!("functions/mysql.txt")));

/// A function as it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called<'a> {
    pub(super) schema: Option<&'a str>,
    pub(super) name: &'a str,
    /// A quoted name is a user's function wherever the engine reads the built-in one as a keyword, and keeps its case in PostgreSQL.
    pub(super) quoted: bool,
    pub(super) has_arguments: bool,
}

/// What calling it does, unless it is known to do nothing.
pub(super) fn judge(dialect: Dialect, called: Called<'_>) -> Option<Finding> {
    let name = called.name.to_ascii_lowercase();
    let own_schema = called.schema.is_some_and(|schema| {
        // MySQL may have a database of either name.
        dialect != Dialect::Postgres
            || !(schema.eq_ignore_ascii_case("pg_catalog") || schema.eq_ignore_ascii_case("information_schema"))
    });
    let own_name = called.quoted && dialect != Dialect::Sqlite;
    let conduct = match dialect {
        Dialect::Postgres => POSTGRES.get(name.as_str()).copied(),
        Dialect::Sqlite => SQLITE.get(name.as_str()).copied(),
        Dialect::MySql => MYSQL.get(name.as_str()).copied(),
        Dialect::Generic => worst(&name),
    };
    match conduct {
        // Under another schema it is another function, but a namesake of one that writes is not given the benefit of the doubt.
        Some(Conduct::Writes) => Some(Finding::write(format!("calls {}(), which changes state", shown(&name)))),
        Some(Conduct::Outside) => {
            Some(Finding::unknown(format!("calls {}(), which reaches outside the database", shown(&name))))
        }
        Some(Conduct::Runs) => {
            Some(Finding::unknown(format!("calls {}(), which runs a query it is given as text", shown(&name))))
        }
        Some(Conduct::Asks) if called.has_arguments => {
            Some(Finding::write(format!("calls {}() with a value, which sets it", shown(&name))))
        }
        Some(Conduct::Harmless | Conduct::Asks) if !own_schema && !own_name => None,
        _ => Some(Finding::unknown(format!("calls {}(), a function that is not known", shown(called.name)))),
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
        table.get(name.as_str()).is_some_and(|conduct| !matches!(conduct, Conduct::Harmless | Conduct::Asks))
    })
}

/// Whether SQLite has a table-valued function of that name that may change something. Every PRAGMA with a result has such a function.
pub(super) fn is_acting_table_of_sqlite(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    match SQLITE.get(name.as_str()) {
        Some(conduct) => *conduct != Conduct::Harmless,
        None => name.starts_with("pragma_"),
    }
}

/// For an engine that is not stated: what writes in one of them writes; what is harmless in one and unknown to the others passes.
fn worst(name: &str) -> Option<Conduct> {
    let mut found = None;
    for table in [&POSTGRES, &SQLITE, &MYSQL] {
        if let (Some(conduct), None | Some(Conduct::Harmless | Conduct::Asks)) = (table.get(name).copied(), found)
            && (found.is_none() || conduct != Conduct::Harmless)
        {
            found = Some(conduct);
        }
    }
    found
}

fn table(data: &'static str) -> Table {
    let mut table = HashMap::with_capacity(data.len() / 12);
    for line in data.lines() {
        let Some((conduct, names)) = line.split_once(": ") else { continue };
        let conduct = match conduct {
            "harmless" => Conduct::Harmless,
            "asks" => Conduct::Asks,
            "writes" => Conduct::Writes,
            "outside" => Conduct::Outside,
            "runs" => Conduct::Runs,
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
        let called = |schema, name, quoted| Called { schema, name, quoted, has_arguments: true };
        let call = |schema, name, quoted| judge(Dialect::Postgres, called(schema, name, quoted));
        assert_eq!(call(None, "LOWER", false), None);
        assert_eq!(call(Some("pg_catalog"), "lower", false), None);
        assert!(call(Some("mine"), "lower", false).is_some());
        assert!(call(None, "Lower", true).is_some());
        assert!(call(None, "lower", true).is_some(), "`\"coalesce\"(1)` is a user's function");
        assert!(judge(Dialect::MySql, called(None, "count", true)).is_some());
        assert!(judge(Dialect::Generic, called(Some("pg_catalog"), "abs", false)).is_some());
        assert_eq!(judge(Dialect::Sqlite, called(None, "abs", true)), None);
        assert!(call(Some("mine"), "setval", false).is_some());
    }
}
