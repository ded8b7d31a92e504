//! SQL by engine: the named tricks, and what each would do.

use super::*;
use Effect::Ddl;

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
