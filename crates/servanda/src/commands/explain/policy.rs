//! What policies had to do with a call, below its stages: those that made the difference, and apart from them what others would
//! have done, in words that no verdict has.

use servanda_contract::record::{PolicyRecord, Texts};

/// The lines; none where no policy made a difference and none is tried out.
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
