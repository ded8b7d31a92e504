//! Where to look before and after a call to see whether it changed something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is looked at around a call, and around how many of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probes {
    /// Of a hundred calls, around how many it is looked. Which ones follows from the call's id.
    #[serde(default = "always", skip_serializing_if = "is_always")]
    #[schemars(range(min = 1, max = 100))]
    pub sample_percent: u8,
    /// What is looked at.
    #[schemars(length(min = 1, max = 8))]
    pub list: Vec<Probe>,
}

/// One thing that is looked at: what a read-only tool answers, or a path on the gateway's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Names it in records and alerts.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// The read-only tool to ask, by contract name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments; `{name}` stands for the call's argument of that name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// A query for the tool's one SQL argument. It is sent as it is written: nothing of the call goes into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub sql: Option<String>,
    /// A JSON Pointer to the part of the tool's answer that counts; all of it, if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// A file or a folder on the gateway's machine, by its absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub path: Option<String>,
}

impl Probes {
    /// Why they cannot be taken as they are written, if they cannot. `own` is the name of the contract they are in.
    pub fn faults(&self, own: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for (number, probe) in self.list.iter().enumerate() {
            let about = format!("probes.list[{number}] `{}`", probe.name);
            if self.list.iter().take(number).any(|other| other.name == probe.name) {
                faults.push(format!("{about}: the name is used more than once"));
            }
            faults.extend(probe.faults(own).into_iter().map(|fault| format!("{about}: {fault}")));
        }
        faults
    }
}

impl Probe {
    fn faults(&self, own: &str) -> Vec<&'static str> {
        let asks = self.sql.is_some() || self.at.is_some() || !self.arguments.is_empty();
        let mut faults = Vec::new();
        match (&self.tool, &self.path) {
            (Some(_), Some(_)) => faults.push("it is a tool or a path, and not both"),
            (None, None) => faults.push("say `tool` or `path`"),
            (None, Some(_)) if asks => faults.push("`arguments`, `sql` and `at` are for a tool, and a path has none"),
            (Some(tool), None) if tool == own => faults.push("a tool cannot look at itself"),
            _ => {}
        }
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            faults.push("`path` must be absolute");
        }
        // What a caller may put into a path or a query would be looked at, or done, in the gateway's name.
        if self.path.as_ref().is_some_and(|path| path.contains('{')) {
            faults.push("`path` takes nothing of the call: write it without `{`");
        }
        if self.at.as_ref().is_some_and(|at| !at.starts_with('/')) {
            faults.push("`at` must be a JSON Pointer, e.g. `/total`");
        }
        faults
    }
}

const fn always() -> u8 {
    100
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
const fn is_always(percent: &u8) -> bool {
    *percent == always()
}
