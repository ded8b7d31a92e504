//! What is looked for among the calls, and an answer that was kept back, for every store alike.

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallQuery {
    /// A call id, or the beginning of one.
    Id(String),
    /// The latest call.
    Latest,
}

/// An answer that was kept back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedBody {
    /// How long it was.
    pub bytes_total: i64,
    /// As much of it as is kept.
    pub body: Vec<u8>,
}
