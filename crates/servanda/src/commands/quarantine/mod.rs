//! `servanda quarantine`: which tools are held back for what they did or because a person wants it, and what a person says about
//! them. Works beside a gateway that is running: both look at the same store.

mod page;

use std::path::Path;

use servanda_catalog::{Catalog, names};
use servanda_contract::{Digest, time::Clock as _};
use servanda_effects::JournalError;
use servanda_engine::{
    SystemClock,
    quarantine::{Event, History, ToolKey, What, histories, note_down},
};
use servanda_identity::layers::gateway::near_names;
use servanda_ledger::Ledger;

use crate::{
    cli::{QuarantineArgs, QuarantineCommand},
    commands::operator,
    config::Loaded,
    contracts,
    failure::Failure,
    screen::Screen,
    wiring::remembered,
};

/// Near names that an error names.
const NEAR_MAX: usize = 3;

/// A tool as it was named.
struct Named {
    key: ToolKey,
    exposed: String,
    contract: String,
    contract_digest: Option<Digest>,
}

pub(crate) async fn run(config: &Path, args: &QuarantineArgs, screen: Screen) -> Result<(), Failure> {
    let loaded = Loaded::read(config)?;
    let (tool, reason, holds) = match &args.command {
        None => return list(&loaded, false, screen).await,
        Some(QuarantineCommand::List { all }) => return list(&loaded, *all, screen).await,
        Some(QuarantineCommand::Block { tool, reason }) => (tool, reason, true),
        Some(QuarantineCommand::Release { tool, reason }) => (tool, reason, false),
    };
    let reason = operator::words("--reason", reason, NEEDS_REASON)?;
    let ledger = loaded.ledger_place()?.open().await?;
    let changed = change(&loaded, &ledger, tool, reason, holds).await;
    ledger.close().await;
    let (named, history) = changed?;
    if screen.json {
        return screen.json(&page::shown(&history, named.exposed));
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

async fn list(loaded: &Loaded, all: bool, screen: Screen) -> Result<(), Failure> {
    let place = loaded.ledger_place()?;
    let mut found = Vec::new();
    // Whoever only looks makes no ledger.
    if !place.is_missing() {
        let ledger = place.open().await?;
        let read = histories(ledger.as_ref(), SystemClock.now()).await;
        ledger.close().await;
        found = read.map_err(away)?;
    }
    found.retain(|history| all || history.hold().is_some());
    let catalog = catalog(loaded).await?;
    if screen.json {
        let shown: Vec<_> = found.iter().map(|history| page::shown(history, exposed(history, &catalog))).collect();
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
    loaded: &Loaded,
    ledger: &Ledger,
    tool: &str,
    reason: &str,
    holds: bool,
) -> Result<(Named, History), Failure> {
    let now = SystemClock.now();
    let known = histories(ledger, now).await.map_err(away)?;
    let named = find(tool.trim(), &catalog(loaded).await?, &known)?;
    let is_held = known.iter().any(|history| history.tool == named.key && history.hold().is_some());
    if !holds && !is_held {
        return Err(Failure::bad_input(format!("`{}` is not held back by anybody", named.exposed)).hint(
            "servanda quarantine list shows what is; what a changed definition holds back, `servanda diff` shows",
        ));
    }
    let reason = reason.to_owned();
    let event = Event {
        at_ms: now.unix_ms(),
        by: operator::who(),
        contract: named.contract.clone(),
        contract_digest: named.contract_digest,
        what: if holds { What::Blocked { reason } } else { What::Released { reason } },
    };
    let history = note_down(ledger, &named.key, event, now).await.map_err(away)?;
    Ok((named, history))
}

/// The tool of an exposed name or of a contract's name; one that was held back is still known when its contract is gone.
fn find(tool: &str, catalog: &Catalog, known: &[History]) -> Result<Named, Failure> {
    let found =
        catalog.entries().find(|(name, entry)| *name == tool || entry.contract.contract().identity.name == tool);
    if let Some((exposed, entry)) = found {
        let contract = entry.contract.contract();
        let (upstream, tool) = (contract.binding.upstream.clone(), contract.binding.tool.clone());
        return Ok(Named {
            key: ToolKey { upstream, tool },
            exposed: exposed.to_owned(),
            contract: contract.identity.name.clone(),
            contract_digest: Some(entry.contract.digest()),
        });
    }
    let contract = |history: &History| history.last().map(|event| event.contract.clone()).unwrap_or_default();
    if let Some(history) = known.iter().find(|history| exposed(history, catalog) == tool || contract(history) == tool) {
        let (key, exposed, contract) = (history.tool.clone(), exposed(history, catalog), contract(history));
        return Ok(Named { key, exposed, contract, contract_digest: None });
    }
    let names = catalog.entries().map(|(exposed, entry)| (exposed, entry.contract.contract().binding.tool.as_str()));
    let near: Vec<String> = near_names(tool, names, NEAR_MAX).iter().map(|name| format!("`{name}`")).collect();
    let hint = if near.is_empty() {
        "servanda tools lists them".to_owned()
    } else {
        format!("did you mean {}? servanda tools lists all", near.join(" or "))
    };
    Err(Failure::bad_input(format!("there is no tool `{tool}`")).hint(hint))
}

/// The tools as agents know them. One contract with a mistake must not keep anybody from holding another tool back.
async fn catalog(loaded: &Loaded) -> Result<Catalog, Failure> {
    let (admitted, _) = contracts::judge_all(loaded)?;
    remembered::catalog(loaded, admitted).await
}

/// The name of a tool, or the one it would have if it were offered.
fn exposed(history: &History, catalog: &Catalog) -> String {
    let tool = names::upstream_tool(&history.tool.upstream, &history.tool.tool);
    let table = catalog.names();
    table.name_of(&tool).map_or_else(|| table.policy().name(&tool).to_string(), ToString::to_string)
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
fn away(error: JournalError) -> Failure {
    Failure::failed(format!("the store of quarantines does not answer: {}", error.reason()))
        .hint("`servanda doctor` looks at the ledger")
}
