//! `servanda serve`: the gateway over Streamable HTTP, until it is told to stop.

use std::{future::pending, io, path::Path, time::Duration};

use servanda_doors::{HttpOptions, http};
use servanda_ledger::Schema;
use servanda_mcp::ClientCapabilities;
use tokio::net::TcpListener;

use crate::{
    cli::ServeArgs,
    config::{AuthMode, parse_listen},
    failure::Failure,
    policies,
    reload::{self, Files},
    screen::{Screen, count},
    stopping::{DRAIN_MS_MAX, Stop},
    wiring::Station,
};

pub(crate) async fn run(config: &Path, args: &ServeArgs, screen: Screen) -> Result<(), Failure> {
    let files = Files::read(config)?;
    let address = args.listen.as_deref().map_or_else(|| files.loaded.listen(), parse_listen)?;
    files.loaded.require_guarded(address)?;
    let station = Station::assemble(&files.loaded, Schema::Migrate).await?;
    super::migrate::tell(station.migration(), screen);
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!("cannot listen on {address}: {error}"))
            .hint("another servanda may be running; choose a port with `servanda serve --listen 127.0.0.1:0`")
    })?;
    // Listened for before anybody can know that we are here.
    let stop = Stop::on_signals()?;
    let address = listener.local_addr()?;
    station.admit_at(&files.loaded, address)?;
    station.follow_upstreams();
    let tools = count(station.engine.catalog().listing(&ClientCapabilities::none()).tools.len(), "tool");
    let upstreams = count(station.engine.upstreams().len(), "upstream");
    screen.say(format_args!("servanda is ready at http://{address}/mcp with {tools} of {upstreams}"));
    if files.loaded.config.auth.mode == AuthMode::Required {
        screen.say("callers have to show a credential: servanda keys create makes an API key");
    } else {
        screen.say(format_args!("connect: claude mcp add --transport http servanda http://{address}/mcp"));
    }
    if let Some(warning) = policies::warning(&files.loaded, &station.engine.authorities()) {
        screen.say(warning);
    }
    let served = serve_http(&station, listener, &stop, Some(files), screen).await;
    if served.is_ok() {
        screen.say("stopped");
    }
    served
}

/// Serves MCP over HTTP until told to stop, then takes the gateway apart. `files` are the configuration to keep up with.
pub(crate) async fn serve_http(
    station: &Station,
    listener: TcpListener,
    stop: &Stop,
    files: Option<Files>,
    screen: Screen,
) -> Result<(), Failure> {
    let mut options = HttpOptions::new(super::server_identity());
    options.doorkeeper = station.porter.clone();
    let router = http::router(station.engine.clone(), options);
    let drain_max = Duration::from_millis(DRAIN_MS_MAX);
    let serving = http::serve_draining(listener, router, stop.told.clone(), drain_max);
    until_the_end(station, stop, files, serving, screen).await
}

/// Serves, meanwhile works by what the configuration's files come to say, where there are files, and takes the gateway
/// apart in the end. Whoever has to wait for that is told so, and can have it end at once.
pub(crate) async fn until_the_end(
    station: &Station,
    stop: &Stop,
    files: Option<Files>,
    serving: impl Future<Output = io::Result<()>>,
    screen: Screen,
) -> Result<(), Failure> {
    let keeping_up = async {
        match files {
            Some(files) => match reload::keep_up(station, files, screen).await {},
            None => pending().await,
        }
    };
    let whole = async {
        let served = tokio::select! {
            served = serving => served,
            () = stop.hurry.cancelled() => Ok(()),
            () = keeping_up => Ok(()),
        };
        (served, station.close(stop).await)
    };
    let (served, cut_off) = tokio::select! {
        ended = whole => ended,
        never = stop.tell(&station.engine, screen) => match never {},
    };
    served?;
    if cut_off == 0 {
        return Ok(());
    }
    let calls = if cut_off == 1 { "1 call was".to_owned() } else { format!("{cut_off} calls were") };
    Err(Failure::failed(format!("stopped at once; {calls} cut off and may have happened"))
        .hint("`servanda explain` lists the latest calls: look for `unknown` and `dispatching`"))
}
