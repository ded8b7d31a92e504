//! `${VAR}` and `${VAR:-default}` in the configuration, filled in from the environment when the gateway starts, so that
//! secrets need not stand in the file.

/// Fills in every variable. A variable that is not set and has no default is an error: an empty token would be sent in
/// its place.
pub(crate) fn expand(text: &str) -> Result<String, String> {
    expand_with(text, |name| std::env::var(name).ok())
}

fn expand_with(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after.split_once('}').ok_or_else(|| "`${` without its `}`".to_owned())?;
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
        let value = variable(name).filter(|value| default.is_none() || !value.is_empty());
        let value = value.or_else(|| default.map(str::to_owned)).ok_or_else(|| {
            format!("the environment variable `{name}` is not set (write `${{{name}:-default}}` to give it a default)")
        })?;
        filled.push_str(before);
        filled.push_str(&value);
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::expand_with;

    #[test]
    fn variables_are_filled_in() {
        let environment = |name: &str| match name {
            "TOKEN" => Some("t0p".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
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
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }
}
