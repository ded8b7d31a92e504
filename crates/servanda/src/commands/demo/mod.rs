//! `servanda demo`: runs the sample company behind a real gateway in its own folder: a tour of calls that pass and calls that each gate
//! refuses. Then the gateway keeps running for an agent.
//!
//! The demo tests itself: every step states its expected end, and any other end makes the demo fail.

mod caller;
mod connect;
mod folder;
mod outcome;
mod page;
mod proof;
#[cfg(test)]
mod tests;
mod tour;

use std::{io::ErrorKind, net::SocketAddr};

use servanda_config::{DRAIN_MS_MAX, LoadedConfig, parse_listen};
use servanda_ledger::LedgerSchemaPolicy;
use tokio::net::TcpListener;

use self::{folder::DemoFolder, outcome::PlayedStep, page::DemoPage, proof::DemoProof};
use super::serve;
use crate::{
    cli::DemoArgs,
    configuration,
    failure::CommandFailure,
    policies,
    screen::Screen,
    stopping::Stop,
    wiring::{AssembledGateway, people::PeoplesDoor},
};

pub(crate) async fn run(args: &DemoArgs, screen: Screen) -> Result<(), CommandFailure> {
    let wanted = parse_listen(&args.listen)?;
    if !wanted.ip().is_loopback() {
        return Err(CommandFailure::bad_input(format!(
            "`{wanted}` is not a loopback address, and the demo asks callers for no credential"
        ))
        .hint("listen on 127.0.0.1 or [::1]"));
    }
    let stop = Stop::on_signals(DRAIN_MS_MAX)?;
    // Binds the address first, so that the configuration in the folder has the real address.
    let listener = if args.once { None } else { Some(listen(wanted, screen).await?) };
    let address = listener.as_ref().map_or(Ok(wanted), TcpListener::local_addr)?;
    let folder = DemoFolder::make(address)?;
    let loaded = configuration::read(&folder.config_file())?;
    let gateway = AssembledGateway::assemble(&loaded, LedgerSchemaPolicy::Require, None).await?;
    let toured = tokio::select! {
        toured = tour(&loaded, &gateway, listener.is_some(), screen) => toured,
        () = stop.requested.cancelled() => Err(CommandFailure::failed("stopped before the tour was over")),
    };
    let (Ok(()), Some(listener)) = (&toured, listener) else {
        // Every step has its answer already, or the tour reports that it was stopped.
        let _ = gateway.close(&stop).await;
        if toured.is_ok() {
            connect::show_how_later(address, screen);
        }
        return toured;
    };
    connect::show_how(address, &folder, screen);
    let people = PeoplesDoor::new(&gateway, policies::console_url(address), screen);
    people.announce();
    let served = serve::serve_http(&gateway, (listener, people.pages), &stop, None, screen).await;
    screen.say(format_args!("stopped; {} goes with it", loaded.folder.display()));
    served
}

/// Plays every step. Then proves from the company's own count and from the ledger that only allowed calls had effects.
async fn tour(
    loaded: &LoadedConfig,
    gateway: &AssembledGateway,
    stays: bool,
    screen: Screen,
) -> Result<(), CommandFailure> {
    start(gateway, screen).await?;
    let page = DemoPage::new(screen);
    page.headline(gateway.engine.catalog().entries().count());
    let mut played = Vec::new();
    for chapter in &tour::CHAPTERS {
        page.chapter(chapter)?;
        for step in chapter.steps {
            let step = outcome::play(&gateway.engine, step).await?;
            page.step(&step)?;
            played.push(step);
        }
    }
    let proof = DemoProof::gather(&gateway.engine, &configuration::ledger_place(loaded)?, &played).await?;
    // The page can be shown again only while the folder exists.
    let explain = if stays { format!("--config {} explain", loaded.file.display()) } else { "explain".to_owned() };
    page.proof(&proof, &explain)?;
    if screen.json {
        screen.json(&serde_json::json!({
            "config": loaded.file, "listen": loaded.config.listen, "steps": played, "proof": proof
        }))?;
    }
    judge(&played, &proof)
}

/// Starts the company before the first call, so that the start does not count against a call's deadline.
async fn start(gateway: &AssembledGateway, screen: Screen) -> Result<(), CommandFailure> {
    let waiting = screen.wait("starting the sample company");
    gateway.follow_upstreams();
    let mut started = Ok(());
    for upstream in gateway.engine.upstreams().values() {
        started = started.and(upstream.tools(&servanda_upstream::UpstreamRequester::gateway()).await.map(|_| ()));
    }
    waiting.finish_and_clear();
    started.map_err(|error| CommandFailure::failed(format!("the sample company does not start: {error}")))
}

fn judge(played: &[PlayedStep], proof: &DemoProof) -> Result<(), CommandFailure> {
    let mut wrong: Vec<String> = played.iter().filter_map(PlayedStep::surprise).collect();
    wrong.extend(proof.surprise());
    if wrong.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::failed(format!("the demo did not go as it should\n  {}", wrong.join("\n  ")))
        .hint("this is a bug of servanda; `servanda demo --once --json` has every detail for a report"))
}

/// Binds the wanted address, or any free port of its host, because a gateway may already be running there.
async fn listen(wanted: SocketAddr, screen: Screen) -> Result<TcpListener, CommandFailure> {
    match TcpListener::bind(wanted).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let listener = TcpListener::bind(SocketAddr::new(wanted.ip(), 0)).await?;
            screen.say(format_args!("note: {wanted} is taken; the demo listens on {} instead", listener.local_addr()?));
            Ok(listener)
        }
        bound => bound.map_err(|error| {
            CommandFailure::failed(format!("cannot listen on {wanted}: {error}"))
                .hint("take a free port with `servanda demo --listen 127.0.0.1:0`")
        }),
    }
}
