//! `servanda serve`: the gateway over Streamable HTTP, until it is told to stop.

use std::path::Path;

use servanda_doors::{HttpOptions, http};
use servanda_mcp::ClientCapabilities;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::ServeArgs,
    config::{Loaded, parse_listen},
    failure::Failure,
    reload,
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
    // Listened for before anybody can know that we are here.
    let stop = stop_signal()?;
    station.follow_upstreams();
    let address = listener.local_addr()?;
    let tools = count(station.engine.catalog().listing(&ClientCapabilities::none()).tools.len(), "tool");
    let upstreams = count(station.engine.upstreams().len(), "upstream");
    screen.say(format_args!("servanda is ready at http://{address}/mcp with {tools} of {upstreams}"));
    screen.say(format_args!("connect: claude mcp add --transport http servanda http://{address}/mcp"));
    let served = serve_http(&station, listener, stop, Some(loaded)).await;
    if served.is_ok() {
        screen.say("stopped");
    }
    served
}

/// Serves MCP over HTTP until told to stop, then takes the gateway apart. `files` are the configuration to keep up with.
pub(crate) async fn serve_http(
    station: &Station,
    listener: TcpListener,
    stop: CancellationToken,
    files: Option<Loaded>,
) -> Result<(), Failure> {
    let router = http::router(station.engine.clone(), HttpOptions::new(super::server_identity()));
    let served = while_keeping_up(station, files, http::serve(listener, router, stop)).await;
    station.close().await;
    served.map_err(Failure::from)
}

/// Serves, and meanwhile works by what the configuration's files come to say, where there are files.
pub(crate) async fn while_keeping_up<T>(
    station: &Station,
    files: Option<Loaded>,
    serving: impl Future<Output = T>,
) -> T {
    let Some(loaded) = files else { return serving.await };
    tokio::select! {
        served = serving => served,
        never = reload::keep_up(station, loaded) => match never {},
    }
}

/// Cancelled by the first SIGINT, SIGTERM or SIGHUP; whatever is in flight is then finished.
pub(crate) fn stop_signal() -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // `nohup` has it ignored; listening for it would undo that.
    let mut terminal_end = if hang_up_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
    let told = stop.clone();
    tokio::spawn(async move {
        let no_terminal = async {
            match &mut terminal_end {
                Some(terminal_end) => terminal_end.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = no_terminal => {}
        }
        told.cancel();
    });
    Ok(stop)
}

/// Whether whoever started us wants us to outlive the terminal. Where it cannot be asked, nobody does.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is the first signal.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
