//! Names of the resources that calls read and change: segments between slashes. `*` stands for any one segment,
//! and at the end for any rest.

/// The name that may mean any resource.
pub const ANYTHING: &str = "*";

/// Whether two names can mean the same resource.
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

/// Everything that is changed or read. If nothing is named, it may be anything.
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
