//! `servanda stdio`: the gateway as a command that a client starts. Stdout belongs to the protocol.

use std::path::Path;

use servanda_doors::{StdioOptions, stdio};

use crate::{config::Loaded, failure::Failure, screen::Screen, stopping::Stop, wiring::Station};

pub(crate) async fn run(config: &Path, screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    let station = Station::assemble(&loaded)?;
    station.follow_upstreams();
    let stop = Stop::on_signals()?;
    let options = StdioOptions::new(super::server_identity());
    let serving =
        stdio::serve(station.engine.clone(), options, tokio::io::stdin(), tokio::io::stdout(), stop.told.clone());
    Box::pin(super::serve::until_the_end(&station, &stop, Some(loaded), serving, screen)).await
}
