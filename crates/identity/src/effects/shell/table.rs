//! The table of known commands (`commands.txt`), read once, and how options are matched with it.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::effects::shell::word::Arg;

/// What a command does unless an option says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    Read,
    Write,
    Unknown,
    /// Runs the command that follows.
    Wrap,
    /// Read in code.
    Special,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) conduct: Conduct,
    /// Short options with an argument.
    pub(super) takes: &'static str,
    /// Long options whose argument is a word of its own.
    pub(super) longs: Vec<&'static str>,
    pub(super) write: Vec<&'static str>,
    pub(super) unknown: Vec<&'static str>,
    pub(super) read: Vec<&'static str>,
    /// More operands than this write.
    pub(super) operands_max: Option<usize>,
    pub(super) subcommands: Vec<&'static str>,
    /// Options without an argument that may stand before a subcommand.
    pub(super) flags: Vec<&'static str>,
    /// An operand with `=` in it writes.
    pub(super) assigns: bool,
    /// Words between the options of a wrapper and its command.
    pub(super) wrapped: usize,
}

static TABLE: LazyLock<HashMap<&'static str, Entry>> = LazyLock::new(|| {
    let mut table = HashMap::new();
    for line in include_str!("commands.txt").lines() {
        if let Some((names, entry)) = entry(line) {
            for name in names.split(',') {
                table.insert(name, entry.clone());
            }
        }
    }
    table
});

/// The command's line.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    TABLE.get(name)
}

fn entry(line: &'static str) -> Option<(&'static str, Entry)> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = line.split_ascii_whitespace();
    let (names, conduct) = (fields.next()?, fields.next()?);
    let conduct = match conduct {
        "read" => Conduct::Read,
        "write" => Conduct::Write,
        "wrap" => Conduct::Wrap,
        "special" => Conduct::Special,
        _ => Conduct::Unknown,
    };
    let empty = Vec::new;
    let mut entry = Entry {
        conduct,
        takes: "",
        longs: empty(),
        write: empty(),
        unknown: empty(),
        read: empty(),
        operands_max: None,
        subcommands: empty(),
        flags: empty(),
        assigns: false,
        wrapped: 0,
    };
    for field in fields {
        let (key, value) = field.split_once('=')?;
        let list = || value.split(',').collect();
        match key {
            "takes" => entry.takes = value,
            "longs" => entry.longs = list(),
            "write" => entry.write = list(),
            "unknown" => entry.unknown = list(),
            "read" => entry.read = list(),
            "operands" => entry.operands_max = value.parse().ok(),
            "sub" => entry.subcommands = list(),
            "assigns" => entry.assigns = value == "write",
            "flags" => entry.flags = list(),
            "wrapped" => entry.wrapped = value.parse().ok()?,
            _ => return None,
        }
    }
    Some((names, entry))
}

/// The options and operands of a command line.
#[derive(Debug, Default)]
pub(super) struct Parsed<'a> {
    /// `-x` or `--long`, as the table spells them.
    pub(super) options: Vec<String>,
    pub(super) operands: Vec<&'a Arg>,
    /// Where the first operand stands among the arguments.
    pub(super) first_operand: Option<usize>,
    /// An argument that may be an option.
    pub(super) computed: bool,
}

/// Takes arguments apart as `getopt` does. With `stops`, at the first operand.
pub(super) fn parse<'a>(args: &'a [Arg], entry: &Entry, stops: bool) -> Parsed<'a> {
    let mut parsed = Parsed::default();
    let mut only_operands = false;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let text = match arg {
            Arg::Literal(text) if text.len() > 1 && text.starts_with('-') && !only_operands => text.as_str(),
            _ => {
                parsed.computed |= *arg == Arg::Computed && !only_operands;
                parsed.first_operand.get_or_insert(at - 1);
                if stops {
                    return parsed;
                }
                parsed.operands.push(arg);
                continue;
            }
        };
        if text == "--" {
            only_operands = true;
        } else if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            parsed.options.push(format!("--{name}"));
            if !long.contains('=') && entry.longs.contains(&text) {
                at += 1;
            }
        } else {
            at += cluster(text, entry, &mut parsed);
        }
    }
    parsed
}

/// `-abc`: letters, until one that takes the rest (or the next word) for its argument. Also kept whole, for `-Qs` and the like.
fn cluster(text: &str, entry: &Entry, parsed: &mut Parsed<'_>) -> usize {
    parsed.options.push(text.to_owned());
    let letters = text.get(1..).unwrap_or_default();
    for (at, letter) in letters.char_indices() {
        if letters.len() > 1 {
            parsed.options.push(format!("-{letter}"));
        }
        if entry.takes.contains(letter) {
            return usize::from(at + letter.len_utf8() == letters.len());
        }
    }
    0
}

/// Whether one of the options is in the list. GNU programs take any unambiguous beginning of a long option.
pub(super) fn any(options: &[String], list: &[&str]) -> bool {
    options.iter().any(|option| {
        list.iter().any(|listed| {
            option == listed || (option.starts_with("--") && option.len() > 2 && listed.starts_with(option.as_str()))
        })
    })
}

/// Whether one of the options is in the list, letter for letter: what makes a command harmless is not guessed from its beginning.
pub(super) fn any_exactly(options: &[String], list: &[&str]) -> bool {
    options.iter().any(|option| list.contains(&option.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_and_no_command_stands_in_two() {
        let mut seen = std::collections::HashSet::new();
        for line in include_str!("commands.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (names, entry) = entry(line).unwrap_or_else(|| panic!("{line}"));
            let word = line.split(' ').nth(1).expect("an effect");
            assert!(entry.conduct != Conduct::Unknown || word == "unknown", "{line}");
            for name in names.split(',') {
                assert!(seen.insert(name), "{name} stands twice");
            }
        }
    }

    #[test]
    fn options_are_found_in_clusters_and_by_their_beginnings() {
        let args = |words: &[&str]| words.iter().map(|word| Arg::Literal((*word).to_owned())).collect::<Vec<_>>();
        let sort = find("sort").expect("sort");
        let writes = |words: &[&str]| any(&parse(&args(words), sort, false).options, &sort.write);
        assert!(writes(&["-o", "x"]));
        assert!(writes(&["-nro", "x"]));
        assert!(writes(&["--outp=x"]));
        assert!(!writes(&["-to", "x"]), "the delimiter is o");
        assert!(!writes(&["-t", "-o"]), "the delimiter is -");
        assert!(!writes(&["--", "-o"]));
    }
}
