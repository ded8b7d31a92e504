//! The few scripts of `sed` and `awk` that provably only print, and the programs of `jq` that end. `sed` and `awk` can write files and
//! start programs, and their dialects disagree on where a script's parts end. So only shapes pass that leave no room for anything else.

/// `5p`, `1,5p`, `$p`, `10q`, `/word/p`, `/word/d`, or one substitution whose parts cannot be cut differently.
pub(super) fn is_sed_read(script: &str) -> bool {
    is_addressed(script) || is_substitution(script)
}

fn is_addressed(script: &str) -> bool {
    let Some((at, action)) = script.char_indices().next_back() else { return false };
    let address = script.get(..at).unwrap_or_default();
    let is_line = |line: &str| line == "$" || (!line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()));
    let is_lines = match address.split_once(',') {
        Some((from, to)) => is_line(from) && is_line(to),
        None => address.is_empty() || is_line(address),
    };
    let is_pattern = address
        .strip_prefix('/')
        .and_then(|rest| rest.strip_suffix('/'))
        .is_some_and(|pattern| !pattern.is_empty() && pattern.chars().all(is_of_pattern));
    matches!(action, 'p' | 'd' | 'q') && (is_lines || is_pattern)
}

fn is_substitution(script: &str) -> bool {
    let Some(rest) = script.strip_prefix('s') else { return false };
    let Some(delimiter) = rest.chars().next().filter(|mark| "/|,#:@".contains(*mark)) else { return false };
    // Exactly three delimiters: dialects disagree on delimiters after a backslash or in brackets.
    let parts: Vec<&str> = rest.split(delimiter).collect();
    match parts.as_slice() {
        ["", pattern, replacement, flags] => {
            !pattern.contains('\n')
                && !replacement.contains('\n')
                && flags.chars().all(|flag| "gpiI".contains(flag) || flag.is_ascii_digit())
        }
        _ => false,
    }
}

fn is_of_pattern(character: char) -> bool {
    character.is_ascii_alphanumeric() || " ._^$*=:,<>@%+-#\"'".contains(character)
}

/// Any program of `jq` that ends: the language cannot write files or start programs, but it can print without an end.
pub(super) fn is_jq_read(program: &str) -> bool {
    const ENDLESS: [&str; 9] = ["repeat", "range", "recurse", "while", "until", "def", "infinite", "import", "include"];
    !program.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_')).any(|word| ENDLESS.contains(&word))
}

/// `{print $1}`: one rule without a pattern that prints fields, counts and plain texts.
pub(super) fn is_awk_read(program: &str) -> bool {
    let inside = program.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let Some(items) = inside.and_then(|rest| rest.trim().strip_prefix("print")) else { return false };
    let mut rest = items;
    // `printf` or `printx` is another word than `print`.
    if !rest.is_empty() && !rest.starts_with([' ', '$', '"', '\t']) {
        return false;
    }
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return true;
        }
        rest = match awk_item(rest) {
            Some(after) => after,
            None => return false,
        };
    }
}

/// The rest of the program after a field, a count or a plain text; none if it begins with something else.
fn awk_item(rest: &str) -> Option<&str> {
    if let Some(text) = rest.strip_prefix('"') {
        let (text, after) = text.split_once('"')?;
        return text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || " _:;,.-/=()#%".contains(character))
            .then_some(after);
    }
    let field = rest.strip_prefix('$').unwrap_or(rest);
    let name = field.get(..field.find(|next: char| !next.is_ascii_alphanumeric()).unwrap_or(field.len()))?;
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    (matches!(name, "NF" | "NR" | "FNR") || is_number).then(|| field.get(name.len()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{is_awk_read, is_sed_read};

    #[test]
    fn only_scripts_that_can_do_nothing_else_pass() {
        for script in
            ["p", "5p", "1,5p", "$p", "10q", "/^word$/p", "/a b/d", "s/a/b/", "s|/x|/y|g", "s/[ab]*$/<&>/gp", "s,a,b,2"]
        {
            assert!(is_sed_read(script), "{script}");
        }
        for script in [
            "",
            "w x",
            "1w x",
            "e",
            "1e",
            "s/a/b/w x",
            "s/a/b/e",
            "s/a/b/ge",
            "s/[/]/w x/p",
            "s/a\\/w x/b/",
            "p;w x",
            "1,5{p}",
            "/a/w x",
            "/a/,/b/p",
            "s/a/b/;w x",
            "s/a/b\n/",
            "r x",
            "R x",
            "W x",
            "1!G",
            "/a/e",
            "sxaxbxw",
            "a\\",
            "i x",
            "c x",
            "/\\/w x/p",
        ] {
            assert!(!is_sed_read(script), "{script}");
        }
        for program in ["{print}", "{print $1}", "{ print $1, $NF }", "{print NR \": \" $0}", "{print $2\" \"$3}"] {
            assert!(is_awk_read(program), "{program}");
        }
        for program in [
            "",
            "{print > \"x\"}",
            "{print | \"sh\"}",
            "{print $1 > $2}",
            "BEGIN{system(\"x\")}",
            "{printf \"%s\" > \"x\"}",
            "{print \"a\\\" > \"b\"}",
            "{print $1; system(\"x\")}",
            "{print}{print > \"x\"}",
            "{print $(1)}",
            "{print \"x\" | getline}",
            "{prints}",
            "{print a[system(\"x\")]}",
            "@load \"x\"",
            "{print |& \"x\"}",
            "{print FILENAME}",
        ] {
            assert!(!is_awk_read(program), "{program}");
        }
    }
}
