//! awk: its options, and a reader of its programs that finds what writes (`print > file`) or runs (`system`, pipes). It knows
//! strings, regular expressions and comments; a program that it cannot cut with certainty and that holds a dangerous word is `unknown`.

use crate::effects::Finding;
use crate::effects::shell::word::Arg;

/// What `awk` with these arguments does.
pub(super) fn judge(name: &str, args: &[Arg]) -> Finding {
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let Some(word) = arg.literal() else {
            return Finding::unknown(format!("the program of {name} is not written out"));
        };
        at += 1;
        match word {
            "-F" | "-v" | "--field-separator" | "--assign" => at += 1,
            "--posix" | "--traditional" | "--re-interval" | "--sandbox" | "-W" | "-S" | "-P" | "-c" | "-r" | "--" => {}
            _ if word.starts_with("-F")
                || word.starts_with("-v")
                || word.starts_with("--field-separator=")
                || word.starts_with("--assign=") => {}
            "-i" | "--include" => return Finding::write(format!("{name} -i may edit files in place")),
            _ if word.starts_with('-') => return Finding::unknown(format!("{name} with this option is not known")),
            program => return judge_program(name, program).unwrap_or_else(|| Finding::read(format!("{name} prints"))),
        }
        if word == "--" {
            let Some(program) = args.get(at).and_then(Arg::literal) else {
                return Finding::unknown(format!("the program of {name} is not written out"));
            };
            return judge_program(name, program).unwrap_or_else(|| Finding::read(format!("{name} prints")));
        }
    }
    Finding::unknown(format!("{name} without a program"))
}

fn judge_program(name: &str, program: &str) -> Option<Finding> {
    let dangerous = program.contains("system")
        || program.contains('|')
        || program.contains('>')
        || program.contains('@')
        || program.contains("close");
    if !dangerous {
        return None;
    }
    match scan(program) {
        Some(Danger::Writes) => Some(Finding::write(format!("the program of {name} writes a file"))),
        Some(Danger::Runs) => Some(Finding::unknown(format!("the program of {name} runs a command"))),
        Some(Danger::Unclear) => Some(Finding::unknown(format!("the program of {name} could not be followed"))),
        None => None,
    }
}

enum Danger {
    Writes,
    Runs,
    Unclear,
}

/// Looks at the program's words. `operand` says whether a `/` divides or begins a regular expression.
fn scan(program: &str) -> Option<Danger> {
    let bytes = program.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (mut at, mut operand, mut printing, mut depth) = (0, false, false, 0_usize);
    while at < bytes.len() {
        let c = byte(at);
        match c {
            b'"' => {
                at = match string_end(bytes, at, b'"') {
                    Some(end) => end,
                    None => return Some(Danger::Unclear),
                };
                operand = true;
                continue;
            }
            b'/' if !operand => {
                at = match string_end(bytes, at, b'/') {
                    // A slash in brackets may or may not end a regular expression.
                    Some(end) if open_brackets(bytes.get(at..end).unwrap_or_default()) => return Some(Danger::Unclear),
                    Some(end) => end,
                    None => return Some(Danger::Unclear),
                };
                operand = true;
                continue;
            }
            // After a parenthesis a slash may divide or begin a regular expression.
            b'/' if last_is_close(bytes, at) => return Some(Danger::Unclear),
            b'#' => {
                while at < bytes.len() && byte(at) != b'\n' {
                    at += 1;
                }
                continue;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let end = (at..bytes.len())
                    .find(|at| !(byte(*at).is_ascii_alphanumeric() || byte(*at) == b'_'))
                    .unwrap_or(bytes.len());
                let word = program.get(at..end).unwrap_or_default();
                if word == "system" {
                    return Some(Danger::Runs);
                }
                if word == "print" || word == "printf" {
                    (printing, depth) = (true, 0);
                }
                operand = !["print", "printf", "return", "in", "if", "while", "else", "do", "case", "getline"]
                    .contains(&word);
                at = end;
                continue;
            }
            b'|' if byte(at + 1) == b'|' => at += 1,
            b'|' | b'@' => return Some(Danger::Runs),
            b'>' if printing && depth == 0 => {
                let target = program.get(at..).unwrap_or_default().trim_start_matches(['>', ' ', '\t']);
                if !(target.starts_with("\"/dev/stderr\"") || target.starts_with("\"/dev/stdout\"")) {
                    return Some(Danger::Writes);
                }
            }
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b';' | b'\n' | b'}' | b'{' => (printing, depth) = (false, 0),
            _ => {}
        }
        operand = matches!(c, b')' | b']' | b'$' | b'0'..=b'9') || (operand && c.is_ascii_whitespace());
        at += 1;
    }
    None
}

/// Behind the closing of what begins at `at`; `None` if it has no end.
fn string_end(bytes: &[u8], at: usize, close: u8) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            byte if *byte == close => return Some(at + 1),
            b'\n' => return None,
            _ => at += 1,
        }
    }
}

fn last_is_close(bytes: &[u8], at: usize) -> bool {
    bytes.get(..at).unwrap_or_default().iter().rev().find(|byte| !byte.is_ascii_whitespace()) == Some(&b')')
}

fn open_brackets(bytes: &[u8]) -> bool {
    let depth = bytes.iter().fold(0_i64, |depth, byte| depth + i64::from(*byte == b'[') - i64::from(*byte == b']'));
    depth > 0
}
