//! Finds the known name that the writer of an unknown name probably meant. A comparison takes time proportional to the product
//! of both lengths, and a caller may send thousands of names. So all comparisons of one validation share an allowance; when it
//! is used up, nothing more is suggested.

/// How similar a name must be to be suggested.
const LIKENESS_MIN: f64 = 0.7;
/// Bytes of the longest name that is compared. A longer one is not a misspelt name.
const NAME_BYTES_MAX: usize = 256;
/// Pairs of characters that are compared for all names of one validation, which takes a few milliseconds.
const COMPARED_MAX: usize = 500_000;

/// The comparisons that are left.
#[derive(Debug)]
pub(super) struct ComparisonBudget(usize);

impl Default for ComparisonBudget {
    fn default() -> Self {
        Self(COMPARED_MAX)
    }
}

impl ComparisonBudget {
    /// The candidate most similar to `name`, if it is similar enough.
    pub(super) fn nearest<'c>(&mut self, name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let name = plain(name);
        let mut best: Option<(f64, &str)> = None;
        for candidate in candidates.into_iter().filter(|candidate| candidate.len() <= NAME_BYTES_MAX) {
            let shown = candidate;
            let candidate = plain(candidate);
            // Looking at a candidate counts as one step, even if its length alone rules it out.
            let cells = if may_be_alike(&name, &candidate) { name.len() * candidate.len() } else { 0 };
            self.0 = self.0.checked_sub(cells + 1)?;
            if cells == 0 && name != candidate {
                continue;
            }
            let likeness = strsim::normalized_damerau_levenshtein(&name, &candidate);
            // Among equally similar candidates the last one wins.
            if likeness >= LIKENESS_MIN && best.is_none_or(|(most, _)| likeness >= most) {
                best = Some((likeness, shown));
            }
        }
        best.map(|(_, candidate)| candidate.to_owned())
    }
}

/// The name in lower case without separators, which people write differently.
fn plain(name: &str) -> String {
    name.to_lowercase().replace(['_', '-', ' '], "")
}

/// Each extra character is one difference, so lengths that are too far apart need no comparison.
fn may_be_alike(one: &str, other: &str) -> bool {
    let (one, other) = (one.chars().count(), other.chars().count());
    let longer = one.max(other);
    // The share of differences that LIKENESS_MIN allows, in tenths, plus one for rounding.
    10 * one.abs_diff(other) <= 3 * longer + 1
}

#[cfg(test)]
mod tests {
    use super::ComparisonBudget;

    #[test]
    fn the_name_that_was_meant_is_found() {
        let known = ["invoice_id", "amount", "currency"];
        let nearest = |name: &str| ComparisonBudget::default().nearest(name, known);
        assert_eq!(nearest("invoiceId").as_deref(), Some("invoice_id"));
        assert_eq!(nearest("amuont").as_deref(), Some("amount"));
        assert_eq!(nearest("colour"), None);
        assert_eq!(nearest(&"a".repeat(300)), None);
    }

    #[test]
    fn when_the_allowance_is_used_up_nothing_is_suggested() {
        let many = vec!["x".repeat(200); 100];
        let mut allowance = ComparisonBudget::default();
        assert_eq!(allowance.nearest(&"y".repeat(200), many.iter().map(String::as_str)), None);
        assert_eq!(allowance.nearest(&"x".repeat(200), many.iter().map(String::as_str)), None);
        assert!(
            ComparisonBudget::default().nearest(&"x".repeat(200), many.iter().take(5).map(String::as_str)).is_some()
        );
    }
}
