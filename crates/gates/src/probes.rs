//! The probes of a contract, compiled when the contract is admitted: which calls are probed, which queries go
//! to read-only tools, which paths are read. Deliberately not here: running the probes and judging what they
//! observe.

use std::path::PathBuf;

use serde_json::{Map, Value};
use servanda_contract::{CallId, Digest, ToolContract, digest::DigestDomain, schema::CompiledSchema};

use crate::placeholders::placeholders;

/// All probes of a contract.
#[derive(Debug, Default)]
pub struct CompiledProbes {
    sample_percent: u8,
    list: Vec<CompiledProbe>,
}

/// One probe.
#[derive(Debug)]
pub struct CompiledProbe {
    /// Its name in the contract.
    pub name: String,
    /// What it observes.
    pub subject: ProbeSubject,
}

/// What a probe observes.
#[derive(Debug)]
pub enum ProbeSubject {
    /// The answer of a read-only tool.
    Tool(ProbeQuery),
    /// A file or folder on this machine.
    Path(PathBuf),
}

/// A query to a read-only tool.
#[derive(Debug)]
pub struct ProbeQuery {
    /// The tool, by contract name.
    pub tool: String,
    /// The part of the answer that counts, as a JSON Pointer.
    pub at: Option<String>,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) sql: Option<String>,
}

impl CompiledProbes {
    /// Compiles the probes. The error has a reason for each that cannot be compiled. It does not repeat what
    /// the contract's `Probes::faults` reports.
    pub(crate) fn compile(contract: &ToolContract, input: Option<&CompiledSchema>) -> Result<Self, Vec<String>> {
        let Some(written) = &contract.probes else { return Ok(Self::default()) };
        let mut reasons = Vec::new();
        let mut list = Vec::new();
        for (number, probe) in written.list.iter().enumerate() {
            let mut names = Vec::new();
            probe.arguments.values().for_each(|value| placeholders(value, &mut names));
            let unknown = names.into_iter().filter(|name| input.is_some_and(|input| !input.may_have(name)));
            let about = format!("probes.list[{number}] `{}`", probe.name);
            reasons.extend(unknown.map(|name| format!("{about}: the input schema declares no `{name}`")));
            let look = match (&probe.tool, &probe.path) {
                (Some(tool), _) => ProbeSubject::Tool(ProbeQuery {
                    tool: tool.clone(),
                    at: probe.at.clone(),
                    arguments: probe.arguments.clone(),
                    sql: probe.sql.clone(),
                }),
                (None, Some(path)) => ProbeSubject::Path(PathBuf::from(path)),
                // Admission has reported this.
                (None, None) => continue,
            };
            list.push(CompiledProbe { name: probe.name.clone(), subject: look });
        }
        if reasons.is_empty() { Ok(Self { sample_percent: written.sample_percent, list }) } else { Err(reasons) }
    }

    /// Whether there are no probes.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The probes, in the order of the contract.
    pub fn iter(&self) -> impl Iterator<Item = &CompiledProbe> {
        self.list.iter()
    }

    /// How many of a hundred calls are probed.
    pub const fn sample_percent(&self) -> u8 {
        self.sample_percent
    }

    /// Whether this call is probed. The same call always gets the same result, so that it can be explained
    /// later why a call was not probed.
    pub fn is_sampled(&self, call_id: &CallId) -> bool {
        let digest = Digest::compute(DigestDomain::Sample, &[call_id.as_str().as_bytes()]);
        let number = digest.as_bytes().iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        number % 100 < u64::from(self.sample_percent)
    }
}

impl CompiledProbe {
    /// What the probe observes, in a few words.
    pub fn target(&self) -> String {
        match &self.subject {
            ProbeSubject::Tool(inquiry) if inquiry.sql.is_some() => format!("a query of `{}`", inquiry.tool),
            ProbeSubject::Tool(inquiry) => format!("`{}`", inquiry.tool),
            ProbeSubject::Path(path) => path.display().to_string(),
        }
    }
}
