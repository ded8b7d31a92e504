//! `servanda serve`: runs the gateway over Streamable HTTP until it is told to stop.

use std::{
    collections::BTreeMap, future::pending, io, net::SocketAddr, num::NonZero, path::Path, sync::Arc,
    thread::available_parallelism,
};

use serde_json::json;
use servanda_config::{AuthMode, parse_listen};
use servanda_doors::{
    HttpOptions, ServingOptions, for_engine,
    http::{DoorThreads, Pages},
};
use servanda_engine::{Engine, UpstreamReachability};
use servanda_ledger::LedgerSchemaPolicy;
use servanda_mcp::ClientCapabilities;
use tokio::net::TcpListener;

use crate::{
    cli::ServeArgs,
    commands::running_gateway::{self, ListeningGateway},
    failure::CommandFailure,
    policies,
    screen::{self, Screen, count},
    stopping::Stop,
    wiring::{
        AssembledGateway, UnfinishedWork,
        people::PeoplesDoor,
        reload::{self, WatchedConfig},
    },
};

pub(crate) async fn run(config: &Path, args: &ServeArgs, screen: Screen) -> Result<(), CommandFailure> {
    let files = WatchedConfig::read(config)?;
    screen::log::follow(&files.loaded.config.log);
    let address = match args.listen.as_deref() {
        Some(listen) => parse_listen(listen)?,
        None => files.loaded.listen()?,
    };
    files.loaded.require_guarded(address)?;
    // Bound before anything is assembled: people are told the real address, also where the configuration names port 0.
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            let hint = match running_gateway::ask(address, &files.loaded.file).await {
                ListeningGateway::Ours => "this configuration's gateway is running already",
                ListeningGateway::Another => {
                    "the gateway of another configuration is there: choose another `listen` in servanda.yaml"
                }
                ListeningGateway::NoGateway => "something else is there: choose another `listen` in servanda.yaml",
            };
            return Err(CommandFailure::failed(format!("cannot listen on {address}: {error}")).hint(hint));
        }
    };
    let address = listener.local_addr()?;
    let gateway = AssembledGateway::assemble(&files.loaded, LedgerSchemaPolicy::Migrate, Some(address)).await?;
    super::migrate::tell(gateway.migration(), screen);
    // Signals are handled before the gateway can be reached.
    let stop = Stop::on_signals(args.drain_ms_max.unwrap_or(files.loaded.config.limits.drain_ms_max))?;
    gateway.admit_at(&files.loaded, address)?;
    gateway.follow_upstreams();
    let people = PeoplesDoor::new(&gateway, policies::console_url(address), screen);
    let pages = Arc::clone(&people.pages);
    let ready = ReadyAnnouncement::new(&gateway, &files, address, people);
    let announced = tokio::spawn(announce(ready, gateway.upstreams_asked(), screen));
    let served = serve_http(&gateway, (listener, pages), &stop, Some(files), screen).await;
    announced.abort();
    if served.is_ok() {
        screen.say("stopped");
    }
    served
}

/// The message that a gateway is ready.
struct ReadyAnnouncement {
    engine: Arc<Engine>,
    address: SocketAddr,
    asks_for_credentials: bool,
    warning: Option<String>,
    people: PeoplesDoor,
}

impl ReadyAnnouncement {
    fn new(gateway: &AssembledGateway, files: &WatchedConfig, address: SocketAddr, people: PeoplesDoor) -> Self {
        Self {
            engine: Arc::clone(&gateway.engine),
            address,
            asks_for_credentials: files.loaded.config.auth.mode == AuthMode::Required,
            warning: policies::warning(&files.loaded, &gateway.engine.authorities()),
            people,
        }
    }
}

/// Announces that the gateway is ready, once every upstream has answered or is known not to. The door is open before that: an early list or
/// call waits for the upstream it needs.
async fn announce(
    what: ReadyAnnouncement,
    asked: impl Future<Output = ()>,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let ReadyAnnouncement { engine, address, asks_for_credentials, warning, people } = what;
    let waiting = screen.wait("waiting for the servers to answer");
    asked.await;
    waiting.finish_and_clear();
    let tools = engine.catalog().listing(&ClientCapabilities::none()).tools.len();
    let answering = engine.discovery().reachability();
    let silent = || answering.iter().filter(|(_, answering)| **answering != UpstreamReachability::Yes);
    if screen.json {
        let not_answering: BTreeMap<&String, Option<&String>> = silent()
            .map(|(id, answering)| match answering {
                UpstreamReachability::No(why) => (id, Some(why)),
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
            UpstreamReachability::No(_) => "`servanda doctor` says more",
            _ => "it has not answered yet, and is waited for",
        };
        screen.say(format_args!("`{id}` does not answer, so its tools cannot be called: {more}"));
    }
    if asks_for_credentials {
        screen.say("callers have to show a credential: servanda keys create makes an API key");
    } else {
        screen.say(format_args!("connect: claude mcp add --transport http servanda http://{address}/mcp"));
    }
    people.announce();
    if let Some(warning) = warning {
        screen.say(warning);
    }
    Ok(())
}

/// Serves MCP and the console's pages over HTTP until told to stop, then closes the gateway. `files` is the configuration to watch for changes.
pub(crate) async fn serve_http(
    gateway: &AssembledGateway,
    (listener, pages): (TcpListener, Arc<dyn Pages>),
    stop: &Stop,
    files: Option<WatchedConfig>,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let mut options = HttpOptions::new(super::server_identity());
    options.authenticator = gateway.authenticator.clone();
    let configuration = files.as_ref().map(|files| running_gateway::configuration(&files.loaded.file));
    options.health = Arc::new(gateway.health(configuration));
    if let Some(page) = gateway.metrics_page() {
        options.metrics = Some(page);
    }
    options.pages = Some(pages);
    options.session_idle_ms_max = gateway.session_idle_ms_max;
    // Kept until everything has ended, because calls continue on these threads after the door is closed.
    let threads = DoorThreads::start(available_parallelism().map_or(1, NonZero::get))?;
    let drain_ms_max = u64::try_from(stop.door_max().as_millis()).unwrap_or(u64::MAX);
    let serving = ServingOptions { drain_ms_max, threads: threads.clone(), ..ServingOptions::default() };
    let serving = for_engine::serve_http(listener, gateway.engine.clone(), options, stop.requested.clone(), serving);
    let ended = Box::pin(until_the_end(gateway, stop, files, serving, screen)).await;
    drop(threads);
    ended
}

/// Serves, follows changes of the configuration files if there are any, and closes the gateway at the end. If closing takes time, the user
/// is told so and can end it at once.
pub(crate) async fn until_the_end(
    gateway: &AssembledGateway,
    stop: &Stop,
    files: Option<WatchedConfig>,
    serving: impl Future<Output = io::Result<()>>,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let keeping_up = async {
        match files {
            Some(files) => match reload::keep_up(gateway, files, screen).await {},
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
        // The door stays open for the answers of calls that are being cut off.
        let mut closing = std::pin::pin!(gateway.close(stop));
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
        never = stop.report_waiting(&gateway.engine, screen) => match never {},
    };
    served?;
    let calls = |count: usize| if count == 1 { "1 call was".to_owned() } else { format!("{count} calls were") };
    let what = match unfinished {
        UnfinishedWork { cut_off: 0, unsettled: 0 } => return Ok(()),
        UnfinishedWork { cut_off: 0, unsettled } => {
            format!("stopped in time; {} not settled and may have happened", calls(unsettled))
        }
        UnfinishedWork { cut_off, .. } => format!("stopped at once; {} cut off and may have happened", calls(cut_off)),
    };
    Err(CommandFailure::failed(what)
        .hint("`servanda explain` lists the latest calls: look for `unknown` and `dispatching`"))
}
