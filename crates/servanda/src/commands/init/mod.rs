//! `servanda init`: finds the servers that a client uses, asks each for its tools, and writes one file of contracts per server, with each
//! decision and its reason.

mod consent;
mod decisions_page;
mod report;
mod storing;
mod writing;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Serialize;
use servanda_catalog::{
    Inventory,
    inference::{InferredContract, infer},
    names,
};
use servanda_clients::{ClientFolders, KnownClient};
use servanda_config::{Config, LOCK_FILE, LoadedConfig, UpstreamConfig, expansion::expand_or_keep};
use servanda_contract::legibility::reveal;
use servanda_gates::{RegisteredContracts, admit};
use servanda_import::{self as import, ImportResult, ImportSource, ImportedSecrets, UnpackedBundle};

use self::{consent::InitConsentRequest, report::InitReport, writing::InitWriter};
use crate::{
    cli::InitArgs,
    configuration, contracts,
    failure::CommandFailure,
    screen::Screen,
    wiring::survey::{self, UpstreamSurvey},
};

/// The client's file that is read by default.
const CLIENT_FILE: &str = ".mcp.json";

/// The decision about one tool.
#[derive(Debug, Serialize)]
struct InitDecision {
    tool: String,
    file: Option<PathBuf>,
    side_effect_class: Option<&'static str>,
    certain: bool,
    why: String,
    notes: Vec<String>,
}

/// The result for one upstream.
#[derive(Debug, Serialize)]
struct InitUpstreamOutcome {
    upstream: String,
    error: Option<String>,
    tools: usize,
}

pub(crate) async fn run(config: &Path, args: &InitArgs, screen: Screen) -> Result<(), CommandFailure> {
    let from = args.from.clone().unwrap_or_else(|| PathBuf::from(CLIENT_FILE));
    if args.force {
        writing::require_replaceable(config)?;
        writing::require_replaceable(&config.with_file_name(LOCK_FILE))?;
    }
    let there = if config.exists() { Some(configuration::read(config)) } else { None };
    let default = Config::new(BTreeMap::new());
    let listen =
        there.as_ref().and_then(|there| there.as_ref().ok()).map_or(&default, |there| &there.config).listen.clone();
    // An existing configuration is read only if it is kept.
    let there = if args.force { None } else { there.transpose().map_err(unreadable)? };
    let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let source =
        ImportSource { file: &from, folder, listen: &listen, sha256: args.sha256.as_deref(), anew: args.force };
    if args.from.is_none() && there.is_none() && !from.exists() {
        return Err(no_client_file());
    }
    let mut imported = match &there {
        // A configuration that already has servers needs no client's file.
        Some(_) if args.from.is_none() && !from.exists() => ImportResult::default(),
        Some(_) => import::read(&source)?,
        None => import::read(&source)?.usable(&from)?,
    };
    let bypass = (imported.bypass && !imported.upstreams.is_empty()).then(|| from.clone());
    // If `init` ends before it writes anything, the unpacked bundle is removed again.
    let unpacked = imported.unpacked.take();
    let InitPlan { mut loaded, added } = plan(config, folder, there, &imported)?;
    let asked = InitConsentRequest { loaded: &loaded, added: added.as_deref(), from: &from, held: &imported.held };
    consent::agree(asked, args.yes, screen).await?;
    let asked = ask_all(&loaded, &imported.held, screen)
        .await
        .map_err(|failure| failure.hint(format!("nothing was written; correct `{}`", from.display())))?;
    let is_new = |id: &String| added.as_ref().is_none_or(|added| added.contains(id));
    if asked.iter().all(|(_, offered)| offered.is_err()) {
        imported.settle(config, &servers(&loaded, is_new), &BTreeSet::new());
        for note in &imported.notes {
            screen.say(format_args!("note: {note}"));
        }
        return Err(nobody_answered(&asked, added.is_some(), &from));
    }
    let mut writing = InitWriter::begin(&loaded, args.force)?;
    let offered = storing::offer(&mut loaded, &imported.held, &is_new, (args.store_secrets, args.yes), screen).await?;
    imported.settle(config, &servers(&loaded, is_new), &offered.stored);
    let mut notes = imported.notes;
    unpacked.into_iter().for_each(UnpackedBundle::keep);
    if added.as_ref().is_none_or(|added| !added.is_empty()) {
        writing.config(&loaded)?;
    }
    writing.contracts_folder(&loaded.contracts_folder())?;
    let (outcomes, decisions) = write_all(&loaded, asked, added.is_some(), &mut writing)?;
    writing.lock(&loaded, args.force)?;
    // Existing contracts stay, because a person may have edited them; those that would stop the gateway are named.
    let (_, problems) = contracts::judge_all(&loaded)?;
    notes.extend(
        problems
            .iter()
            .map(|problem| format!("left from before and not admitted: {}", problem.to_string().trim_start())),
    );
    let (loaded, notes, kept, pinned) = (&loaded, &notes, writing.kept, writing.pinned);
    let report = InitReport { loaded, bypass, added, kept, pinned, notes, outcomes: &outcomes, decisions: &decisions };
    report.show(screen)?;
    if let Some(hint) = offered.hint {
        screen.hint(hint);
    }
    Ok(())
}

/// The error if no server answered. Nothing is written that would be in the way of the next attempt.
fn nobody_answered(asked: &UpstreamSurvey, configured: bool, from: &Path) -> CommandFailure {
    let why: Vec<String> = asked
        .iter()
        .filter_map(|(id, offered)| offered.as_ref().err().map(|error| format!("  {id}: {error}")))
        .collect();
    let failure = CommandFailure::failed(format!(
        "no server could be asked for its tools, so nothing was written\n{}",
        why.join("\n")
    ));
    let from = from.display();
    if configured {
        failure.hint(format!(
            "servers that are configured already are started as `servanda.yaml` says: correct it there, or take them \
             from {from} anew with `servanda init --force`"
        ))
    } else {
        failure.hint(format!("correct {from}, then `servanda init` again"))
    }
}

/// The error if the default client's file does not exist; it names another client's file if there is one.
fn no_client_file() -> CommandFailure {
    let failure = CommandFailure::bad_input(format!("there is no `{CLIENT_FILE}`"));
    let around = ClientFolders::from_environment();
    let files = around.iter().flat_map(|around| KnownClient::all().iter().flat_map(|client| client.files(around)));
    let found = files.map(|(_, file)| file).find(|file| file.is_file());
    match around.as_ref().zip(found) {
        Some((around, file)) => failure.hint(format!("there is {0}: `servanda init --from {0}`", around.shown(&file))),
        None => failure
            .hint("name your client's file with `servanda init --from FILE`, or see it work with `servanda demo`"),
    }
}

fn unreadable(failure: CommandFailure) -> CommandFailure {
    if failure.to_string().ends_with("not a regular file") {
        return failure.hint("put a file in its place, or remove it and run `servanda init` again");
    }
    failure.hint("correct the file, or write it anew with `servanda init --force`, which keeps it as *.bak")
}

/// The new configuration, and the servers that were added to an existing one.
#[derive(Debug)]
struct InitPlan {
    loaded: LoadedConfig,
    added: Option<Vec<String>>,
}

/// The servers of a configuration that match.
fn servers(loaded: &LoadedConfig, is_meant: impl Fn(&String) -> bool) -> BTreeMap<String, UpstreamConfig> {
    let all = loaded.config.upstreams.iter();
    all.filter(|(id, _)| is_meant(id)).map(|(id, server)| (id.clone(), server.clone())).collect()
}

fn plan(
    config: &Path,
    folder: &Path,
    there: Option<LoadedConfig>,
    imported: &ImportResult,
) -> Result<InitPlan, CommandFailure> {
    let Some(mut loaded) = there else {
        let upstreams = imported.upstreams.clone();
        let loaded = LoadedConfig {
            config: Config::new(upstreams),
            folder: folder.to_owned(),
            file: config.to_owned(),
            had_policies: false,
        };
        return Ok(InitPlan { loaded, added: None });
    };
    let upstreams: BTreeMap<_, _> =
        imported.upstreams.clone().into_iter().filter(|(id, _)| !loaded.config.upstreams.contains_key(id)).collect();
    let added: Vec<_> = upstreams.keys().cloned().collect();
    loaded.config.upstreams.extend(upstreams);
    loaded.check()?;
    Ok(InitPlan { loaded, added: Some(added) })
}

/// Writes a contract for every tool, or only for tools without one if existing contracts stay.
fn write_all(
    loaded: &LoadedConfig,
    asked: UpstreamSurvey,
    keep: bool,
    writing: &mut InitWriter,
) -> Result<(Vec<InitUpstreamOutcome>, Vec<InitDecision>), CommandFailure> {
    let bound = if keep { contracts::bindings(loaded)? } else { BTreeSet::new() };
    let mut decisions = Vec::new();
    let mut outcomes = Vec::new();
    for (upstream, offered) in asked {
        let (error, tools) = match offered {
            Ok(mut inventory) => {
                let before = decisions.len();
                let (there, missing): (Vec<_>, Vec<_>) = std::mem::take(&mut inventory.definitions)
                    .into_iter()
                    .partition(|tool| bound.contains(&(upstream.clone(), tool.name.clone())));
                for definition in &there {
                    writing.pin_once(&upstream, definition);
                }
                inventory.definitions = missing;
                writing.pin_lists(&upstream, &inventory.listed);
                write_contracts(loaded, &upstream, &inventory, keep, writing, &mut decisions)?;
                (None, decisions.len() - before)
            }
            Err(error) => (Some(error.to_string()), 0),
        };
        outcomes.push(InitUpstreamOutcome { upstream, error, tools });
    }
    Ok((outcomes, decisions))
}

/// Asks the servers for their tools, using secrets that were found but are not written. A variable that is not set is left unexpanded, as
/// the client would; serving is stricter.
async fn ask_all(
    loaded: &LoadedConfig,
    held: &ImportedSecrets,
    screen: Screen,
) -> Result<UpstreamSurvey, CommandFailure> {
    let fill = |text: &str| Ok(expand_or_keep(text, |name| held.variable(name)));
    let configured = loaded.config.upstreams.iter();
    let upstreams = configured
        .map(|(id, config)| {
            let spec = loaded.upstream_filled(id, config, &fill)?;
            let notebook = crate::wiring::notebook_for_command(loaded)?;
            Ok((id.clone(), crate::credentials::upstream(loaded, config, spec, notebook)?))
        })
        .collect::<Result<BTreeMap<_, _>, CommandFailure>>()?;
    Ok(survey::ask_upstreams(upstreams, screen).await)
}

fn write_contracts(
    loaded: &LoadedConfig,
    upstream: &str,
    inventory: &Inventory,
    keep: bool,
    writing: &mut InitWriter,
    decisions: &mut Vec<InitDecision>,
) -> Result<(), CommandFailure> {
    for rejected in &inventory.rejected {
        let tool = rejected.name.as_deref().map(|name| loaded.config.tool_name(upstream, name));
        let tool = tool.unwrap_or_else(|| format!("{upstream} (definition {})", rejected.position));
        decisions.push(left_out(tool, reveal(&rejected.reason).into_owned()));
    }
    let file = loaded.contracts_folder().join(format!("{}.yaml", file_stem(upstream)));
    let mut entries = BTreeMap::new();
    for definition in &inventory.definitions {
        let tool = loaded.config.tool_name(upstream, &definition.name);
        if names::is_reserved(&tool) {
            decisions.push(left_out(tool, "names like this are reserved for the gateway".to_owned()));
            continue;
        }
        let inferred = infer(upstream, definition).map_err(|error| error.to_string());
        let admitted =
            inferred.and_then(|inferred| match admit(inferred.contract.clone(), &RegisteredContracts::new()) {
                Ok(_) => Ok(inferred),
                Err(rejection) => Err(rejection.to_string()),
            });
        let InferredContract { entry, reading, notes, .. } = match admitted {
            Ok(inferred) => inferred,
            Err(reason) => {
                decisions.push(left_out(tool, reason));
                continue;
            }
        };
        writing.pin(upstream, definition);
        decisions.push(InitDecision {
            tool,
            file: Some(file.clone()),
            side_effect_class: Some(entry.class().word()),
            certain: reading.certain,
            why: reading.why,
            notes: reading.disagreements.iter().map(|one| format!("review: {one}")).chain(notes).collect(),
        });
        entries.insert(definition.name.clone(), entry);
    }
    if !keep {
        writing.retire(&loaded.contracts_folder().join(upstream), upstream)?;
    }
    writing.server_contracts(&file, upstream, entries, keep)
}

fn left_out(tool: String, why: String) -> InitDecision {
    InitDecision { tool, file: None, side_effect_class: None, certain: false, why, notes: Vec::new() }
}

/// The file name for a server: its id if that is a valid name; it never leads out of the folder.
fn file_stem(tool: &str) -> String {
    let plain = !tool.is_empty()
        && tool.len() <= 100
        && !tool.starts_with('.')
        && tool.chars().all(|character| character.is_ascii_alphanumeric() || "_-.".contains(character));
    if plain { tool.to_owned() } else { servanda_catalog::names::ExposedNaming::Bare.expose("", tool) }
}
