//! Tools that the table cannot describe because what they do depends on how their options stand together: archives, version control,
//! transfers, clocks, interpreters.

use crate::effects::shell::command;
use crate::effects::shell::programs::PLAIN;
use crate::effects::shell::table::{self, Entry};
use crate::effects::shell::word::Arg;
use crate::effects::{Effect, Finding, shown};

pub(super) fn judge_tee(args: &[Arg]) -> Finding {
    let parsed = table::parse(args, &PLAIN, false);
    let nowhere = |arg: &&Arg| {
        arg.literal().is_some_and(|name| ["/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty", "-"].contains(&name))
    };
    if parsed.operands.iter().all(nowhere) {
        Finding::read("tee writes to no file")
    } else {
        Finding::write("tee writes a file")
    }
}

pub(super) fn judge_dd(args: &[Arg]) -> Finding {
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

pub(super) fn judge_tar(args: &[Arg]) -> Finding {
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
    if letters.contains(['I', 'F'])
        || long(&[
            "--to-command",
            "--use-compress-program",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
        ])
    {
        return Finding::unknown("tar runs a program with this option");
    }
    if parsed.computed {
        return Finding::unknown("an argument of tar is computed and may be an option");
    }
    let writes = letters.contains(['c', 'x', 'r', 'u', 'A'])
        || long(&["--create", "--extract", "--get", "--append", "--update", "--concatenate", "--catenate", "--delete"]);
    let lists = letters.contains('t') || table::any_exactly(&longs, &["--list"]);
    let to_output = letters.contains('O') || table::any_exactly(&longs, &["--to-stdout"]);
    match (writes, lists) {
        (true, _) if to_output && letters.contains('x') && !letters.contains(['c', 'r', 'u', 'A']) => {
            Finding::read("tar extracts to its output")
        }
        (true, _) => Finding::write("tar makes, changes or unpacks an archive"),
        (false, true) => Finding::read("tar lists an archive"),
        (false, false) => Finding::unknown("what tar does cannot be told from its options"),
    }
}

pub(super) fn judge_cpio(args: &[Arg]) -> Finding {
    let parsed = table::parse(args, &Entry { takes: "CEFHIMOR", ..PLAIN }, false);
    let has = |options: &[&str]| table::any(&parsed.options, options);
    match () {
        () if has(&["-t", "--list"]) && !has(&["-O", "-o", "-p", "--create", "--pass-through", "--rsh-command"]) => {
            Finding::read("cpio lists an archive")
        }
        () => Finding::write("cpio makes or unpacks an archive"),
    }
}

/// Subcommands of git that only look.
const GIT_LOOKS: &str = "status log diff show ls-files ls-tree ls-remote rev-parse rev-list blame annotate grep describe shortlog cat- \
    file name-rev for-each-ref show-ref merge-base count-objects check-ignore check-attr whatchanged help version \
    var cherry diff-tree diff-index diff-files show-branch range-diff verify-commit verify-tag";

/// Subcommands of git that look, and those that look only without words after them.
pub(super) fn judge_git(args: &[Arg]) -> Finding {
    let parsed = table::parse(
        args,
        &Entry { takes: "Cc", longs: vec!["--git-dir", "--work-tree", "--namespace"], ..PLAIN },
        true,
    );
    if table::any(&parsed.options, &["-c", "--config-env", "--exec-path"]) {
        return Finding::unknown("git with settings of its own may run anything");
    }
    let Some(first) = parsed.first_operand else { return Finding::read("git without a subcommand prints help") };
    let Some(subcommand) = args.get(first).and_then(Arg::literal) else {
        return Finding::unknown("the subcommand of git is computed");
    };
    let rest = args.get(first + 1..).unwrap_or_default();
    let words: Vec<&str> = rest.iter().filter_map(Arg::literal).collect();
    if words.iter().any(|word| word.contains("::") && subcommand == "ls-remote") || rest.contains(&Arg::Computed) {
        return Finding::unknown("what git asks may be a program");
    }
    if words.iter().any(|word| {
        word.starts_with("--output")
            || word.starts_with("--ext-diff")
            || word.starts_with("--open-files-in-pager")
            || word.starts_with("-O")
            || word.starts_with("--upload-pack")
    }) {
        return Finding::unknown("git with this option writes a file or runs a program");
    }
    let only = |allowed: &[&str]| rest.iter().all(|arg| arg.literal().is_some_and(|word| allowed.contains(&word)));
    let reads = match subcommand {
        "branch" => only(&[
            "-a",
            "-r",
            "-v",
            "-vv",
            "--list",
            "--all",
            "--remotes",
            "--show-current",
            "--merged",
            "--no-merged",
        ]),
        "tag" => {
            rest.is_empty() || words.first().is_some_and(|first| *first == "-l" || *first == "--list" || *first == "-n")
        }
        "remote" => only(&["-v", "--verbose", "show", "get-url", "origin", "upstream"]),
        "stash" => words.first().is_some_and(|first| *first == "list" || *first == "show"),
        "config" => {
            words.iter().any(|word| ["--get", "--get-all", "--get-regexp", "--list", "-l"].contains(word))
                && !words
                    .iter()
                    .any(|word| ["--add", "--unset", "--unset-all", "--replace-all", "--edit", "-e"].contains(word))
        }
        "reflog" | "worktree" | "submodule" | "notes" | "bisect" => {
            words.first().is_none_or(|first| ["list", "show", "status", "summary", "log"].contains(first))
                && (subcommand == "reflog" || !rest.is_empty())
        }
        other => GIT_LOOKS.split_ascii_whitespace().any(|known| known == other),
    };
    if reads {
        Finding::read(format!("git {} looks", shown(subcommand)))
    } else {
        Finding::unknown(format!("git {} is not known to only look", shown(subcommand)))
    }
}

pub(super) fn judge_curl(args: &[Arg]) -> Finding {
    const WRITES: &[&str] = &[
        "-O",
        "-J",
        "-T",
        "-c",
        "-D",
        "-F",
        "-Q",
        "--output-dir",
        "--remote-name",
        "--remote-name-all",
        "--upload-file",
        "--cookie-jar",
        "--dump-header",
        "--form",
        "--form-string",
        "--json",
        "--quote",
        "--trace",
        "--trace-ascii",
        "--stderr",
        "--libcurl",
        "--hsts",
        "--alt-svc",
        "--etag-save",
        "--mail-rcpt",
        "--create-dirs",
    ];
    let entry = Entry { takes: "AbCcdDeEFHhKmoPQrtTuUwxXyYz", ..PLAIN };
    let parsed = table::parse(args, &entry, false);
    let has = |options: &[&str]| table::any(&parsed.options, options);
    let words: Vec<&str> = args.iter().filter_map(Arg::literal).collect();
    let sends = table::any_exactly(&parsed.options, &["-d"])
        || parsed.options.iter().any(|option| option.starts_with("--da") || option.starts_with("--url-q"));
    let as_query = table::any_exactly(&parsed.options, &["-G", "--get"]);
    // `-o` may lead nowhere; every other way of writing it is taken for a file.
    let nowhere = args.windows(2).filter(|pair| matches!(pair, [Arg::Literal(option), Arg::Literal(target)] if (option == "-o" || option == "--output") && (target == "-" || target == "/dev/null"))).count();
    let outputs =
        parsed.options.iter().filter(|option| *option == "-o" || "--output".starts_with(option.as_str())).count();
    if has(WRITES) || (sends && !as_query) || outputs > nowhere || words.iter().any(|word| word.contains("%output")) {
        return Finding::write("curl sends data or writes a file with this option");
    }
    let overrides = words.iter().any(|word| word.to_ascii_lowercase().contains("method-override"));
    let foreign = words.iter().any(|word| {
        word.split_once("://").is_some_and(|(scheme, _)| {
            !["http", "https", "ftp", "file", "--proxy=http", "socks5"].contains(&scheme.to_ascii_lowercase().as_str())
        })
    });
    if has(&["-K", "--config", "--next"]) || parsed.computed || overrides || foreign {
        return Finding::unknown(
            "curl takes options from elsewhere, or speaks another protocol or method than it says",
        );
    }
    judge_curl_method(args, &words, &parsed.options)
}

/// The methods that curl is told to use.
fn judge_curl_method(args: &[Arg], words: &[&str], options: &[String]) -> Finding {
    let separate = args.windows(2).filter_map(|pair| match pair {
        [Arg::Literal(option), value] if option == "-X" || option == "--request" => {
            Some(value.literal().unwrap_or("?"))
        }
        _ => None,
    });
    let attached = words.iter().filter_map(|word| {
        word.strip_prefix("--request=").or_else(|| word.strip_prefix("-X").filter(|rest| !rest.is_empty()))
    });
    let methods: Vec<&str> = separate.chain(attached).collect();
    if methods.iter().any(|method| !["GET", "HEAD", "OPTIONS"].contains(method)) {
        return Finding::write("curl asks with a method that changes something");
    }
    if attached_in_cluster(options, args) || (methods.is_empty() && table::any(options, &["--request"])) {
        return Finding::unknown("the method that curl uses is hidden among its options");
    }
    Finding::read("curl asks with GET, HEAD or OPTIONS")
}

/// `-sX POST`: `-X` that is no word of its own.
fn attached_in_cluster(options: &[String], args: &[Arg]) -> bool {
    options.iter().any(|option| option == "-X")
        && !args.iter().filter_map(Arg::literal).any(|word| word.starts_with("-X"))
}

pub(super) fn judge_wget(args: &[Arg]) -> Finding {
    let words: Vec<&str> = args.iter().filter_map(Arg::literal).collect();
    let to_output =
        words.iter().any(|word| ["-O-", "-qO-", "-nvO-", "-qO", "--output-document=-", "--spider"].contains(word))
            || words
                .windows(2)
                .any(|pair| matches!(pair, ["-O" | "-qO" | "--output-document", "-" | "/dev/null" | "/dev/stdout"]));
    let bad_target =
        words.windows(2).any(|pair| matches!(pair, ["-qO", target] if *target != "-" && *target != "/dev/null"));
    let sends = words.iter().any(|word| {
        word.starts_with("--post")
            || word.starts_with("--body")
            || word.starts_with("--method")
            || word.starts_with("--save-")
            || word.starts_with("-o")
            || word.starts_with("-a")
            || word.starts_with("--output-file")
            || word.starts_with("-e")
            || word.starts_with("--execute")
            || word.starts_with("--use-askpass")
    });
    let targets = words
        .iter()
        .filter(|word| {
            word.starts_with("--output-d") || (word.starts_with('-') && !word.starts_with("--") && word.contains('O'))
        })
        .count();
    let keeps = words.iter().any(|word| {
        ["--warc", "--background", "-b", "--hsts-file", "--rejected-log"].iter().any(|option| word.starts_with(option))
    });
    let (bad_target, sends) = (bad_target || targets > 1, sends || keeps);
    if to_output && !bad_target && !sends && args.iter().all(|arg| *arg != Arg::Computed) {
        Finding::read("wget writes to its output")
    } else {
        Finding::write("wget writes a file or sends data")
    }
}

pub(super) fn judge_ip(args: &[Arg]) -> Finding {
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
pub(super) fn judge_pager(name: &str, args: &[Arg]) -> Finding {
    let words = || args.iter().filter_map(Arg::literal);
    if words().any(|word| {
        word.starts_with('+')
            || word.starts_with("-k")
            || word.starts_with("--lesskey")
            || word.starts_with("-p")
            || word.starts_with("-t")
            || word.starts_with("-T")
            || word.starts_with("++")
    }) || args.contains(&Arg::Computed)
    {
        return Finding::unknown(format!("{name} with this argument may run a command"));
    }
    let logs = |word: &str| {
        word.to_ascii_lowercase().starts_with("--log")
            || (word.starts_with('-') && !word.starts_with("--") && word.to_ascii_lowercase().contains('o'))
    };
    if words().any(logs) {
        Finding::write(format!("{name} writes a log with this option"))
    } else {
        Finding::read(format!("{name} shows"))
    }
}

/// `date` sets the clock with `-s` or with an operand that is no format. The value of `-I` is part of its word.
pub(super) fn judge_date(args: &[Arg]) -> Finding {
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
            _ if word.starts_with('+')
                || word.starts_with("-I")
                || word.starts_with("--iso")
                || word.starts_with("--rfc") => {}
            "-d" | "-f" | "-r" | "--date" | "--file" | "--reference" | "-v" | "-z" => at += 1,
            _ if ["--date=", "--file=", "--reference="].iter().any(|option| word.starts_with(option)) => {}
            "-u" | "--utc" | "--universal" | "-R" | "-j" | "-n" | "-jf" | "--debug" | "--resolution" | "-ud"
            | "-Ru" | "-uR" => at += usize::from(word == "-ud"),
            _ if word.starts_with("-d") || word.starts_with("-r") || word.starts_with("-ud") => {}
            _ => return Finding::write("date sets the clock with this argument"),
        }
    }
    Finding::read("date prints the time")
}

/// Programs in languages that are not read here.
pub(super) fn judge_interpreter(name: &str, args: &[Arg]) -> Finding {
    let words: Vec<&str> = args.iter().filter_map(Arg::literal).collect();
    if matches!(words.as_slice(), ["-V" | "-v" | "--version" | "-version"]) && args.len() == 1 {
        return Finding::read(format!("{name} prints its version"));
    }
    let in_place = |word: &&str| {
        word.strip_prefix('-').is_some_and(|letters| {
            !letters.starts_with('-')
                && letters.bytes().take_while(u8::is_ascii_alphabetic).take(4).any(|letter| letter == b'i')
        })
    };
    if (name == "perl" || name == "ruby") && words.first().is_some_and(in_place) {
        return Finding::write(format!("{name} -i edits files in place"));
    }
    Finding::new(
        Effect::Unknown,
        format!("{} runs a program in a language that is not read here", shown(command::base_name(name))),
    )
}
