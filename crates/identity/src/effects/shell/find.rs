//! `find`: where it looks, and tests and actions that only look and print.

use super::ShellWord;
use crate::effects::{EffectFinding, shown};

/// Words of an expression that stand alone.
const ALONE: &str = "-a -and -o -or -not ! ( ) , -print -print0 -ls -prune -quit -empty -readable -writable -executable -nouser -nogroup \
                     -depth -d -mount -xdev -follow -daystart -noleaf -warn -nowarn -true -false -ignore_readdir_race";
/// Words of an expression with a value.
const VALUED: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -lname -ilname -type -xtype -size -perm -user \
                      -group -uid -gid -links -inum -samefile -maxdepth -mindepth -mtime -mmin -atime -amin -ctime -cmin -used -newer \
                      -anewer -cnewer -newermt -newerat -newerct -fstype -printf";

/// Says why a `find` is not known to only look.
pub(super) fn judge(arguments: &[&ShellWord]) -> Result<(), EffectFinding> {
    let mut rest = arguments.iter().peekable();
    while rest.peek().is_some_and(|word| matches!(word.text.as_str(), "-H" | "-L" | "-P")) {
        rest.next();
    }
    while let Some(word) = rest.next() {
        if word.has_glob && !can_only_be_a_file(word) {
            return Err(EffectFinding::unknown(
                "`find` with a glob outside quotes, where a file's name could be an action",
            ));
        }
        let text = word.text.as_str();
        if is_of(VALUED, text) {
            match rest.next() {
                Some(value) if !value.has_glob || can_only_be_a_file(value) => {}
                Some(_) => {
                    return Err(EffectFinding::unknown(
                        "`find` with a glob outside quotes, where a file's name could be an action",
                    ));
                }
                None => return Err(EffectFinding::unknown("`find` without the value of its last test")),
            }
        } else if (text.starts_with('-') || matches!(text, "(" | ")" | "!" | ",")) && !is_of(ALONE, text) {
            return Err(EffectFinding::unknown(format!("`find` with `{}` is not known to only read", shown(text))));
        }
    }
    Ok(())
}

/// Whether a word with a glob can only become a file name. No action and no test has a dot or a slash in its name. Inside brackets they
/// prove nothing, because they are one choice of many there.
fn can_only_be_a_file(word: &ShellWord) -> bool {
    let before_brackets = word.text.split('[').next().unwrap_or_default();
    before_brackets.contains(['.', '/'])
}

fn is_of(list: &str, text: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == text)
}
