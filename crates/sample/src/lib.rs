//! A small company as an MCP server: the upstream of `servanda demo` and of our tests.
//!
//! Responsible for behaving like the servers that people really install: honest tools with real effects that can be
//! counted afterwards, and, on request, tools that misbehave in every way that a gateway has to survive. It speaks both
//! eras of MCP over newline-delimited JSON.
//!
//! Deliberately not part of the gateway: it decides nothing, depends on none of our crates, and keeps its own SQLite
//! database. It is the exception to "only `ledger` has SQL", because it stands for a foreign system on the far side of
//! the gateway.

mod arguments;
mod call;
mod catalogue;
mod company;
mod contracts;
mod dialect;
mod failure;
mod formats;
mod schema;
mod server;
mod session;
mod subscriptions;
mod tool;
mod wire;
mod workers;

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use company::Company;
pub use contracts::CONTRACTS;
use server::SampleServer;
use wire::SampleOutput;

/// How one run of the sample server is set up.
#[derive(Debug, Clone, Default)]
pub struct SampleOptions {
    /// Where the company keeps its records; `None` keeps them in memory for this run only.
    pub database: Option<PathBuf>,
    /// Whether the tools that misbehave on purpose are listed and can be called.
    pub misbehaviour: bool,
    /// Which revisions of the protocol are spoken.
    pub era: ServedEras,
}

/// Which eras of MCP the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServedEras {
    /// Both, decided request by request.
    #[default]
    Both,
    /// Revisions up to 2025-11-25, opened by `initialize`.
    LegacyOnly,
    /// Revision 2026-07-28, described by `server/discover`.
    ModernOnly,
}

/// Why the server stopped before its input ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The tool `misbehave_die` was called. The caller is expected to exit at once, flushing nothing.
    #[error("asked to die by `misbehave_die`")]
    AskedToDie,
    /// The input could not be read.
    #[error("cannot read the input")]
    Input(#[source] io::Error),
    /// A message was longer than the server accepts.
    #[error("an input line is longer than {line_bytes_max} bytes")]
    LineTooLong {
        /// The longest line accepted.
        line_bytes_max: u64,
    },
    /// The output could not be written, usually because the reader went away.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    /// The company's database could not be opened or seeded.
    #[error("cannot open the company database")]
    Database(#[source] rusqlite::Error),
    /// A background call could not be started.
    #[error("cannot start a background call")]
    Background(#[source] io::Error),
    /// A background call panicked, which is a bug of this crate.
    #[error("a background call panicked")]
    BackgroundPanicked,
}

/// Serves until the input ends, then waits for the calls still running and closes subscriptions.
///
/// Every answer is one line and is flushed as it is written. Calls that take long run on their own
/// threads, which is why the output has to be owned and sendable.
pub fn serve(
    options: SampleOptions,
    input: impl BufRead,
    output: impl Write + Send + 'static,
) -> Result<(), SampleError> {
    let company = Company::open(options.database.as_deref()).map_err(SampleError::Database)?;
    SampleServer::new(options, company, SampleOutput::new(output)).run(input)
}
