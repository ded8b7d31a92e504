//! Which of the gateway's own tools a name means.

/// A tool of the gateway's own: the engine performs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnTool {
    /// Fetches the result of long work.
    Result,
    /// Takes an agent's proposal of a plan.
    ProposePlan,
}
