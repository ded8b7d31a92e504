"""Statements made at random: things that do harm, and things that readers and engines may read differently, put into known reads."""

import re

WORD = re.compile(r"\s+|\w+|'(?:[^']|'')*'|\"[^\"]*\"|.", re.S)

# Not harmful, but some readers read them differently, so they may hide or show the text beside them.
CONFUSING = [
    "/*", "*/", "/* /* */", "/**/", "--", "-- ", "--\n", "--\r", "--\x7f", "#", "# x\n", "'", "''", "\"", "\"\"", "`", "\\", "\\'", "'\\''", "$$",
    "$a$", "$1", "$a::b(", "E'\\'' ",
    "U&'\\0027'", "u&\"\\0061\"", "N'x'", "x'41'", "B'1'", "\x00", "\x0b", "\x0c", "\u00a0", "\u200b", "\u2019", "\ufeff", "\u3000", ";", ";;", "(",
    ")", "[", "]", "{", "}", ",", ".",
    "/*! 1 */", "/*!99999 1 */", "/*M! 1 */", "/*+ x */", "'a' 'b'", "'a'\n'b'", "\r", "\t", "\n", "::", ":=", "=>", "@", "@@", "?", "1e", "0x", "1.",
    ".5", "1_000",
    "_utf8'x'", "_latin1 x'41'", "{d '2026-01-01'}", "{fn now()}", "AS", "NOT", "ALL", "FROM", "UNION", "DISTINCT", "COLLATE", "OVER ()",
    "FILTER (WHERE true)", "WITHIN GROUP (ORDER BY 1)",
]
EVERYWHERE = [
    "; DELETE FROM t", ";DROP TABLE t;", "; INSERT INTO touched (who) VALUES ('x')", "; UPDATE t SET b = 'x'", "FOR UPDATE", "FOR SHARE",
    "INTO copied", "INTO TABLE copied",
    "(DELETE FROM t)", "harm()", ", harm()", "(SELECT harm())", "EXPLAIN", "EXPLAIN ANALYZE", "DESCRIBE", "BEGIN;", "COMMIT;", "; COMMIT",
    "ROLLBACK;", "CALL harm_all()", "/* ' */ DELETE FROM t /* ' */",
    "' ; DELETE FROM t; -- '", "\" ; DELETE FROM t; -- \"", "$$; DELETE FROM t; $$", "/*! ; DELETE FROM t */", "-- \nDELETE FROM t",
    "--\rDELETE FROM t\n", "#\n; DELETE FROM t", "\\'; DELETE FROM t; --",
]
OF_DIALECT = {
    "postgresql": [
        "nextval('s')", ", setval('s', 99)", "pg_catalog.nextval('s')", "\"nextval\"('s')", "('s'::regclass).nextval", "s.nextval",
        "lo_import('/etc/hostname')", "lo_export(4711, 'written')",
        "lo_unlink(4711)", "lo_put(4711, 0, 'x')", "pg_read_file('PG_VERSION')", "set_config('search_path', 'x', false)", "pg_notify('a', 'b')",
        "pg_advisory_lock(1)", "txid_current()", "setseed(0.1)",
        "COPY t TO '/tmp/servanda-redteam-written'", "COPY t TO PROGRAM 'true'", "TO '/tmp/servanda-redteam-written'", "WITH q AS (DELETE FROM t RETURNING *)",
        "WITH q AS (UPDATE t SET b = 'x' RETURNING a)", "1 OPERATOR(public.+) 2",
        "OPERATOR(public.+)", "@#@", "1 @#@ 2", "::pair", "::public.pair", "pair '(1,2)'", "::mytype", "AS x(a mytype)",
        "domain_in('1', 'mytype'::regtype, -1)", "json_to_record('{\"a\": 1}')", "(t).harm", "t.harm", "(1, 2)::pair",
        "query_to_xml('SELECT harm()', true, true, '')", "dblink_exec('', 'x')",
        "SET search_path = x", "SET ROLE owner", "RESET ALL", "DISCARD ALL", "LISTEN a", "PREPARE p AS SELECT 1",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1", "DO $$ BEGIN PERFORM harm(); END $$", "CREATE TEMP TABLE x (a int)",
        "FOR NO KEY UPDATE", "FOR KEY SHARE SKIP LOCKED", "LOCK TABLE t", "pg_switch_wal()", "pg_create_restore_point('x')", "pg_stat_reset()",
        "pg_terminate_backend(0)", "E'\\'; SELECT harm(); --'", "U&\"h\\0061rm\"()",
        "VARIADIC ARRAY[1]", "ANALYZE t", "(ANALYZE)", "(\"analyze\")", "WITH ORDINALITY", "LATERAL harm()", ", LATERAL harm()", "ROWS FROM (harm())",
        "TABLESAMPLE bernoulli (10)", "IS DOCUMENT", "LIMIT harm()", "OFFSET nextval('s')",
    ],
    "mysql": [
        "nextval(s)", ", setval(s, 99)", "NEXT VALUE FOR s", "s.nextval", "lastval(s)", "INTO OUTFILE 'written'", "INTO DUMPFILE 'written'",
        "INTO @x", "@x := 1", ", @x := 5", "INTO OUTFILE '/tmp/servanda-redteam-written'",
        "load_file('/etc/hostname')", "get_lock('a', 0)", "release_lock('a')", "last_insert_id(5)", "/*!50000 ; DELETE FROM t */", "/*!99999 */",
        "/*M!100000 INTO OUTFILE 'written' */", "LOCK IN SHARE MODE",
        "PROCEDURE ANALYSE()", "HANDLER t OPEN", "DO harm()", "DO sleep(0)", "GET DIAGNOSTICS @x = NUMBER", "WHERE harm()",
        "SHOW TABLES WHERE harm()", "LIKE harm()", "SET @x = 1", "SET GLOBAL general_log = 1", "SET sql_mode = ''",
        "SET SESSION autocommit = 0", "SET NAMES gbk", "SET STATEMENT sql_mode = '' FOR SELECT 1", "SET PASSWORD = ''", "USE mysql",
        "EXECUTE IMMEDIATE 'DELETE FROM t'", "PREPARE p FROM 'DELETE FROM t'", "FLUSH TABLES", "BEGIN NOT ATOMIC DELETE FROM t; END",
        "ANALYZE", "ANALYZE FORMAT=JSON", "OPTIMIZE TABLE t", "CHECK TABLE t", "KILL 0", "XA START 'x'", "SAVEPOINT x", "`harm`()", "shop.harm()",
        "LIMIT 1 INTO @x", "FOR UPDATE SKIP LOCKED", "PARTITION (p0)", "WITH ROLLUP",
        "master_pos_wait('a', 1, 0)", "benchmark(1, harm())", "-- \n; DELETE FROM t", "--; DELETE FROM t\n", "\"; DELETE FROM t; #",
        "FOR SYSTEM_TIME ALL", "AGAINST ('x' WITH QUERY EXPANSION)", "DELIMITER //",
    ],
    "sqlite": [
        "load_extension('x')", "writefile('written', 'x')", "edit('x')", "readfile('/etc/hostname')", "fts3_tokenizer('x')",
        "ATTACH 'written.db' AS x", "DETACH main", "VACUUM INTO 'written.db'", "VACUUM", "REINDEX", "ANALYZE",
        "PRAGMA query_only = 0", "PRAGMA user_version = 9", "PRAGMA journal_mode = WAL", "PRAGMA writable_schema = 1", "PRAGMA optimize", "= 1",
        "(1)", "= WAL", "PRAGMA wal_checkpoint", "pragma_optimize", ", pragma_optimize",
        "FROM pragma_journal_mode", "fsdir('.')", ", fsdir", "zipfile('x')", "$a::b(');DELETE FROM t;--')", "$a::b", "RAISE(FAIL, 'x')",
        "INSERT INTO v VALUES (1, 2)", "REPLACE INTO t VALUES (1, 1, 1, 1)", "INSERT INTO words(words) VALUES ('optimize')",
        "REGEXP 'x'", "MATCH 'x'", "eval('DELETE FROM t')", "BEGIN IMMEDIATE", "SAVEPOINT x", "RELEASE x", "BEGIN", "sqlite_dbpage",
        "CREATE TEMP TABLE x (a)", "[;DELETE FROM t;]", "`;DELETE FROM t;`", "WITH q AS (DELETE FROM t RETURNING a)", "RETURNING a",
        "EXPLAIN QUERY PLAN", "INDEXED BY people_by_name", "NOT INDEXED", "ISNULL", "COLLATE nocase", "sqlite_log(1, 'x')", "main.", "temp.",
        "EXCLUDE TIES",
    ],
}


def mutated(dialect, bases, count, chance):
    """`count` statements; about half with harm in them, half with parts that may be misread, some with both."""
    harm = EVERYWHERE + OF_DIALECT[dialect]
    made = []
    while len(made) < count:
        text = chance.choice(bases)
        for _ in range(chance.choice([1, 1, 2, 3])):
            text = once(text, chance.choice(harm if chance.random() < 0.5 else CONFUSING), bases, chance)
        made.append(text)
    return made


def once(text, fragment, bases, chance):
    """One change at the border of two words: put in, put in place of a word, or around the rest; or a part of another read."""
    words = WORD.findall(text) or [""]
    at = chance.randrange(len(words) + 1)
    head, tail = "".join(words[:at]), "".join(words[at:])
    way = chance.random()
    if way < 0.4:
        return f"{head} {fragment} {tail}"
    if way < 0.6:
        return head + fragment + tail
    if way < 0.75:
        return head + fragment + "".join(words[at + 1 :])
    if way < 0.85:
        return chance.choice([f"{fragment} {text}", f"{text} {fragment}", f"{text};{fragment}", f"{fragment};{text}"])
    other = WORD.findall(chance.choice(bases))
    from_at = chance.randrange(len(other) + 1)
    return head + "".join(other[from_at : from_at + chance.randrange(1, 8)]) + tail
