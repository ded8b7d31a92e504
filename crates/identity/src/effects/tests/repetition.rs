//! Every production of every grammar, repeated: nothing overflows a thread's stack, and the work grows with the text.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;

#[path = "others.rs"]
mod others;

const DIALECTS: [SqlDialect; 4] = [SqlDialect::Postgres, SqlDialect::Sqlite, SqlDialect::MySql, SqlDialect::Generic];

/// The prefix, the unit that is repeated, the suffix, and what closes each unit.
const SQL: &[(&str, &str, &str, &str)] = &[
    ("", "SELECT ", "1", ""),
    ("", "SELECT 1;", "", ""),
    ("", "(", "SELECT 1", ")"),
    ("SELECT ", "(", "1", ")"),
    ("SELECT ", "((", "1", "))"),
    ("SELECT ", "1,", "1", ""),
    ("SELECT a", "+1", "", ""),
    ("SELECT ", "-", "1", ""),
    ("SELECT ", "- ", "1", ""),
    ("SELECT ", "NOT ", "a", ""),
    ("SELECT a", " OR a", "", ""),
    ("SELECT a", " AND NOT a", "", ""),
    ("SELECT a", "||a", "", ""),
    ("SELECT a", "::int", "", ""),
    ("SELECT a", "[1]", "", ""),
    ("SELECT a", ".a", "", ""),
    ("SELECT a", "->'a'", "", ""),
    ("SELECT a", " IS NULL", "", ""),
    ("SELECT a", " NOT NULL", "", ""),
    ("SELECT a", " COLLATE x", "", ""),
    ("SELECT a", " LIKE a", "", ""),
    ("SELECT a", " LIKE a ESCAPE 'x'", "", ""),
    ("SELECT a", " IN (1)", "", ""),
    ("SELECT a IN ", "(", "1", ")"),
    ("SELECT a", " BETWEEN 1 AND 2", "", ""),
    ("SELECT ", "a BETWEEN 1 AND ", "2", ""),
    ("SELECT a", " AT TIME ZONE 'x'", "", ""),
    ("SELECT a", " SIMILAR TO a", "", ""),
    ("SELECT a", " OVERLAPS a", "", ""),
    ("SELECT ", "lower(", "a", ")"),
    ("SELECT ", "mine(", "a", ")"),
    ("SELECT ", "cast(", "a", " AS int)"),
    ("SELECT ", "CASE WHEN ", "a", " THEN 1 END"),
    ("SELECT ", "CASE a WHEN 1 THEN ", "a", " END"),
    ("SELECT CASE", " WHEN a THEN 1", " END", ""),
    ("SELECT ", "EXISTS (SELECT ", "1", ")"),
    ("SELECT ", "(SELECT ", "1", ")"),
    ("SELECT ", "ARRAY[", "1", "]"),
    ("SELECT ", "ROW(", "1", ")"),
    ("SELECT ", "INTERVAL ", "'1'", ""),
    ("SELECT ", "INTERVAL 1 DAY + ", "a", ""),
    ("SELECT ", "EXTRACT(year FROM ", "a", ")"),
    ("SELECT ", "TRIM(", "a", ")"),
    ("SELECT ", "SUBSTRING(a FROM ", "1", ")"),
    ("SELECT ", "POSITION('a' IN ", "a", ")"),
    ("SELECT ", "PRIOR ", "a", ""),
    ("SELECT ", "BINARY ", "a", ""),
    ("SELECT ", "a AS a, ", "a", ""),
    ("SELECT ", "DISTINCT ", "a", ""),
    ("SELECT ", "{", "a", "}"),
    ("SELECT ", "@", "a", ""),
    ("SELECT ", "?", "", ""),
    ("SELECT ", "'a' ", "", ""),
    ("SELECT ", "\"a\".", "a", ""),
    ("SELECT sum(a) OVER ", "(", "", ")"),
    ("SELECT sum(a)", " FILTER (WHERE a)", "", ""),
    ("SELECT sum(a) OVER (PARTITION BY ", "a,", "a)", ""),
    ("SELECT * FROM a", " JOIN a", "", ""),
    ("SELECT * FROM a", " JOIN a ON true", "", ""),
    ("SELECT * FROM ", "a JOIN (", "a", ") ON true"),
    ("SELECT * FROM a", " NATURAL JOIN a", "", ""),
    ("SELECT * FROM a", " LEFT OUTER JOIN a", "", ""),
    ("SELECT * FROM a", " CROSS JOIN a", "", ""),
    ("SELECT * FROM a", " STRAIGHT_JOIN a", "", ""),
    ("SELECT * FROM a", ", a", "", ""),
    ("SELECT * FROM a", ", LATERAL a", "", ""),
    ("SELECT * FROM ", "(", "a", ")"),
    ("SELECT * FROM ", "(SELECT * FROM ", "a", ") a"),
    ("SELECT * FROM ", "LATERAL (SELECT * FROM ", "a", ") a"),
    ("SELECT * FROM ", "mine(", "1", ")"),
    ("SELECT * FROM a WHERE ", "a = ANY (", "a", ")"),
    ("SELECT * FROM a GROUP BY ", "a,", "a", ""),
    ("SELECT * FROM a GROUP BY ", "GROUPING SETS (", "a", ")"),
    ("SELECT * FROM a GROUP BY ", "ROLLUP (", "a", ")"),
    ("SELECT * FROM a ORDER BY ", "a,", "a", ""),
    ("SELECT * FROM a LIMIT ", "(", "1", ")"),
    ("SELECT 1", " UNION SELECT 1", "", ""),
    ("SELECT 1", " EXCEPT ALL SELECT 1", "", ""),
    ("", "(SELECT 1 UNION ", "SELECT 1", ")"),
    ("SELECT a FROM a", " FOR UPDATE", "", ""),
    ("SELECT a FROM a WINDOW ", "w AS (), ", "w AS ()", ""),
    ("", "WITH a AS (", "SELECT 1", ") SELECT 1"),
    ("WITH ", "a AS (SELECT 1), ", "a AS (SELECT 1) SELECT 1", ""),
    ("", "VALUES (", "1", ")"),
    ("VALUES ", "(1),", "(1)", ""),
    ("", "EXPLAIN ", "SELECT 1", ""),
    ("", "EXPLAIN (", "SELECT 1", ")"),
    ("", "EXPLAIN ANALYZE ", "SELECT 1", ""),
    ("", "COPY (", "SELECT 1", ") TO STDOUT"),
    ("", "PREPARE a AS ", "SELECT 1", ""),
    ("", "SHOW ", "a", ""),
    ("SET ", "a.", "a = 1", ""),
    ("SET a = ", "1,", "1", ""),
    ("", "PRAGMA ", "a", ""),
    ("", "BEGIN ", "", ""),
    ("", "/*", "", ""),
    ("", "/*", "", "*/"),
    ("", "/*!", "", "*/"),
    ("", "/*!50000 ", "SELECT 1", "*/"),
    ("", "-- a\n", "SELECT 1", ""),
    ("", "--", "", ""),
    ("", "#", "", ""),
    ("", "'", "", ""),
    ("", "\"", "", ""),
    ("", "`", "", ""),
    ("", "[", "", "]"),
    ("", "$a$", "", ""),
    ("", "$a", "", ""),
    ("SELECT ", "$a$ $b$ ", "", ""),
    ("SELECT ", "E'\\'", "", ""),
    ("SELECT ", "1e", "", ""),
    ("SELECT ", "0x", "", ""),
    ("SELECT ", ".", "", ""),
    ("SELECT ", "=", "", ""),
    ("SELECT 1 ", "<", " 2", ""),
    ("", ";", "", ""),
    ("", "a ", "", ""),
    ("", "\u{e9}", "", ""),
];

const SHELL: &[&str] = &[
    "$(",
    "(",
    "{ ",
    "`",
    "${a:-",
    "$((",
    "[[ ",
    "[ ",
    "if ",
    "case a in ",
    "<(",
    "\"$(",
    "'",
    "\"",
    "\\",
    "\\\n",
    "<<A ",
    "a|",
    "ls|",
    "a&&",
    "ls && ",
    "!",
    "! ",
    "x=(",
    "a[",
    "f() { ",
    "ls;",
    "ls\n",
    "*",
    "ls *",
    "-",
    "--",
    " ",
    "\t",
    "#",
    "ls a ",
    "find ",
    "find \\( ",
    "find ! ",
    "2>&1 ",
    "2>/dev/null ",
    "sed s/",
    "awk {",
    "\u{e9}",
    "../",
    "/",
    "/.",
    "a=",
    "~",
    "test -f ",
    "cd ",
];

/// Runs the work on a thread with the usual stack size of this process.
fn on_a_thread(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread").join().expect("no panic");
}

#[test]
fn every_production_of_sql_repeated_overflows_nothing() {
    on_a_thread(|| {
        for (before, unit, after, close) in SQL {
            // Counts beyond every limit, and just below the limits of the parser.
            for count in [20_000, 1_900, 950, 300, 20] {
                let text = format!("{before}{}{after}{}", unit.repeat(count), close.repeat(count));
                for dialect in DIALECTS {
                    let verdict = sql(dialect, &text);
                    assert!(verdict.effect != Read || !unit.contains("mine"), "{before}{unit}");
                }
            }
        }
    });
}

#[test]
fn every_production_of_the_shell_repeated_overflows_nothing() {
    on_a_thread(|| {
        for unit in SHELL {
            for count in [20_000, 500] {
                let _ = classify(ProgramLanguage::Shell, &unit.repeat(count));
                let _ = classify(ProgramLanguage::Shell, &format!("ls {}", unit.repeat(count)));
            }
        }
    });
}

/// Four times the text takes less than twelve times the work. The test compares the processor time of this thread within one
/// run, if that is long enough to compare.
#[test]
fn the_work_grows_with_the_text() {
    let worked = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
    };
    let took = |language: ProgramLanguage, text: &str| {
        let started = worked();
        let _ = classify(language, text);
        worked().saturating_sub(started)
    };
    let of = |(before, unit, after, close): &(&str, &str, &str, &str), count: usize| {
        format!("{before}{}{after}{}", unit.repeat(count), close.repeat(count))
    };
    for production in SQL {
        for language in DIALECTS.map(ProgramLanguage::Sql) {
            for count in [450, 10_000] {
                let (less, more) = (of(production, count), of(production, 4 * count));
                if took(language, &more) < Duration::from_millis(100) {
                    continue;
                }
                let best = |text: &str| (0..5).map(|_| took(language, text)).min().unwrap_or_default();
                let (less, more) = (best(&less), best(&more));
                assert!(more < less * 12, "{language:?} {production:?} {count}: {less:?} {more:?}");
            }
        }
    }
}
