//! Shell text: whether it provably only reads. A read is a sequence of pipelines of listed commands (`table.rs`) with listed options and
//! literal words. Everything else is `unknown`: assignments, expansions beyond plain globs, redirections beyond `2>/dev/null` and `2>&1`,
//! every word of shell grammar, every command and option that is not listed. Nothing is executed or simulated, because shells, `sed`, `awk`
//! and `git` each evaluate in more places than a reader can follow.
//!
//! It does not look at the file system, so it cannot tell which program of that name is on the search path. Only a sandbox can enforce
//! what a program does.

mod command;
mod find;
mod lexer;
mod scripts;
mod table;

use crate::effects::{EffectFinding, ProgramEffect, ProgramLimits, ProgramVerdict, StatementRef, shown};
use lexer::{ShellToken, ShellWord};

/// Longer shell text is `unknown`: shell text that only reads is short.
const SHELL_BYTES_MAX: usize = 32 * 1024;

/// Whether `text` provably only reads.
pub(super) fn classify(text: &str, limits: &ProgramLimits) -> ProgramVerdict {
    if text.len() > SHELL_BYTES_MAX {
        return ProgramVerdict::for_text(
            ProgramEffect::Unknown,
            format!("the shell text is longer than {SHELL_BYTES_MAX} bytes"),
        );
    }
    let tokens = match lexer::lex(text, limits.tokens_max) {
        Ok(tokens) => tokens,
        Err(why) => return ProgramVerdict::for_text(ProgramEffect::Unknown, why),
    };
    let mut first = None;
    for (index, words) in commands(&tokens).enumerate() {
        if index >= limits.statements_max {
            return ProgramVerdict::for_text(
                ProgramEffect::Unknown,
                format!("the text has more than {} commands", limits.statements_max),
            );
        }
        let words = match words {
            Ok(words) => words,
            Err(why) => return ProgramVerdict::for_text(ProgramEffect::Unknown, why),
        };
        let kind = words.first().map(|word| shown(&word.text).into_owned()).unwrap_or_default();
        let statement = Some(StatementRef { index, kind: kind.into() });
        if let Err(EffectFinding { effect, why }) = command::judge(&words) {
            return ProgramVerdict { effect, why, statement };
        }
        first = first.or(statement);
    }
    ProgramVerdict {
        effect: ProgramEffect::Read,
        why: "every command in it is listed as one that only reads".into(),
        statement: first,
    }
}

/// The commands of a text, with any joints between them. An empty text has none.
fn commands(tokens: &[ShellToken]) -> impl Iterator<Item = Result<Vec<&ShellWord>, &'static str>> {
    let is_end = |token: &ShellToken| matches!(token, ShellToken::End);
    let last = tokens.len();
    let mut rest = tokens;
    std::iter::from_fn(move || {
        // Skip line ends and semicolons.
        while let Some((ShellToken::End, after)) = rest.split_first() {
            rest = after;
        }
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|token| !matches!(token, ShellToken::Word(_))).unwrap_or(rest.len());
        let (command, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        let joins = after.first().is_some_and(|joint| !is_end(joint));
        rest = after.get(1..).unwrap_or_default();
        let goes_on = rest.iter().any(|token| !is_end(token));
        debug_assert!(rest.len() < last);
        if command.is_empty() || (joins && !goes_on) {
            rest = &[];
            return Some(Err("a command is missing beside `|`, `&&` or `||`"));
        }
        Some(Ok(command.iter().filter_map(ShellToken::word).collect()))
    })
}
