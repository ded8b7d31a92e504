//! Commands that the table cannot describe: those with a language of their own, and those that run others.

use crate::effects::shell::command::{self, Context, judge_plain, judge_within};
use crate::effects::shell::table::{self, Conduct, Entry};
use crate::effects::shell::word::Arg;
use crate::effects::shell::{Outer, awk, judge as judge_program, sed};
use crate::effects::{Effect, Finding, shown};

const PLAIN: Entry = Entry {
    conduct: Conduct::Read,
    takes: "",
    longs: Vec::new(),
    write: Vec::new(),
    unknown: Vec::new(),
    read: Vec::new(),
    operands_max: None,
    subcommands: Vec::new(),
    flags: Vec::new(),
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
        "tee" => judge_tee(args),
        "dd" => judge_dd(args),
        "tar" | "gtar" | "bsdtar" => judge_tar(args),
        "cpio" => judge_cpio(args),
        "git" => judge_git(args),
        "curl" => judge_curl(args),
        "wget" => judge_wget(args),
        "ip" => judge_ip(args),
        "less" | "more" | "zless" | "zmore" | "bzless" | "xzless" => judge_pager(name, args),
        "read" | "mapfile" | "readarray" if args.iter().any(|arg| arg.literal().is_some_and(|word| word.starts_with("-C"))) => Finding::unknown(format!("{name} -C runs a command")),
        "date" => judge_date(args),
        "shopt" | "test" | "[" | "printf" | "read" | "mapfile" | "readarray" | "export" | "declare" | "typeset" | "readonly" | "local" | "unset" | "let" => judge_evaluating(name, args, entry),
        _ => judge_interpreter(name, args),
    }
}

/// An assignment before a command that decides what runs.
pub(super) fn assigned(word: &str) -> Option<Finding> {
    let name = word.split('=').next().unwrap_or_default();
    let decides = ["PATH", "BASH_ENV", "ENV", "PAGER", "EDITOR", "VISUAL", "LESSOPEN", "MANPAGER", "PROMPT_COMMAND"].contains(&name) || name.starts_with("LD_") || name.starts_with("GIT_");
    decides.then(|| Finding::unknown(format!("it sets {}, which decides what runs", shown(name))))
}

fn judge_find(args: &[Arg], context: &Context<'_>, depth: usize) -> Finding {
    let mut heaviest = Finding::read("find looks for files");
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let Some(word) = arg.literal() else {
            if *arg == Arg::Computed {
                heaviest = heaviest.or_heavier(Finding::unknown("an argument of find is computed and may be an action"));
            }
            continue;
        };
        match word {
            "-delete" => return Finding::write("find -delete removes files"),
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => return Finding::write("find writes a file with this action"),
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
            "-anewer" | "-cnewer" | "-used" | "-uid" | "-gid" | "-context" | "-name" | "-iname" | "-path" | "-ipath" | "-wholename" | "-iwholename" | "-regex" | "-iregex" | "-lname" | "-ilname" | "-printf" | "-newer" | "-user" | "-group" | "-type" | "-xtype"
            | "-size" | "-mtime" | "-mmin" | "-atime" | "-amin" | "-ctime" | "-cmin" | "-perm" | "-maxdepth" | "-mindepth" | "-samefile" | "-inum" | "-links" | "-fstype" | "-regextype" => at += 1,
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
    let options = Entry { takes: "adEILnPs", longs: vec!["--arg-file", "--delimiter", "--max-lines", "--max-args", "--max-procs", "--replace", "--max-chars", "--process-slot-var"], ..PLAIN };
    let parsed = table::parse(args, &options, true);
    let Some(first) = parsed.first_operand else { return Finding::read("xargs without a command prints") };
    let replaced = replacement(args.get(..first).unwrap_or_default());
    let mut command: Vec<Arg> = Vec::new();
    let computed = context.standard_input_computed();
    let input = if computed { Arg::Computed } else { Arg::Operand };
    for (position, arg) in args.get(first..).unwrap_or_default().iter().enumerate() {
        command.push(match arg {
            Arg::Literal(text) if position > 0 && replaced.as_ref().is_some_and(|replaced| text == replaced) => input.clone(),
            Arg::Literal(text) if replaced.as_ref().is_some_and(|replaced| text.contains(replaced.as_str())) && (computed || position == 0) => Arg::Computed,
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
        if !["l", "x", "e", "u", "c", "lc", "xc", "ec", "cx", "ce", "ic", "n", "v", "p", "exc", "xec", "euc", "euxc", "-norc", "-noprofile", "-posix", "-login"].contains(&letters) {
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
    let outer = Outer { depth: context.outer.depth + 1, positional_computed: positional_computed || context.standard_input_computed() };
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
        [Arg::Literal(option), ..] if option == "-l" || option == "-p" || option == "-" || option.is_empty() => Finding::read("trap lists or resets"),
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

fn judge_tee(args: &[Arg]) -> Finding {
    let parsed = table::parse(args, &PLAIN, false);
    let nowhere = |arg: &&Arg| arg.literal().is_some_and(|name| ["/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty", "-"].contains(&name));
    if parsed.operands.iter().all(nowhere) { Finding::read("tee writes to no file") } else { Finding::write("tee writes a file") }
}

fn judge_dd(args: &[Arg]) -> Finding {
    let mut heaviest = Finding::read("dd copies to its output");
    for arg in args {
        match arg {
            Arg::Literal(text) => match text.strip_prefix("of=") {
                Some("/dev/null" | "/dev/stdout") | None => {}
                Some(_) => return Finding::write("dd writes a file"),
            },
            Arg::Operand | Arg::Computed => heaviest = Finding::unknown("an argument of dd is not written out"),
        }
    }
    heaviest
}

fn judge_tar(args: &[Arg]) -> Finding {
    let first_old = args.first().and_then(Arg::literal).filter(|first| !first.starts_with('-'));
    let mut letters = String::new();
    let mut longs: Vec<String> = Vec::new();
    let entry = Entry { takes: "fbCTXgNVLFHIK", ..PLAIN };
    letters.push_str(first_old.unwrap_or_default());
    let parsed = table::parse(args.get(usize::from(first_old.is_some())..).unwrap_or_default(), &entry, false);
    for option in parsed.options {
        match option.strip_prefix("--") {
            Some(_) => longs.push(option),
            None if option.len() == 2 => letters.push_str(option.get(1..).unwrap_or_default()),
            None => {}
        }
    }
    let long = |names: &[&str]| table::any(&longs, names);
    if letters.contains(['I', 'F']) || long(&["--to-command", "--use-compress-program", "--checkpoint-action", "--info-script", "--new-volume-script", "--rsh-command", "--rmt-command"]) {
        return Finding::unknown("tar runs a program with this option");
    }
    if parsed.computed {
        return Finding::unknown("an argument of tar is computed and may be an option");
    }
    let writes = letters.contains(['c', 'x', 'r', 'u', 'A']) || long(&["--create", "--extract", "--get", "--append", "--update", "--concatenate", "--catenate", "--delete"]);
    let lists = letters.contains('t') || table::any_exactly(&longs, &["--list"]);
    let to_output = letters.contains('O') || table::any_exactly(&longs, &["--to-stdout"]);
    match (writes, lists) {
        (true, _) if to_output && letters.contains('x') && !letters.contains(['c', 'r', 'u', 'A']) => Finding::read("tar extracts to its output"),
        (true, _) => Finding::write("tar makes, changes or unpacks an archive"),
        (false, true) => Finding::read("tar lists an archive"),
        (false, false) => Finding::unknown("what tar does cannot be told from its options"),
    }
}

fn judge_cpio(args: &[Arg]) -> Finding {
    let parsed = table::parse(args, &Entry { takes: "CEFHIMOR", ..PLAIN }, false);
    let has = |options: &[&str]| table::any(&parsed.options, options);
    match () {
        () if has(&["-t", "--list"]) && !has(&["-O", "-o", "-p", "--create", "--pass-through", "--rsh-command"]) => Finding::read("cpio lists an archive"),
        () => Finding::write("cpio makes or unpacks an archive"),
    }
}

/// Subcommands of git that look, and those that look only without words after them.
fn judge_git(args: &[Arg]) -> Finding {
    const LOOK: &[&str] = &[
        "status", "log", "diff", "show", "ls-files", "ls-tree", "ls-remote", "rev-parse", "rev-list", "blame", "annotate", "grep", "describe", "shortlog", "cat-file", "name-rev", "for-each-ref", "show-ref", "merge-base",
        "count-objects", "check-ignore", "check-attr", "whatchanged", "help", "version", "var", "cherry", "diff-tree", "diff-index", "diff-files", "show-branch", "range-diff", "verify-commit", "verify-tag",
    ];
    let parsed = table::parse(args, &Entry { takes: "Cc", longs: vec!["--git-dir", "--work-tree", "--namespace"], ..PLAIN }, true);
    if table::any(&parsed.options, &["-c", "--config-env", "--exec-path"]) {
        return Finding::unknown("git with settings of its own may run anything");
    }
    let Some(first) = parsed.first_operand else { return Finding::read("git without a subcommand prints help") };
    let Some(subcommand) = args.get(first).and_then(Arg::literal) else { return Finding::unknown("the subcommand of git is computed") };
    let rest = args.get(first + 1..).unwrap_or_default();
    let words: Vec<&str> = rest.iter().filter_map(Arg::literal).collect();
    if words.iter().any(|word| word.contains("::") && subcommand == "ls-remote") || rest.contains(&Arg::Computed) {
        return Finding::unknown("what git asks may be a program");
    }
    if words.iter().any(|word| word.starts_with("--output") || word.starts_with("--ext-diff") || word.starts_with("--open-files-in-pager") || word.starts_with("-O") || word.starts_with("--upload-pack")) {
        return Finding::unknown("git with this option writes a file or runs a program");
    }
    let only = |allowed: &[&str]| rest.iter().all(|arg| arg.literal().is_some_and(|word| allowed.contains(&word)));
    let reads = match subcommand {
        "branch" => only(&["-a", "-r", "-v", "-vv", "--list", "--all", "--remotes", "--show-current", "--merged", "--no-merged"]),
        "tag" => rest.is_empty() || words.first().is_some_and(|first| *first == "-l" || *first == "--list" || *first == "-n"),
        "remote" => only(&["-v", "--verbose", "show", "get-url", "origin", "upstream"]),
        "stash" => words.first().is_some_and(|first| *first == "list" || *first == "show"),
        "config" => words.iter().any(|word| ["--get", "--get-all", "--get-regexp", "--list", "-l"].contains(word)) && !words.iter().any(|word| ["--add", "--unset", "--unset-all", "--replace-all", "--edit", "-e"].contains(word)),
        "reflog" | "worktree" | "submodule" | "notes" | "bisect" => words.first().is_none_or(|first| ["list", "show", "status", "summary", "log"].contains(first)) && (subcommand == "reflog" || !rest.is_empty()),
        other => LOOK.contains(&other),
    };
    if reads { Finding::read(format!("git {} looks", shown(subcommand))) } else { Finding::unknown(format!("git {} is not known to only look", shown(subcommand))) }
}

fn judge_curl(args: &[Arg]) -> Finding {
    const WRITES: &[&str] = &["-O", "-J", "-T", "-c", "-D", "-F", "-Q", "--output-dir", "--remote-name", "--remote-name-all", "--upload-file", "--cookie-jar", "--dump-header", "--form", "--form-string", "--json", "--quote", "--trace", "--trace-ascii", "--stderr", "--libcurl", "--hsts", "--alt-svc", "--etag-save", "--mail-rcpt", "--create-dirs"];
    let entry = Entry { takes: "AbCcdDeEFHhKmoPQrtTuUwxXyYz", ..PLAIN };
    let parsed = table::parse(args, &entry, false);
    let has = |options: &[&str]| table::any(&parsed.options, options);
    let words: Vec<&str> = args.iter().filter_map(Arg::literal).collect();
    let sends = table::any_exactly(&parsed.options, &["-d"]) || parsed.options.iter().any(|option| option.starts_with("--da") || option.starts_with("--url-q"));
    let as_query = table::any_exactly(&parsed.options, &["-G", "--get"]);
    // `-o` may lead nowhere; every other way of writing it is taken for a file.
    let nowhere = args.windows(2).filter(|pair| matches!(pair, [Arg::Literal(option), Arg::Literal(target)] if (option == "-o" || option == "--output") && (target == "-" || target == "/dev/null"))).count();
    let outputs = parsed.options.iter().filter(|option| *option == "-o" || "--output".starts_with(option.as_str())).count();
    if has(WRITES) || (sends && !as_query) || outputs > nowhere || words.iter().any(|word| word.contains("%output")) {
        return Finding::write("curl sends data or writes a file with this option");
    }
    let overrides = words.iter().any(|word| word.to_ascii_lowercase().contains("method-override"));
    let foreign = words.iter().any(|word| word.split_once("://").is_some_and(|(scheme, _)| !["http", "https", "ftp", "file", "--proxy=http", "socks5"].contains(&scheme.to_ascii_lowercase().as_str())));
    if has(&["-K", "--config", "--next"]) || parsed.computed || overrides || foreign {
        return Finding::unknown("curl takes options from elsewhere, or speaks another protocol or method than it says");
    }
    let separate = args.windows(2).filter_map(|pair| match pair {
        [Arg::Literal(option), value] if option == "-X" || option == "--request" => Some(value.literal().unwrap_or("?")),
        _ => None,
    });
    let attached = words.iter().filter_map(|word| word.strip_prefix("--request=").or_else(|| word.strip_prefix("-X").filter(|rest| !rest.is_empty())));
    let methods: Vec<&str> = separate.chain(attached).collect();
    if methods.iter().any(|method| !["GET", "HEAD", "OPTIONS"].contains(method)) {
        return Finding::write("curl asks with a method that changes something");
    }
    if attached_in_cluster(&parsed.options, args) || (methods.is_empty() && has(&["--request"])) {
        return Finding::unknown("the method that curl uses is hidden among its options");
    }
    Finding::read("curl asks with GET, HEAD or OPTIONS")
}

/// `-sX POST`: `-X` that is no word of its own.
fn attached_in_cluster(options: &[String], args: &[Arg]) -> bool {
    options.iter().any(|option| option == "-X") && !args.iter().filter_map(Arg::literal).any(|word| word.starts_with("-X"))
}

fn judge_wget(args: &[Arg]) -> Finding {
    let words: Vec<&str> = args.iter().filter_map(Arg::literal).collect();
    let to_output = words.iter().any(|word| ["-O-", "-qO-", "-nvO-", "-qO", "--output-document=-", "--spider"].contains(word)) || words.windows(2).any(|pair| matches!(pair, ["-O" | "-qO" | "--output-document", "-" | "/dev/null" | "/dev/stdout"]));
    let bad_target = words.windows(2).any(|pair| matches!(pair, ["-qO", target] if *target != "-" && *target != "/dev/null"));
    let sends = words.iter().any(|word| word.starts_with("--post") || word.starts_with("--body") || word.starts_with("--method") || word.starts_with("--save-") || word.starts_with("-o") || word.starts_with("-a") || word.starts_with("--output-file") || word.starts_with("-e") || word.starts_with("--execute") || word.starts_with("--use-askpass"));
    if to_output && !bad_target && !sends && args.iter().all(|arg| *arg != Arg::Computed) { Finding::read("wget writes to its output") } else { Finding::write("wget writes a file or sends data") }
}

fn judge_ip(args: &[Arg]) -> Finding {
    let parsed = table::parse(args, &Entry { takes: "fnl", ..PLAIN }, false);
    if table::any(&parsed.options, &["-b", "-batch", "-force"]) {
        return Finding::unknown("ip takes commands from elsewhere");
    }
    let words: Vec<&str> = parsed.operands.iter().filter_map(|arg| arg.literal()).collect();
    let looks = match words.as_slice() {
        [] => true,
        [_] => words.first() != Some(&"netns"),
        [_, verb, ..] => ["show", "list", "ls", "get", "s", "l", "sh", "lst", "save"].contains(verb),
    };
    if looks && !parsed.computed { Finding::read("ip shows") } else { Finding::write("ip changes the network") }
}

/// A pager runs commands that are given with `+`, and keeps a log with `-o`.
fn judge_pager(name: &str, args: &[Arg]) -> Finding {
    let words = || args.iter().filter_map(Arg::literal);
    if words().any(|word| word.starts_with('+') || word.starts_with("-k") || word.starts_with("--lesskey") || word.starts_with("-p") || word.starts_with("-t") || word.starts_with("-T") || word.starts_with("++")) || args.contains(&Arg::Computed) {
        return Finding::unknown(format!("{name} with this argument may run a command"));
    }
    let logs = |word: &str| word.to_ascii_lowercase().starts_with("--log") || (word.starts_with('-') && !word.starts_with("--") && word.to_ascii_lowercase().contains('o'));
    if words().any(logs) { Finding::write(format!("{name} writes a log with this option")) } else { Finding::read(format!("{name} shows")) }
}

/// `date` sets the clock with `-s` or with an operand that is no format. The value of `-I` is part of its word.
fn judge_date(args: &[Arg]) -> Finding {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let Some(word) = arg.literal() else {
            if *arg == Arg::Computed {
                return Finding::unknown("an argument of date is computed and may set the clock");
            }
            continue;
        };
        match word {
            _ if word.starts_with('+') || word.starts_with("-I") || word.starts_with("--iso") || word.starts_with("--rfc") => {}
            "-d" | "-f" | "-r" | "--date" | "--file" | "--reference" | "-v" | "-z" => at += 1,
            _ if ["--date=", "--file=", "--reference="].iter().any(|option| word.starts_with(option)) => {}
            "-u" | "--utc" | "--universal" | "-R" | "-j" | "-n" | "-jf" | "--debug" | "--resolution" | "-ud" | "-Ru" | "-uR" => at += usize::from(word == "-ud"),
            _ if word.starts_with("-d") || word.starts_with("-r") || word.starts_with("-ud") => {}
            _ => return Finding::write("date sets the clock with this argument"),
        }
    }
    Finding::read("date prints the time")
}

/// Builtins that evaluate what stands in an index, even when it is quoted.
fn judge_evaluating(name: &str, args: &[Arg], entry: &Entry) -> Finding {
    let evaluates = |arg: &Arg| arg.literal().is_some_and(|text| text.contains('[') && (text.contains("$(") || text.contains('`')));
    if name != "[" && name != "printf" && args.iter().any(evaluates) || (name == "printf" && args.first().and_then(Arg::literal) == Some("-v") && args.get(1).is_some_and(evaluates)) {
        return Finding::unknown(format!("{name} may evaluate a substitution"));
    }
    if (name == "test" || name == "[") && args.iter().any(|arg| arg.literal() == Some("-v")) && args.iter().any(evaluates) {
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

/// Programs in languages that are not read here.
fn judge_interpreter(name: &str, args: &[Arg]) -> Finding {
    let words: Vec<&str> = args.iter().filter_map(Arg::literal).collect();
    if matches!(words.as_slice(), ["-V" | "-v" | "--version" | "-version"]) && args.len() == 1 {
        return Finding::read(format!("{name} prints its version"));
    }
    let in_place = |word: &&str| word.strip_prefix('-').is_some_and(|letters| !letters.starts_with('-') && letters.bytes().take_while(u8::is_ascii_alphabetic).take(4).any(|letter| letter == b'i'));
    if (name == "perl" || name == "ruby") && words.first().is_some_and(in_place) {
        return Finding::write(format!("{name} -i edits files in place"));
    }
    Finding::new(Effect::Unknown, format!("{} runs a program in a language that is not read here", shown(command::base_name(name))))
}
