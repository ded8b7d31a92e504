//! `servanda stdio`: the gateway as a command that a client starts. Stdout belongs to the protocol.

use std::path::Path;

use servanda_doors::{StdioOptions, stdio};

use crate::{config::Loaded, failure::Failure, screen::Screen, wiring::Station};

pub(crate) async fn run(config: &Path, _screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    let station = Station::assemble(&loaded)?;
    station.follow_upstreams();
    let stop = super::serve::stop_signal()?;
    let options = StdioOptions::new(super::server_identity());
    let serving = stdio::serve(station.engine.clone(), options, tokio::io::stdin(), tokio::io::stdout(), stop);
    let served = super::serve::while_keeping_up(&station, Some(loaded), serving).await;
    station.close().await;
    served.map_err(Failure::from)
}
