//! Programs disguised as queries, as attackers sent them. Each changed something on a real engine although we had called it a read.

use super::*;

const POSTGRES: &[&str] = &[
    // `END` is a name to the engine and the end of a block to the parser.
    "SELECT 1 end, nextval('s')",
    "SELECT 1 END, lo_from_bytea(4711, 'abc')",
    "EXPLAIN ANALYZE SELECT 1 end, nextval('s')",
    "COPY (SELECT 1 end, nextval('s')) TO STDOUT",
    "SELECT 1 end, pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
    "SELECT 1 end, x.as INTO pwned FROM (SELECT 2) AS x(\"as\")",
    "SELECT x.as INTO pwned FROM (SELECT 2) AS x(\"as\")",
    // A name written like a column is a call if the source has no such column.
    "SELECT g.dblink_connect_u FROM text('host=localhost user=owner') AS g",
    "SELECT g.crosstab2 FROM text($$select nextval('s')::text, 'a'::text, 'b'::text$$) AS g",
    "SELECT g.set_limit FROM float4(0.9) AS g",
    "SELECT g.purge_order FROM generate_series(1,1) AS g",
    "SELECT text.purge FROM text('x')",
    "SELECT g.purge FROM unnest(ARRAY['x']) AS g",
    "SELECT g.purge[1] FROM unnest(ARRAY['x']) AS g",
    "SELECT g.purge FROM current_user AS g",
    "SELECT g.purge FROM LATERAL text('x') AS g",
    "SELECT G.purge FROM text('x') AS g",
    "SELECT crosstab2.crosstab2 FROM lower('x') AS crosstab2(x)",
    "SELECT set_limit.set_limit FROM float4(0.9) AS set_limit(x)",
    "SELECT (SELECT g.crosstab2 FROM lower('x') g) IS NULL, (SELECT g.crosstab2 FROM lower('x') g(crosstab2))",
    "SELECT unnest.crosstab2 FROM unnest(string_to_array('x','@'))",
    "SELECT btrim.crosstab2 FROM trim('x')",
    "SELECT aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.set_limit FROM float4(0.9) AS \
     aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "SELECT \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\".set_limit FROM float4(0.9) AS \
     \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
    "SELECT \"x\"\"; DELETE FROM orders; --\"; SELECT :LAST_ERROR_MESSAGE",
    "SELECT :'a'",
    "SELECT lo_close(0)",
    "SELECT loread(0, 1)",
    "SELECT fmgr_c_validator('plpgsql_call_handler'::regproc)",
    "SELECT CAST('x' AS datetime)",
    "SELECT 'x'::string",
    "SET statement_timeout = 1",
    "SET default_statistics_target = 1",
    "SELECT a\ngo\n.shell touch x\nFROM t go",
    // A quoted name is never the keyword that is built in.
    "SELECT \"coalesce\"(1)",
    "SELECT \"user\"(1)",
    "SELECT \"Information_Schema\".lower('x')",
    "SELECT \"pg_catalog\".lower('x')",
    // A type and a string: the parser takes the string for an alias.
    "SELECT \"mytype\" '5'",
    "SELECT public.\"mytype\" '5'",
    "SELECT public.text '5'",
    "SELECT public.values '5'",
    "SELECT document '5'",
    "SELECT content '5'",
    "SELECT zone '5'",
    "SELECT length(3) '5'",
    "SELECT * FROM t AS 'x'",
];

const MYSQL: &[&str] = &[
    "SELECT 1 end, nextval(s)",
    "SELECT 1 end, get_lock('q', 1)",
    "SELECT 1 end, last_insert_id(77)",
    "SELECT 1 end, @u:=5",
    "SELECT 1 end, @as INTO OUTFILE '/tmp/x'",
    "SELECT 1 end, @a. INTO OUTFILE '/tmp/x'",
    "SELECT @a. into @b",
    "SELECT @as into @b",
    "SELECT @a.b",
    // After an operator `#` still begins a comment, and a backquote a name.
    "SELECT 1 +# /*\n 2; DELETE FROM t WHERE a = -- */\n 2",
    "SELECT 1 +# /*\n 2 INTO OUTFILE '/tmp/x' LINES TERMINATED BY -- */\n '2'",
    "SELECT 1 +# /*\n 2, get_lock('zz',1) + -- */\n 2",
    "SELECT count(*) FROM t WHERE a =# /*\n 1 OR nextval(s) > -- */\n 2",
    "SELECT 1 +# '\n 2 /*M! into @x */ #'",
    "SELECT 1 +# \"\n 2 /*M! INTO OUTFILE '/tmp/x' */ #\"",
    "SELECT 1+`-- x`, get_lock('a',1) FROM (SELECT 1 AS `-- x`) t WHERE 1 OR '\n+` -- '",
    "SELECT 1+`-- x` FROM (SELECT 1 AS `-- x`) t;INSERT INTO t VALUES (99,'\n+` -- ')",
    "SELECT abs(@a := 1)",
    "SELECT default(a) FROM t2",
    "SELECT * FROM sys.processlist",
    "SELECT * FROM `sys`.`session`",
    "SELECT * FROM information_schema.INNODB_CMP_RESET",
    "SELECT 1\ndelimiter , 5 -\n- 'abc\n INTO OUTFILE \"/tmp/x\" -- '",
    "SELECT count (1)",
    "SELECT median (1)",
    "SELECT rank () OVER () FROM t",
    "SELECT `count`(1)",
    "DESC SELECT `count`(1)",
    "SHOW innodb_cmp_reset",
    "SHOW `INNODB_CMP_RESET`",
    "SHOW FULL innodb_cmpmem_reset",
    "SHOW user_variables",
    "SHOW PLUGINS SONAME 'x.so'",
    // The end of the character and the backquote are one character to a client with another character set.
    "SELECT 1 AS `\u{4e2d}`, 'x` , harm() -- y'",
    "DESC DELETE FROM t",
];

const SQLITE: &[&str] = &[
    "SELECT 1 end, optimize(ft) FROM ft LIMIT 1",
    "SELECT 1 end, * FROM pragma_optimize(0x10002)",
    "SELECT 1 end, writefile('/tmp/x', 'x')",
    "SELECT 1 end, load_extension('x')",
    "SELECT [a]], load_extension(1) ]",
    "SELECT a,\ngo\n.shell \"touch x\"\nFROM t go",
    "SELECT a,\n GO \n.output pwned_out\nFROM t go",
    "SELECT a,\n/\n.output pwned_out\nFROM t",
    "SELECT a,\ngo -- x\n.shell touch x\nFROM t go",
    "SELECT a,\n go /* x */\n.output pwned_out\nFROM t go",
    // A variable's name goes on to the parenthesis.
    "WITH w AS (SELECT :x::varchar(/*)) DELETE FROM t --*/9)) SELECT 1",
    "SELECT @x::numeric(/*) ; DELETE FROM t; SELECT (*/1)",
    "SELECT :x::enum(') ; DELETE FROM t --')",
    "SELECT :x::money(') ; DELETE FROM t WHERE 1 OR \"a\" --')",
    "SELECT @x(') ; DELETE FROM t --')",
    "SELECT a::int FROM t",
];

const GENERIC: &[&str] = &[
    "SELECT \"LOWER\"('x')",
    "SELECT pg_catalog.abs(1)",
    "SELECT document '5'",
    "SELECT median (1)",
    "SHOW innodb_cmp_reset",
    "SELECT 1 end, nextval('s')",
    "SELECT 1 end, get_lock('q', 1)",
    "SELECT abs(@a := 1)",
    "SELECT coalesce(@a := 1, 2) FROM t",
    "SELECT @a. into @b",
    "SELECT ?#x, \"\n INTO OUTFILE '/tmp/x' #\"",
    "SELECT g.dblink_connect_u FROM text('host=localhost user=owner') AS g",
    "SELECT default(a) FROM t2",
    "SELECT :x::numeric(/*), a FROM t WHERE 0; DELETE FROM t --*/1)",
    "SELECT @g .set_limit FROM float4(0.9) AS g",
    "SELECT :LAST_ERROR_MESSAGE",
    "SELECT a,\ngo\n.output pwned_out\nFROM t go",
];

#[test]
fn a_program_in_the_clothes_of_a_query_is_no_read() {
    for (dialect, texts) in [
        (SqlDialect::Postgres, POSTGRES),
        (SqlDialect::MySql, MYSQL),
        (SqlDialect::Sqlite, SQLITE),
        (SqlDialect::Generic, GENERIC),
    ] {
        for text in texts {
            assert_ne!(sql(dialect, text).effect, Read, "{dialect:?}: {text}");
        }
    }
}

#[test]
fn what_looks_alike_and_only_reads_stays_a_read() {
    for (dialect, text) in [
        (SqlDialect::Postgres, "SELECT CASE WHEN a THEN 1 END AS x FROM t"),
        (SqlDialect::MySql, "SELECT * FROM t WHERE EXISTS (SELECT 1) AND a IN (1) AND IF (a, 1, 0)"),
        (SqlDialect::MySql, "SELECT a AS 'x' FROM t"),
        (SqlDialect::MySql, "SHOW FULL COLUMNS FROM t LIKE 'a%'"),
        (SqlDialect::MySql, "SHOW GLOBAL STATUS"),
        (SqlDialect::MySql, "SHOW CREATE TABLE t"),
        (SqlDialect::Generic, "SHOW TABLES"),
        (SqlDialect::Generic, "SHOW server_version"),
        (SqlDialect::Postgres, "SHOW work_mem"),
        (SqlDialect::Postgres, "SELECT date '2026-01-01', pg_catalog.lower('x'), extract(year FROM d) AS \"y\" FROM t"),
        (SqlDialect::Postgres, "SELECT j.key, j.value FROM jsonb_each('{}') AS j"),
        (SqlDialect::Postgres, "SELECT g.n FROM generate_series(1, 3) AS g(n)"),
        (SqlDialect::Postgres, "SELECT g.g FROM generate_series(1, 3) AS g"),
        (SqlDialect::Postgres, "SELECT o.archive FROM orders AS o"),
        (SqlDialect::Postgres, "SELECT t.a, t.b::text FROM t LEFT OUTER JOIN u ON t.a = u.a ORDER BY t.a ASC"),
        (SqlDialect::Postgres, "SELECT make_interval(days => 3)"),
        (
            SqlDialect::Postgres,
            "SELECT t.a::int, q.b FROM t, generate_series(1, 2) AS g(n), (SELECT 1 AS b) AS q WHERE t.a = g.n",
        ),
        (SqlDialect::Postgres, "WITH c AS (SELECT 1 AS a) SELECT c.a FROM c, unnest(ARRAY[1]) AS u WHERE u.u = c.a"),
        (SqlDialect::Sqlite, "SELECT j.key, j.value, t.a FROM t, json_each('[1]') AS j WHERE t.a = :a AND t.b = @b"),
        (SqlDialect::MySql, "SELECT @@session.sql_mode, @a FROM `t` # all\nWHERE a = 1"),
        (SqlDialect::MySql, "SELECT COUNT(*), 1 - -1 FROM t"),
        (SqlDialect::Sqlite, "SELECT [a b], `c` FROM t"),
        (SqlDialect::Sqlite, "DESCRIBE t"),
    ] {
        let verdict = sql(dialect, text);
        assert_eq!(verdict.effect, Read, "{dialect:?}: {text}: {}", verdict.why);
    }
}
