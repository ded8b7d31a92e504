//! Probes: what the gateway reads before and after a call to see whether the call changed something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The probes of a tool, and how many calls they run around.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probes {
    /// How many of a hundred calls are probed. The call's id decides which.
    #[serde(default = "always", skip_serializing_if = "is_always")]
    #[schemars(range(min = 1, max = 100))]
    pub sample_percent: u8,
    /// The probes.
    #[schemars(length(min = 1, max = 8))]
    pub list: Vec<Probe>,
}

/// One probe: what a read-only tool answers, or a path on the gateway's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Names the probe in records and alerts.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// The read-only tool to ask, by contract name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments; `{name}` stands for the call's argument of that name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// A query for the tool's one SQL argument. It is sent as written: nothing of the call goes into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub sql: Option<String>,
    /// A JSON Pointer to the part of the tool's answer that counts; the whole answer by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// A file or a folder on the gateway's machine, by its absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub path: Option<String>,
}

impl Probes {
    /// Why the probes are invalid, if they are. `own` is the name of the contract they are in.
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
            (Some(_), Some(_)) => faults.push("give `tool` or `path`, not both"),
            (None, None) => faults.push("say `tool` or `path`"),
            (None, Some(_)) if asks => {
                faults.push("`arguments`, `sql` and `at` need a `tool`; a `path` has none of them");
            }
            (Some(tool), None) if tool == own => faults.push("a tool cannot probe itself"),
            _ => {}
        }
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            faults.push("`path` must be absolute");
        }
        // With a caller's value in a path or a query, the caller could make the gateway read or do things in its own name.
        if self.path.as_ref().is_some_and(|path| path.contains('{')) {
            faults.push("`path` cannot contain values of the call: write it without `{`");
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
