//! What a contract wants to have looked at around its calls, compiled when the contract is admitted: which calls, which
//! questions to read-only tools, which paths. Taking the looks and judging them is somebody else's business.

use std::path::PathBuf;

use serde_json::{Map, Value};
use servanda_contract::{CallId, Digest, ToolContract, digest::Domain, schema::CompiledSchema};

use crate::placeholders::placeholders;

/// Everything that is looked at around a call.
#[derive(Debug, Default)]
pub struct Probes {
    sample_percent: u8,
    list: Vec<Probe>,
}

/// One thing that is looked at.
#[derive(Debug)]
pub struct Probe {
    /// As the contract names it.
    pub name: String,
    /// What it is.
    pub look: Look,
}

/// What is looked at.
#[derive(Debug)]
pub enum Look {
    /// What a read-only tool answers.
    Tool(Inquiry),
    /// A file or a folder of this machine.
    Path(PathBuf),
}

/// A question to a read-only tool.
#[derive(Debug)]
pub struct Inquiry {
    /// The tool, by contract name.
    pub tool: String,
    /// The part of the answer that counts, as a JSON Pointer.
    pub at: Option<String>,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) sql: Option<String>,
}

impl Probes {
    /// Compiles them; the error has a reason for each that cannot be. What `Probes::faults` of the contract says is not said
    /// again.
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
                (Some(tool), _) => Look::Tool(Inquiry {
                    tool: tool.clone(),
                    at: probe.at.clone(),
                    arguments: probe.arguments.clone(),
                    sql: probe.sql.clone(),
                }),
                (None, Some(path)) => Look::Path(PathBuf::from(path)),
                // Admission has said so.
                (None, None) => continue,
            };
            list.push(Probe { name: probe.name.clone(), look });
        }
        if reasons.is_empty() { Ok(Self { sample_percent: written.sample_percent, list }) } else { Err(reasons) }
    }

    /// Whether nothing is looked at.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What is looked at, in the order of the contract.
    pub fn iter(&self) -> impl Iterator<Item = &Probe> {
        self.list.iter()
    }

    /// Around how many of a hundred calls it is looked.
    pub const fn sample_percent(&self) -> u8 {
        self.sample_percent
    }

    /// Whether it is looked around this call. The same call always gets the same answer, so that it can be told afterwards
    /// why nobody looked.
    pub fn choose(&self, call_id: &CallId) -> bool {
        let digest = Digest::of(Domain::Sample, &[call_id.as_str().as_bytes()]);
        let number = digest.as_bytes().iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        number % 100 < u64::from(self.sample_percent)
    }
}

impl Probe {
    /// What is looked at, in a few words.
    pub fn target(&self) -> String {
        match &self.look {
            Look::Tool(inquiry) if inquiry.sql.is_some() => format!("a query of `{}`", inquiry.tool),
            Look::Tool(inquiry) => format!("`{}`", inquiry.tool),
            Look::Path(path) => path.display().to_string(),
        }
    }
}
