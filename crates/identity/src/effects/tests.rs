use proptest::prelude::*;

use super::*;

mod disguised;
mod repetition;
mod statements;

fn sql(dialect: SqlDialect, text: &str) -> ProgramVerdict {
    classify(ProgramLanguage::Sql(dialect), text)
}

use ProgramEffect::{Read, Unknown, Write};

#[test]
fn a_verdict_names_the_statement_and_the_function_and_no_literal() {
    let verdict = sql(SqlDialect::Postgres, "SELECT 1; SELECT steal('hunter2')");
    assert_eq!(verdict.why, "calls steal(), a function that is not known");
    assert_eq!(verdict.statement, Some(StatementRef { index: 1, kind: Cow::Borrowed("SELECT") }));
    let verdict = classify(ProgramLanguage::Shell, "cat a; rm hunter2");
    assert_eq!(verdict.why, "`rm` is not among the commands that are known to only read");
    assert_eq!(verdict.statement, Some(StatementRef { index: 1, kind: Cow::Borrowed("rm") }));
    assert_eq!(
        serde_json::to_string(&verdict).expect("json"),
        r#"{"effect":"unknown","why":"`rm` is not among the commands that are known to only read","statement":{"index":1,"kind":"rm"}}"#
    );
}

#[test]
fn beyond_a_limit_nothing_is_claimed() {
    let limits = ProgramLimits { text_bytes_max: 100, statements_max: 2, tokens_max: 20, depth_max: 4 };
    let judge = |language, text: &str| classify_within(language, text, &limits).effect;
    let postgres = ProgramLanguage::Sql(SqlDialect::Postgres);
    assert_eq!(judge(postgres, "SELECT 1; SELECT 2"), Read);
    assert_eq!(judge(postgres, "SELECT 1; SELECT 2; SELECT 3"), Unknown);
    assert_eq!(judge(postgres, &format!("SELECT {}", "1,".repeat(12))), Unknown);
    assert_eq!(judge(postgres, &format!("SELECT '{}'", "x".repeat(100))), Unknown);
    assert_eq!(judge(ProgramLanguage::Shell, &format!("ls {}", "x".repeat(100))), Unknown);
    assert_eq!(judge(ProgramLanguage::Shell, "ls; ls; ls; ls"), Unknown);
    assert_eq!(judge(postgres, "SELECT 1\0; DROP TABLE t"), Unknown);
}

#[test]
fn shell_text_that_changes_something_is_never_read() {
    let wrong: Vec<String> = include_str!("tests/mutating.txt")
        .split("\n%%\n")
        .map(str::trim_start)
        .filter(|text| !text.trim().is_empty())
        .filter_map(|text| {
            let verdict = classify(ProgramLanguage::Shell, text);
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
            let verdict = classify(ProgramLanguage::Shell, text);
            (verdict.effect != Read).then(|| format!("{text:?}: {} {}", verdict.effect, verdict.why))
        })
        .collect();
    assert!(wrong.is_empty(), "not called read:\n{}", wrong.join("\n"));
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

    /// A change stays a change among any harmless statements.
    #[test]
    fn a_change_is_found_among_reads(before in reads(), after in reads(), change in prop::sample::select(&["DELETE FROM t", "DROP TABLE t", "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "SELECT nextval('s')"][..])) {
        let text = format!("{before};{change};{after}");
        for dialect in [SqlDialect::Postgres, SqlDialect::Sqlite, SqlDialect::MySql, SqlDialect::Generic] {
            prop_assert_ne!(sql(dialect, &text).effect, Read);
        }
    }

    /// The same for the shell.
    #[test]
    fn a_command_that_changes_is_found_among_others(before in "(ls|cat a|echo b|true)", joint in prop::sample::select(&[";", "\n", " && ", " || ", " | ", " & "][..]), wrap in prop::sample::select(&["rm x", "(rm x)", "{ rm x; }", "if true; then rm x; fi", "for i in a; do rm x; done", "echo $(rm x)", "echo \"`rm x`\"", "echo <(rm x)", "! rm x"][..])) {
        let text = format!("{before}{joint}{wrap}");
        prop_assert_ne!(classify(ProgramLanguage::Shell, &text).effect, Read, "{}", text);
    }
}

fn languages() -> impl Strategy<Value = ProgramLanguage> {
    prop::sample::select(
        &[
            ProgramLanguage::Sql(SqlDialect::Postgres),
            ProgramLanguage::Sql(SqlDialect::Sqlite),
            ProgramLanguage::Sql(SqlDialect::MySql),
            ProgramLanguage::Sql(SqlDialect::Generic),
            ProgramLanguage::Shell,
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
