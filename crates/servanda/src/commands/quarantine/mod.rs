//! `servanda quarantine`: lists the tools that are held back because of what they did or because a person wants it, and lets a person hold
//! back or release one. Works while a gateway is running, because both use the same store.

mod page;

use std::path::Path;

use servanda_catalog::{Catalog, names};
use servanda_config::LoadedConfig;
use servanda_contract::{Digest, time::Clock as _};
use servanda_effects::JournalError;
use servanda_engine::{
    SystemClock,
    quarantine::{
        QuarantineChange, QuarantineChangeError, QuarantineHistory, UpstreamToolKey, change_by_person, histories,
    },
};
use servanda_identity::layers::gateway::near_names;
use servanda_ledger::Ledger;

use crate::{
    cli::{QuarantineArgs, QuarantineCommand},
    commands::operator,
    configuration, contracts,
    failure::CommandFailure,
    screen::Screen,
    wiring::remembered_names,
};

/// How many similar names an error suggests.
const NEAR_MAX: usize = 3;

/// A tool, found by its name.
struct QuarantineTarget {
    key: UpstreamToolKey,
    exposed: String,
    contract: String,
    contract_digest: Option<Digest>,
}

pub(crate) async fn run(config: &Path, args: &QuarantineArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let (tool, reason, holds) = match &args.command {
        None => return list(&loaded, false, screen).await,
        Some(QuarantineCommand::List { all }) => return list(&loaded, *all, screen).await,
        Some(QuarantineCommand::Block { tool, reason }) => (tool, reason, true),
        Some(QuarantineCommand::Release { tool, reason }) => (tool, reason, false),
    };
    let reason = operator::checked_text("--reason", reason, NEEDS_REASON)?;
    let ledger = configuration::ledger_place(&loaded)?.open().await?;
    let changed = change(&loaded, &ledger, tool, reason, holds).await;
    ledger.close().await;
    let (named, history) = changed?;
    if screen.json {
        return screen.json(&page::report(&history, named.exposed));
    }
    screen.page(page::page(&history, &named.exposed))?;
    screen.say("a running gateway takes note of it within seconds");
    if holds {
        screen.hint(format_args!("servanda quarantine release {} --reason TEXT", named.exposed));
    } else {
        screen.hint("servanda tools shows how it stands now");
    }
    Ok(())
}

const NEEDS_REASON: &str = "say why: --reason \"looked at the server's source, fixed in 1.2\"";

async fn list(loaded: &LoadedConfig, all: bool, screen: Screen) -> Result<(), CommandFailure> {
    let place = configuration::ledger_place(loaded)?;
    let mut found = Vec::new();
    // Listing does not create a ledger.
    if !place.is_missing() {
        let ledger = place.open().await?;
        let read = histories(ledger.as_ref(), SystemClock.now()).await;
        ledger.close().await;
        found = read.map_err(store_unavailable)?;
    }
    found.retain(|history| all || history.hold().is_some());
    let catalog = catalog(loaded).await?;
    if screen.json {
        let shown: Vec<_> = found.iter().map(|history| page::report(history, exposed(history, &catalog))).collect();
        return screen.json(&shown);
    }
    if found.is_empty() {
        screen.say(if all { "no tool was ever held back" } else { "no tool is held back" });
        screen.hint("servanda quarantine block TOOL --reason TEXT holds one back");
        return Ok(());
    }
    let held = found.iter().find(|history| history.hold().is_some()).map(|history| exposed(history, &catalog));
    if all {
        let pages = found.iter().map(|history| page::page(history, &exposed(history, &catalog)));
        screen.page(pages.collect::<Vec<_>>().join("\n\n"))?;
    } else {
        let named = found.iter().map(|history| (exposed(history, &catalog), history));
        screen.data(page::list(&named.collect::<Vec<_>>()))?;
    }
    if let Some(tool) = held {
        screen.hint(format_args!("when you have looked: servanda quarantine release {tool} --reason TEXT"));
    }
    Ok(())
}

async fn change(
    loaded: &LoadedConfig,
    ledger: &Ledger,
    tool: &str,
    reason: &str,
    holds: bool,
) -> Result<(QuarantineTarget, QuarantineHistory), CommandFailure> {
    let now = SystemClock.now();
    let known = histories(ledger, now).await.map_err(store_unavailable)?;
    let named = find(tool.trim(), &catalog(loaded).await?, &known)?;
    let change = QuarantineChange {
        tool: named.key.clone(),
        contract: named.contract.clone(),
        contract_digest: named.contract_digest,
        holds,
        reason: reason.to_owned(),
        by: operator::user_name(),
        seen: None,
    };
    let history = change_by_person(ledger, change, now).await.map_err(|error| match error {
        QuarantineChangeError::NotHeld => CommandFailure::bad_input(format!("`{}` is not held back", named.exposed))
            .hint("servanda quarantine list shows the tools that are; `servanda diff` shows those with a changed definition"),
        error @ (QuarantineChangeError::ChangedMeanwhile | QuarantineChangeError::Store(_)) => {
            CommandFailure::failed(error.to_string()).hint("`servanda doctor` looks at the ledger")
        }
    })?;
    Ok((named, history))
}

/// Finds a tool by its exposed name or its contract's name. A tool that is held back is also found if its contract is gone.
fn find(tool: &str, catalog: &Catalog, known: &[QuarantineHistory]) -> Result<QuarantineTarget, CommandFailure> {
    let found =
        catalog.entries().find(|(name, entry)| *name == tool || entry.contract.contract().identity.name == tool);
    if let Some((exposed, entry)) = found {
        let contract = entry.contract.contract();
        let (upstream, tool) = (contract.binding.upstream.clone(), contract.binding.tool.clone());
        return Ok(QuarantineTarget {
            key: UpstreamToolKey { upstream, tool },
            exposed: exposed.to_owned(),
            contract: contract.identity.name.clone(),
            contract_digest: Some(entry.contract.digest()),
        });
    }
    let contract = |history: &QuarantineHistory| history.last().map(|event| event.contract.clone()).unwrap_or_default();
    if let Some(history) = known.iter().find(|history| exposed(history, catalog) == tool || contract(history) == tool) {
        let (key, exposed, contract) = (history.tool.clone(), exposed(history, catalog), contract(history));
        return Ok(QuarantineTarget { key, exposed, contract, contract_digest: None });
    }
    let names = catalog.entries().map(|(exposed, entry)| (exposed, entry.contract.contract().binding.tool.as_str()));
    let near: Vec<String> = near_names(tool, names, NEAR_MAX).iter().map(|name| format!("`{name}`")).collect();
    let hint = if near.is_empty() {
        "servanda tools lists them".to_owned()
    } else {
        format!("did you mean {}? servanda tools lists all", near.join(" or "))
    };
    Err(CommandFailure::bad_input(format!("there is no tool `{tool}`")).hint(hint))
}

/// The catalog of tools. One invalid contract must not prevent a person from holding another tool back.
async fn catalog(loaded: &LoadedConfig) -> Result<Catalog, CommandFailure> {
    let (admitted, _) = contracts::judge_all(loaded)?;
    remembered_names::catalog(loaded, admitted).await
}

/// The exposed name of a tool, or the one it would have if it were offered.
fn exposed(history: &QuarantineHistory, catalog: &Catalog) -> String {
    let tool = names::upstream_tool(&history.tool.upstream, &history.tool.tool);
    let table = catalog.names();
    table.name_of(&tool).map_or_else(|| table.policy().name(&tool).to_string(), ToString::to_string)
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
fn store_unavailable(error: JournalError) -> CommandFailure {
    CommandFailure::failed(format!("the store of quarantines does not answer: {}", error.reason()))
        .hint("`servanda doctor` looks at the ledger")
}
