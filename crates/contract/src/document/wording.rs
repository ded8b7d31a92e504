//! What is wrong with a document, in the words of the people who write documents. The library's own messages speak of scalars,
//! variants and Rust types.

/// Rewords the library's message.
pub(super) fn plain(text: &str) -> String {
    let told = mistyped(text).or_else(|| listed(text)).or_else(|| structural(text));
    told.unwrap_or_else(|| text.to_owned())
}

/// A value of the wrong type.
fn mistyped(text: &str) -> Option<String> {
    let scalar = text.strip_prefix("invalid ").filter(|rest| !rest.contains(' '));
    if let Some(kind) = scalar.and_then(kind) {
        return Some(format!("should be {kind}"));
    }
    let expected = if text.starts_with("invalid type: ") || text.starts_with("invalid value: ") {
        text.rsplit_once(", expected ")?.1
    } else {
        text.strip_prefix("expected ")?
    };
    kind(expected).map(|kind| format!("should be {kind}"))
}

/// The plain name of a value type, given the library's name for it.
fn kind(name: &str) -> Option<&'static str> {
    Some(match name.trim_start_matches("a ").trim_start_matches("an ") {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of zero or more",
        "i8" | "i16" | "i32" | "i64" | "isize" | "integer" => "a whole number",
        "f32" | "f64" | "number" | "floating point number" => "a number",
        "bool" | "boolean" => "true or false",
        "string" | "string scalar" | "str" | "path string" => "text",
        "sequence" | "sequence start" => "a list",
        "map" | "mapping" | "mapping start" => "a group of fields",
        name if name.starts_with("struct ") => "a group of fields",
        _ => return None,
    })
}

/// A word that is not among the allowed ones.
fn listed(text: &str) -> Option<String> {
    let parts = |rest: &str| {
        let (word, known) = rest.split_once("`, expected ")?;
        let known = known.strip_prefix("one of ").unwrap_or(known).replace('`', "");
        Some((word.to_owned(), known))
    };
    if let Some(rest) = text.strip_prefix("unknown field `") {
        return parts(rest).map(|(word, known)| format!("there is no field `{word}`; there are {known}"));
    }
    let (word, known) = parts(text.strip_prefix("unknown variant `")?)?;
    Some(format!("`{word}` is none of {known}"))
}

fn structural(text: &str) -> Option<String> {
    if let Some(field) = text.strip_prefix("missing field ") {
        return Some(format!("{field} is missing"));
    }
    if let Some(key) = text.strip_prefix("duplicate mapping key: ") {
        // The rest of that sentence is for programmers.
        return Some(format!("`{}` stands there twice", key.split(", set ").next().unwrap_or(key)));
    }
    Some(match text {
        "unexpected end of input" => "the file is empty or ends too early".to_owned(),
        _ if text.starts_with("cannot deserialize null") => "should not be empty".to_owned(),
        _ if text.starts_with("multiple YAML documents") => "there is more than one document (`---`)".to_owned(),
        _ if text.ends_with("found a tab") => "a tab is not allowed here: indent with spaces".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nobody_has_to_know_rust() {
        let table = [
            ("invalid u64", "should be a whole number of zero or more"),
            ("invalid bool", "should be true or false"),
            ("invalid type: string \"soon\", expected u64", "should be a whole number of zero or more"),
            ("invalid type: sequence, expected struct Contract", "should be a group of fields"),
            ("invalid type: map, expected a boolean", "should be true or false"),
            ("expected string scalar", "should be text"),
            ("expected sequence start", "should be a list"),
            ("unknown variant `fancy`, expected one of prefixed, bare", "`fancy` is none of prefixed, bare"),
            (
                "unknown field `lisen`, expected one of listen, names",
                "there is no field `lisen`; there are listen, names",
            ),
            ("unknown field `a`, expected `b` or `c`", "there is no field `a`; there are b or c"),
            ("missing field `upstreams`", "`upstreams` is missing"),
            ("duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable", "`a` stands there twice"),
            ("cannot deserialize null into string; use Option<String>", "should not be empty"),
            ("alias references unknown anchor", "alias references unknown anchor"),
        ];
        for (text, expected) in table {
            assert_eq!(plain(text), expected, "{text}");
        }
    }
}
