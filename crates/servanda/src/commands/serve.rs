//! `servanda serve`: the gateway over Streamable HTTP, until it is told to stop.

use std::path::Path;

use servanda_doors::{HttpOptions, http};
use servanda_engine::Gateway as _;
use tokio::{net::TcpListener, signal::unix::SignalKind};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::ServeArgs,
    config::{Loaded, parse_listen},
    failure::Failure,
    screen::{Screen, count},
    wiring::Station,
};

pub(crate) async fn run(config: &Path, args: &ServeArgs, screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    let address = args.listen.as_deref().map_or_else(|| loaded.listen(), parse_listen)?;
    let station = Station::assemble(&loaded)?;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!("cannot listen on {address}: {error}"))
            .hint("another servanda may be running; choose a port with `servanda serve --listen 127.0.0.1:0`")
    })?;
    station.follow_upstreams();
    let address = listener.local_addr()?;
    let tools = count(station.engine.listing().tools.len(), "tool");
    let upstreams = count(station.engine.upstreams().len(), "upstream");
    screen.say(format_args!("servanda is ready at http://{address}/mcp with {tools} of {upstreams}"));
    serve_http(&station, listener, stop_signal()?).await
}

/// Serves MCP over HTTP until told to stop, then takes the gateway apart.
pub(crate) async fn serve_http(
    station: &Station,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let router = http::router(station.engine.clone(), HttpOptions::new(super::server_identity()));
    let served = http::serve(listener, router, stop).await;
    station.close().await;
    served.map_err(Failure::from)
}

/// Cancelled by the first SIGINT or SIGTERM; whatever is in flight is then finished.
pub(crate) fn stop_signal() -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}
