//! The part of the page about policies: which policies decided, and separately what shadow policies would have decided, in words that no
//! verdict uses.

use servanda_contract::record::{PolicyRecord, Texts};

/// The lines; none if no policy made a difference and no shadow policy exists.
pub(super) fn lines(policy: &PolicyRecord) -> Vec<String> {
    let mut lines = Vec::new();
    if !policy.by.is_empty() {
        lines.push(format!("  policy    {}", named(&policy.by)));
    }
    if let Some(shadow) = &policy.shadow {
        let cause = shadow.cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
        let by = if shadow.by.is_empty() { String::new() } else { format!(" by {}", named(&shadow.by)) };
        lines.push(format!("  shadow    decided nothing; would have {}{cause}{by}", shadow.would_have.word()));
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

fn named(ids: &Texts) -> String {
    ids.as_slice().iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}
