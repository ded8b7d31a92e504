//! Takes from a syntax tree what is judged: the nodes that do something, the words of a command (the grammar puts some of them into
//! its redirections), the variables and functions a text defines, and where a command's standard input comes from.

use std::collections::HashMap;

use tree_sitter::{Node, Tree};

use crate::effects::shell::word::{self, Arg, NotAWord, Value, Variables};
use crate::effects::shell::{Outer, value_of};
use crate::effects::{Finding, Limits};

/// What a text holds.
#[derive(Debug)]
pub(super) struct Gathered<'t> {
    /// The nodes that do something, in order.
    pub(super) nodes: Vec<Node<'t>>,
    pub(super) variables: Variables,
    /// Functions that are certainly defined, and where.
    pub(super) functions: HashMap<String, usize>,
    /// What makes the tree doubtful, if anything.
    pub(super) doubt: Option<Finding>,
    /// A quoted text would run a command if it were evaluated as arithmetic.
    delayed: bool,
    /// The text turns on aliases.
    pub(super) aliases: bool,
}

/// Walks the whole tree once, without recursion.
pub(super) fn gather<'t>(tree: &'t Tree, text: &str, outer: &Outer, limits: &Limits) -> Result<Gathered<'t>, Finding> {
    let mut gathered = Gathered {
        nodes: Vec::new(),
        variables: Variables::default(),
        functions: HashMap::new(),
        doubt: None,
        delayed: false,
        aliases: text.contains("expand_aliases"),
    };
    gathered.variables.positional_computed = outer.positional_computed;
    let mut cursor = tree.walk();
    let mut seen = 0_usize;
    loop {
        seen += 1;
        if seen > limits.tokens_max {
            return Err(Finding::unknown(format!("the shell text has more than {} parts", limits.tokens_max)));
        }
        note(cursor.node(), text, &mut gathered);
        if cursor.goto_first_child() || cursor.goto_next_sibling() {
            continue;
        }
        loop {
            if !cursor.goto_parent() {
                finish(tree, text, &mut gathered);
                return Ok(gathered);
            }
            if cursor.goto_next_sibling() {
                break;
            }
        }
    }
}

fn note<'t>(node: Node<'t>, text: &str, gathered: &mut Gathered<'t>) {
    match node.kind() {
        "command" => {
            note_reading(node, text, gathered);
            gathered.nodes.push(node);
        }
        "redirected_statement" | "file_redirect" | "test_command" | "unset_command" | "declaration_command" => {
            gathered.nodes.push(node);
        }
        "variable_assignment" => {
            note_assignment(node, text, &mut gathered.variables);
            gathered.nodes.push(node);
        }
        "for_statement" => note_loop(node, text, &mut gathered.variables),
        "expansion" => note_default(node, text, &mut gathered.variables),
        "comment" => note_comment(node, text, gathered),
        "heredoc_redirect" => note_heredoc(node, text, gathered),
        "raw_string" | "ansi_c_string" | "string" | "word" => gathered.delayed |= is_delayed(node, text),
        "function_definition" => {
            // Inside a condition it may never be defined.
            if let Some(name) = node.child_by_field_name("name")
                && node.parent().is_some_and(|parent| parent.kind() == "program")
            {
                gathered.functions.entry(text_of(name, text).to_owned()).or_insert(node.start_byte());
            }
            gathered.variables.positional_computed = true;
        }
        _ => {}
    }
}

fn finish(tree: &Tree, text: &str, gathered: &mut Gathered<'_>) {
    if hides_substitution(tree, text) {
        gathered.doubt.get_or_insert_with(|| Finding::unknown("a substitution stands where the parser sees none"));
    }
    if text.contains("unset") {
        gathered.functions.clear();
    }
    let evaluates = ["((", "$[", "let ", "[[", "-eq", "-ne", "-lt", "-gt", "-le", "-ge", "declare", "typeset", "local"]
        .iter()
        .any(|word| text.contains(word));
    if gathered.delayed && evaluates {
        gathered.doubt.get_or_insert_with(|| {
            Finding::unknown("a quoted text would run a command if it were evaluated as an index")
        });
    }
}

/// Whether an opening of a substitution is not the opening of a substitution's node, though nothing quotes it: the grammar takes some
/// (a backtick inside `${x:-…}`) for plain text, and a shell does not.
fn hides_substitution(tree: &Tree, text: &str) -> bool {
    let bytes = text.as_bytes();
    let opens = |at: usize| match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'`'), _) => Some(1),
        (Some(b'$'), Some(b'(' | b'[')) | (Some(b'<' | b'>'), Some(b'(')) => Some(2),
        _ => None,
    };
    let escaped = |at: usize| {
        bytes.get(..at).unwrap_or_default().iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
    };
    (0..bytes.len()).filter_map(|at| opens(at).map(|length| (at, at + length))).any(|(at, end)| {
        let Some(node) = tree.root_node().descendant_for_byte_range(at, end) else { return true };
        let around = node.parent().map(|parent| parent.kind()).unwrap_or_default();
        let opening =
            |kind: &str| matches!(kind, "command_substitution" | "process_substitution" | "arithmetic_expansion");
        let quoted = matches!(node.kind(), "raw_string" | "ansi_c_string" | "comment")
            || (matches!(node.kind(), "heredoc_body" | "heredoc_content") && is_quoted_heredoc(node, text));
        let comparison = matches!(
            node.kind(),
            "test_command"
                | "binary_expression"
                | "arithmetic_expansion"
                | "compound_statement"
                | "c_style_for_statement"
                | "<"
                | ">"
                | "parenthesized_expression"
        ) && !bytes.get(at).is_some_and(|byte| matches!(byte, b'`' | b'$'));
        // Between backticks a backslash hides an opening from the outer substitution only.
        let inside_backticks = || {
            std::iter::successors(node.parent(), Node::parent)
                .take(100)
                .any(|outer| outer.kind() == "command_substitution" && text_of(outer, text).starts_with('`'))
        };
        !(opening(around) || opening(node.kind()) || quoted || comparison || escaped(at))
            || (escaped(at) && inside_backticks())
    })
}

/// Nothing is substituted in a here-document whose word is quoted.
fn is_quoted_heredoc(node: Node<'_>, text: &str) -> bool {
    let mut at = Some(node);
    while let Some(node) = at.filter(|node| node.kind() != "heredoc_redirect") {
        at = node.parent();
    }
    let Some(redirect) = at else { return false };
    let mut cursor = redirect.walk();
    redirect
        .named_children(&mut cursor)
        .any(|child| child.kind() == "heredoc_start" && text_of(child, text).starts_with(['\'', '"', '\\']))
}

/// A `#` inside a word begins no comment.
fn note_comment(node: Node<'_>, text: &str, gathered: &mut Gathered<'_>) {
    let before = node.start_byte().checked_sub(1).and_then(|at| text.as_bytes().get(at).copied());
    if before.is_some_and(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'`')) {
        gathered.doubt.get_or_insert_with(|| Finding::unknown("what looks like a comment may be none"));
    }
}

/// A here-document ends at the first line that is its word; where the grammar goes on, it hides commands.
fn note_heredoc(node: Node<'_>, text: &str, gathered: &mut Gathered<'_>) {
    let mut cursor = node.walk();
    let (mut start, mut end) = (None, None);
    for child in node.named_children(&mut cursor) {
        match child.kind() {
            "heredoc_start" => start = Some(child),
            "heredoc_end" => end = Some(child),
            _ => {}
        }
    }
    let word = start.map(|start| text_of(start, text)).unwrap_or_default();
    let bare = word.strip_prefix('\\').unwrap_or(word);
    let bare = ['\'', '"']
        .iter()
        .find_map(|quote| bare.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)))
        .unwrap_or(bare);
    let plain =
        !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+.!%@:/,".contains(&byte));
    let ended = end.is_some_and(|end| text_of(end, text).trim_matches(['\t', '\n', ' ']) == bare);
    let body = text
        .get(start.map_or(0, |start| start.end_byte())..end.map_or(text.len(), |end| end.start_byte()))
        .unwrap_or_default();
    let early = body.lines().skip(1).any(|line| line.trim_start_matches('\t') == bare);
    if !plain || !ended || early {
        gathered.doubt.get_or_insert_with(|| Finding::unknown("where a here-document ends is not certain"));
    }
}

/// `'a[$(cmd)]'` runs `cmd` where a shell evaluates it as arithmetic. Programs in other languages are no such texts.
fn is_delayed(node: Node<'_>, text: &str) -> bool {
    let source = text_of(node, text);
    let substitutes = match node.kind() {
        "raw_string" | "ansi_c_string" => source.contains("$(") || source.contains('`'),
        _ => source.contains("\\$") || source.contains("\\`"),
    };
    if !substitutes || !source.contains('[') {
        return false;
    }
    let command = node
        .parent()
        .filter(|parent| parent.kind() == "command")
        .and_then(|command| command.child_by_field_name("name"));
    !command.is_some_and(|name| {
        ["awk", "gawk", "sed", "grep", "egrep", "perl", "find", "sh", "bash"].contains(&text_of(name, text))
    })
}

fn note_assignment(node: Node<'_>, text: &str, variables: &mut Variables) {
    let name = node.child_by_field_name("name").map(|name| text_of(name, text)).unwrap_or_default();
    if name == "IFS" {
        variables.separator_set = true;
    }
    let source = text_of(node, text);
    let value = node.child_by_field_name("value");
    let value = match value {
        _ if source.get(name.len()..).is_some_and(|rest| rest.starts_with("+=")) => Value::Computed,
        Some(value) if value.kind() == "array" || name.contains('[') => Value::Computed,
        Some(value) => value_of(text_of(value, text)),
        None => Value::Literal(String::new()),
    };
    variables.set(name.split('[').next().unwrap_or_default(), value);
}

fn note_loop(node: Node<'_>, text: &str, variables: &mut Variables) {
    let Some(name) = node.child_by_field_name("variable") else { return };
    let mut cursor = node.walk();
    let plain = |value: Node<'_>| match word::read(text_of(value, text), &Variables::default()).as_deref() {
        Ok([Arg::Literal(text)]) => !text.starts_with('-'),
        Ok([Arg::Operand]) => !text_of(value, text).contains('$'),
        _ => false,
    };
    let values: Vec<Node<'_>> = node.children_by_field_name("value", &mut cursor).collect();
    let value = if values.iter().all(|value| plain(*value)) && !(values.is_empty() && variables.positional_computed) {
        Value::Operand
    } else {
        Value::Computed
    };
    variables.set(text_of(name, text), value);
}

/// `${x:=value}` sets `x`.
fn note_default(node: Node<'_>, text: &str, variables: &mut Variables) {
    let source = text_of(node, text);
    if let Some((name, _)) = source.trim_start_matches("${").split_once('=')
        && name.len() < 64
    {
        variables.set(name.trim_end_matches(':'), Value::Computed);
    }
}

/// `read x`, `printf -v x`, `getopts … x`, `mapfile x`, `set -- …` give values to variables.
fn note_reading(node: Node<'_>, text: &str, gathered: &mut Gathered<'_>) {
    let Ok(words) = words_of(node, text, &Variables::default()) else { return };
    let names = words.iter().skip(1).filter_map(Arg::literal);
    match words.first().and_then(Arg::literal) {
        Some("read" | "mapfile" | "readarray" | "getopts") => {
            let value = if input_is_computed(node, text) { Value::Computed } else { Value::Operand };
            for name in names.filter(|name| !name.starts_with('-')) {
                gathered.variables.set(name, value.clone());
            }
            gathered.variables.set("REPLY", value.clone());
            gathered.variables.set("MAPFILE", value);
        }
        Some("printf" | "let") => {
            for name in names {
                gathered.variables.set(name.split('=').next().unwrap_or_default(), Value::Computed);
            }
        }
        Some("set") if words.len() > 1 => gathered.variables.positional_computed = true,
        Some("declare" | "export" | "local" | "readonly" | "typeset" | "builtin" | "command" | "eval") => {
            for name in names {
                if let Some((name, _)) = name.split_once('=') {
                    gathered.variables.set(name, Value::Computed);
                }
            }
        }
        _ => {}
    }
}

/// The words of a command, those included that the grammar counts among its redirections.
pub(super) fn words_of(node: Node<'_>, text: &str, variables: &Variables) -> Result<Vec<Arg>, NotAWord> {
    let mut words = Vec::new();
    take_words(node, text, variables, &mut words)?;
    // `cmd < in --option` and `cmd <<END --option`: the statement around the command holds the rest of its words.
    if let Some(parent) = node.parent()
        && node.kind() == "command"
        && parent.kind() == "redirected_statement"
    {
        take_redirected(parent, text, variables, &mut words)?;
    }
    Ok(words)
}

fn take_words(node: Node<'_>, text: &str, variables: &Variables, words: &mut Vec<Arg>) -> Result<(), NotAWord> {
    if node.kind() == "redirected_statement" {
        return take_redirected(node, text, variables, words);
    }
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        match child.kind() {
            "variable_assignment" | "herestring_redirect" | "comment" => {}
            // `eval(…)` of other languages.
            "subshell" => return Err(NotAWord),
            "file_redirect" | "heredoc_redirect" => take_redirect(child, text, variables, words)?,
            _ => words.extend(word::read(text_of(child, text), variables)?),
        }
    }
    Ok(())
}

fn take_redirected(node: Node<'_>, text: &str, variables: &Variables, words: &mut Vec<Arg>) -> Result<(), NotAWord> {
    let mut cursor = node.walk();
    for redirect in node.children_by_field_name("redirect", &mut cursor) {
        take_redirect(redirect, text, variables, words)?;
    }
    Ok(())
}

fn take_redirect(redirect: Node<'_>, text: &str, variables: &Variables, words: &mut Vec<Arg>) -> Result<(), NotAWord> {
    let mut cursor = redirect.walk();
    let (field, skip) = match redirect.kind() {
        "file_redirect" => ("destination", 1),
        "heredoc_redirect" => ("argument", 0),
        _ => return Ok(()),
    };
    for extra in redirect.children_by_field_name(field, &mut cursor).skip(skip) {
        words.extend(word::read(text_of(extra, text), variables)?);
    }
    Ok(())
}

/// Whether what a command reads is made by the text itself, so that it may hold anything: options for `xargs`, values for `read`.
pub(super) fn input_is_computed(node: Node<'_>, text: &str) -> bool {
    let mut child = node;
    let mut climbed = 0;
    while let Some(parent) = child.parent() {
        climbed += 1;
        if climbed > 200 {
            return true;
        }
        match parent.kind() {
            "redirected_statement" | "command" if has_written_input(parent, text) => return true,
            "heredoc_redirect" => return true,
            "pipeline" => {
                let mut cursor = parent.walk();
                let before =
                    parent.named_children(&mut cursor).take_while(|stage| stage.id() != child.id()).collect::<Vec<_>>();
                if !before.is_empty() {
                    return !before.iter().all(|stage| is_plain_producer(*stage, text));
                }
            }
            "command_substitution" | "process_substitution" | "function_definition" => {
                return parent.kind() == "function_definition";
            }
            _ => {}
        }
        child = parent;
    }
    has_written_input(node, text)
}

/// A here-document, a here-string, or the output of a substitution.
fn has_written_input(node: Node<'_>, text: &str) -> bool {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).any(|child| match child.kind() {
        "heredoc_redirect" | "herestring_redirect" => true,
        "file_redirect" => text_of(child, text).contains("<("),
        _ => false,
    })
}

/// A stage of a pipeline whose output is names of files or contents of files, never words of the text.
fn is_plain_producer(stage: Node<'_>, text: &str) -> bool {
    if stage.kind() != "command" || has_written_input(stage, text) {
        return false;
    }
    let Ok(words) = words_of(stage, text, &Variables::default()) else { return false };
    let name = words.first().and_then(Arg::literal).unwrap_or_default();
    match name {
        "find" => {
            !words.iter().filter_map(Arg::literal).any(|word| word.starts_with("-printf") || word.starts_with("-exec"))
                && words.iter().skip(1).all(|word| word.literal().is_none_or(|word| !word.starts_with("--")))
        }
        "ls" | "grep" | "egrep" | "fgrep" | "zgrep" | "rgrep" | "cat" | "sort" | "uniq" | "head" | "tail"
        | "locate" | "cut" | "wc" | "comm" | "tac" | "rev" | "du" | "ps" | "pgrep" | "which" | "tee" => true,
        _ => false,
    }
}

pub(super) fn text_of<'a>(node: Node<'_>, text: &'a str) -> &'a str {
    text.get(node.byte_range()).unwrap_or_default()
}
