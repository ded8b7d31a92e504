//! Fills in `${VAR}` and `${VAR:-default}` from the environment when the gateway starts, so that the file need not contain secrets. `$VAR`
//! is plain text, as in the clients whose files are imported.

/// A variable that a text refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableReference<'a> {
    /// Its name.
    pub name: &'a str,
    /// The value if the variable is not set or empty.
    pub default: Option<&'a str>,
}

/// Why a text cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpansionError {
    /// A variable is not set and has no default.
    #[error("the environment variable `{0}` is not set (write `${{{0}:-default}}` to give it a default)")]
    Unset(String),
    /// A brace is not closed.
    #[error("`${{` without its `}}`")]
    Unclosed,
}

/// Fills in every variable. A variable that is not set and has no default is an error: an empty token would be sent otherwise.
pub fn expand(text: &str) -> Result<String, ExpansionError> {
    expand_with(text, |name| std::env::var(name).ok())
}

/// Fills in the variables that are set and leaves the others as written, as clients do. Only for asking a server for its tools while it is
/// imported, never for serving it.
pub fn expand_or_keep(text: &str, variable: impl Fn(&str) -> Option<String>) -> String {
    let keep = |reference: VariableReference<'_>| format!("${{{}}}", reference.name);
    let filled: Result<String, ExpansionError> =
        fill(text, |reference| Ok(value(reference, &variable).unwrap_or_else(|| keep(reference))));
    filled.unwrap_or_else(|_| text.to_owned())
}

/// The variables a text refers to, in its order.
pub fn references(text: &str) -> Vec<VariableReference<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, inside, behind)) = next(rest) {
        found.push(VariableReference::parse(inside));
        rest = behind;
    }
    found
}

/// The first variable that a text needs and that is not set.
pub(crate) fn unset(text: &str) -> Option<&str> {
    let needed = references(text).into_iter().filter(|reference| reference.default.is_none());
    needed.map(|reference| reference.name).find(|name| std::env::var_os(name).is_none())
}

/// Replaces every `${...}`, whatever is in the braces.
pub fn replace<E: From<ExpansionError>>(
    text: &str,
    mut with: impl FnMut(&str) -> Result<String, E>,
) -> Result<String, E> {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside, behind)) = next(rest) {
        replaced.push_str(before);
        replaced.push_str(&with(inside)?);
        rest = behind;
    }
    if rest.contains("${") {
        return Err(ExpansionError::Unclosed.into());
    }
    replaced.push_str(rest);
    Ok(replaced)
}

impl<'a> VariableReference<'a> {
    /// Reads the text between the braces.
    pub fn parse(inside: &'a str) -> Self {
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
        Self { name, default }
    }
}

fn expand_with(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, ExpansionError> {
    fill(text, |reference| value(reference, &variable).ok_or_else(|| ExpansionError::Unset(reference.name.to_owned())))
}

fn value(reference: VariableReference<'_>, variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let value = variable(reference.name).filter(|value| reference.default.is_none() || !value.is_empty());
    value.or_else(|| reference.default.map(str::to_owned))
}

fn fill<E: From<ExpansionError>>(
    text: &str,
    mut with: impl FnMut(VariableReference<'_>) -> Result<String, E>,
) -> Result<String, E> {
    replace(text, |inside| with(VariableReference::parse(inside)))
}

/// The text before, inside and after the next pair of braces.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once("${")?;
    let (inside, behind) = after.split_once('}')?;
    Some((before, inside, behind))
}

#[cfg(test)]
mod tests {
    use super::{VariableReference, expand_or_keep, expand_with, references};

    fn environment(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("t0p".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_filled_in() {
        let cases = [
            ("plain $HOME {x}", Ok("plain $HOME {x}")),
            ("Bearer ${TOKEN}", Ok("Bearer t0p")),
            ("${TOKEN}${TOKEN}", Ok("t0pt0p")),
            ("${NOPE:-fallback}", Ok("fallback")),
            ("${EMPTY:-fallback}", Ok("fallback")),
            ("${EMPTY}", Ok("")),
            ("${NOPE}", Err("NOPE")),
            ("${TOKEN", Err("}")),
        ];
        for (text, expected) in cases {
            match (expand_with(text, environment), expected) {
                (Ok(filled), Ok(wanted)) => assert_eq!(filled, wanted),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    /// As in Claude Code: an unset variable stays as written, and `$VAR` is plain text.
    #[test]
    fn what_is_not_set_stays_where_a_client_would_leave_it() {
        for (text, expected) in [
            ("Bearer ${TOKEN} ${NOPE}", "Bearer t0p ${NOPE}"),
            ("$TOKEN ${NOPE:-x}", "$TOKEN x"),
            ("${TOKEN} ${open", "${TOKEN} ${open"),
        ] {
            assert_eq!(expand_or_keep(text, environment), expected, "{text}");
        }
    }

    #[test]
    fn references_are_found() {
        let found = references("a ${B} $C ${D:-e} ${F:-} ${");
        let expected = [("B", None), ("D", Some("e")), ("F", Some(""))];
        assert_eq!(found, expected.map(|(name, default)| VariableReference { name, default }));
    }
}
