//! One command: whether it is listed, and whether every word of it is allowed.

use super::{
    ShellWord, find,
    table::{self, CommandOperands, OptionValueStyle, ReadOnlyCommand},
};
use crate::effects::{EffectFinding, shown};

/// Where the programs of a system are.
const PROGRAM_FOLDERS: [&str; 4] = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"];
/// Files of the kernel that are safe to read: reading them changes nothing, and they end.
const KERNEL_FILES: &str = "/dev/null /proc/cpuinfo /proc/meminfo /proc/version /proc/uptime /proc/loadavg \
                            /proc/mounts /proc/stat /proc/filesystems /proc/cmdline /proc/swaps /proc/partitions /proc/modules \
                            /proc/net/dev /proc/net/route /proc/net/tcp /proc/net/udp /proc/self/status /proc/self/limits";

/// Folders of devices and files of the kernel, and of the network in some programs.
const SPECIAL_FOLDERS: [&str; 6] = ["dev", "proc", "sys", "inet", "inet4", "inet6"];
/// Signs of globs.
const GLOB_SIGNS: [char; 3] = ['*', '?', '['];

/// Programs that run programs, and that are a read only if the command asks for their version. Programs with version managers are not
/// here, because the manager that starts in their place may download one. Java is not here, because it leaves files behind even then.
const VERSIONED: &str = "bash git gcc make perl";

/// Says why a command is not known to only read.
pub(super) fn judge(words: &[&ShellWord]) -> Result<(), EffectFinding> {
    let Some((name, arguments)) = words.split_first() else { return Ok(()) };
    let bare = PROGRAM_FOLDERS.iter().find_map(|folder| name.text.strip_prefix(folder)).unwrap_or(&name.text);
    if name.has_glob {
        return Err(EffectFinding::unknown("the name of a command is a glob"));
    }
    if let Some(word) = arguments.iter().find(|word| is_special_file(word)) {
        return Err(EffectFinding::unknown(format!("`{}` may be a device or a file of the kernel", shown(&word.text))));
    }
    if matches!(bare, "date" | "find") && arguments.iter().any(|word| word.text.contains("TZ=")) {
        return Err(EffectFinding::unknown("a time zone inside a date may name a file"));
    }
    match bare {
        "find" => find::judge(arguments),
        _ if VERSIONED.split(' ').any(|known| known == bare) => match arguments {
            [option] if option.text == "--version" => Ok(()),
            _ => Err(EffectFinding::unknown(format!("`{bare}` other than `{bare} --version` runs what it is given"))),
        },
        "command" => asks_for_a_command(arguments),
        "test" => asks_about_a_file(arguments),
        "[" => match arguments.split_last() {
            Some((last, condition)) if last.text == "]" => asks_about_a_file(condition),
            _ => Err(EffectFinding::unknown("`[` without `]`")),
        },
        _ => match table::read_only_command(bare) {
            Some(_) if matches!(arguments, [only] if matches!(only.text.as_str(), "--help" | "--version")) => Ok(()),
            Some(listed) => CommandReading { name: bare, listed, operands: 0 }.judge(arguments),
            None => Err(EffectFinding::unknown(format!(
                "`{}` is not among the commands that are known to only read",
                shown(bare)
            ))),
        },
    }
}

/// Characters of a number.
const NUMBER_CHARS_MAX: usize = 7;
const OPTIONS_FILE: &str = "with a word that begins with `@`, which may name a file of options,";

/// The words of one command, as they are read.
struct CommandReading<'a> {
    name: &'a str,
    listed: &'static ReadOnlyCommand,
    operands: usize,
}

impl CommandReading<'_> {
    fn judge(mut self, arguments: &[&ShellWord]) -> Result<(), EffectFinding> {
        let mut rest = arguments.iter();
        let mut options_ended = false;
        while let Some(word) = rest.next() {
            if word.begins_with_glob && !self.listed.harmless {
                return self.unknown("with a glob at the beginning of a word, where a file's name could be an option");
            }
            let text = word.text.as_str();
            if options_ended || text == "-" || !text.starts_with('-') {
                self.operand(word)?;
            } else if text == "--" {
                options_ended = true;
            } else if word.has_glob {
                return self.unknown("with a glob in an option");
            } else if let Some(long) = text.strip_prefix("--") {
                self.long_option(long, &mut rest)?;
            } else {
                self.short_options(text.get(1..).unwrap_or_default(), &mut rest)?;
            }
        }
        if self.operands == 0 && matches!(self.listed.operands, CommandOperands::Folder | CommandOperands::SomeFiles) {
            return self.unknown("without an operand");
        }
        Ok(())
    }

    fn long_option(&self, long: &str, rest: &mut std::slice::Iter<'_, &ShellWord>) -> Result<(), EffectFinding> {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let is_listed = |mark: &str| {
            self.listed.long.split_ascii_whitespace().any(|known| {
                known.strip_suffix(mark) == Some(name) && (!mark.is_empty() || !known.ends_with(['=', '?']))
            })
        };
        let takes_next = value.is_none() && is_listed("=");
        if !(is_listed("=") || is_listed("?") || (value.is_none() && is_listed(""))) {
            return self.unknown(&format!("`--{}`", shown(name)));
        }
        if takes_next { self.value(rest.next()) } else { Ok(()) }
    }

    fn short_options(&self, letters: &str, rest: &mut std::slice::Iter<'_, &ShellWord>) -> Result<(), EffectFinding> {
        if self.listed.counts && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        for (at, letter) in letters.char_indices() {
            // Its value is only ever in the same word.
            if self.name == "date" && letter == 'I' {
                return Ok(());
            }
            if self.listed.flags.contains(letter) {
                continue;
            }
            if !self.listed.valued.contains(letter) {
                return self.unknown(&format!("`-{}`", shown(letters.get(at..).unwrap_or_default())));
            }
            let is_last = at + letter.len_utf8() == letters.len();
            return match (is_last, self.listed.values) {
                (true, _) => self.value(rest.next()),
                (false, OptionValueStyle::Apart) => self.unknown("with a value in the same word as its option"),
                (false, OptionValueStyle::Number) => {
                    self.number(letters.get(at + letter.len_utf8()..).unwrap_or_default())
                }
                (false, OptionValueStyle::Anywhere) => Ok(()),
            };
        }
        Ok(())
    }

    /// Requires a number, as in `-c5`. In the old syntax `-cf` is two options.
    fn number(&self, value: &str) -> Result<(), EffectFinding> {
        let is_number = value.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-'));
        if is_number { Ok(()) } else { self.unknown("with letters where a number belongs") }
    }

    fn value(&self, word: Option<&&ShellWord>) -> Result<(), EffectFinding> {
        match word {
            Some(word) if word.text.len() > 1 && self.may_name_options(word) => self.unknown(OPTIONS_FILE),
            Some(word) if !word.has_glob => Ok(()),
            Some(_) => self.unknown("with a glob as the value of an option"),
            None => self.unknown("without the value of its last option"),
        }
    }

    fn operand(&mut self, word: &ShellWord) -> Result<(), EffectFinding> {
        self.operands += 1;
        let text = word.text.as_str();
        if self.may_name_options(word) {
            return self.unknown(OPTIONS_FILE);
        }
        let fits = match self.listed.operands {
            CommandOperands::Any => true,
            CommandOperands::SomeFiles => text != "-",
            CommandOperands::FilesBelow => {
                text == "." || !(names_no_folder(text) || begins_at_a_device(text) || may_climb_back(word))
            }
            // At the root and above the working folder every name may be that of a device.
            CommandOperands::Folder => {
                self.operands == 1
                    && !word.has_glob
                    && text != "-"
                    && !names_no_folder(text)
                    && !begins_at_a_device(text)
                    && !text.split('/').any(|part| part == "..")
            }
            CommandOperands::None => false,
            CommandOperands::One => self.operands == 1 && !word.has_glob,
            CommandOperands::Format => self.operands == 1 && !word.has_glob && text.starts_with('+'),
            // More digits would be output without an end, which the next command may keep in files.
            CommandOperands::Numbers => {
                !word.has_glob
                    && text.len() <= NUMBER_CHARS_MAX
                    && !(self.name == "seq" && text.contains('.'))
                    && text.bytes().all(|byte| byte.is_ascii_digit() || b".-smhd".contains(&byte))
            }
            CommandOperands::Script(is_read) => self.operands > 1 || (!word.has_glob && is_read(text)),
            CommandOperands::Processes => {
                !word.has_glob
                    && (text.bytes().all(|byte| byte.is_ascii_digit())
                        || text.chars().all(|letter| "aefjlmsuvwx".contains(letter)))
            }
        };
        if fits { Ok(()) } else { self.unknown("with an operand that is not known to be read only") }
    }

    fn may_name_options(&self, word: &ShellWord) -> bool {
        word.text.starts_with('@') && !self.listed.harmless
    }

    fn unknown(&self, what: &str) -> Result<(), EffectFinding> {
        let name = self.name;
        Err(EffectFinding::unknown(format!("`{name}` {what} is not known to only read")))
    }
}

/// Permits `command -v NAME` only, because otherwise `command` starts the program.
fn asks_for_a_command(arguments: &[&ShellWord]) -> Result<(), EffectFinding> {
    match arguments.split_first() {
        Some((option, names))
            if matches!(option.text.as_str(), "-v" | "-V")
                && names.iter().all(|name| !name.text.starts_with('-') && !name.has_glob) =>
        {
            Ok(())
        }
        _ => Err(EffectFinding::unknown("`command` other than `command -v NAME` starts a program")),
    }
}

/// Permits `-f FILE` and the like only, because other conditions evaluate the text in them.
fn asks_about_a_file(condition: &[&ShellWord]) -> Result<(), EffectFinding> {
    const OPERATORS: &str = "-e -f -d -s -r -w -x -L -h -b -c -p -S";
    match condition {
        [operator, file] if OPERATORS.split(' ').any(|known| known == operator.text) && !file.has_glob => Ok(()),
        _ => Err(EffectFinding::unknown("a condition other than one that asks about one file")),
    }
}

/// Whether a word may name a special file: opening a device, or reading some files of the kernel, does something.
///
/// A program may take the whole word for a path, or what follows an option's letters (`-fpath`) or any sign that names do not have
/// (`--option=path`, `if=path`, `TZ="path"`).
fn is_special_file(word: &ShellWord) -> bool {
    let text = word.text.as_str();
    let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || "._-/*?[]".contains(sign) || !sign.is_ascii();
    text.split(|sign| !is_of_name(sign)).chain([text]).any(|path| {
        let is_known = !word.has_glob && KERNEL_FILES.split_ascii_whitespace().any(|known| known == path);
        !is_known && (is_special_path(path, word.has_glob) || is_special_behind_letters(path, word.has_glob))
    })
}

/// `-fproc/1/fd/0` and `-f/proc/1/fd/0`: an option's letters stand before the path.
fn is_special_behind_letters(word: &str, has_glob: bool) -> bool {
    let Some((letters, _)) = word.strip_prefix('-').and_then(|option| option.split_once('/')) else { return false };
    let from_slash = word.get(letters.len() + 1..).unwrap_or_default();
    is_special_path(from_slash, has_glob) || SPECIAL_FOLDERS.iter().any(|folder| letters.ends_with(folder))
}

/// Whether a path is the root, the working folder, or a folder above it.
fn names_no_folder(path: &str) -> bool {
    path.split('/').all(|part| matches!(part, "" | "." | ".."))
}

/// Whether a path would lead to devices or files of the kernel if the working folder were the root.
fn begins_at_a_device(path: &str) -> bool {
    let first = path.split('/').find(|part| !matches!(*part, "" | "."));
    first.is_some_and(|first| matches!(first, "dev" | "proc" | "sys"))
}

/// Whether a path, joined by the shell or by links, may lead back up after it went down: `/usr/..` is the root, and so is `/var/run/..`.
/// A glob that begins with a dot may become `..`.
fn may_climb_back(word: &ShellWord) -> bool {
    let mut went_down = false;
    word.text.split('/').filter(|part| !matches!(*part, "" | ".")).any(|part| {
        let climbs = part == ".." || may_become_parent(part, word.has_glob);
        let is_back = climbs && (went_down || part != "..");
        went_down |= !climbs;
        is_back
    })
}

/// Whether a shell may make `..` of a part of a path: dash does of `.?`.
fn may_become_parent(part: &str, has_glob: bool) -> bool {
    has_glob && part.starts_with('.') && part.contains(GLOB_SIGNS)
}

fn is_special_path(path: &str, has_glob: bool) -> bool {
    let absolute = path.starts_with('/');
    let may_be_special = |part: &str| SPECIAL_FOLDERS.contains(&part) || (has_glob && part.contains(GLOB_SIGNS));
    let mut climbed = absolute;
    for (index, part) in path.split('/').filter(|part| !matches!(*part, "" | ".")).enumerate() {
        match part {
            ".." => climbed = true,
            _ if (climbed && may_be_special(part))
                // The folder that the text is run in may be the root.
                || (index == 0 && path.contains('/') && may_be_special(part)) =>
            {
                return true;
            }
            _ => climbed = may_become_parent(part, has_glob),
        }
    }
    false
}
