//! How a probe asks its tool: which arguments the tool gets, and whether it can be asked at all. This needs the
//! contract of the answering tool, which is not the contract that the probe belongs to.

use bytes::Bytes;
use serde_json::Value;
use servanda_identity::effects;

use crate::{CompiledContract, ProbeQuery, placeholders::rendered_members};

impl ProbeQuery {
    /// The tool's arguments for a call with these arguments, as JSON. The error says why there are none.
    pub fn arguments(&self, arguments: &Value, tool: &CompiledContract) -> Result<Bytes, String> {
        let mut rendered = rendered_members(&self.arguments, arguments);
        if let Some(sql) = &self.sql {
            let (argument, _) = tool.programs().sql_argument()?;
            if let Some(members) = rendered.as_object_mut() {
                members.insert(argument.to_owned(), Value::from(sql.as_str()));
            }
        }
        Ok(Bytes::from(rendered.to_string()))
    }

    /// Why this tool cannot be asked, as far as its contract tells; none if it can.
    pub fn fault(&self, tool: &CompiledContract) -> Option<String> {
        let sql = self.sql.as_ref()?;
        let (argument, language) = match tool.programs().sql_argument() {
            Ok(found) => found,
            Err(reason) => return Some(format!("`{}` {reason}", self.tool)),
        };
        if self.arguments.contains_key(argument) {
            return Some(format!("`arguments` has the query of `{}` too: `{argument}`", self.tool));
        }
        let verdict = effects::classify(language, sql);
        verdict.effect.may_change().then(|| format!("`sql` must only read: {}", verdict.why))
    }
}
