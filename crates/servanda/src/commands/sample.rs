//! `servanda sample`: the sample company as an MCP server over stdio. Hidden, because only `demo` and our tests start it.

use std::io;

use servanda_sample::{SampleError, SampleOptions, ServedEras, serve};

use crate::{
    cli::{SampleArgs, SampleEra},
    failure::CommandFailure,
};

pub(crate) fn run(args: &SampleArgs) -> Result<(), CommandFailure> {
    let era = match args.era {
        SampleEra::Both => ServedEras::Both,
        SampleEra::Legacy => ServedEras::LegacyOnly,
        SampleEra::Modern => ServedEras::ModernOnly,
    };
    let options = SampleOptions { database: args.database.clone(), misbehaviour: args.misbehave, era };
    match serve(options, io::stdin().lock(), io::stdout()) {
        // The reader is gone, which is how a stdio server is told to stop.
        Ok(()) | Err(SampleError::Output(_)) => Ok(()),
        Err(SampleError::AskedToDie) => Err(CommandFailure::failed("the sample was asked to die, and does")),
        Err(error) => Err(CommandFailure::failed(error.to_string())),
    }
}
