//! What is wrong with policies, for a person with the file open: file, line, column, the policy and what to do.

use std::fmt;

use miette::Diagnostic;

/// The most findings that are listed; the number of further ones is given.
const LISTED_MAX: usize = 100;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFinding {
    /// The file's name, as given.
    pub file: String,
    /// The line, counted from one.
    pub line: usize,
    /// The column, counted from one.
    pub column: usize,
    /// The policy's id, if it could be read.
    pub policy: Option<String>,
    /// What kind of mistake it is.
    pub kind: PolicyFindingKind,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Kinds of mistakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyFindingKind {
    /// It is not Cedar, or not a policy.
    Syntax,
    /// It does not fit the schema.
    Type,
    /// It can never apply to any call.
    NeverApplies,
    /// Characters that look like others or are invisible.
    Deceptive,
    /// An id that another policy already has.
    SameId,
    /// An annotation about approvals that means nothing.
    Approval,
    /// A limit was exceeded.
    Limit,
    /// A defect of ours.
    Engine,
}

/// Loading failed; none of the policies was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLoadFailure {
    pub(crate) findings: Vec<PolicyFinding>,
}

impl PolicyLoadFailure {
    /// Every mistake, by file and line.
    pub fn findings(&self) -> &[PolicyFinding] {
        &self.findings
    }
}

/// Where a diagnostic points, its message and its advice.
pub(crate) fn describe_diagnostic(diagnostic: &dyn Diagnostic) -> (usize, String, Option<String>) {
    let offset = diagnostic.labels().and_then(|mut labels| labels.next()).map_or(0, |label| label.offset());
    let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    (offset, line(diagnostic.to_string()), diagnostic.help().map(|help| line(help.to_string())))
}

impl fmt::Display for PolicyFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if let Some(policy) = &self.policy {
            write!(formatter, "policy `{policy}`: ")?;
        }
        formatter.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(formatter, "\n  hint: {hint}"))
    }
}

impl fmt::Display for PolicyLoadFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.findings.len();
        write!(formatter, "no policy was loaded: {count} {}", if count == 1 { "mistake" } else { "mistakes" })?;
        for finding in self.findings.iter().take(LISTED_MAX) {
            write!(formatter, "\n{finding}")?;
        }
        if count > LISTED_MAX {
            write!(formatter, "\nand {} more", count - LISTED_MAX)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyLoadFailure {}
