//! Names of what calls read and change: segments between slashes, `*` for any one, and for any rest at the end.

/// The name of what may be any.
pub const ANYTHING: &str = "*";

/// Whether two names can mean the same thing.
pub fn overlap(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('/').peekable(), other.split('/').peekable());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some("*"), _) if one.peek().is_none() => return true,
            (_, Some("*")) if other.peek().is_none() => return true,
            (Some(here), Some(there)) if here == there || here == "*" || there == "*" => {}
            _ => return false,
        }
    }
}

/// What is changed and what is read, together. What names nothing may mean anything.
pub fn all_touched(changes: &[String], reads: &[String]) -> Vec<String> {
    let touched = [changes, reads].concat();
    if touched.is_empty() { vec![ANYTHING.to_owned()] } else { touched }
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn names_overlap_where_they_can_mean_the_same() {
        let table = [
            ("invoice/1", "invoice/1", true),
            ("invoice/1", "invoice/2", false),
            ("invoice/1", "invoice/1/lines", false),
            ("invoice/*", "invoice/1", true),
            ("invoice/*", "invoice/1/lines", true),
            ("*", "invoice/1", true),
            ("invoice/*/lines", "invoice/1/lines", true),
            ("invoice/*/lines", "invoice/1/notes", false),
            ("invoice/*/lines", "invoice/1", false),
            ("invoice/*", "customer/*", false),
            ("invoice", "invoice/*", true),
            ("invoice/1", "invoice/10", false),
        ];
        for (one, other, expected) in table {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }
}
