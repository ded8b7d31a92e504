//! `servanda check`: reads the configuration and contracts, starts nothing, lists every problem.

mod budgets;

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use serde_json::json;
use servanda_catalog::pins::LockFile;
use servanda_config::{LoadedConfig, UpstreamConfig};
use servanda_contract::{
    ToolContract,
    tool::{Mutability, SideEffectClass},
};
use servanda_engine::Authorities;
use servanda_gates::CompiledContract;
use servanda_identity::classifier::Objection;
use servanda_import::ImportedSecrets;

use crate::{
    cli::CheckArgs,
    commands::{
        objections,
        server_page::{self, ShownValues},
    },
    configuration,
    contracts::{self, lock},
    credentials,
    failure::CommandFailure,
    policies,
    screen::{Screen, count, plural},
    wiring::preflight::Preflight,
};

/// How many items of one kind are named.
const SHOWN_MAX: usize = 5;

pub(crate) async fn run(config: &Path, args: &CheckArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    if args.commands {
        return show_commands(&loaded, screen);
    }
    let address = loaded.listen()?;
    let (admitted, problems) = contracts::judge_all(&loaded)?;
    let names: Vec<String> = admitted.iter().map(|contract| contract.contract().identity.name.clone()).collect();
    let lock = lock::read(&loaded.lock_file())?;
    let flagged = flagged(&admitted, lock.as_ref());
    let said = contract_notes(&admitted, lock.as_ref(), &loaded);
    if !problems.is_empty() {
        if screen.json {
            let notes: Vec<&String> = said.general.iter().chain(&said.unconfirmed).collect();
            screen.json(&json!({ "admitted": names, "problems": problems, "notes": notes, "flagged": flagged }))?;
        }
        return Err(contracts::load(&loaded)
            .err()
            .unwrap_or_else(|| CommandFailure::bad_input("the contracts changed meanwhile")));
    }
    let preflight = Preflight::read(&loaded, admitted, lock::pins(&loaded)?, Some(address))?;
    preflight.read_ledger(&loaded).await?;
    let warning = policies::warning(&loaded, &preflight.authorities);
    let notes = CheckNotes { warning, from_contracts: said, lacking: lacking(&loaded) };
    if screen.json {
        let notes: Vec<String> = notes.all().collect();
        return screen.json(&json!({ "admitted": names, "problems": problems, "notes": notes, "flagged": flagged }));
    }
    let contracts = count(names.len(), "contract");
    let upstreams = count(loaded.config.upstreams.len(), "upstream");
    let rules = rules(&preflight.authorities);
    screen.page(format_args!("{} is good: {contracts} for {upstreams}{rules}", loaded.file.display()))?;
    notes.tell(screen);
    tell_flagged(&flagged, screen);
    if notes.from_contracts.unconfirmed.is_some() {
        screen.hint(
            "`servanda review TOOL --hold-back` makes each call of a tool wait for a person's approval, until `--release`",
        );
    }
    Ok(())
}

/// Notes about a valid configuration: the same for people and for programs.
struct CheckNotes {
    /// What the policies lack, as a sentence.
    warning: Option<String>,
    from_contracts: ContractNotes,
    lacking: Vec<String>,
}

/// Notes that follow from the contracts.
struct ContractNotes {
    general: Vec<String>,
    unconfirmed: Option<String>,
}

impl CheckNotes {
    fn all(&self) -> impl Iterator<Item = String> {
        let Self { warning, from_contracts: said, lacking } = self;
        warning.iter().chain(&said.general).chain(lacking).chain(&said.unconfirmed).cloned()
    }

    fn tell(&self, screen: Screen) {
        if let Some(warning) = &self.warning {
            screen.say(warning);
        }
        for note in self.all().skip(usize::from(self.warning.is_some())) {
            screen.say(format_args!("note: {note}"));
        }
    }
}

fn contract_notes(admitted: &[CompiledContract], lock: Option<&LockFile>, loaded: &LoadedConfig) -> ContractNotes {
    let general = [
        not_enforced(admitted),
        shell_readers(admitted),
        cut_timeouts(admitted),
        needing_approval(admitted),
        unpinned(admitted, lock, loaded),
    ];
    let grave: Vec<String> = admitted.iter().filter_map(unconfirmed).collect();
    let unconfirmed = (!grave.is_empty()).then(|| {
        let run = match grave.len() {
            1 => "one grave tool runs".to_owned(),
            grave => format!("{grave} grave tools run"),
        };
        format!("{run} without a person's approval: {}", short_list(&grave))
    });
    let of_budgets = budgets::notes(admitted, &loaded.config.allowances());
    ContractNotes { general: general.into_iter().flatten().chain(of_budgets).collect(), unconfirmed }
}

/// Tools whose calls wait for a person's approval.
fn needing_approval(admitted: &[CompiledContract]) -> Option<String> {
    let names: Vec<String> = admitted
        .iter()
        .filter(|contract| contract.usually_needs_approval())
        .map(|contract| contract.contract().identity.name.clone())
        .collect();
    (!names.is_empty()).then(|| format!("a person approves each call of {}", short_list(&names)))
}

/// Shows what the configuration would start and which addresses it would use; starts nothing.
fn show_commands(loaded: &LoadedConfig, screen: Screen) -> Result<(), CommandFailure> {
    let of = |config: &UpstreamConfig| server_page::lines(config, &ImportedSecrets::default(), ShownValues::All);
    if screen.json {
        let all: BTreeMap<_, _> = loaded.config.upstreams.iter().map(|(id, config)| (id, of(config))).collect();
        return screen.json(&json!({ "upstreams": all }));
    }
    for (id, config) in &loaded.config.upstreams {
        let what = if config.command.is_some() { "starts" } else { "asks" };
        screen.page(format_args!("{id} {what} {}", of(config).join("\n    ")))?;
    }
    Ok(())
}

/// The number of policies, if there are any.
fn rules(authorities: &Authorities) -> String {
    let counted = |written: usize| plural(written, "policy", "policies");
    let in_force = Some(authorities.policies().written_count()).filter(|written| *written > 0);
    let tried_out = authorities.shadow().map(|shadow| shadow.policies().written_count());
    let in_force = in_force.map(|written| format!(", {}", counted(written)));
    let tried_out = tried_out.map(|written| format!(", {} in shadow", counted(written)));
    [in_force, tried_out].into_iter().flatten().collect()
}

/// A contract that claims less than the tool's definition, or its author, says about the tool.
#[derive(Debug, Serialize)]
struct FlaggedContract {
    contract: String,
    objections: Vec<Objection>,
}

fn flagged(admitted: &[CompiledContract], lock: Option<&LockFile>) -> Vec<FlaggedContract> {
    let of = |contract: &CompiledContract| {
        let contract = contract.contract();
        let objections = objections::review_offline(contract, lock).open_objections().to_vec();
        (!objections.is_empty()).then(|| FlaggedContract { contract: contract.identity.name.clone(), objections })
    };
    admitted.iter().filter_map(of).collect()
}

fn tell_flagged(flagged: &[FlaggedContract], screen: Screen) {
    for FlaggedContract { contract, objections } in flagged.iter().take(SHOWN_MAX) {
        screen.say(format_args!("review: {contract}: {}", objections::sentences(objections)));
    }
    if let Some(more) = flagged.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        screen.say(format_args!("review: {more} more; `servanda check --json` lists them all"));
    }
    if !flagged.is_empty() {
        screen.hint(objections::NEXT_STEP);
    }
}

/// The name of a tool that acts externally or irreversibly, and whose calls need no approval.
fn unconfirmed(compiled: &CompiledContract) -> Option<String> {
    let contract = compiled.contract();
    let grave = contract.transactional.side_effect_class >= SideEffectClass::HighRiskExternal;
    (grave && !compiled.usually_needs_approval()).then(|| contract.identity.name.clone())
}

/// Whether a contract uses a certain field.
type ContractPredicate = fn(&ToolContract) -> bool;

/// Fields that this version only records and does not enforce. They are named, because silence would look like a promise.
fn not_enforced(admitted: &[CompiledContract]) -> Option<String> {
    let fields: [(&str, ContractPredicate); 2] = [
        ("sandbox_isolated", |contract| contract.runtime.sandbox_isolated),
        ("tenant_scoped", |contract| contract.security.tenant_scoped),
    ];
    let said = fields.iter().filter_map(|(field, says)| {
        let contracts = admitted.iter().filter(|contract| says(contract.contract())).count();
        (contracts > 0).then(|| format!("{field} ({})", count(contracts, "contract")))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("not enforced by this version: {}", said.join(", ")))
}

/// Warns about tools that run shell text although their contract says that they only read: the gateway judges the text, but cannot see what
/// the shell makes of it.
fn shell_readers(admitted: &[CompiledContract]) -> Option<String> {
    let is_reader = |contract: &&CompiledContract| {
        contract.contract().mutability() == Mutability::Pure
            && contract.program_arguments().any(|argument| argument.kind == "shell")
    };
    let names: Vec<String> =
        admitted.iter().filter(is_reader).map(|contract| contract.contract().identity.name.clone()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "PURE and takes text for a shell: only texts that provably read are let through, but only a sandbox enforces that \
             they do: {}",
            short_list(&names)
        )
    })
}

/// Timeouts that are effectively shorter than the contract says.
fn cut_timeouts(admitted: &[CompiledContract]) -> Option<String> {
    let cut = |contract: &CompiledContract| {
        let contract = contract.contract();
        let class = contract.execution.as_ref()?.timeout_class;
        let (asked, given) = (contract.runtime.timeout_ms, class.timeout_ms_max());
        let (name, class) = (&contract.identity.name, class.word());
        (asked > given).then(|| format!("`timeout_ms` {asked} is cut to the {given} of class `{class}` ({name})"))
    };
    let cut: Vec<String> = admitted.iter().filter_map(cut).collect();
    (!cut.is_empty()).then(|| short_list(&cut))
}

/// Tools whose definitions are not pinned, and whether they are offered or held back. They are named, because silence would look like
/// agreement.
fn unpinned(admitted: &[CompiledContract], lock: Option<&LockFile>, loaded: &LoadedConfig) -> Option<String> {
    if admitted.is_empty() || loaded.config.pins.missing.is_some() {
        return None;
    }
    let Some(lock) = lock else {
        return Some("nothing is pinned, so a tool that changes goes unnoticed; `servanda pin --all` agrees to what is offered now".to_owned());
    };
    let pinned = |contract: &CompiledContract| {
        let binding = &contract.contract().binding;
        lock.pin(&binding.upstream, &binding.tool).is_some()
    };
    let waiting = admitted.iter().filter(|contract| !pinned(contract));
    let waiting: Vec<String> = waiting.map(|contract| contract.contract().identity.name.clone()).collect();
    let shown = short_list(&waiting);
    (!waiting.is_empty()).then(|| format!("held back until `servanda pin`, because it is not pinned: {shown}"))
}

/// Secrets that are missing: the tools of upstreams that need them cannot be called until they are set, and nobody can sign in with the
/// console's.
fn lacking(loaded: &LoadedConfig) -> Vec<String> {
    let needed = credentials::needed(loaded).into_iter();
    needed
        .filter_map(|needed| {
            let lack = needed.lack?;
            let hint = lack.hint();
            Some(match needed.upstream {
                Some(upstream) => format!("`{upstream}` cannot be called: {lack}; `{hint}`"),
                None => format!("nobody can sign in through the identity provider: {lack}; `{hint}`"),
            })
        })
        .collect()
}

fn short_list(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN_MAX) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
