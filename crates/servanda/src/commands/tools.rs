//! `servanda tools`: lists the tools that agents are offered, how grave each is, and whether its upstream offers it now.

mod latency;

use std::path::Path;

use serde::Serialize;
use servanda_catalog::{Catalog, CatalogEntry, ToolHold, ToolStanding};
use servanda_config::LoadedConfig;
use servanda_contract::{legibility::reveal, tool::SideEffectClass};
use servanda_mcp::ClientCapabilities;

use crate::{
    cli::ToolsArgs,
    commands::{
        next_step::{self, ToolTrouble},
        objections,
    },
    configuration, contracts,
    failure::CommandFailure,
    screen::{Screen, TextStyle, lines, paint, table},
    wiring::{self, remembered_names, survey},
};

/// The state of a tool whose calls wait for a person's approval.
const NEEDS_APPROVAL: &str = "needs approval";
const CANNOT_BE_USED: &str = "held: it cannot be used";

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
    /// Whether a person usually has to approve each call.
    needs_approval: bool,
    state: String,
    /// Why it is held back, or what is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

pub(crate) async fn run(config: &Path, args: &ToolsArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    if args.latency {
        return latency::run(&loaded, screen).await;
    }
    let catalog = remembered_names::catalog(&loaded, contracts::load(&loaded)?).await?;
    if !args.offline {
        ask(&loaded, &catalog, screen).await?;
    }
    if let Err(failure) = wiring::hold_quarantined(&loaded, &catalog).await {
        screen.say(format_args!("note: which tools are quarantined is not known: {failure}"));
    }
    let rows: Vec<Row> = catalog.entries().map(|(name, entry)| row(name, entry, &catalog)).collect();
    if screen.json {
        return screen.json(&rows);
    }
    if rows.is_empty() {
        screen.say("there are no contracts yet");
        screen.hint("`servanda init` makes one for every tool of the servers in .mcp.json");
        return Ok(());
    }
    let mut shown = table(&["tool", "side effects", "timeout", "state"]);
    for row in &rows {
        shown.add_row([
            row.name.clone(),
            paint(row.side_effect_class, style(row.side_effect_class)),
            timeout(row.timeout_ms),
            if row.needs_approval && !row.state.starts_with("held") {
                paint(NEEDS_APPROVAL, TextStyle::Careful)
            } else {
                row.state.clone()
            },
        ]);
    }
    screen.data(lines(&shown))?;
    // Unusable definitions were reported with their upstream.
    for row in rows.iter().filter(|row| row.state != CANNOT_BE_USED) {
        for note in &row.notes {
            screen.say(format_args!("note: {}: {note}", row.name));
        }
    }
    let troubles = catalog.entries().filter_map(|(name, entry)| Some((trouble(name, entry, &catalog)?, name)));
    if let Some(hint) = next_step::hint(troubles, false) {
        screen.hint(hint);
    }
    Ok(())
}

fn trouble(name: &str, entry: &CatalogEntry, catalog: &Catalog) -> Option<ToolTrouble> {
    match &*catalog.standing(name, &ClientCapabilities::none()) {
        ToolStanding::Held(ToolHold::Quarantined { .. } | ToolHold::Unpinned) => Some(ToolTrouble::NotAgreed),
        ToolStanding::Held(ToolHold::Observed { .. } | ToolHold::Blocked { .. }) => Some(ToolTrouble::Quarantined),
        ToolStanding::Held(ToolHold::Rejected { .. }) => Some(ToolTrouble::Rejected),
        ToolStanding::Held(ToolHold::Incompatible { .. }) => Some(ToolTrouble::Misfit),
        ToolStanding::Withdrawn => Some(ToolTrouble::Withdrawn),
        ToolStanding::Offered { objections, .. } if !objections.is_empty() => Some(ToolTrouble::Doubted),
        ToolStanding::Unasked | ToolStanding::Offered { .. } => {
            let silence = catalog.unreachable_reason(&entry.contract.contract().binding.upstream);
            silence.map(|_| ToolTrouble::Unreachable)
        }
    }
}

/// Asks every upstream at once; reports which could not be asked, and which definitions cannot be used.
async fn ask(loaded: &LoadedConfig, catalog: &Catalog, screen: Screen) -> Result<(), CommandFailure> {
    for (id, offered) in survey::ask(loaded, None, screen).await? {
        match offered {
            Ok(inventory) => {
                for rejected in &inventory.rejected {
                    let name = rejected.name.as_deref().map(|name| format!("`{}`", reveal(name)));
                    let name = name.unwrap_or_else(|| format!("definition {}", rejected.position));
                    screen.say(format_args!("upstream `{id}`: {name} cannot be used: {}", reveal(&rejected.reason)));
                }
                catalog.observe(&id, &ClientCapabilities::none(), &inventory);
            }
            Err(error) => {
                screen.say(format_args!("upstream `{id}`: {error}"));
                catalog.mark_unreachable(&id, &error.to_string());
            }
        }
    }
    Ok(())
}

fn row(name: &str, entry: &CatalogEntry, catalog: &Catalog) -> Row {
    let contract = entry.contract.contract();
    let standing = catalog.standing(name, &ClientCapabilities::none());
    let (state, notes) = match &*standing {
        ToolStanding::Unasked if catalog.unreachable_reason(&contract.binding.upstream).is_some() => {
            ("upstream down", Vec::new())
        }
        ToolStanding::Unasked => ("not asked", Vec::new()),
        ToolStanding::Withdrawn => ("withdrawn by its upstream", Vec::new()),
        ToolStanding::Offered { gaps, drift, objections } => {
            let gaps = gaps.iter().map(|gap| format!("{gap}"));
            let drift = drift.iter().map(|grown| format!("`{}`: {}", grown.pointer, grown.what));
            let objections = objections.iter().map(objections::sentence);
            ("offered", gaps.chain(drift).chain(objections).collect())
        }
        ToolStanding::Held(hold) => held(hold),
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
        needs_approval: entry.contract.usually_needs_approval(),
        state: state.to_owned(),
        notes,
    }
}

fn held(hold: &ToolHold) -> (&'static str, Vec<String>) {
    match hold {
        ToolHold::Quarantined { differences, .. } => {
            let told = differences.iter().map(|difference| format!("`{}`: {}", difference.pointer, difference.what));
            ("held: it changed", told.collect())
        }
        ToolHold::Observed { call_id, probes } => {
            let seen = format!("it says that it only reads, and changed {} in {call_id}", probes.join(", "));
            ("held: it changed something", vec![seen])
        }
        ToolHold::Blocked { by, reason } => ("held: by an operator", vec![format!("{by}: {}", reveal(reason))]),
        ToolHold::Unpinned => ("held: not pinned", Vec::new()),
        ToolHold::Rejected { reason } => (CANNOT_BE_USED, vec![reveal(reason).into_owned()]),
        ToolHold::Incompatible { reasons } => {
            ("held: it does not fit its contract", reasons.iter().map(ToString::to_string).collect())
        }
    }
}

pub(crate) fn style(side_effect_class: &str) -> TextStyle {
    if side_effect_class == SideEffectClass::ReadOnly.word() {
        TextStyle::Good
    } else if [SideEffectClass::HighRiskExternal.word(), SideEffectClass::CriticalMutation.word()]
        .contains(&side_effect_class)
    {
        TextStyle::Bad
    } else {
        TextStyle::Careful
    }
}

fn timeout(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", ms / 60_000),
    }
}
