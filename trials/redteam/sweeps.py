"""Statements made from an engine's own lists: every function with arguments that fit, every setting, every pragma, every module, and every word
of its grammar where a reader could stop, or take it for something else. Every one that is called a read is then run, so that no name is in
the reader's lists by mistake."""

import re
from pathlib import Path

FUNCTIONS = Path(__file__).resolve().parent.parent.parent / "crates/identity/src/effects/sql/functions"

# Two values of each type: a plain one, and one that names an existing object.
VALUES = {
    "text": ["'a'", "'s'"], "name": ["'t'", "'s'"], "cstring": ["'1'", "'s'"], "regclass": ["'t'::regclass", "'s'::regclass"],
    "oid": ["'t'::regclass::oid", "4711::oid"],
    "boolean": ["true", "false"], "smallint": ["1::int2", "2::int2"], "integer": ["1", "2"], "bigint": ["1::int8", "4711::int8"],
    "real": ["0.5::float4", "1::float4"],
    "double precision": ["0.5::float8", "1::float8"], "numeric": ["1.5", "2::numeric"], "bytea": ["'a'::bytea", "'x'::bytea"],
    "date": ["'2026-01-01'::date", "now()::date"],
    "timestamp with time zone": ["now()", "'2026-01-01'::timestamptz"],
    "timestamp without time zone": ["now()::timestamp", "'2026-01-01'::timestamp"],
    "interval": ["'1 s'::interval", "'0'::interval"], "json": ["'{\"a\": 1}'::json", "'[1]'::json"], "jsonb": ["'{\"a\": 1}'::jsonb", "'[1]'::jsonb"],
    "jsonpath": ["'$.a'::jsonpath", "'$'::jsonpath"],
    "anyelement": ["1", "'a'::text"], "anycompatible": ["1", "'a'::text"], "anynonarray": ["1", "'a'::text"], "anyarray": ["ARRAY[1]", "ARRAY['a']"],
    "anycompatiblearray": ["ARRAY[1]", "ARRAY['a']"],
    "text[]": ["ARRAY['a']", "ARRAY['s']"], "oid[]": ["ARRAY['t'::regclass::oid]", "ARRAY[1::oid]"], "integer[]": ["ARRAY[1]", "ARRAY[1, 2]"],
    "\"any\"": ["1", "'s'"], "xml": ["'<a/>'::xml", "'<b/>'::xml"],
    "regtype": ["'int'::regtype", "'pair'::regtype"], "regprocedure": ["'harm()'::regprocedure", "'harm(int,int)'::regprocedure"],
    "pg_lsn": ["'0/0'::pg_lsn", "'0/1'::pg_lsn"],
    "xid": ["'1'::xid", "'2'::xid"], "xid8": ["'1'::xid8", "'2'::xid8"], "record": ["row(1)", "t"], "\"char\"": ["'a'::\"char\"", "'r'::\"char\""],
    "character": ["'a'::bpchar", "'b'::bpchar"],
    "inet": ["'::1'::inet", "'10.0.0.1'::inet"], "point": ["'(1,1)'::point", "'(0,0)'::point"], "tsvector": ["'a'::tsvector", "'b'::tsvector"],
    "tsquery": ["'a'::tsquery", "'b'::tsquery"], "tid": ["'(0,1)'::tid", "'(0,2)'::tid"],
    "regconfig": ["'simple'::regconfig", "'english'::regconfig"], "regdictionary": ["'simple'::regdictionary", "'simple'::regdictionary"],
    "uuid": ["gen_random_uuid()", "gen_random_uuid()"],
}
ARGUMENTS = ["", "1", "'a'", "a", "b", "1, 2", "'a', 1", "'a', 'b'", "'[1]', '$[0]'", "1, 2, 3", "'a', 'b', 'c'", "'2026-01-01'", "s", "'s', 1",
    "'a', 'b', 1, 1", "*"]
# What MariaDB shows, and modules of SQLite's own program.
SHOWN = """TABLES;FULL TABLES;COLUMNS FROM t;INDEX FROM t;CREATE TABLE t;CREATE VIEW v;CREATE FUNCTION harm;CREATE SEQUENCE s;STATUS;GLOBAL STATUS
VARIABLES;PROCESSLIST;ENGINES;ENGINE INNODB STATUS;ENGINE INNODB MUTEX;PLUGINS;PLUGINS SONAME;GRANTS;DATABASES;EVENTS;TRIGGERS;WARNINGS;ERRORS
COUNT WARNINGS;MASTER STATUS;BINARY LOGS;SLAVE STATUS;ALL SLAVES STATUS;BINLOG EVENTS;RELAYLOG EVENTS;OPEN TABLES;TABLE STATUS;PROCEDURE STATUS
FUNCTION STATUS;FUNCTION CODE harm;PROFILES;PROFILE;CHARACTER SET;COLLATION;PRIVILEGES;AUTHORS;CONTRIBUTORS;STORAGE ENGINES;USER_STATISTICS
CLIENT_STATISTICS;INDEX_STATISTICS;TABLE_STATISTICS;LOCALES;CREATE USER root;CREATE DATABASE mysql;PACKAGE STATUS;EXPLAIN FOR x"""
MODULES = "fsdir zipfile completion sqlite_dbpage dbstat csv lsdir sqlite_stmt bytecode tables_used"


# Words of SQLite's grammar, which it does not list by itself.
SQLITE_WORDS = """abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade case cast check
collate column commit conflict constraint create cross current current_date current_time current_timestamp database default deferrable deferred
delete desc detach distinct do drop each else end escape except exclude exclusive exists explain fail filter first following for foreign from full
generated glob group groups having if ignore immediate in index indexed initially inner insert instead intersect into is isnull join key last left
like limit match materialized natural no not nothing notnull null nulls of offset on or order others outer over partition plan pragma preceding
primary query raise range recursive references regexp reindex release rename replace restrict returning right rollback row rows savepoint select
set table temp temporary then ties to transaction trigger unbounded union unique update using vacuum values view virtual when where window with
without go"""
# A call that does harm, and a call whose result is written to a file.
HARM = {"postgresql": "nextval('s')", "mysql": "nextval(s)", "sqlite": "load_extension('x')"}
# Where operators, comments and quotes meet.
SEAMS = ["+", "=", "*", "-", "<", "?", "@", "@a.", "@as ", "||", "!", "%", "~", "^", "&", ":", "::"]
OPENINGS = ["#", "`", "\"", "'", "--", "-- ", "/*", "/*!", "/*M!", "[", "$$", "\\"]


def swept(dialect, engine):
    return {"postgresql": postgresql, "mysql": mysql, "sqlite": sqlite}[dialect](engine) + list(misread(dialect, engine))


def misread(dialect, engine):
    """Every word of the grammar where a name could stand, with harm behind it; and everything that begins a string, a name or a comment, behind
    everything that an operator may be made of."""
    question = {"postgresql": "SELECT word FROM pg_get_keywords()", "mysql": "SELECT lower(word) FROM information_schema.keywords"}.get(dialect)
    words = SQLITE_WORDS.split() if not question else [word for (word,) in engine.ask(question) if re.fullmatch(r"\w+", word)]
    harm = HARM[dialect]
    for word in words:
        for text in (f"1 {word}, {harm}", f"1 {word} {harm}", f"a.{word} {harm} FROM t a", f"1 AS {word} {harm}", f"1 FROM t {word}, {harm}",
                     f"1 FROM t {word} {harm}", f"t.{word} INTO copied FROM t", f"{word} (1), {harm}"):
            yield f"SELECT {text}"
    for seam in SEAMS:
        for opening in OPENINGS:
            yield f"SELECT 1 {seam}{opening} x\n 2, {harm} FROM t -- */ ' \" `\n"
            yield f"SELECT 1 {seam}{opening} /*\n 2, {harm} + -- */\n 2"
            yield f"SELECT 1 {seam}{opening} '\n 2, {harm} #'"
            yield f"SELECT 1 {seam}{opening}-- x{opening}, {harm} FROM (SELECT 1 AS {opening}-- x{opening}) t WHERE 1 OR '\n+{opening} -- '"
    for source in ("text('x')", "unnest(ARRAY['s'::regclass])", "current_user", "generate_series(1, 1)"):
        yield from (f"SELECT g.{name} FROM {source} AS g" for name in ("harm", "nextval", "lo_creat", "dblink_connect_u"))


def listed_functions(name):
    """All functions of the reader's list, of every kind."""
    text = (FUNCTIONS / f"{name}.txt").read_text()
    return [word for line in text.splitlines() if not line.startswith("#") for word in line.split(": ", 1)[1].split()]


def postgresql(engine):
    types = "(SELECT string_agg(format_type(u, NULL), ';' ORDER BY o) FROM unnest(proargtypes) WITH ORDINALITY a(u, o))"
    made = []
    for name, kind, types in engine.ask(f"SELECT proname, prokind, {types} FROM pg_proc WHERE prokind IN ('f', 'a', 'w') ORDER BY proname, oid"):
        types = types.split(";") if types else []
        for variant in (0, 1):
            values = [VALUES.get(type_name, [f"'1'::{type_name}", f"NULL::{type_name}"])[variant] for type_name in types]
            over = " OVER ()" if kind == "w" else ""
            made.append(f"SELECT {name}({', '.join(values)}){over} FROM t")
            if len(types) == 1:
                # A function of one argument can be written like a column.
                made.append(f"SELECT x.{name} FROM unnest(ARRAY[{values[0]}]) AS x")
    for name, kind, choices in engine.ask("SELECT name, vartype, enumvals[1] FROM pg_settings"):
        # With a very short time limit the trial itself could not ask, and would see nothing.
        number = "100000" if name.endswith("timeout") else "1"
        value = {"bool": "off", "integer": number, "real": "1", "enum": choices}.get(kind, "'x'")
        made += [f"SHOW {name}", f"SET {name} = {value}", f"SET LOCAL {name} TO {value}", f"SET SESSION {name} = DEFAULT"]
        made.append(f"SELECT current_setting('{name}')")
    tables = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')"
    return made + [f"SELECT * FROM {name} LIMIT 50" for (name,) in engine.ask(tables)]


def mysql(engine):
    own = {name.lower() for (name,) in engine.ask("SELECT function FROM information_schema.sql_functions")}
    made = [f"SELECT {name}({arguments}) FROM t" for name in sorted(own | set(listed_functions("mysql"))) for arguments in ARGUMENTS]
    for name, _ in engine.ask("SHOW VARIABLES"):
        made += [f"SET {name} = 1", f"SET SESSION {name} = ON", f"SET @@{name} = 1", f"SELECT @@{name}", f"SELECT @@global.{name}"]
    made += [f"SHOW {words}" for words in SHOWN.replace("\n", ";").split(";") if words]
    tables = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('information_schema', 'mysql', 'sys')"
    return made + [f"SELECT * FROM {schema}.{name} LIMIT 50" for schema, name in engine.ask(tables)]


def sqlite(engine):
    functions = {name for (name,) in engine.ask("SELECT DISTINCT name FROM pragma_function_list")} | set(listed_functions("sqlite"))
    plain = sorted(name for name in functions if re.fullmatch(r"\w+", name))
    made = [f"SELECT {name}({arguments}) FROM t" for name in plain for arguments in ARGUMENTS if arguments != "s"]
    made += [f"SELECT * FROM {name}({arguments})" for name in plain for arguments in ("", "1", "'t'", "'a', 1")]
    # A connection that planned something before has something to do for a pragma.
    before = "SELECT * FROM people WHERE name = 'x' AND data > 'y'; "
    pragmas = {name for (name,) in engine.ask("SELECT name FROM pragma_pragma_list")} | {"optimize", "wal_checkpoint", "shrink_memory"}
    for name in sorted(pragmas):
        for value in ("", " = 1", "(1)", " = 0", "(t)", " = 'x'", "(people)"):
            made += [f"{before}PRAGMA {name}{value}", f"PRAGMA main.{name}{value}"]
        table = f"pragma_{name}"
        made += [f"SELECT * FROM {table}(1)", f"SELECT * FROM {table} WHERE arg = 1", f"{before}SELECT 1 IN {table}"]
        made += [f"{before}SELECT * FROM {source}" for source in (table, f"t JOIN {table}", f'"{table}"', f"main.{table}", f"(SELECT * FROM {table})")]
    modules = {name for (name,) in engine.ask("SELECT name FROM pragma_module_list")} | set(MODULES.split())
    return made + [f"SELECT * FROM {name}{more}" for name in sorted(modules) for more in ("", " LIMIT 3", "('.')", " WHERE path = '.'")]
