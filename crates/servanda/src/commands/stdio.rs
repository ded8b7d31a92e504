//! `servanda stdio`: the gateway as a command that a client starts. Stdout belongs to the protocol.

use std::path::Path;

use servanda_doors::{StdioOptions, stdio};
use servanda_ledger::Schema;

use crate::{failure::Failure, policies, reload::Files, screen::Screen, stopping::Stop, wiring::Station};

pub(crate) async fn run(config: &Path, screen: Screen) -> Result<(), Failure> {
    let files = Files::read(config)?;
    let station = Station::assemble(&files.loaded, Schema::Migrate).await?;
    super::migrate::tell(station.migration(), screen);
    if let Some(warning) = policies::warning(&files.loaded, &station.engine.authorities()) {
        screen.say(warning);
    }
    station.follow_upstreams();
    let stop = Stop::on_signals()?;
    let options = StdioOptions::new(super::server_identity());
    let serving =
        stdio::serve(station.engine.clone(), options, tokio::io::stdin(), tokio::io::stdout(), stop.told.clone());
    Box::pin(super::serve::until_the_end(&station, &stop, Some(files), serving, screen)).await
}
