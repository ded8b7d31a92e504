//! Shell text: what its commands would do. Parses with the bash grammar of tree-sitter, looks at every command wherever it stands
//! (substitutions, loops, functions, here-documents), at every redirection and at programs inside programs (`sh -c`, `find -exec`,
//! `xargs`, `eval`). A command that is not in the table (`commands.txt`), a computed command and text that does not parse are `unknown`.
//!
//! It does not look at the file system: whether a file exists, or what a script on disk does, cannot be told from a text.

mod awk;
mod command;
mod gather;
mod programs;
mod sed;
mod table;
mod tools;
mod word;

use std::borrow::Cow;

use tree_sitter::{Node, Parser, Tree};

use crate::effects::{Effect, Finding, Limits, StatementRef, Verdict, shown};
use command::Context;
use gather::Gathered;
use word::{Arg, Value, Variables};

/// Shell text is short; a parser that is given less cannot be kept busy.
const SHELL_BYTES_MAX: usize = 32 * 1024;
/// How often an opening may stand in a text: the parser's work grows with it.
const OPENINGS_MAX: usize = 500;
/// How many commands may be joined (`|`, `&&`, `||`): the tree is as deep as they are many, and to look around in it costs its depth.
const JOINTS_MAX: usize = 200;

/// What the commands of `text` would do: the heaviest of them.
pub(super) fn classify(text: &str, limits: &Limits) -> Verdict {
    if text.len() > SHELL_BYTES_MAX {
        return Verdict::of_text(Effect::Unknown, format!("the shell text is longer than {SHELL_BYTES_MAX} bytes"));
    }
    match judge(text, limits, &Outer::default()) {
        Ok(judged) => judged,
        Err(finding) => Verdict { effect: finding.effect, why: finding.why, statement: None },
    }
}

/// What a program inside another knows of the one around it.
#[derive(Clone, Copy, Debug, Default)]
struct Outer {
    /// How many programs are around it.
    depth: usize,
    /// Its `$1` … come from words of the text that are not followed.
    positional_computed: bool,
}

fn judge(text: &str, limits: &Limits, outer: &Outer) -> Result<Verdict, Finding> {
    if outer.depth > limits.depth_max.min(8) {
        return Err(Finding::unknown("programs inside programs go too deep"));
    }
    if text.bytes().filter(|byte| b"({[`<$".contains(byte)).count() > OPENINGS_MAX {
        return Err(Finding::unknown("the shell text has too many openings"));
    }
    if text.bytes().filter(|byte| b"|&".contains(byte)).count() > JOINTS_MAX
        || text.bytes().filter(|byte| b";\n".contains(byte)).count() > limits.statements_max
    {
        return Err(Finding::unknown("the shell text joins too many commands"));
    }
    let tree = parse(text).ok_or_else(|| Finding::unknown("the shell text could not be parsed"))?;
    let gathered = gather::gather(&tree, text, outer, limits)?;
    let mut verdict = Verdict::of_text(Effect::Read, "no command in it changes anything");
    let mut commands = 0;
    for node in &gathered.nodes {
        let Some((kind, finding)) = judge_node(*node, text, &gathered, limits, outer) else { continue };
        let statement = Some(StatementRef { index: commands, kind });
        if commands == 0 {
            verdict.statement.clone_from(&statement);
        }
        commands += 1;
        verdict = verdict.or_heavier(Verdict { effect: finding.effect, why: finding.why, statement });
        if commands > limits.statements_max {
            return Err(Finding::unknown(format!("the text has more than {} commands", limits.statements_max)));
        }
    }
    let broken = if tree.root_node().has_error() {
        Some(Finding::unknown("the shell text does not parse"))
    } else {
        gathered.doubt
    };
    if let Some(broken) = broken {
        return Ok(verdict.or_heavier(Verdict { effect: broken.effect, why: broken.why, statement: None }));
    }
    Ok(verdict)
}

fn parse(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    parser.parse(text, None)
}

fn judge_node<'t>(
    node: Node<'t>,
    text: &str,
    gathered: &Gathered<'t>,
    limits: &Limits,
    outer: &Outer,
) -> Option<(Cow<'static, str>, Finding)> {
    match node.kind() {
        "command" => Some(judge_command(node, text, gathered, limits, outer)),
        "redirected_statement" if node.child_by_field_name("body").is_none() => {
            let words = gather::words_of(node, text, &gathered.variables);
            Some(judge_words(words, node, text, gathered, limits, outer))
        }
        "file_redirect" => Some((Cow::Borrowed("redirection"), judge_redirect(node, text))),
        "variable_assignment" => Some((Cow::Borrowed("assignment"), judge_assignment(node, text))),
        "test_command" | "declaration_command" | "unset_command" => {
            Some((Cow::Borrowed("test or declaration"), judge_builtin(node, text)))
        }
        _ => None,
    }
}

fn judge_command<'t>(
    node: Node<'t>,
    text: &str,
    gathered: &Gathered<'t>,
    limits: &Limits,
    outer: &Outer,
) -> (Cow<'static, str>, Finding) {
    let words = gather::words_of(node, text, &gathered.variables);
    judge_words(words, node, text, gathered, limits, outer)
}

fn judge_words(
    words: Result<Vec<Arg>, word::NotAWord>,
    node: Node<'_>,
    text: &str,
    gathered: &Gathered<'_>,
    limits: &Limits,
    outer: &Outer,
) -> (Cow<'static, str>, Finding) {
    let Ok(words) = words else {
        return (Cow::Borrowed("command"), Finding::unknown("a word of a command could not be read"));
    };
    let kind = match words.first() {
        Some(Arg::Literal(name)) => Cow::Owned(shown(command::base_name(name)).into_owned()),
        Some(_) => Cow::Borrowed("computed command"),
        None => return (Cow::Borrowed("nothing"), Finding::read("no command")),
    };
    let context = Context {
        functions: &gathered.functions,
        position: node.start_byte(),
        limits,
        outer,
        node,
        text,
        aliases: gathered.aliases,
    };
    (kind, command::judge(&words, &context))
}

/// Only what leads nowhere may be written to.
fn judge_redirect(node: Node<'_>, text: &str) -> Finding {
    let source = gather::text_of(node, text);
    let operator = source
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '{' || c == '}' || c.is_alphanumeric() || c == '_');
    let target = node.child_by_field_name("destination").map(|target| gather::text_of(target, text));
    let literal =
        target.and_then(|target| word::read(target, &Variables::default()).ok()).and_then(|mut args| args.pop());
    let name = literal.as_ref().and_then(Arg::literal).unwrap_or_default();
    if name.starts_with("/dev/tcp/") || name.starts_with("/dev/udp/") {
        return Finding::write("a redirection opens a network connection");
    }
    let writes = operator.starts_with('>') || operator.starts_with("&>") || operator.starts_with("<>");
    if !writes {
        return Finding::read("a redirection reads");
    }
    let duplicates = operator.starts_with(">&")
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let nowhere = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/full", "/dev/zero"].contains(&name)
        || name.strip_prefix("/dev/fd/").is_some_and(|fd| fd.bytes().all(|byte| byte.is_ascii_digit()));
    let process = target.is_some_and(|target| target.starts_with(">("));
    if duplicates || nowhere || process || operator.starts_with(">&-") {
        return Finding::read("a redirection leads to no file");
    }
    Finding::write("a redirection writes a file")
}

/// Some variables decide which programs run.
fn judge_assignment(node: Node<'_>, text: &str) -> Finding {
    const DECIDE: &[&str] = &[
        "PATH",
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "SHELLOPTS",
        "BASHOPTS",
        "PAGER",
        "MANPAGER",
        "LESSOPEN",
        "LESSCLOSE",
        "EDITOR",
        "VISUAL",
        "BROWSER",
        "CDPATH",
    ];
    let name = node.child_by_field_name("name").map(|name| gather::text_of(name, text)).unwrap_or_default();
    let base = name.split('[').next().unwrap_or_default();
    if DECIDE.contains(&base)
        || base.starts_with("LD_")
        || base.starts_with("GIT_")
        || base.starts_with("BASH_FUNC")
        || base.starts_with("DYLD_")
        || base.starts_with("PYTHON")
        || base.starts_with("PERL5")
    {
        return Finding::unknown(format!("it sets {}, which decides what runs", shown(base)));
    }
    let value = gather::text_of(node, text);
    if matches!(base, "PS0" | "PS1" | "PS2" | "PS4") && (value.contains("$(") || value.contains('`')) {
        return Finding::unknown(format!("it sets {base} to something that runs"));
    }
    if name.contains('[') && quoted_substitution(name) {
        return Finding::unknown("an index runs a command");
    }
    Finding::read("a variable of the shell")
}

/// `[[ … ]]`, `declare`, `unset`: they evaluate what stands in an index even when it is quoted.
fn judge_builtin(node: Node<'_>, text: &str) -> Finding {
    let source = gather::text_of(node, text);
    // To `[` a `>` is a redirection; only `[[` compares with it.
    if node.kind() == "test_command"
        && !source.starts_with("[[")
        && !source.starts_with("((")
        && has_bare_greater(source)
    {
        return Finding::write("a redirection in a test writes a file");
    }
    if quoted_substitution(source) {
        return Finding::unknown("a quoted substitution may be evaluated");
    }
    Finding::read("a test or a declaration")
}

/// Whether a `>` stands outside quotes and substitutions.
fn has_bare_greater(source: &str) -> bool {
    let (mut quote, mut escaped) = (None, false);
    source.chars().any(|c| {
        let bare = c == '>' && quote.is_none() && !escaped;
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', None | Some('"')) => escaped = true,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
        bare
    })
}

/// Whether a `'…'` holds a substitution together with an index.
fn quoted_substitution(source: &str) -> bool {
    source.contains('[')
        && source
            .split('\'')
            .skip(1)
            .step_by(2)
            .any(|quoted| quoted.contains('[') && (quoted.contains("$(") || quoted.contains('`')))
}

/// What `name` may hold after an assignment of `source`.
fn value_of(source: &str) -> Value {
    match word::read(source, &Variables::default()).ok().and_then(|mut args| args.pop()) {
        Some(Arg::Literal(text)) => Value::Literal(text),
        Some(Arg::Operand) if !source.contains('$') => Value::Operand,
        _ if source.is_empty() => Value::Literal(String::new()),
        _ => Value::Computed,
    }
}
