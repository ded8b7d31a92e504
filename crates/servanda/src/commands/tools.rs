//! `servanda tools`: what agents are offered, how grave each tool is, and whether its upstream offers it now.

use std::path::Path;

use serde::Serialize;
use servanda_catalog::{Availability, Catalog, Entry};
use servanda_contract::tool::SideEffectClass;
use servanda_engine::discover;

use crate::{
    cli::ToolsArgs,
    config::Loaded,
    contracts,
    failure::Failure,
    screen::{Mood, Screen, count, lines, paint, table},
    wiring,
};

#[derive(Serialize)]
struct Row {
    name: String,
    contract: String,
    version: String,
    upstream: String,
    side_effect_class: &'static str,
    effect_class: servanda_contract::tool::EffectClass,
    timeout_ms: u64,
    confirmation_required: bool,
    state: &'static str,
}

pub(crate) async fn run(config: &Path, args: &ToolsArgs, screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    let catalog = Catalog::new(contracts::load(&loaded)?, loaded.config.naming())
        .map_err(|error| Failure::bad_input(error.to_string()).hint("rename one of the two, or remove its contract"))?;
    let unreached = if args.offline { Vec::new() } else { ask(&loaded, &catalog, screen).await? };
    let rows: Vec<Row> = catalog.entries().map(|(name, entry)| row(name, entry, &catalog, &unreached)).collect();
    if screen.json {
        return screen.json(&rows);
    }
    if rows.is_empty() {
        screen.say("there are no contracts yet");
        screen.hint("`servanda init` makes one for every tool of the servers in .mcp.json");
        return Ok(());
    }
    let mut shown = table(&["tool", "side effects", "timeout", "approval", "state"]);
    for row in &rows {
        shown.add_row([
            row.name.clone(),
            paint(row.side_effect_class, mood(row.side_effect_class)),
            timeout(row.timeout_ms),
            if row.confirmation_required { paint("needed", Mood::Careful) } else { "no".to_owned() },
            row.state.to_owned(),
        ]);
    }
    screen.data(lines(&shown))
}

/// Asks every upstream at once; says which could not be asked.
async fn ask(loaded: &Loaded, catalog: &Catalog, screen: Screen) -> Result<Vec<String>, Failure> {
    let upstreams = wiring::upstreams(loaded, &wiring::fleeting())?;
    let waiting = screen.wait(format!("asking {}", count(upstreams.len(), "upstream")));
    let mut asked = tokio::task::JoinSet::new();
    for (id, upstream) in upstreams {
        asked.spawn(async move {
            let offered = discover(&upstream).await;
            upstream.shutdown().await;
            (id, offered)
        });
    }
    let mut unreached = Vec::new();
    for (id, offered) in asked.join_all().await {
        match offered {
            Ok(discovered) => catalog.observe(&id, discovered.tools.into_iter().map(|tool| tool.name)),
            Err(error) => {
                waiting.suspend(|| screen.say(format_args!("upstream `{id}`: {error}")));
                unreached.push(id);
            }
        }
    }
    waiting.finish_and_clear();
    Ok(unreached)
}

fn row(name: &str, entry: &Entry, catalog: &Catalog, unreached: &[String]) -> Row {
    let contract = entry.contract.contract();
    let state = match catalog.availability(entry) {
        Availability::Offered => "offered",
        Availability::Withdrawn => "withdrawn by its upstream",
        Availability::Unasked if unreached.contains(&contract.binding.upstream) => "upstream down",
        Availability::Unasked => "not asked",
    };
    Row {
        name: name.to_owned(),
        contract: contract.identity.name.clone(),
        version: contract.identity.version.clone(),
        upstream: contract.binding.upstream.clone(),
        side_effect_class: contract.transactional.side_effect_class.word(),
        effect_class: contract.effect_class(),
        timeout_ms: contract.timeout_ms(),
        confirmation_required: contract.transactional.confirmation_required,
        state,
    }
}

pub(crate) fn mood(side_effect_class: &str) -> Mood {
    if side_effect_class == SideEffectClass::ReadOnly.word() {
        Mood::Good
    } else if [SideEffectClass::HighRiskExternal.word(), SideEffectClass::CriticalMutation.word()]
        .contains(&side_effect_class)
    {
        Mood::Bad
    } else {
        Mood::Careful
    }
}

fn timeout(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", ms / 60_000),
    }
}
