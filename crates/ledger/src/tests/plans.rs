//! No statement reads a whole table that grows. Every statement of both stores is taken from the sources, so
//! that none can be forgotten, and its plan is checked: rows are found by an index, or by a partial index of
//! what is under way, which stays small.

use std::path::{Path, PathBuf};

use servanda_effects::effect::EffectState;

use super::cluster::Cluster;
use crate::listing::{ListingDialect, list_statement};

/// Statements that may read everything, and why. Each is only run by a person's command, on a connection of its
/// own.
const BY_HAND: &[(&str, &str)] = &[
    ("select count(*) from all_calls", "counts records for tests and reports; no gateway asks for it"),
    ("select count(*) from calls", "`servanda ledger verify` counts them"),
    (
        "from effects where true order by effect_id desc",
        "`servanda effects` goes through the newest and stops after a page",
    ),
];

/// Parts of statements. They are checked inside the statements that they are part of.
const PARTS: &[&str] = &[
    "new_effects.sql",
    "or_first_key.sql",
    "changed_effects.sql",
    "calls_beside.sql",
    "or_end_call.sql",
    "quarantine_beside.sql",
    "terms_beside.sql",
    "counts_beside.sql",
    "leaves_beside.sql",
];

/// A statement, and where it is from.
#[derive(Debug, Clone)]
struct Statement {
    place: String,
    sql: String,
}

/// Every statement of a store: its files, and the texts in its sources.
fn statements(store: &str) -> Vec<Statement> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = files(&root.join("src").join(store), "rs");
    let code: Vec<(String, String)> = sources.iter().map(|path| (name(path), source(path))).collect();
    let mut found = Vec::new();
    for path in files(&root.join("sql").join(store), "sql") {
        let file = name(&path);
        if file.starts_with("00") || PARTS.contains(&file.as_str()) {
            continue;
        }
        let used = code.iter().any(|(_, text)| text.contains(&format!("sql/{store}/{file}\"")));
        assert!(used, "no source uses {file}");
        found.push(Statement { place: file, sql: std::fs::read_to_string(&path).unwrap() });
    }
    for (file, text) in &code {
        // Migrations run once, before anything else; `statements.rs` composes its parts in a function of its
        // own.
        if ["migrate.rs", "statements.rs"].contains(&file.as_str()) {
            continue;
        }
        for sql in literals(text).into_iter().filter(|text| is_statement(text)) {
            assert!(!sql.contains('{'), "{file}: a composed statement cannot be checked: {sql}");
            found.push(Statement { place: file.clone(), sql });
        }
    }
    found
}

/// The statements that list effects, for every combination of states.
fn lists(dialect: ListingDialect<'_>) -> Vec<Statement> {
    let of_a_tenant = ListingDialect { tenant: Some(if dialect.limit == "?2" { "?3" } else { "$3" }), ..dialect };
    [("list of", dialect), ("list of a tenant's", of_a_tenant)]
        .into_iter()
        .flat_map(|(what, of)| each_list(what, of))
        .collect()
}

fn each_list(what: &str, dialect: ListingDialect<'_>) -> Vec<Statement> {
    let choices = 0..1usize << EffectState::ALL.len();
    let chosen = choices.map(|choice| {
        let states = EffectState::ALL.into_iter().enumerate().filter(|(place, _)| choice & (1 << place) != 0);
        states.map(|(_, state)| state).collect::<Vec<_>>()
    });
    chosen
        .map(|states| Statement { place: format!("{what} {states:?}"), sql: list_statement(&states, dialect) })
        .collect()
}

/// Whether a statement may read everything. Lists with a state that has ended walk through the handles, newest
/// first.
fn is_by_hand(statement: &Statement) -> bool {
    let ended = statement.place.starts_with("list of [")
        && statement.sql.contains("order by effect_id desc")
        && !statement.sql.contains("where state = 'outcome_unknown'");
    ended || BY_HAND.iter().any(|(text, why)| !why.is_empty() && statement.sql.contains(text))
}

#[test]
fn no_statement_of_the_file_reads_a_whole_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    drop(crate::Ledger::open(&path).unwrap());
    let connection = rusqlite::Connection::open(&path).unwrap();
    let all: Vec<Statement> = statements("sqlite").into_iter().chain(lists(crate::sqlite::IN_FILE)).collect();
    assert!(all.len() > 420, "{} statements were found", all.len());
    let mut scanning = Vec::new();
    for statement in &all {
        let explained = connection.prepare(&format!("explain query plan {}", statement.sql));
        let mut plan = explained.unwrap_or_else(|error| panic!("{}: {error}", statement.place));
        let lines: Vec<String> = plan.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap();
        let scans: Vec<&String> = lines.iter().filter(|line| scans_a_table(line)).collect();
        if !scans.is_empty() && !is_by_hand(statement) {
            scanning.push(format!("{}: {scans:?}", statement.place));
        }
    }
    assert!(scanning.is_empty(), "{scanning:#?}");
}

/// The same for the shared database, by a generic plan for unknown parameters, as its connections use it.
/// Sequential scans are switched off on these connections, so that one in a plan shows that no index can be
/// used.
#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_the_database_reads_a_whole_table() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.schema().await;
    drop(crate::Ledger::connect(&url).await.unwrap());
    let client = crate::postgres::client(&url).await.unwrap();
    let mut all: Vec<Statement> = statements("postgres").into_iter().chain(lists(crate::postgres::IN_SERVER)).collect();
    all.extend(crate::postgres::written().into_iter().map(|sql| Statement { place: "writing".to_owned(), sql }));
    assert!(all.len() > 320, "{} statements were found", all.len());
    for filled in [false, true] {
        if filled {
            client.batch_execute(FILLED).await.unwrap();
        }
        let mut scanning = Vec::new();
        for (number, statement) in all.iter().enumerate() {
            let prepared = format!("prepare planned_{filled}_{number} as {}", statement.sql);
            client.batch_execute(&prepared).await.unwrap_or_else(|error| panic!("{}: {error:?}", statement.place));
            let types = format!(
                "select cardinality(parameter_types) from pg_prepared_statements where name = 'planned_{filled}_{number}'"
            );
            let count: i32 = client.query_one(&types, &[]).await.unwrap().get(0);
            let nulls = vec!["null"; usize::try_from(count).unwrap()].join(", ");
            let values = if count == 0 { String::new() } else { format!("({nulls})") };
            let explained =
                client.simple_query(&format!("explain (format json) execute planned_{filled}_{number}{values}")).await;
            let rows = explained.unwrap_or_else(|error| panic!("{}: {error:?}", statement.place));
            let tokio_postgres::SimpleQueryMessage::Row(row) = &rows[1] else { panic!("{rows:?}") };
            let plan: serde_json::Value = serde_json::from_str(row.get(0).unwrap()).unwrap();
            let mut scans = Vec::new();
            scanned(&plan[0]["Plan"], &mut scans);
            if !scans.is_empty() && !is_by_hand(statement) {
                scanning.push(format!("{}: {scans:?}", statement.place));
            }
        }
        assert!(scanning.is_empty(), "filled: {filled}: {scanning:#?}");
    }
}

/// Enough rows, most of them finished, that the planner decides by cost.
const FILLED: &str = "
    insert into calls select 'call_' || lpad(n::text, 9, '0'), 'acme', 'ada', 'pay', 'completed', null, n, n, '{}'
    from generate_series(1, 20000) as n;
    insert into effects (effect_id, key_digest, tenant, principal, request, state, epoch, revision, owner, needs_owner, due_ms,
        expires_ms, body, arguments, upstream)
    select 'eff_' || lpad(n::text, 9, '0'), decode(md5(n::text), 'hex'), 'acme', 'ada', '', case when n % 100 = 0 then 'dispatching'
        when n % 101 = 0 then 'outcome_unknown' when n % 2 = 0 then 'completed' else 'expired' end,
        1, 1, 'own_' || n % 3, true, n, n, '{}', '', case when n % 100 = 0 then 'up_' || n % 7 end
    from generate_series(1, 20000) as n;
    insert into notes select 'session', decode(md5(n::text), 'hex'), '', n from generate_series(1, 20000) as n;
    insert into holds select 'hold_' || n, 'reservation', 'eff_' || lpad(n::text, 9, '0'), case when n % 100 = 0 then 'open' else 'settled' end,
        n, n, '{}' from generate_series(1, 20000) as n;
    insert into standings select decode(md5(n::text), 'hex'), 'acme', n, n, '{}' from generate_series(1, 20000) as n;
    insert into tickets (ticket_id, key_digest, tenant, run, state, created_ms, decided_ms, due_ms, due_ledger_ms, changed_ms, body, arguments)
    select 'apr_' || lpad(n::text, 9, '0'), decode(md5(n::text), 'hex'), 'acme', decode(md5((n / 50)::text), 'hex'), state, n,
        case when state <> 'pending' then n end, case when state = 'pending' then n end, case when state = 'pending' then n end, n, '{}', ''
    from (select n, case when n % 100 = 0 then 'pending' when n % 7 = 0 then 'denied' else 'consumed' end as state
        from generate_series(1, 20000) as n) as made;
    insert into call_terms select n % 50, n, n % 3 from generate_series(1, 20000) as n;
    insert into call_counts select 'acme', case when n % 2 = 0 then 60000 else 3600000 end, n * 60000, 'outcome.completed', n % 3, n
    from generate_series(1, 20000) as n;
    insert into quarantine select 'call_' || lpad(n::text, 9, '0'), 1, '' from generate_series(1, 20000) as n;
    analyze;
";

/// The tables that a plan reads completely.
fn scanned(node: &serde_json::Value, found: &mut Vec<String>) {
    // Effects under way and unknown effects, open holds and tickets; the newest records and accounts, which are read up to
    // a limit; and the dictionary, which has a maximum size.
    const BOUNDED: &[&str] = &[
        "effects_under_way",
        "effects_holding",
        "effects_unknown",
        "dictionary_pkey",
        "holds_open",
        "tickets_open",
        "calls_by_time",
        "standings_by_time",
    ];
    let text = |name: &str| node[name].as_str().unwrap_or_default();
    let grows =
        ["calls", "effects", "notes", "holds", "standings", "quarantine", "tickets", "call_terms", "call_counts"]
            .contains(&text("Relation Name"));
    let is_whole = match text("Node Type") {
        "Seq Scan" => true,
        "Index Scan" | "Index Only Scan" => node["Index Cond"].is_null() && !BOUNDED.contains(&text("Index Name")),
        _ => false,
    };
    let bitmap = text("Node Type") == "Bitmap Index Scan" && node["Index Cond"].is_null();
    if (grows && is_whole) || (bitmap && !BOUNDED.contains(&text("Index Name"))) {
        found.push(format!("{} on {} {}", text("Node Type"), text("Relation Name"), text("Index Name")));
    }
    for inner in node["Plans"].as_array().into_iter().flatten() {
        scanned(inner, found);
    }
}

/// Whether a line of an SQLite plan says that a growing table is read completely.
fn scans_a_table(line: &str) -> bool {
    // Small by themselves: one row for every process of the last day, the row of ledger time, the adoptions,
    // the dictionary, which has a maximum size, and the intermediate results of the statement.
    const SMALL: &[&str] = &[
        "owners",
        "clock",
        "identity",
        "sqlite_schema",
        "adoptions",
        "dictionary",
        "needed",
        "ended",
        "left_open",
        "CONSTANT",
        "listed",
        "waiting",
        "by_clock",
        "by_ledger_time",
        "due",
        "(subquery",
    ];
    // Effects under way and unknown effects, open holds; and the newest records and accounts, which are read up
    // to a limit.
    const BOUNDED: &[&str] =
        &["effects_under_way", "effects_holding", "effects_unknown", "calls_by_time", "standings_by_time"];
    let Some(rest) = line.strip_prefix("SCAN ") else { return false };
    let what = rest.split(' ').next().unwrap_or_default();
    let index = rest.split_once("INDEX ").and_then(|(_, index)| index.split(' ').next());
    !SMALL.contains(&what) && !index.is_some_and(|index| BOUNDED.contains(&index))
}

#[test]
fn a_scan_is_seen() {
    let table = [
        ("SCAN effects", true),
        ("SCAN effects USING INDEX sqlite_autoindex_effects_1", true),
        ("SCAN notes USING COVERING INDEX notes_expiring", true),
        ("SCAN effects USING INDEX effects_under_way", false),
        ("SEARCH effects USING INDEX effects_settled (expires_ms<?)", false),
        ("SCAN owners", false),
        ("USE TEMP B-TREE FOR ORDER BY", false),
    ];
    for (line, expected) in table {
        assert_eq!(scans_a_table(line), expected, "{line}");
    }
}

#[test]
fn texts_are_found_in_sources() {
    let code = "let a = \"select \\\n    x\"; // \"select comment\"\nlet b = '\"'; let c = \"say \\\"select\\\"\"; f(\"delete from t\")";
    let found: Vec<String> = literals(code).into_iter().filter(|text| is_statement(text)).collect();
    assert_eq!(found, ["select x", "delete from t"]);
}

fn is_statement(text: &str) -> bool {
    let first = text.trim_start().split(' ').next().unwrap_or_default();
    ["select", "insert", "update", "delete", "with", "replace"].contains(&first)
}

/// The string literals in a source, without comments, as they are at run time.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        match character {
            '/' if code[at..].starts_with("//") => while rest.next_if(|(_, next)| *next != '\n').is_some() {},
            '\'' if code[at..].starts_with("'\"'") => drop((rest.next(), rest.next())),
            '"' => {
                let mut text = String::new();
                while let Some((_, character)) = rest.next().filter(|(_, character)| *character != '"') {
                    match character {
                        '\\' => match rest.next() {
                            Some((_, '\n')) => while rest.next_if(|(_, next)| next.is_whitespace()).is_some() {},
                            Some((_, escaped)) => text.push(escaped),
                            None => {}
                        },
                        plain => text.push(plain),
                    }
                }
                found.push(text);
            }
            _ => {}
        }
    }
    found
}

fn source(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}
