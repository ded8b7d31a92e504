//! Programs in an agent's arguments: SQL in four dialects, shell text, requests, paths and addresses.

use serde_json::Value;
use servanda_identity::effects::{
    PathRoots, ProgramLanguage, SqlDialect, UrlRules, asks_for_another_method, breaks_out_of_request, classify,
    classify_request, is_safe_method, normalise,
};

use super::Reader;
use crate::Grammar;

/// The separator of texts in the lists of the identity crate.
const BETWEEN: &str = "\n%%\n";

pub(super) fn readers() -> Vec<Reader> {
    let sql = |name, dialect| {
        Reader::of_text(name, 8, sql_grammar(), move |text| drop(classify(ProgramLanguage::Sql(dialect), text)))
    };
    vec![
        sql("sql_postgresql", SqlDialect::Postgres),
        sql("sql_mysql", SqlDialect::MySql),
        sql("sql_sqlite", SqlDialect::Sqlite),
        sql("sql_any", SqlDialect::Generic),
        Reader::of_text("shell", 10, shell_grammar(), |text| drop(classify(ProgramLanguage::Shell, text))),
        Reader::of_text("http", 8, http_grammar(), read_request),
        Reader::of_text("path", 10, path_grammar(), read_path),
        Reader::of_text("url", 10, url_grammar(), read_url),
    ]
}

/// The first line is the method, the second the address, the others are headers; and all of it is an argument.
fn read_request(text: &str) {
    let mut lines = text.lines();
    let (method, url) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    drop(classify_request(method, url, lines.map(|line| line.split_once(':').unwrap_or((line, "")))));
    drop(classify_request("GET", text, []));
    let _ = is_safe_method(text);
    let _ = asks_for_another_method(&Value::from(text));
    let _ = breaks_out_of_request(&Value::from(text));
    if let Ok(arguments) = serde_json::from_str(text) {
        let _ = asks_for_another_method(&arguments);
        let _ = breaks_out_of_request(&arguments);
    }
}

fn read_path(text: &str) {
    let _ = normalise(text);
    for roots in [["/srv/data"], [text]] {
        let _ = PathRoots::new(roots).map(|roots| roots.admit(text));
    }
}

fn read_url(text: &str) {
    let named = ["api.example.com".to_owned(), "*.example.org".to_owned(), "10.0.0.5".to_owned()];
    let schemes = ["https".to_owned(), "http".to_owned()];
    for rules in [UrlRules::new(&[], &[]), UrlRules::new(&schemes, &named), UrlRules::new(&[], &[text.to_owned()])] {
        let _ = rules.map(|rules| rules.admit(text));
    }
}

fn sql_grammar() -> Grammar {
    let mut words: Vec<&str> = SQL_WORDS.split_whitespace().collect();
    words.extend(
        include_str!("../../../../crates/identity/src/effects/sql/functions/postgres.txt")
            .split_whitespace()
            .step_by(9),
    );
    words.extend([
        "IS NOT NULL",
        "ORDER BY",
        "GROUP BY",
        "/*",
        "*/",
        "/*!50000",
        "--",
        "$a$",
        "E'\\'",
        "x'",
        "N'",
        "U&'",
        "'a'",
        "\"a\"",
    ]);
    Grammar { words, brackets: SQL_BRACKETS.to_vec(), seeds: SQL_SEEDS.to_vec(), members: Vec::new() }
}

const SQL_WORDS: &str = "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE MERGE USING WITH RECURSIVE AS UNION ALL EXCEPT INTERSECT \
    JOIN LEFT OUTER NATURAL CROSS ON LATERAL EXISTS IN ANY SOME NOT AND OR XOR IS NULL LIKE ILIKE ESCAPE BETWEEN CASE WHEN THEN ELSE END \
    CAST EXTRACT TRIM SUBSTRING POSITION INTERVAL ARRAY ROW DISTINCT LIMIT OFFSET FETCH FOR SHARE LOCK WINDOW OVER PARTITION FILTER \
    GROUPING SETS ROLLUP CUBE RETURNING CREATE TABLE DROP ALTER INDEX VIEW GRANT TRUNCATE EXPLAIN ANALYZE COPY TO STDOUT PREPARE EXECUTE \
    CALL DO SHOW PRAGMA BEGIN COMMIT ROLLBACK SAVEPOINT VACUUM ATTACH HANDLER DECLARE CURSOR COLLATE AT TIME ZONE SIMILAR PRIOR BINARY \
    STRAIGHT_JOIN SQL_CALC_FOUND_ROWS DUPLICATE KEY IGNORE OUTFILE ; , . * + - / % = < > <> != || && ! ~ ^ & | # @ @@ ? : :: -> ->> #> \
    ( ) [ ] { } ' \" ` 1 0x 1e 1.5 a b t x.y count( nextval( pg_sleep( load_file( \\";
const SQL_BRACKETS: &[(&str, &str)] = &[
    ("(", ")"),
    ("(SELECT ", ")"),
    ("[", "]"),
    ("CASE WHEN ", " THEN 1 END"),
    ("lower(", ")"),
    ("/*", "*/"),
    ("EXISTS (SELECT ", ")"),
    ("WITH a AS (", ") SELECT 1"),
    ("CAST(", " AS int)"),
    ("NOT ", ""),
    ("- ", ""),
    ("ARRAY[", "]"),
    ("{", "}"),
    ("'", "'"),
    ("$a$", "$a$"),
];
const SQL_SEEDS: &[&str] = &[
    "SELECT id, total FROM invoices WHERE customer = 'c_17' AND paid IS NOT NULL ORDER BY issued DESC LIMIT 20 OFFSET 5",
    "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 100) SELECT sum(n) FILTER (WHERE n % 2 = 0) FROM t",
    "INSERT INTO a (x, y) VALUES (1, 'b'), (2, E'\\'') ON CONFLICT (x) DO UPDATE SET y = excluded.y RETURNING *",
    "UPDATE a SET x = CASE WHEN y BETWEEN 1 AND 2 THEN (SELECT max(z) FROM b) ELSE x::text::int END WHERE a.id IN (1, 2, 3)",
    "DELETE FROM a USING b WHERE a.id = b.id; SELECT 1; -- over\nSELECT 2 /* and /* in */ it */",
    "EXPLAIN (ANALYZE, BUFFERS) SELECT a.*, rank() OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM a",
    "SELECT * FROM a JOIN LATERAL (SELECT * FROM b WHERE b.a = a.id) c ON true LEFT JOIN d USING (id) GROUP BY ROLLUP (x, y) HAVING count(*) > 1",
    "CREATE TABLE t (id int PRIMARY KEY, v jsonb DEFAULT '{}' CHECK (v->>'a' <> ''), FOREIGN KEY (id) REFERENCES o(id))",
    "DO $body$ BEGIN EXECUTE 'drop table x'; END $body$ LANGUAGE plpgsql",
    "SELECT /*!50000 sleep(1) */ `a`.`b`, @v := 1, 0x41, X'41', _utf8'x' FROM `t` PROCEDURE ANALYSE() INTO OUTFILE '/tmp/x'",
    "PRAGMA table_info('t'); ATTACH DATABASE 'x' AS y; SELECT load_extension('z')",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    "COPY (SELECT * FROM t) TO STDOUT WITH (FORMAT csv); SET LOCAL search_path = a, b; SHOW ALL",
];

fn shell_grammar() -> Grammar {
    let lists = [
        include_str!("../../../../crates/identity/src/effects/tests/reading.txt"),
        include_str!("../../../../crates/identity/src/effects/tests/mutating.txt"),
    ];
    Grammar {
        words: SHELL_WORDS.split_whitespace().chain([" ", "\n", "\\\n", "<<A\n", "\nA\n", "# "]).collect(),
        brackets: SHELL_BRACKETS.to_vec(),
        seeds: lists.iter().flat_map(|list| list.split(BETWEEN)).collect(),
        members: Vec::new(),
    }
}

const SHELL_WORDS: &str = "ls cat grep find sed awk xargs sort uniq head tail echo printf test [ [[ ]] ] git curl ssh env sudo eval exec \
    sh bash -c -exec -delete -i -n -r -rf --help -- - | || & && ; ;; > >> < <( >( << <<< 2>&1 2>/dev/null &> $( ) ( { } ` ' \" $ $' ${ $a \
    ${a:- ${a@P} $(( )) * ? ~ ! = a=b x+= if then else fi for in do done while until case esac function f() select time coproc \\ / ../ \
    /etc/passwd .git {} + {a,b} {1..9} @(a|b) s/a/b/e w r -f%p rm mv tee dd python perl";
const SHELL_BRACKETS: &[(&str, &str)] = &[
    ("$(", ")"),
    ("(", ")"),
    ("{ ", "; }"),
    ("`", "`"),
    ("\"$(", ")\""),
    ("${a:-", "}"),
    ("$((", "))"),
    ("[[ ", " ]]"),
    ("if ", "; then a; fi"),
    ("case a in a) ", ";; esac"),
    ("<(", ")"),
    ("bash -c '", "'"),
    ("\"", "\""),
    ("'", "'"),
    ("find . -exec ", " \\;"),
    ("x=(", ")"),
    ("! ", ""),
];

fn http_grammar() -> Grammar {
    Grammar {
        words: "GET HEAD OPTIONS QUERY POST delete TRACE get http:// https:// ftp: javascript: example.com : / ? & ; = # % %2 %41 + _method \
            X-HTTP-Method-Override x-method-override httpmethod x-original-method DELETE PUT name value headers { } [ ] , \" \\u0041 null 1 \
            localhost:80 @ .. ? ?a=b& :: \t"
            .split_whitespace()
            .chain(["\n", " ", "\r\n"])
            .collect(),
        brackets: vec![("{\"a\":", "}"), ("[", "]"), ("?a=", "&"), ("%25", ""), ("{\"name\":\"_method\",\"value\":", "}")],
        seeds: vec![
            "GET\nhttps://example.com/a?b=c&_method=GET#d\nX-HTTP-Method-Override: DELETE\naccept: */*",
            "{\"method\":\"GET\",\"url\":\"https://example.com/?_method=delete\",\"headers\":[{\"name\":\"x-http-method\",\"value\":\"PUT\"}]}",
            "[\"X-HTTP-Method-Override\", [\"DELETE\"], {\"headers\":\"a: b\\r\\n_method: PATCH\"}]",
        ],
        members: vec!["method", "url", "headers", "_method", "name", "value"],
    }
}

fn path_grammar() -> Grammar {
    Grammar {
        words: "/ // . .. ... ../ ./ \\ %2e %2f %5c %25 %252e %c0%ae ~ ~root C: file: file:// http:// a b srv data .txt ; : ? * + // \
            \u{2215} \u{ff0f} \u{ff0e} \u{2024} /srv/data /etc/passwd %00 %"
            .split_whitespace()
            .chain([" ", "/ ", ".. /"])
            .collect(),
        brackets: vec![("../", ""), ("/", ""), ("a/", "../"), ("%25", ""), ("/./", "/.."), ("\\", "")],
        seeds: vec!["/srv/data/a.txt", "/srv/data/../secret", "%252e%252e%252fetc", "/srv/data/./a//b/../c", "\\\\?\\C:\\x", "file:///srv/data/a"],
        members: Vec::new(),
    }
}

fn url_grammar() -> Grammar {
    Grammar {
        words: "https:// http:// ws:// https: // / \\ @ : ? # % %2e %00 [ ] . .. - _ xn-- xn--a example.com api.example.com *. localhost 127.0.0.1 \
            0x7f 017700000001 2130706433 [::1] [::ffff:1.2.3.4] :80 :99999 user:pass@ a b \u{df} \u{3002} \u{ff0e} \u{2460} \u{200d} \u{5d0} 1 \
            internal .local *"
            .split_whitespace()
            .collect(),
        brackets: vec![("[", "]"), ("a.", ""), ("xn--", ""), ("%25", ""), ("@", ""), ("https://", ""), ("/../", "")],
        seeds: vec![
            "https://example.com/a?b=c#d", "https://user:pass@example.com:8443/", "https://[::ffff:169.254.169.254]/", "https://b\u{fc}cher.example/",
            "https://xn--bcher-kva.example/", "https://2130706433/", "*.example.org", "https://0x7f.1/",
        ],
        members: Vec::new(),
    }
}
