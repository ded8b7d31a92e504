//! Reads the contracts' folder: every file, every contract judged, every problem listed. One bad contract stops the start, because
//! otherwise a tool would silently be missing, and an agent would be the first to notice.

pub(crate) mod editing;
pub(crate) mod lock;
pub(crate) mod reading;
mod server_files;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use servanda_catalog::pins::LockFile;
use servanda_config::LoadedConfig;
use servanda_contract::{
    ToolContract,
    admission::already_registered,
    pool::SectionPool,
    time::Clock as _,
    tool::{EffectClass, KeyPlacement},
};
use servanda_effects::budget::BudgetDimension;
use servanda_engine::SystemClock;
use servanda_gates::{CompiledContract, CompiledProbe, ProbeSubject, RegisteredContracts, admit};

use self::reading::{ContractFolder, LocatedContract, UnreadableContract, read_each};
pub(crate) use self::server_files::{ServerFiles, files_of_server, readable};
use crate::failure::CommandFailure;

/// The problems of one file.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct ContractProblem {
    /// The file.
    pub file: String,
    /// The reasons.
    pub reasons: Vec<String>,
}

/// Reads and judges every contract of a configuration.
pub(crate) fn judge_all(
    loaded: &LoadedConfig,
) -> Result<(Vec<CompiledContract>, Vec<ContractProblem>), CommandFailure> {
    let lock = lock::read(&loaded.lock_file())?;
    judge_with(loaded, lock.as_ref())
}

/// A contract that was judged alone, and where it is written.
struct JudgedContract {
    file: String,
    /// The tool, if the file has several.
    within: Option<String>,
    /// Its name and version.
    version: (String, String),
    verdict: Result<CompiledContract, Vec<String>>,
}

fn judge_with(
    loaded: &LoadedConfig,
    lock: Option<&LockFile>,
) -> Result<(Vec<CompiledContract>, Vec<ContractProblem>), CommandFailure> {
    let pool = Mutex::new(SectionPool::default());
    let (judged, unread) = read_each(loaded, lock, |mut written| {
        pool.lock().unwrap_or_else(PoisonError::into_inner).unify(&mut written.contract);
        JudgedContract::new(written, loaded)
    })?;
    let mut problems = Vec::new();
    for UnreadableContract { place, reason, .. } in unread {
        problems.push(ContractProblem { file: place.file.display().to_string(), reasons: vec![reason] });
    }
    let (mut admitted, mut read) = (Vec::with_capacity(judged.len()), Vec::new());
    let mut registered = RegisteredContracts::new();
    for mut one in judged {
        one.register(&mut registered);
        let JudgedContract { file, within, verdict, .. } = one;
        match verdict {
            Ok(contract) => {
                admitted.push(contract);
                read.push(file);
            }
            Err(reasons) => {
                let within =
                    |reason: String| within.as_ref().map_or(reason.clone(), |tool| format!("`tools.{tool}`: {reason}"));
                problems.push(ContractProblem { file, reasons: reasons.into_iter().map(within).collect() });
            }
        }
    }
    problems.extend(unanswerable(&admitted, &read));
    // A contract that was not admitted is already reported.
    if problems.is_empty() {
        problems.extend(unfit_budgets(loaded, &admitted));
    }
    Ok((admitted, problems))
}

/// Contracts that depend on tools that do not exist, or that cannot be called in that way. `files` are the contracts' files, in the same
/// order.
fn unanswerable(admitted: &[CompiledContract], files: &[String]) -> Vec<ContractProblem> {
    let mut by_name: ContractsByName<'_> = HashMap::new();
    for contract in admitted {
        by_name.entry(&contract.contract().identity.name).or_default().push(contract);
    }
    let mut problems = Vec::new();
    for (contract, file) in admitted.iter().zip(files) {
        for (member, tool) in asked_tools(contract.contract()) {
            let mut named = by_name.get(tool.as_str()).into_iter().flatten().map(|other| other.contract());
            // A tool with preconditions of its own cannot be asked.
            if !named.any(|other| !other.effect_class().mutates() && other.preconditions.is_empty()) {
                let reason =
                    format!("`{member}`: there is no contract `{tool}` that changes nothing and has no preconditions");
                problems.push(ContractProblem { file: file.clone(), reasons: vec![reason] });
            }
        }
    }
    for (contract, file) in admitted.iter().zip(files) {
        let reasons: Vec<String> =
            unpollable(contract.contract(), &by_name).into_iter().chain(probe_faults(contract, &by_name)).collect();
        if !reasons.is_empty() {
            problems.push(ContractProblem { file: file.clone(), reasons });
        }
    }
    problems
}

/// Contracts by name, in the order in which they were admitted.
type ContractsByName<'a> = HashMap<&'a str, Vec<&'a CompiledContract>>;

/// Budgets for tools that do not exist, which would limit nothing, and budgets in a currency that no call uses, which would refuse
/// everything.
fn unfit_budgets(loaded: &LoadedConfig, admitted: &[CompiledContract]) -> Option<ContractProblem> {
    let allowances = loaded.config.allowances();
    let contracts = || admitted.iter().map(CompiledContract::contract);
    let is_known = |tool: &str| contracts().any(|contract| contract.identity.name == tool);
    let mut reasons = Vec::new();
    for (number, allowance) in allowances.iter().enumerate() {
        if let Some(tool) = allowance.only.tool.as_deref().filter(|tool| !is_known(tool)) {
            let meant = tool.replacen("__", ".", 1);
            let meant = if is_known(&meant) { format!("; did you mean `{meant}`?") } else { String::new() };
            reasons.push(format!("`budgets[{number}].tool`: there is no contract `{tool}`{meant}"));
        }
    }
    let priced = admitted.iter().filter_map(|contract| Some((contract, contract.price().ok()?)));
    for (contract, price) in priced.filter(|(_, price)| !price.is_free()) {
        let name = &contract.contract().identity.name;
        let about = allowances.iter().enumerate().filter(|(_, one)| {
            one.dimension == BudgetDimension::Financial && one.only.tool.as_ref().is_none_or(|tool| tool == name)
        });
        let about: Vec<_> = about.collect();
        if let Some((number, _)) = about.first()
            && !about.iter().any(|(_, one)| one.currency.as_deref() == Some(&*price.currency))
        {
            let currency = &price.currency;
            reasons.push(format!(
                "`budgets[{number}].currency`: calls of `{name}` cost {currency}, and no budget is in {currency}: they would all be refused"
            ));
        }
    }
    (!reasons.is_empty()).then(|| ContractProblem { file: loaded.file.display().to_string(), reasons })
}

/// Why the tools that a contract's probes name cannot be called as written.
fn probe_faults(contract: &CompiledContract, by_name: &ContractsByName<'_>) -> Vec<String> {
    let fault = |probe: &CompiledProbe| {
        let ProbeSubject::Tool(inquiry) = &probe.subject else { return None };
        let tool = *by_name.get(inquiry.tool.as_str())?.first()?;
        inquiry.fault(tool).map(|fault| format!("probe `{}`: {fault}", probe.name))
    };
    contract.probes().iter().filter_map(fault).collect()
}

/// Why the tool that a plan names cannot report the status of an operation, if it cannot.
fn unpollable(contract: &ToolContract, by_name: &ContractsByName<'_>) -> Option<String> {
    let plan = contract.execution.as_ref()?.poll.as_ref()?;
    let tool = *by_name.get(plan.tool.as_str())?.first()?;
    let (ours, theirs) = (&contract.binding.upstream, &tool.contract().binding.upstream);
    if ours != theirs {
        return Some(format!("`execution.poll.tool`: `{}` is a tool of `{theirs}`, and not of `{ours}`", plan.tool));
    }
    (!tool.input().declares(&plan.operation_argument)).then(|| {
        format!("`execution.poll.operation_argument`: `{}` has no argument `{}`", plan.tool, plan.operation_argument)
    })
}

/// The tools that the gateway calls on behalf of this contract's calls, and the field that says so.
pub(crate) fn asked_tools(contract: &ToolContract) -> impl Iterator<Item = (String, String)> {
    let effect = contract.effect.as_ref();
    let status = effect.filter(|effect| effect.class == EffectClass::Q).and_then(|effect| effect.status.as_ref());
    let status = status.map(|status| ("effect.status.tool".to_owned(), status.tool.clone()));
    let version = effect.and_then(|effect| effect.version.as_ref());
    let version = version.map(|version| ("effect.version.tool".to_owned(), version.tool.clone()));
    let preconditions = contract.preconditions.iter().enumerate();
    let preconditions = preconditions.map(|(number, it)| (format!("preconditions[{number}].tool"), it.tool.clone()));
    let poll = contract.execution.as_ref().and_then(|execution| execution.poll.as_ref());
    let poll = poll.map(|plan| ("execution.poll.tool".to_owned(), plan.tool.clone()));
    let probes = contract.probes.iter().flat_map(|probes| probes.list.iter().enumerate());
    let probes = probes.filter_map(|(number, it)| Some((format!("probes.list[{number}].tool"), it.tool.clone()?)));
    let asked: Vec<_> = status.into_iter().chain(version).chain(poll).chain(preconditions).chain(probes).collect();
    asked.into_iter()
}

/// Which tools have a contract, by upstream and own name; contracts that are not admitted count too.
pub(crate) fn bindings(loaded: &LoadedConfig) -> Result<BTreeSet<(String, String)>, CommandFailure> {
    let ContractFolder { written, unread } = ContractFolder::read(loaded)?;
    let bound = |written: LocatedContract| (written.contract.binding.upstream, written.contract.binding.tool);
    Ok(written.into_iter().map(bound).chain(unread.into_iter().filter_map(|unread| unread.binding)).collect())
}

/// Every contract of a configuration, or a failure that lists all problems.
pub(crate) fn load(loaded: &LoadedConfig) -> Result<Vec<CompiledContract>, CommandFailure> {
    admitted(judge_all(loaded)?)
}

/// The same with the pins that a running gateway holds, even if the lock file changed.
pub(crate) fn load_with(
    loaded: &LoadedConfig,
    lock: Option<&LockFile>,
) -> Result<Vec<CompiledContract>, CommandFailure> {
    admitted(judge_with(loaded, lock)?)
}

fn admitted(
    (admitted, problems): (Vec<CompiledContract>, Vec<ContractProblem>),
) -> Result<Vec<CompiledContract>, CommandFailure> {
    if problems.is_empty() {
        return Ok(admitted);
    }
    let lines: Vec<String> = problems.iter().map(ContractProblem::to_string).collect();
    let count = match problems.len() {
        1 => "a contract is not admitted".to_owned(),
        count => format!("{count} contracts are not admitted"),
    };
    Err(CommandFailure::bad_input(format!("{count}\n{}", lines.join("\n")))
        .hint("nothing was started; correct the files and run `servanda check`"))
}

impl std::fmt::Display for ContractProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, reason) in self.reasons.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            // The reader's reason already names the file and the line.
            if reason.starts_with(&self.file) {
                write!(formatter, "{separator}  {reason}")?;
            } else {
                write!(formatter, "{separator}  {}: {reason}", self.file)?;
            }
        }
        Ok(())
    }
}

impl JudgedContract {
    fn new(written: LocatedContract, loaded: &LoadedConfig) -> Self {
        let (file, within) = (written.place.file.display().to_string(), written.place.tool.clone());
        let identity = &written.contract.identity;
        let version = (identity.name.clone(), identity.version.clone());
        Self { file, within, version, verdict: judge(written, loaded) }
    }

    /// Registers an admitted contract. A name and a version belong to one contract, whichever file has it.
    fn register(&mut self, registered: &mut RegisteredContracts) {
        let (name, version) = &self.version;
        // A refused contract differs from every admitted one: with the same content it would have been admitted too.
        let digest = self.verdict.as_ref().ok().map(CompiledContract::digest);
        if registered.get(&self.version).is_some_and(|other| digest != Some(*other)) {
            let failure = already_registered(name, version);
            let reason = format!("{}: {}", failure.conjunct, failure.reason);
            let verdict = std::mem::replace(&mut self.verdict, Err(Vec::new()));
            self.verdict = Err(verdict.err().unwrap_or_default().into_iter().chain([reason]).collect());
        } else if let Some(digest) = digest {
            registered.insert(self.version.clone(), digest);
        }
    }
}

/// Judges a contract alone.
fn judge(written: LocatedContract, loaded: &LoadedConfig) -> Result<CompiledContract, Vec<String>> {
    let time_limit = written.field(written.contract.timeout_field(), &loaded.file);
    let contract = written.contract;
    let upstream = contract.binding.upstream.clone();
    let mut reasons = Vec::new();
    if !loaded.config.upstreams.contains_key(&upstream) {
        let config = loaded.file.display();
        reasons.push(format!("`binding.upstream`: `{upstream}` is not an upstream of `{config}`"));
    }
    let by_command = loaded.config.upstreams.get(&upstream).is_some_and(|upstream| upstream.command.is_some());
    if by_command
        && matches!(contract.effect.as_ref().and_then(|effect| effect.key.as_ref()), Some(KeyPlacement::Header(_)))
    {
        let reason = "is a header, but the upstream is started by a command and takes none: use `meta` or `argument`";
        reasons.push(format!("`effect.key`: {reason}"));
    }
    reasons.extend(unserved_reasons(&contract));
    match admit(contract, &RegisteredContracts::new()) {
        Ok(admitted) if reasons.is_empty() => {
            let settings = loaded.config.approval_settings(None);
            Ok(admitted.with_time_limit_place(time_limit).with_approval_settings(&settings))
        }
        Ok(_) => Err(reasons),
        Err(rejection) => {
            reasons
                .extend(rejection.failures.iter().map(|failure| format!("{}: {}", failure.conjunct, failure.reason)));
            Err(reasons)
        }
    }
}

/// Requirements that this version cannot meet. Serving the tool without them would be worse than not serving it.
fn unserved_reasons(contract: &ToolContract) -> Vec<String> {
    let mut reasons = Vec::new();
    // A timestamp begins with its date, and dates compare as text.
    if let Some(date) = &contract.identity.lifecycle.sunset_date
        && *date < SystemClock.now().to_string().chars().take(10).collect::<String>()
    {
        reasons.push(format!("`identity.lifecycle.sunset_date`: `{date}` lies in the past, so the tool is not served"));
    }
    reasons
}
