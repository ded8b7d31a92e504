//! Commands that the table cannot describe: those with a language of their own, and those that run others.

use crate::effects::shell::command::{Context, judge_plain, judge_within};
use crate::effects::shell::table::{self, Conduct, Entry};
use crate::effects::shell::word::Arg;
use crate::effects::shell::{Outer, awk, judge as judge_program, sed, tools};
use crate::effects::{Finding, shown};

/// A command without anything special.
pub(super) const PLAIN: Entry = Entry {
    conduct: Conduct::Read,
    takes: "",
    longs: Vec::new(),
    write: Vec::new(),
    unknown: Vec::new(),
    read: Vec::new(),
    operands_max: None,
    subcommands: Vec::new(),
    flags: Vec::new(),
    assigns: false,
    wrapped: 0,
};

/// What the command does.
pub(super) fn judge(name: &str, args: &[Arg], entry: &Entry, context: &Context<'_>, depth: usize) -> Finding {
    match name {
        "find" | "gfind" => judge_find(args, context, depth),
        "xargs" | "gxargs" => judge_xargs(args, context, depth),
        "sed" | "gsed" => sed::judge(args),
        "awk" | "gawk" | "mawk" | "nawk" => awk::judge(name, args),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "rbash" | "mksh" | "fish" => judge_shell(name, args, context),
        "eval" => judge_joined("eval", args, context),
        "trap" => judge_trap(args, context),
        "source" | "." => Finding::unknown("source runs a file, whose contents are not in the text"),
        "exec" | "command" | "builtin" => judge_prefix(name, args, context, depth),
        "env" => judge_env(args, context, depth),
        "tee" => tools::judge_tee(args),
        "dd" => tools::judge_dd(args),
        "tar" | "gtar" | "bsdtar" => tools::judge_tar(args),
        "cpio" => tools::judge_cpio(args),
        "git" => tools::judge_git(args),
        "curl" => tools::judge_curl(args),
        "wget" => tools::judge_wget(args),
        "ip" => tools::judge_ip(args),
        "less" | "more" | "zless" | "zmore" | "bzless" | "xzless" => tools::judge_pager(name, args),
        "read" | "mapfile" | "readarray"
            if args.iter().any(|arg| arg.literal().is_some_and(|word| word.starts_with("-C"))) =>
        {
            Finding::unknown(format!("{name} -C runs a command"))
        }
        "date" => tools::judge_date(args),
        "shopt" | "test" | "[" | "printf" | "read" | "mapfile" | "readarray" | "export" | "declare" | "typeset"
        | "readonly" | "local" | "unset" | "let" => judge_evaluating(name, args, entry),
        _ => tools::judge_interpreter(name, args),
    }
}

/// An assignment before a command that decides what runs.
pub(super) fn assigned(word: &str) -> Option<Finding> {
    let name = word.split('=').next().unwrap_or_default();
    let decides = ["PATH", "BASH_ENV", "ENV", "PAGER", "EDITOR", "VISUAL", "LESSOPEN", "MANPAGER", "PROMPT_COMMAND"]
        .contains(&name)
        || name.starts_with("LD_")
        || name.starts_with("GIT_");
    decides.then(|| Finding::unknown(format!("it sets {}, which decides what runs", shown(name))))
}

fn judge_find(args: &[Arg], context: &Context<'_>, depth: usize) -> Finding {
    let mut heaviest = Finding::read("find looks for files");
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let Some(word) = arg.literal() else {
            if *arg == Arg::Computed {
                heaviest =
                    heaviest.or_heavier(Finding::unknown("an argument of find is computed and may be an action"));
            }
            continue;
        };
        match word {
            "-delete" => return Finding::write("find -delete removes files"),
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                return Finding::write("find writes a file with this action");
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let rest = args.get(at..).unwrap_or_default();
                let end = rest.iter().position(|arg| matches!(arg.literal(), Some(";" | "+"))).unwrap_or(rest.len());
                let command: Vec<Arg> = rest.get(..end).unwrap_or_default().iter().map(as_file_name).collect();
                let finding = judge_within(&command, context, depth + 1);
                let why = format!("find {word} runs a command: {}", finding.why);
                heaviest = heaviest.or_heavier(Finding::new(finding.effect, why));
                at += end;
            }
            // An argument of a test is not an action, whatever it looks like.
            _ if word.starts_with("-newer") => at += 1,
            "-anewer" | "-cnewer" | "-used" | "-uid" | "-gid" | "-context" | "-name" | "-iname" | "-path"
            | "-ipath" | "-wholename" | "-iwholename" | "-regex" | "-iregex" | "-lname" | "-ilname" | "-printf"
            | "-newer" | "-user" | "-group" | "-type" | "-xtype" | "-size" | "-mtime" | "-mmin" | "-atime"
            | "-amin" | "-ctime" | "-cmin" | "-perm" | "-maxdepth" | "-mindepth" | "-samefile" | "-inum" | "-links"
            | "-fstype" | "-regextype" => at += 1,
            _ => {}
        }
    }
    heaviest
}

/// `{}` stands for a file's name.
fn as_file_name(arg: &Arg) -> Arg {
    match arg {
        Arg::Literal(text) if text == "{}" => Arg::Operand,
        other => other.clone(),
    }
}

fn judge_xargs(args: &[Arg], context: &Context<'_>, depth: usize) -> Finding {
    let options = Entry {
        takes: "adEILnPs",
        longs: vec![
            "--arg-file",
            "--delimiter",
            "--max-lines",
            "--max-args",
            "--max-procs",
            "--replace",
            "--max-chars",
            "--process-slot-var",
        ],
        ..PLAIN
    };
    let parsed = table::parse(args, &options, true);
    let Some(first) = parsed.first_operand else { return Finding::read("xargs without a command prints") };
    let replaced = replacement(args.get(..first).unwrap_or_default());
    let mut command: Vec<Arg> = Vec::new();
    let computed = context.standard_input_computed();
    let input = if computed { Arg::Computed } else { Arg::Operand };
    for (position, arg) in args.get(first..).unwrap_or_default().iter().enumerate() {
        command.push(match arg {
            Arg::Literal(text) if position > 0 && replaced.as_ref().is_some_and(|replaced| text == replaced) => {
                input.clone()
            }
            Arg::Literal(text)
                if replaced.as_ref().is_some_and(|replaced| text.contains(replaced.as_str()))
                    && (computed || position == 0) =>
            {
                Arg::Computed
            }
            other => other.clone(),
        });
    }
    if replaced.is_none() {
        command.push(input);
    }
    let finding = judge_within(&command, context, depth + 1);
    Finding::new(finding.effect, format!("xargs runs a command: {}", finding.why))
}

/// What `-I`, `-i` or `--replace` puts the input in place of.
fn replacement(options: &[Arg]) -> Option<String> {
    let mut at = 0;
    while let Some(option) = options.get(at) {
        at += 1;
        let Some(text) = option.literal() else { continue };
        if let Some(rest) = text.strip_prefix("--replace") {
            return Some(rest.strip_prefix('=').unwrap_or("{}").to_owned());
        }
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else { continue };
        if let Some(place) = letters.find(['I', 'i']) {
            let rest = letters.get(place + 1..).unwrap_or_default();
            let next = || options.get(at).and_then(Arg::literal).unwrap_or("{}").to_owned();
            let required = letters.get(place..=place) == Some("I");
            return Some(match (rest, required) {
                ("", true) => next(),
                ("", false) => "{}".to_owned(),
                (rest, _) => rest.to_owned(),
            });
        }
    }
    None
}

fn judge_shell(name: &str, args: &[Arg], context: &Context<'_>) -> Finding {
    let mut at = 0;
    let mut runs_text = false;
    while let Some(arg) = args.get(at) {
        let Some(text) = arg.literal() else { return Finding::unknown(format!("what {name} runs is computed")) };
        if text == "--version" || text == "--help" {
            return Finding::read(format!("{name} prints its version"));
        }
        let Some(letters) = text.strip_prefix(['-', '+']) else { break };
        if ![
            "l",
            "x",
            "e",
            "u",
            "c",
            "lc",
            "xc",
            "ec",
            "cx",
            "ce",
            "ic",
            "n",
            "v",
            "p",
            "exc",
            "xec",
            "euc",
            "euxc",
            "-norc",
            "-noprofile",
            "-posix",
            "-login",
        ]
        .contains(&letters)
        {
            return Finding::unknown(format!("{name} with this option is not known"));
        }
        runs_text |= letters.contains('c') && !letters.starts_with('-');
        at += 1;
    }
    let rest = args.get(at..).unwrap_or_default();
    match (runs_text, rest.split_first()) {
        (true, Some((Arg::Literal(program), words))) => {
            let may_be_option = |arg: &Arg| match arg {
                Arg::Literal(text) => text.starts_with('-') && text.len() > 1,
                Arg::Operand => false,
                Arg::Computed => true,
            };
            judge_text(name, program, words.iter().any(may_be_option), context)
        }
        (true, _) => Finding::unknown(format!("what {name} -c runs is computed")),
        (false, Some(_)) => Finding::unknown(format!("{name} runs a file, whose contents are not in the text")),
        (false, None) => Finding::unknown(format!("{name} runs what it reads")),
    }
}

/// A program written out inside another.
fn judge_text(name: &str, program: &str, positional_computed: bool, context: &Context<'_>) -> Finding {
    let outer = Outer {
        depth: context.outer.depth + 1,
        positional_computed: positional_computed || context.standard_input_computed(),
    };
    let (effect, why) = match judge_program(program, context.limits, &outer) {
        Ok(verdict) => (verdict.effect, verdict.why),
        Err(finding) => (finding.effect, finding.why),
    };
    Finding::new(effect, format!("{} runs a program: {why}", shown(name)))
}

/// `eval` joins its arguments to a program.
fn judge_joined(name: &str, args: &[Arg], context: &Context<'_>) -> Finding {
    let words: Option<Vec<&str>> = args.iter().map(Arg::literal).collect();
    match words {
        // What it runs may set and read the variables around it, which are not followed into it.
        Some(words) => judge_text(name, &words.join(" "), true, context),
        None => Finding::unknown(format!("what {name} runs is computed")),
    }
}

fn judge_trap(args: &[Arg], context: &Context<'_>) -> Finding {
    match args {
        [] => Finding::read("trap lists"),
        [Arg::Literal(option), ..] if option == "-l" || option == "-p" || option == "-" || option.is_empty() => {
            Finding::read("trap lists or resets")
        }
        [Arg::Literal(_), ..] => judge_joined("trap", args.get(..1).unwrap_or_default(), context),
        _ => Finding::unknown("what trap runs is computed"),
    }
}

fn judge_prefix(name: &str, args: &[Arg], context: &Context<'_>, depth: usize) -> Finding {
    let parsed = table::parse(args, &Entry { takes: "a", ..PLAIN }, true);
    if name == "command" && table::any_exactly(&parsed.options, &["-v", "-V"]) {
        return Finding::read("command -v looks for a command");
    }
    match parsed.first_operand {
        Some(first) => judge_within(args.get(first..).unwrap_or_default(), context, depth + 1),
        None => Finding::read(format!("{name} without a command")),
    }
}

fn judge_env(args: &[Arg], context: &Context<'_>, depth: usize) -> Finding {
    let options = Entry { takes: "uCS", longs: vec!["--unset", "--chdir", "--split-string"], ..PLAIN };
    let parsed = table::parse(args, &options, true);
    if table::any(&parsed.options, &["-S", "--split-string"]) {
        return Finding::unknown("env -S splits a text to a command");
    }
    let mut rest = args.get(parsed.first_operand.unwrap_or(args.len())..).unwrap_or_default();
    while let Some((Arg::Literal(word), after)) = rest.split_first() {
        if !word.contains('=') {
            break;
        }
        if let Some(finding) = assigned(word) {
            return finding;
        }
        rest = after;
    }
    if rest.is_empty() { Finding::read("env prints the environment") } else { judge_within(rest, context, depth + 1) }
}

/// Builtins that evaluate what stands in an index, even when it is quoted.
fn judge_evaluating(name: &str, args: &[Arg], entry: &Entry) -> Finding {
    let evaluates =
        |arg: &Arg| arg.literal().is_some_and(|text| text.contains('[') && (text.contains("$(") || text.contains('`')));
    if name != "[" && name != "printf" && args.iter().any(evaluates)
        || (name == "printf" && args.first().and_then(Arg::literal) == Some("-v") && args.get(1).is_some_and(evaluates))
    {
        return Finding::unknown(format!("{name} may evaluate a substitution"));
    }
    if (name == "test" || name == "[")
        && args.iter().any(|arg| arg.literal() == Some("-v"))
        && args.iter().any(evaluates)
    {
        return Finding::unknown("a test may evaluate a substitution");
    }
    for arg in args {
        if let Some(word) = arg.literal()
            && ["export", "declare", "typeset", "readonly", "local"].contains(&name)
            && let Some(finding) = assigned(word).filter(|_| word.contains('='))
        {
            return finding;
        }
    }
    judge_plain(name, args, &Entry { conduct: Conduct::Read, ..entry.clone() })
}
