//! `servanda sample`: the sample company as an MCP server over stdio. Hidden: `demo` and our tests start it.

use std::io;

use servanda_sample::{Era, Options, SampleError, serve};

use crate::{
    cli::{SampleArgs, SampleEra},
    failure::Failure,
};

pub(crate) fn run(args: &SampleArgs) -> Result<(), Failure> {
    let era = match args.era {
        SampleEra::Both => Era::Both,
        SampleEra::Legacy => Era::LegacyOnly,
        SampleEra::Modern => Era::ModernOnly,
    };
    let options = Options { database: args.database.clone(), misbehaviour: args.misbehave, era };
    match serve(options, io::stdin().lock(), io::stdout()) {
        // The reader went away: that is how a stdio server is told to end.
        Ok(()) | Err(SampleError::Output(_)) => Ok(()),
        Err(SampleError::AskedToDie) => Err(Failure::failed("the sample was asked to die, and does")),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}
