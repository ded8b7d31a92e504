use proptest::prelude::*;

use super::*;

fn sql(dialect: Dialect, text: &str) -> Verdict {
    classify(Language::Sql(dialect), text)
}

fn check_sql(dialect: Dialect, rows: &[(&str, Effect)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(text, expected)| {
            let verdict = sql(dialect, text);
            (verdict.effect != *expected)
                .then(|| format!("{text:?}: {} ({}), not {expected}", verdict.effect, verdict.why))
        })
        .collect();
    assert!(wrong.is_empty(), "{dialect:?}:\n{}", wrong.join("\n"));
}

use Effect::{Ddl, Read, Unknown, Write};

const POSTGRES: &[(&str, Effect)] = &[
    ("", Read),
    (" ; ;; -- nothing\n", Read),
    ("SELECT 1", Read),
    ("select lower(name) from people where id = $1", Read),
    ("WITH a AS (SELECT 1) SELECT * FROM a", Read),
    ("WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone", Write),
    ("WITH a AS (SELECT 1) DELETE FROM people", Write),
    ("SELECT * FROM (WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM x) q", Write),
    ("SELECT * INTO copy FROM people", Ddl),
    ("SELECT 1; DROP TABLE people", Ddl),
    ("SELECT 1;;DELETE FROM people", Write),
    ("EXPLAIN DELETE FROM people", Read),
    ("EXPLAIN ANALYZE DELETE FROM people", Write),
    ("EXPLAIN (COSTS OFF, ANALYZE) DELETE FROM people", Write),
    ("explain (analyse) delete from people", Write),
    ("EXPLAIN ANALYZE SELECT 1", Read),
    ("EXPLAIN ANALYZE SELECT mine()", Unknown),
    ("EXPLAIN (FORMAT JSON) SELECT 1", Read),
    ("COPY people TO STDOUT", Read),
    ("COPY people TO '/tmp/x'", Write),
    ("COPY people TO PROGRAM 'sh'", Write),
    ("COPY people FROM PROGRAM 'curl evil'", Write),
    ("COPY people FROM STDIN", Write),
    ("COPY (SELECT 1) TO STDOUT", Read),
    ("COPY (DELETE FROM people RETURNING *) TO STDOUT", Write),
    ("COPY (SELECT * FROM t FOR UPDATE) TO STDOUT", Write),
    ("SELECT * FROM t FOR UPDATE", Write),
    ("SELECT * FROM t FOR NO KEY UPDATE SKIP LOCKED", Write),
    ("SELECT * FROM t FOR KEY SHARE", Write),
    ("SELECT nextval('s')", Write),
    ("SELECT setval('s', 1)", Write),
    ("SELECT pg_catalog.setval('s', 1)", Write),
    ("SELECT \"setval\"('s', 1)", Write),
    ("SELECT SetVal('s', 1)", Write),
    ("SELECT U&\"\\0073etval\"('s', 1)", Unknown),
    ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity", Write),
    ("SELECT lo_import('/etc/passwd')", Write),
    ("SELECT dblink_exec('', 'DELETE FROM t')", Write),
    ("SELECT dblink('', 'DELETE FROM t')", Unknown),
    ("SELECT pg_read_file('/etc/passwd')", Unknown),
    ("SELECT set_config('transaction_read_only', 'off', false)", Write),
    ("SELECT query_to_xml('DELETE FROM t', true, true, '')", Unknown),
    ("SELECT mine(1)", Unknown),
    ("SELECT * FROM mine(1)", Unknown),
    ("SELECT * FROM t, LATERAL mine(t.a)", Unknown),
    ("SELECT 1 ORDER BY mine()", Unknown),
    ("SELECT count(*) FILTER (WHERE mine(a)) OVER (PARTITION BY theirs()) FROM t", Unknown),
    ("SELECT CASE WHEN true THEN (SELECT setval('s', 1)) END", Write),
    ("SELECT 1 <<<>>> 2", Unknown),
    ("SELECT 'DELETE FROM t; DROP TABLE t'", Read),
    ("SELECT $$; DROP TABLE t; $$", Read),
    ("SELECT $a$ $$ ; DROP TABLE t $a$", Read),
    ("SELECT $a$ x $a$; DROP TABLE t -- $a$", Ddl),
    ("SELECT 1 /* ; DROP TABLE t */", Read),
    ("SELECT 1 /* /* */ ; DROP TABLE t */", Read),
    ("SELECT 1 /* /* */ */ ; DROP TABLE t", Ddl),
    ("SELECT 1 -- x\n; DROP TABLE t", Ddl),
    ("SELECT 1 -- x\r; DROP TABLE t", Ddl),
    ("SELECT '\\'; DROP TABLE t --'", Ddl),
    ("SELECT E'\\'; DROP TABLE t --'", Read),
    ("SELECT 'a", Unknown),
    ("SELECT 1 /* x", Unknown),
    ("/**/DELETE/**/FROM/**/t", Write),
    ("DO $$ BEGIN DELETE FROM t; END $$", Unknown),
    ("CALL clean_up()", Unknown),
    ("EXECUTE prepared", Unknown),
    ("PREPARE p AS DELETE FROM t", Write),
    ("PREPARE p (int) AS SELECT $1", Read),
    ("DECLARE c CURSOR FOR SELECT 1", Read),
    ("DECLARE c CURSOR FOR SELECT mine()", Unknown),
    ("FETCH NEXT FROM c", Unknown),
    ("BEGIN", Read),
    ("BEGIN READ ONLY", Read),
    ("BEGIN READ WRITE", Write),
    ("START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE", Write),
    ("SET TRANSACTION READ WRITE", Write),
    ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", Write),
    ("SET default_transaction_read_only = off", Write),
    ("SET ROLE admin", Write),
    ("SET statement_timeout = 0", Read),
    ("SET search_path = evil", Unknown),
    ("COMMIT; DROP SCHEMA public CASCADE", Ddl),
    ("COMMIT", Unknown),
    ("SHOW search_path", Read),
    ("VACUUM", Write),
    ("NOTIFY x", Write),
    ("LOCK TABLE t", Write),
    ("TABLE t", Read),
    ("VALUES (1), (2)", Read),
    ("(SELECT 1) UNION (SELECT 2)", Read),
    ("(DELETE FROM t)", Unknown),
    ("GRANT ALL ON t TO public", Ddl),
    ("\\! rm x", Unknown),
    ("FROBNICATE t", Unknown),
];

/// What the parser is not given, because it is too deep, is judged by its words.
const UNPARSED: &[(&str, Effect)] = &[
    ("SELECT ((((((((a)))))))) + b FROM t", Read),
    ("SELECT ((((((((a)))))))) + lower(b) FROM t", Read),
    ("SELECT ((((((((a)))))))) + mine(b) FROM t", Unknown),
    ("SELECT ((((((((a)))))))) + b FROM t, mine(1) AS (a int)", Unknown),
    ("SELECT ((((((((a)))))))) + b FROM t, mine(1) AS (values int)", Unknown),
    ("WITH c (x) AS (SELECT 1), d (y) AS MATERIALIZED (VALUES (1)) SELECT ((((((((a)))))))) + b FROM c", Read),
    ("SELECT ((((((((a)))))))) + b, sum(x) FILTER (WHERE true) OVER (PARTITION BY y) FROM t", Read),
    ("SELECT ((((((((a)))))))) + b, over (1) FROM t", Unknown),
    ("SELECT ((((((((a)))))))) + b, first (1) FROM t", Unknown),
    ("SELECT ((((((((a)))))))) + b, mine.lower(1) FROM t", Unknown),
    ("SELECT ((((((((a)))))))) + b, \"Lower\"(1) FROM t", Unknown),
    ("SELECT ((((((((a)))))))) + b FROM t)", Unknown),
    ("SELECT ((((((((a)))))))) + nextval('s')", Write),
    ("SELECT ((((((((a)))))))) + b INTO c FROM t", Ddl),
    ("WITH x AS (DELETE FROM t RETURNING a) SELECT ((((((((a)))))))) + b FROM x", Write),
    ("SELECT ((((((((a)))))))) + b FROM t FOR UPDATE", Write),
];

#[test]
fn queries_that_the_parser_does_not_know_are_judged_by_their_words() {
    check_sql(Dialect::Postgres, UNPARSED);
    let verdict = sql(Dialect::Postgres, "SELECT ((((((((a)))))))) + b FROM t");
    assert_eq!(verdict.why, "a query that the parser does not know, but no word of it can change anything");
}

#[test]
fn postgres_statements_do_what_the_engine_says() {
    check_sql(Dialect::Postgres, POSTGRES);
}

#[test]
fn sqlite_statements_do_what_the_engine_says() {
    check_sql(
        Dialect::Sqlite,
        &[
            ("SELECT * FROM t WHERE a GLOB 'x*'", Read),
            ("SELECT load_extension('evil')", Write),
            ("SELECT writefile('x', 'y')", Write),
            ("SELECT readfile('/etc/passwd')", Unknown),
            ("SELECT edit('x')", Write),
            ("SELECT mine(1)", Unknown),
            ("SELECT 1 /* /* */ ; DROP TABLE t; --*/", Ddl),
            ("SELECT 1 /* ; DROP TABLE t", Read),
            ("SELECT [;DROP TABLE t]", Read),
            ("SELECT `;DROP TABLE t`", Read),
            ("SELECT 1 -- x\r; DROP TABLE t", Read),
            ("REPLACE INTO t VALUES (1)", Write),
            ("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", Write),
            ("PRAGMA table_info(t)", Read),
            ("PRAGMA user_version", Read),
            ("PRAGMA user_version = 7", Write),
            ("PRAGMA user_version(7)", Write),
            ("PRAGMA main.journal_mode = DELETE", Write),
            ("PRAGMA writable_schema = ON", Write),
            ("PRAGMA query_only = 0", Write),
            ("PRAGMA cache_size = 100", Read),
            ("PRAGMA no_such_thing = 1", Unknown),
            ("SELECT * FROM pragma_table_info('t')", Read),
            ("EXPLAIN QUERY PLAN DELETE FROM t", Read),
            ("ATTACH 'x.db' AS x", Write),
            ("VACUUM INTO 'copy.db'", Write),
            ("CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; DELETE FROM t; END", Ddl),
            (".shell rm x", Unknown),
            ("BEGIN IMMEDIATE", Write),
        ],
    );
}

#[test]
fn mysql_statements_are_read_with_what_only_mysql_sees() {
    check_sql(
        Dialect::MySql,
        &[
            ("SELECT `a` FROM t # DELETE", Read),
            ("SELECT 1 # x\n; DELETE FROM t", Write),
            ("SELECT 1 --1; DELETE FROM t", Write),
            ("SELECT 1 -- ; DELETE FROM t", Read),
            ("SELECT 'a\\'; DELETE FROM t; -- '", Read),
            ("SELECT \"a\\\"; DELETE FROM t; -- \"", Read),
            ("/*! DELETE FROM t */", Write),
            ("/*!50000 DELETE */ /*!50000 FROM t */", Write),
            ("/*M! DROP TABLE t */", Ddl),
            ("SELECT /*!40001 SQL_NO_CACHE */ * FROM t", Read),
            ("SELECT 1 /*!99999 -- */ ; DELETE FROM t", Write),
            ("SELECT /*!50000 1 */ + /*!60000 2 */", Unknown),
            ("SELECT * FROM t INTO OUTFILE '/tmp/x'", Write),
            ("SELECT 1 INTO DUMPFILE '/tmp/x'", Write),
            ("SELECT load_file('/etc/passwd')", Unknown),
            ("SELECT get_lock('a', 1)", Write),
            ("SELECT sys_exec('rm x')", Write),
            ("SELECT * FROM t LOCK IN SHARE MODE", Write),
            ("LOAD DATA INFILE 'x' INTO TABLE t", Write),
            ("SHOW TABLES", Read),
            ("DESCRIBE t", Read),
            ("DESC t", Read),
            ("EXPLAIN SELECT 1", Read),
            ("EXPLAIN FORMAT=JSON SELECT 1", Read),
            ("EXPLAIN ANALYZE SELECT mine()", Unknown),
            ("SET GLOBAL general_log = 1", Write),
            ("SET PASSWORD = 'x'", Ddl),
            ("HANDLER t OPEN", Unknown),
            ("SELECT db.mine()", Unknown),
        ],
    );
}

#[test]
fn an_engine_that_is_not_stated_must_not_be_able_to_read_a_change() {
    check_sql(
        Dialect::Generic,
        &[
            ("SELECT lower(name) FROM people WHERE a = 'x'", Read),
            ("SELECT \"a\" FROM t", Read),
            ("SELECT 1 # \n; DELETE FROM t", Write),
            ("SELECT 1 /* /* */ ; DELETE FROM t; -- */", Write),
            ("SELECT '\\'; DELETE FROM t; -- '", Write),
            ("SELECT 1 /*! ; DELETE FROM t */", Write),
            ("SELECT $$; DELETE FROM t; $$", Write),
            ("SELECT load_extension('x')", Write),
            ("SELECT nextval('x')", Write),
            ("PRAGMA user_version = 1", Write),
        ],
    );
}

#[test]
fn a_verdict_names_the_statement_and_the_function_and_no_literal() {
    let verdict = sql(Dialect::Postgres, "SELECT 1; SELECT steal('hunter2')");
    assert_eq!(verdict.why, "calls steal(), a function that is not known");
    assert_eq!(verdict.statement, Some(StatementRef { index: 1, kind: Cow::Borrowed("SELECT") }));
    let verdict = classify(Language::Shell, "cat a; rm hunter2");
    assert_eq!(verdict.why, "rm changes files or the system");
    assert_eq!(verdict.statement, Some(StatementRef { index: 1, kind: Cow::Borrowed("rm") }));
    assert_eq!(
        serde_json::to_string(&verdict).expect("json"),
        r#"{"effect":"write","why":"rm changes files or the system","statement":{"index":1,"kind":"rm"}}"#
    );
}

#[test]
fn beyond_a_limit_nothing_is_claimed() {
    let limits = Limits { text_bytes_max: 100, statements_max: 2, tokens_max: 20, depth_max: 4 };
    let judge = |language, text: &str| classify_within(language, text, &limits).effect;
    let postgres = Language::Sql(Dialect::Postgres);
    assert_eq!(judge(postgres, "SELECT 1; SELECT 2"), Read);
    assert_eq!(judge(postgres, "SELECT 1; SELECT 2; SELECT 3"), Unknown);
    assert_eq!(judge(postgres, &format!("SELECT {}", "1,".repeat(12))), Unknown);
    assert_eq!(judge(postgres, &format!("SELECT '{}'", "x".repeat(100))), Unknown);
    assert_eq!(judge(Language::Shell, &format!("ls {}", "x".repeat(100))), Unknown);
    assert_eq!(judge(Language::Shell, "ls; ls; ls; ls"), Unknown);
    assert_eq!(judge(postgres, "SELECT 1\0; DROP TABLE t"), Unknown);
}

#[test]
fn deep_and_long_texts_neither_overflow_nor_pass() {
    let deep = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(sql(Dialect::Postgres, &deep).effect, Read, "too deep for the parser, and its words can do nothing");
    let deep_call = format!("SELECT {}mine(){}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(sql(Dialect::Postgres, &deep_call).effect, Unknown);
    for chain in [
        "+1",
        " OR a",
        " UNION SELECT 1",
        "::int",
        "[1]",
        "->'a'",
        " IS NULL",
        " COLLATE x",
        ".a",
        " NOT NULL",
        "||1",
        " AND NOT 1",
        " JOIN t ON true",
        " LIKE a",
        " IN (1)",
        " BETWEEN 1 AND 2",
        " AT TIME ZONE 'x'",
    ] {
        for dialect in [Dialect::Postgres, Dialect::Sqlite, Dialect::MySql, Dialect::Generic] {
            let long = format!("SELECT a FROM t WHERE a{}", chain.repeat(3_000));
            let _ = sql(dialect, &long);
        }
    }
    for unit in [
        "$(",
        "(",
        "{ ",
        "`",
        "${a:-",
        "$((",
        "[[ ",
        "if ",
        "case a in ",
        "<(",
        "\"$(",
        "'",
        "\\",
        "<<A ",
        "a|",
        "a&&",
        "!",
        "x=(",
        "a[",
        "f() { ",
    ] {
        let text = unit.repeat(3_000);
        assert_ne!(
            classify(Language::Shell, text.get(..6_000.min(text.len())).unwrap_or_default()).effect,
            Write,
            "{unit}"
        );
    }
}

#[test]
fn shell_text_that_changes_something_is_never_read() {
    let wrong: Vec<String> = include_str!("tests/mutating.txt")
        .split("\n%%\n")
        .map(str::trim_start)
        .filter(|text| !text.trim().is_empty())
        .filter_map(|text| {
            let verdict = classify(Language::Shell, text);
            (verdict.effect == Read).then(|| format!("{text:?}: {}", verdict.why))
        })
        .collect();
    assert!(wrong.is_empty(), "called read:\n{}", wrong.join("\n"));
}

#[test]
fn shell_text_that_only_looks_is_read() {
    let wrong: Vec<String> = include_str!("tests/reading.txt")
        .split("\n%%\n")
        .map(str::trim_start)
        .filter(|text| !text.trim().is_empty())
        .filter_map(|text| {
            let verdict = classify(Language::Shell, text);
            (verdict.effect != Read).then(|| format!("{text:?}: {} {}", verdict.effect, verdict.why))
        })
        .collect();
    assert!(wrong.is_empty(), "not called read:\n{}", wrong.join("\n"));
}

#[test]
fn what_is_proved_is_called_write() {
    for text in [
        "rm x",
        "\\rm x",
        "a=rm; $a x",
        "sh -c 'rm x'",
        "find . -delete",
        "ls > x",
        "sed -i p x",
        "echo $(rm x)",
        "eval rm x",
        "sudo rm x",
        "xargs rm",
        "cat <<E | tee x\na\nE",
    ] {
        let verdict = classify(Language::Shell, text);
        assert_eq!(verdict.effect, Write, "{text}: {}", verdict.why);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", language in languages()) {
        let _ = classify(language, &text);
    }

    #[test]
    fn no_pile_of_program_parts_makes_it_panic(parts in prop::collection::vec(prop::sample::select(PARTS), 0..40), language in languages()) {
        let _ = classify(language, &parts.concat());
    }

    /// A change stays a change whatever harmless statements stand around it.
    #[test]
    fn a_change_is_found_among_reads(before in reads(), after in reads(), change in prop::sample::select(&["DELETE FROM t", "DROP TABLE t", "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "SELECT nextval('s')"][..])) {
        let text = format!("{before};{change};{after}");
        for dialect in [Dialect::Postgres, Dialect::Sqlite, Dialect::MySql, Dialect::Generic] {
            prop_assert_ne!(sql(dialect, &text).effect, Read);
        }
    }

    /// The same for the shell.
    #[test]
    fn a_command_that_changes_is_found_among_others(before in "(ls|cat a|echo b|true)", joint in prop::sample::select(&[";", "\n", " && ", " || ", " | ", " & "][..]), wrap in prop::sample::select(&["rm x", "(rm x)", "{ rm x; }", "if true; then rm x; fi", "for i in a; do rm x; done", "echo $(rm x)", "echo \"`rm x`\"", "echo <(rm x)", "! rm x"][..])) {
        let text = format!("{before}{joint}{wrap}");
        prop_assert_ne!(classify(Language::Shell, &text).effect, Read, "{}", text);
    }
}

fn languages() -> impl Strategy<Value = Language> {
    prop::sample::select(
        &[
            Language::Sql(Dialect::Postgres),
            Language::Sql(Dialect::Sqlite),
            Language::Sql(Dialect::MySql),
            Language::Sql(Dialect::Generic),
            Language::Shell,
        ][..],
    )
}

fn reads() -> impl Strategy<Value = String> {
    prop::sample::select(&["SELECT 1", "SELECT 'a;b'", "/* c */ SELECT 2", "VALUES (1)", "", "SELECT \"x\" FROM t"][..])
        .prop_map(str::to_owned)
}

const PARTS: &[&str] = &[
    "SELECT ",
    "WITH a AS (",
    "DELETE FROM t ",
    "(",
    ")",
    "'",
    "\"",
    "`",
    "$$",
    "$a$",
    "/*",
    "*/",
    "/*!",
    "--",
    "#",
    ";",
    "\n",
    "\\",
    "E'",
    "U&\"",
    "[",
    "]",
    ",",
    ".",
    "1e",
    "0x",
    "a",
    "é",
    "\u{1F600}",
    "::",
    "EXPLAIN ",
    "ANALYZE ",
    "COPY ",
    "PRAGMA ",
    "SET ",
    "DECLARE ",
    "PREPARE ",
    " AS ",
    " FOR ",
    "CASE ",
    "END ",
    " OVER ",
    "$(",
    "${",
    "}",
    "<<E\n",
    "E\n",
    "<(",
    "|",
    "&",
    ">",
    "find . ",
    "-exec ",
    "sed ",
    "awk '{",
    "}' ",
    "xargs ",
    "sh -c '",
    "if ",
    "then ",
    "fi",
    "case x in ",
    "esac",
    "function f ",
    "() {",
    "[[ ",
    " ]]",
    "((",
    "))",
    "x=",
    "$x",
    "eval ",
    "$'\\",
    "*",
    "{a,b}",
    "!",
    "~",
];
