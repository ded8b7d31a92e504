//! The hint with which `tools`, `pins`, `diff` and `pin` end: what to do about a tool that cannot be called, or that should be checked.

use servanda_identity::layers::gateway::near_names;

/// What is wrong with a tool, in the order in which a person can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ToolTrouble {
    /// It broke its contract, or a person holds it back.
    Quarantined,
    /// Its definition is not the pinned one, or it has no pin.
    NotAgreed,
    /// The same for an item of a list beside the tools. A person agrees to such a list as a whole.
    ListNotAgreed,
    /// It does not accept what its contract says.
    Misfit,
    /// Its definition cannot be used.
    Rejected,
    /// Its upstream no longer offers it.
    Withdrawn,
    /// Its upstream does not answer.
    Unreachable,
    /// It can be called, but seems to do more than its contract says.
    Doubted,
}

/// The next command for these tools; none if nothing is wrong. `seen` means that the command has just shown what is wrong.
pub(crate) fn hint<'a>(troubles: impl IntoIterator<Item = (ToolTrouble, &'a str)>, seen: bool) -> Option<String> {
    let (trouble, tool) = troubles.into_iter().min_by_key(|(trouble, _)| *trouble)?;
    Some(match (trouble, seen) {
        (ToolTrouble::Quarantined, _) => {
            format!(
                "`servanda quarantine list` says why `{tool}` is held back, `servanda quarantine release` releases it"
            )
        }
        (ToolTrouble::NotAgreed, false) => {
            format!("`servanda diff {tool}` shows what it is now, `servanda pin {tool}` agrees to that")
        }
        (ToolTrouble::NotAgreed, true) => {
            format!("`servanda pin {tool}` agrees to what it is now, `servanda pin --all` to all of it")
        }
        (ToolTrouble::ListNotAgreed, false) => {
            "`servanda diff` shows what servers list now, `servanda pin --all` agrees to all of it".to_owned()
        }
        (ToolTrouble::ListNotAgreed, true) => "`servanda pin --all` agrees to all of it".to_owned(),
        (ToolTrouble::Misfit, false) => format!("`servanda diff {tool}` shows where it does not fit its contract"),
        (ToolTrouble::Misfit, true) => format!("correct the contract of `{tool}`, then `servanda check`"),
        (ToolTrouble::Rejected, false) => format!("`servanda diff {tool}` shows why it cannot be used"),
        (ToolTrouble::Rejected, true) => {
            format!("tell the server's author what is wrong with `{tool}`; `servanda doctor` shows all of its server")
        }
        (ToolTrouble::Withdrawn, _) => {
            format!("start the server of `{tool}` as before, or remove its contract, then `servanda check`")
        }
        (ToolTrouble::Doubted, _) => {
            format!("`servanda identity show {tool}` says who objects to its contract, and what to do about it")
        }
        (ToolTrouble::Unreachable, _) => "`servanda doctor` says what is wrong with an upstream".to_owned(),
    })
}

/// How many similar names are suggested for an unknown name.
const NEAR_NAMES_MAX: usize = 3;

/// What to do about an unknown tool name: suggests similar names among the known ones, each with the tool's own name.
pub(crate) fn nearest<'a>(said: &str, known: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let near = near_names(said, known, NEAR_NAMES_MAX);
    let meant = if near.is_empty() { String::new() } else { format!("did you mean `{}`? ", near.join("` or `")) };
    format!("{meant}`servanda tools` lists every tool")
}

#[cfg(test)]
mod tests {
    use super::{ToolTrouble, hint, nearest};

    #[test]
    fn a_name_that_means_no_tool_is_answered_with_the_names_like_it() {
        let known = [("company__get_invoice", "get_invoice"), ("company__pay_invoice", "pay_invoice")];
        let told = nearest("company__get_invoic", known);
        assert_eq!(told, "did you mean `company__get_invoice`? `servanda tools` lists every tool");
        assert_eq!(nearest("weather", known), "`servanda tools` lists every tool");
    }

    #[test]
    fn every_trouble_has_a_next_command() {
        let troubles = [
            ToolTrouble::Quarantined,
            ToolTrouble::NotAgreed,
            ToolTrouble::ListNotAgreed,
            ToolTrouble::Misfit,
            ToolTrouble::Rejected,
            ToolTrouble::Withdrawn,
            ToolTrouble::Unreachable,
            ToolTrouble::Doubted,
        ];
        for trouble in troubles {
            for seen in [true, false] {
                let told = hint([(trouble, "company__pay")], seen).unwrap();
                assert!(told.contains("`servanda "), "{trouble:?}: {told}");
                assert!(!(seen && told.contains("servanda diff")), "it has just been shown: {told}");
            }
        }
        assert_eq!(hint([], false), None);
        let mixed =
            hint([(ToolTrouble::Unreachable, "a"), (ToolTrouble::NotAgreed, "b"), (ToolTrouble::NotAgreed, "c")], true);
        assert!(mixed.unwrap().starts_with("`servanda pin b`"), "what can be done at once comes first");
    }
}
