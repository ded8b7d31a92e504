//! `servanda serve`: the gateway over Streamable HTTP, until it is told to stop.

use std::{
    collections::BTreeMap, future::pending, io, net::SocketAddr, num::NonZero, path::Path, sync::Arc,
    thread::available_parallelism,
};

use serde_json::json;
use servanda_doors::{HttpOptions, Serving, for_engine, http::Threads};
use servanda_engine::{Answering, Engine};
use servanda_ledger::Schema;
use servanda_mcp::ClientCapabilities;
use tokio::net::TcpListener;

use crate::{
    cli::ServeArgs,
    commands::running_gateway::{self, Answers},
    config::{AuthMode, parse_listen},
    failure::Failure,
    policies,
    screen::{Screen, count},
    stopping::Stop,
    wiring::{
        Station, Unfinished,
        reload::{self, Files},
    },
};

pub(crate) async fn run(config: &Path, args: &ServeArgs, screen: Screen) -> Result<(), Failure> {
    let files = Files::read(config)?;
    let address = args.listen.as_deref().map_or_else(|| files.loaded.listen(), parse_listen)?;
    files.loaded.require_guarded(address)?;
    let station = Station::assemble(&files.loaded, Schema::Migrate, Some(address)).await?;
    super::migrate::tell(station.migration(), screen);
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            let hint = match running_gateway::ask(address, &files.loaded.file).await {
                Answers::Ours => "this configuration's gateway is running already",
                Answers::Another => {
                    "the gateway of another configuration is there: choose another `listen` in servanda.yaml"
                }
                Answers::NoGateway => "something else is there: choose another `listen` in servanda.yaml",
            };
            return Err(Failure::failed(format!("cannot listen on {address}: {error}")).hint(hint));
        }
    };
    // Listened for before anybody can know that we are here.
    let stop = Stop::on_signals(args.drain_ms_max.unwrap_or(files.loaded.config.limits.drain_ms_max))?;
    let address = listener.local_addr()?;
    station.admit_at(&files.loaded, address)?;
    station.follow_upstreams();
    let announced =
        tokio::spawn(announce(Announcement::of(&station, &files, address), station.upstreams_asked(), screen));
    let served = serve_http(&station, listener, &stop, Some(files), screen).await;
    announced.abort();
    if served.is_ok() {
        screen.say("stopped");
    }
    served
}

/// What is said once a gateway is ready.
struct Announcement {
    engine: Arc<Engine>,
    address: SocketAddr,
    asks_for_credentials: bool,
    warning: Option<String>,
}

impl Announcement {
    fn of(station: &Station, files: &Files, address: SocketAddr) -> Self {
        Self {
            engine: Arc::clone(&station.engine),
            address,
            asks_for_credentials: files.loaded.config.auth.mode == AuthMode::Required,
            warning: policies::warning(&files.loaded, &station.engine.authorities()),
        }
    }
}

/// Says that the gateway is ready when every upstream has answered or can be named as one that does not. The door is open before
/// that: a list or a call that comes early waits for the upstream it needs.
async fn announce(what: Announcement, asked: impl Future<Output = ()>, screen: Screen) -> Result<(), Failure> {
    let Announcement { engine, address, asks_for_credentials, warning } = what;
    let waiting = screen.wait("waiting for the servers to answer");
    asked.await;
    waiting.finish_and_clear();
    let tools = engine.catalog().listing(&ClientCapabilities::none()).tools.len();
    let answering = engine.discovery().answering();
    let silent = || answering.iter().filter(|(_, answering)| **answering != Answering::Yes);
    if screen.json {
        let not_answering: BTreeMap<&String, Option<&String>> = silent()
            .map(|(id, answering)| match answering {
                Answering::No(why) => (id, Some(why)),
                _ => (id, None),
            })
            .collect();
        let ready = json!({ "url": format!("http://{address}/mcp"), "tools": tools, "upstreams": answering.len(),
            "not_answering": not_answering });
        return screen.json(&json!({ "ready": ready }));
    }
    let (tools, upstreams) = (count(tools, "tool"), count(answering.len(), "upstream"));
    screen.say(format_args!("servanda is ready at http://{address}/mcp with {tools} of {upstreams}"));
    for (id, answering) in silent() {
        // The reason has just been logged.
        let more = match answering {
            Answering::No(_) => "`servanda doctor` says more",
            _ => "it has not answered yet, and is waited for",
        };
        screen.say(format_args!("`{id}` does not answer, so its tools cannot be called: {more}"));
    }
    if asks_for_credentials {
        screen.say("callers have to show a credential: servanda keys create makes an API key");
    } else {
        screen.say(format_args!("connect: claude mcp add --transport http servanda http://{address}/mcp"));
    }
    if let Some(warning) = warning {
        screen.say(warning);
    }
    Ok(())
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
    let configuration = files.as_ref().map(|files| running_gateway::configuration(&files.loaded.file));
    options.health = Arc::new(station.health(configuration));
    options.session_idle_ms_max = station.session_idle_ms_max;
    // Held until everything has ended: calls go on there when the door is closed.
    let threads = Threads::start(available_parallelism().map_or(1, NonZero::get))?;
    let drain_ms_max = u64::try_from(stop.door_max().as_millis()).unwrap_or(u64::MAX);
    let serving = Serving { drain_ms_max, threads: threads.clone(), ..Serving::default() };
    let serving = for_engine::serve_http(listener, station.engine.clone(), options, stop.told.clone(), serving);
    let ended = Box::pin(until_the_end(station, stop, files, serving, screen)).await;
    drop(threads);
    ended
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
        let mut serving = std::pin::pin!(serving);
        let served = tokio::select! {
            served = &mut serving => Some(served),
            () = stop.hurry.cancelled() => None,
            () = stop.calls_are_over() => None,
            () = keeping_up => None,
        };
        // The door stays open for the answers of calls that are cut off now.
        let mut closing = std::pin::pin!(station.close(stop));
        if let Some(served) = served {
            return (served, closing.await);
        }
        tokio::select! {
            unfinished = &mut closing => (Ok(()), unfinished),
            served = &mut serving => (served, closing.await),
        }
    };
    let (served, unfinished) = tokio::select! {
        ended = whole => ended,
        never = stop.tell(&station.engine, screen) => match never {},
    };
    served?;
    let calls = |count: usize| if count == 1 { "1 call was".to_owned() } else { format!("{count} calls were") };
    let what = match unfinished {
        Unfinished { cut_off: 0, unsettled: 0 } => return Ok(()),
        Unfinished { cut_off: 0, unsettled } => {
            format!("stopped in time; {} not settled and may have happened", calls(unsettled))
        }
        Unfinished { cut_off, .. } => format!("stopped at once; {} cut off and may have happened", calls(cut_off)),
    };
    Err(Failure::failed(what).hint("`servanda explain` lists the latest calls: look for `unknown` and `dispatching`"))
}
