//! What one command does: by the table, by its options, by the command it runs. Programs with a language of their own are in
//! `programs`, `sed` and `awk`.

use std::collections::HashMap;

use tree_sitter::Node;

use crate::effects::shell::gather;
use crate::effects::shell::table::{self, Conduct, Entry};
use crate::effects::shell::word::Arg;
use crate::effects::shell::{Outer, programs};
use crate::effects::{Finding, Limits, shown};

/// What is around a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    /// Functions that the text certainly defines, and where.
    pub(super) functions: &'a HashMap<String, usize>,
    /// Where the command stands.
    pub(super) position: usize,
    pub(super) limits: &'a Limits,
    pub(super) outer: &'a Outer,
    /// The command in the tree, and the text of the tree.
    pub(super) node: Node<'a>,
    pub(super) text: &'a str,
    pub(super) aliases: bool,
}

impl Context<'_> {
    /// Whether the command's standard input is made by the text.
    pub(super) fn standard_input_computed(&self) -> bool {
        gather::input_is_computed(self.node, self.text)
    }
}

/// Where programs of the system live. The same name elsewhere is another program.
const SYSTEM: &[&str] = &["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/usr/local/sbin/"];

/// The name of a command without the system's directories.
pub(super) fn base_name(name: &str) -> &str {
    SYSTEM.iter().find_map(|directory| name.strip_prefix(directory)).unwrap_or(name)
}

/// What the command of these words does.
pub(super) fn judge(words: &[Arg], context: &Context<'_>) -> Finding {
    judge_within(words, context, 0)
}

/// The same, inside `depth` commands that run others.
pub(super) fn judge_within(words: &[Arg], context: &Context<'_>, depth: usize) -> Finding {
    if depth > context.limits.depth_max {
        return Finding::unknown("commands that run commands go too deep");
    }
    let Some((first, args)) = words.split_first() else { return Finding::read("no command") };
    let Arg::Literal(name) = first else { return Finding::unknown("the command is computed") };
    let base = base_name(name);
    // Programs that run others do not see functions of the shell; a name that the table has is judged by it all the same.
    if depth == 0
        && table::find(base).is_none()
        && context.functions.get(base).is_some_and(|defined| *defined < context.position)
    {
        // Upholds: every command of the function's body is judged where it stands.
        return Finding::read(format!("{} is a function of the text", shown(base)));
    }
    if context.aliases {
        return Finding::unknown("the text turns on aliases, which give names other meanings");
    }
    if base.is_empty() {
        return Finding::unknown("the command is empty");
    }
    let Some(entry) = table::find(base) else {
        return Finding::unknown(format!("{} is not a known command", shown(base)));
    };
    if is_only_help(args) && entry.conduct != Conduct::Wrap {
        return Finding::read(format!("{base} prints its help or version"));
    }
    match entry.conduct {
        Conduct::Special => programs::judge(base, args, entry, context, depth),
        Conduct::Wrap => judge_wrapper(base, args, entry, context, depth),
        _ => judge_plain(base, args, entry),
    }
}

fn is_only_help(args: &[Arg]) -> bool {
    matches!(args, [Arg::Literal(only)] if only == "--help" || only == "--version")
}

/// A command of the table, by its options.
pub(super) fn judge_plain(name: &str, args: &[Arg], entry: &Entry) -> Finding {
    let parsed = table::parse(args, entry, false);
    if table::any(&parsed.options, &entry.write) {
        return Finding::write(format!("{name} writes with this option"));
    }
    if table::any(&parsed.options, &entry.unknown) {
        return Finding::unknown(format!("{name} runs something else with this option"));
    }
    if table::any_exactly(&parsed.options, &entry.read) {
        return Finding::read(format!("{name} only reads with this option"));
    }
    let sensitive = !(entry.write.is_empty() && entry.unknown.is_empty());
    if sensitive && parsed.computed && entry.conduct == Conduct::Read {
        return Finding::unknown(format!("an argument of {name} is computed and may be an option"));
    }
    if entry.assigns && parsed.operands.iter().any(|operand| operand.literal().is_none_or(|text| text.contains('='))) {
        return Finding::write(format!("{name} sets what it is given a value for"));
    }
    if entry.operands_max.is_some_and(|most| parsed.operands.len() > most) {
        return Finding::write(format!("{name} with this many arguments writes"));
    }
    if !entry.subcommands.is_empty() && reads_with_subcommand(args, entry) {
        return Finding::read(format!("{name} only reads with this subcommand"));
    }
    match entry.conduct {
        Conduct::Read => Finding::read(format!("{name} reads")),
        Conduct::Write => Finding::write(format!("{name} changes files or the system")),
        _ => Finding::unknown(format!("what {name} does cannot be told from its arguments")),
    }
}

/// Whether the subcommand is one that reads. An option before it that is not known might take the subcommand for its argument.
fn reads_with_subcommand(args: &[Arg], entry: &Entry) -> bool {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let Some(word) = arg.literal() else { return false };
        if !word.starts_with('-') {
            return entry.subcommands.contains(&word);
        }
        let short = word
            .strip_prefix('-')
            .filter(|letter| letter.chars().count() == 1)
            .is_some_and(|letter| entry.takes.contains(letter));
        if short || entry.longs.contains(&word) {
            at += 1;
        } else if !(entry.flags.contains(&word) || (word.starts_with("--") && word.contains('='))) {
            return false;
        }
    }
    entry.subcommands.contains(&"-")
}

/// `nohup`, `time`, `sudo`: what follows their options is what counts.
fn judge_wrapper(name: &str, args: &[Arg], entry: &Entry, context: &Context<'_>, depth: usize) -> Finding {
    let parsed = table::parse(args, entry, true);
    if table::any(&parsed.options, &entry.write) {
        return Finding::write(format!("{name} writes with this option"));
    }
    if table::any(&parsed.options, &entry.unknown) {
        return Finding::unknown(format!("{name} runs something else with this option"));
    }
    let Some(first) = parsed.first_operand else { return Finding::read(format!("{name} without a command")) };
    let mut rest = args.get(first + entry.wrapped..).unwrap_or_default();
    // `sudo NAME=value command` and the like.
    while let Some((Arg::Literal(word), after)) = rest.split_first()
        && name == "sudo"
        && word.contains('=')
    {
        if let Some(finding) = programs::assigned(word) {
            return finding;
        }
        rest = after;
    }
    judge_within(rest, context, depth + 1)
}
