//! Queries for single calls, and a quarantined answer, for every store alike.

/// Which calls to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallQuery {
    /// A call id, or the beginning of one.
    Id(String),
    /// The latest call.
    Latest,
}

/// An answer that was quarantined instead of delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedBody {
    /// The length of the whole answer.
    pub bytes_total: i64,
    /// The part of it that is stored.
    pub body: Vec<u8>,
}
