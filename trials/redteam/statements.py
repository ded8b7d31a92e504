"""Where the SQL of the trial comes from, except generated ones: lists of the reader's own tests, known reads, the shared corpus that the
engines labelled, and statements of the engines' regression suites if a folder with them is given (see `suites`).

A group is what runs against one fresh database, in order: `(source, texts)`.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = ROOT / "crates/identity/src/effects/tests/statements.rs"
CORPUS = ROOT.parent / "shared/corpora/effects/effects.jsonl"
SUITES = {"postgresql": "postgresql.jsonl", "mysql": "mariadb.jsonl", "sqlite": "sqlite.jsonl"}
TEXT_BYTES_MAX = 20_000

EVERYWHERE = [
    "SELECT 1", "SELECT a, b FROM t", "SELECT * FROM t WHERE a = 1", "SELECT count(*) FROM t GROUP BY b HAVING count(*) > 0",
    "SELECT t.a, p.name FROM t JOIN people p ON p.id = t.a ORDER BY 1 LIMIT 5", "SELECT * FROM (SELECT a FROM t) q WHERE a IN (1, 2)",
    "WITH q AS (SELECT a FROM t) SELECT * FROM q", "SELECT a FROM t UNION ALL SELECT id FROM people", "SELECT max(a), min(d), avg(d) FROM t",
    "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END FROM t", "SELECT lower(b), upper(b), length(b) FROM t", "SELECT coalesce(b, 'none') FROM t",
    "SELECT * FROM v", "VALUES (1), (2)", "SELECT a FROM t WHERE b LIKE 'o%'", "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM people WHERE id = a)",
    "SELECT row_number() OVER (ORDER BY a) FROM t", "SELECT DISTINCT b FROM t", "SELECT -a, a + 1, a * 2, a / 1 FROM t", "SELECT 'it''s'",
    "EXPLAIN SELECT * FROM t", "SELECT a AS \"x y\" FROM t", "SELECT CAST('1' AS int)", "SELECT a FROM t WHERE b IS NULL OR a BETWEEN 1 AND 2",
    "SELECT substr(b, 1, 2) FROM t", "SELECT a FROM t -- a comment", "SELECT /* a comment */ a FROM t", "SELECT 1; SELECT 2",
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) SELECT n FROM c", "SELECT replace(b, 'o', '0') FROM t",
]
KNOWN = {
    "postgresql": [
        "SELECT ('{\"a\": 1}'::jsonb) -> 'a'", "SELECT now(), current_date, current_user", "SELECT * FROM generate_series(1, 3) g",
        "SHOW search_path",
        "SELECT tags[1] FROM people", "SELECT array_agg(a ORDER BY a) FROM t", "COPY t TO STDOUT", "COPY (SELECT a FROM t) TO STDOUT WITH CSV",
        "EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM t", "SELECT * FROM t TABLESAMPLE system (10)", "SELECT 's'::regclass", "SELECT currval('s')",
        "SELECT data ->> 'k' FROM people", "SELECT relname FROM pg_class LIMIT 3", "SELECT lo_get(4711)", "SELECT * FROM unnest(ARRAY[1, 2]) u",
        "SELECT string_agg(b, ',') FILTER (WHERE a > 1) FROM t", "SELECT a FROM t FETCH FIRST 1 ROW ONLY", "SELECT $$text$$",
        "SELECT extract(year FROM c) FROM t",
        "SELECT * FROM t, LATERAL (SELECT a) q", "SELECT interval '1 day'", "SELECT last_value FROM s", "SELECT b COLLATE \"C\" FROM t",
        "SET work_mem = '4MB'", "SET TIME ZONE 'UTC'", "SELECT row_to_json(t) FROM t", "SELECT jsonb_path_query(data, '$.k') FROM people",
    ],
    "mysql": [
        "SHOW TABLES", "SHOW VARIABLES LIKE 'a%'", "DESCRIBE t", "SHOW CREATE TABLE t", "SELECT `a` FROM `t`", "SELECT now(), database(), user()",
        "SELECT group_concat(b SEPARATOR ',') FROM t", "SELECT a FROM t LIMIT 1, 2", "SELECT if(a > 1, 'x', 'y') FROM t",
        "SELECT concat(b, \"x\") FROM t",
        "SELECT a FROM t # a comment", "EXPLAIN FORMAT=JSON SELECT * FROM t", "SELECT @@version", "SELECT date_add('2026-01-01', INTERVAL 1 DAY)",
        "SELECT * FROM people WHERE MATCH (name) AGAINST ('Ada')", "SELECT json_extract(data, '$.k') FROM people", "SELECT last_insert_id()",
        "SELECT SQL_NO_CACHE a FROM t", "SELECT a FROM t USE INDEX (PRIMARY)", "SHOW INDEX FROM t", "SHOW PROCESSLIST",
        "SELECT a DIV 2, a MOD 2 FROM t",
        "SELECT STRAIGHT_JOIN t.a FROM t JOIN people ON id = a", "SELECT b RLIKE 'o' FROM t", "SELECT convert(b USING utf8mb4) FROM t", "SHOW STATUS",
        "SELECT 1 FROM DUAL", "SELECT a <=> 1 FROM t", "SELECT _utf8mb4'x'", "SELECT x'41', b'1', 0x41", "SELECT BINARY b FROM t",
    ],
    "sqlite": [
        "SELECT [a] FROM [t]", "SELECT `a` FROM `t`", "SELECT b GLOB 'o*' FROM t", "PRAGMA table_info(t)", "PRAGMA user_version",
        "EXPLAIN QUERY PLAN SELECT * FROM t",
        "SELECT * FROM pragma_table_info('t')", "SELECT * FROM words WHERE words MATCH 'alpha'", "SELECT json_extract(data, '$.k') FROM people",
        "SELECT rowid FROM t",
        "SELECT * FROM json_each('[1, 2]')", "SELECT typeof(a), quote(b), hex(b) FROM t", "SELECT datetime('now')", "SELECT sqlite_version()",
        "PRAGMA database_list",
        "SELECT * FROM sqlite_master", "SELECT iif(a > 1, 'x', 'y') FROM t", "SELECT printf('%d', a) FROM t", "SELECT * FROM t INDEXED BY none",
        "SELECT ?1, :x, @y",
        "SELECT snippet(words, 0, '', '', '', 5) FROM words WHERE words MATCH 'alpha'", "SELECT last_insert_rowid(), changes(), total_changes()",
        "PRAGMA integrity_check", "PRAGMA main.page_count", "SELECT a IS NOT 1 FROM t", "SELECT a FROM t NATURAL JOIN people", "SELECT x'41'",
        "SELECT 1 == 1",
    ],
}


def own(dialect):
    """The reader's own lists, of all dialects: what one engine reads as a comment is a program to another."""
    literals = re.findall(r'\(\s*(?:Dialect::\w+,\s*)?"((?:[^"\\]|\\.)*)"', TESTS.read_text())
    return [*known_reads(dialect), *map(unescaped, literals)]


def known_reads(dialect):
    return EVERYWHERE + KNOWN[dialect]


def unescaped(literal):
    """A string of Rust's."""
    simple = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\", '"': '"', "'": "'"}
    value = lambda found: chr(int(found[1], 16)) if found[1] else chr(int(found[2], 16)) if found[2] else simple.get(found[3], found[3])
    return re.sub(r"\\(?:u\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|(.))", value, literal, flags=re.S)


def corpus(dialect):
    """Groups of the shared corpus, by the file that a statement is from; none where it is absent."""
    return grouped(CORPUS, "shared corpus", lambda line: line.get("dialect") == dialect, "source")


def suite(dialect, folder):
    return grouped(folder / SUITES[dialect], "regression suite", lambda line: True, "file") if folder else []


def grouped(path, source, wanted, by):
    if not path.exists():
        return []
    files = {}
    with path.open() as lines:
        for line in map(json.loads, lines):
            if wanted(line) and len(line["sql"]) <= TEXT_BYTES_MAX:
                files.setdefault(line[by], []).append(line["sql"])
    return [(source, texts) for texts in files.values()]
