//! Headers that repeat arguments. A tool may ask, in its input schema, that some of its arguments stand in headers too, so
//! that something in front of the door can route by them; what was routed by must be what is done.
//!
//! Which arguments, is read from the listed definitions once per list, for all requesters together; whether a requester is shown a tool is
//! asked only where the tool asks for headers. A definition whose annotations break the rules has none: no client mirrors them
//! either.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use servanda_engine::{Gateway, Listing, Requester};
use servanda_mcp::{
    RawObject, fields,
    param_headers::{AnnotatedParam, annotated_params},
};

use super::headers;
use crate::fault::ProtocolFault;

/// How many lists are remembered: requesters of other capabilities may see another.
const TABLES_MAX: usize = 64;
/// Beyond this, whole numbers do not survive every reader.
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// The annotations of the lists seen last.
#[derive(Debug, Default)]
pub(super) struct ParamHeaders {
    tables: RwLock<Vec<ListingHeaders>>,
}

#[derive(Debug)]
struct ListingHeaders {
    /// The very list, by which it is known.
    listing: Arc<Listing>,
    table: Arc<HeadersByTool>,
}

/// By tool; only those that annotate something.
type HeadersByTool = HashMap<String, Vec<MirroredArgument>>;

/// An argument that stands in a header too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MirroredArgument {
    /// The whole name of the header, in lower case.
    header: String,
    /// The members that lead to the argument.
    path: Vec<String>,
}

impl ParamHeaders {
    /// Refuses a call whose headers do not say what its arguments say, by the definition that is known: no call waits for
    /// the lists of servers that it is not for.
    pub(super) fn check<G: Gateway>(
        &self,
        gateway: &G,
        requester: &Requester,
        headers: &HeaderMap,
        (tool, arguments): (&str, Option<&RawValue>),
    ) -> Result<(), ProtocolFault> {
        let table = self.table(&gateway.whole_listing(requester));
        let Some(mirrored) = table.get(tool) else { return Ok(()) };
        // Of a tool that a requester is not shown, it learns nothing here either.
        if !gateway.known_listing(requester).tools.iter().any(|listed| listed.name == tool) {
            return Ok(());
        }
        mirrored.iter().try_for_each(|mirrored| mirrored.check(headers, arguments))
    }

    fn table(&self, listing: &Arc<Listing>) -> Arc<HeadersByTool> {
        let known = |tables: &[ListingHeaders]| {
            let known = tables.iter().find(|known| Arc::ptr_eq(&known.listing, listing));
            known.map(|known| Arc::clone(&known.table))
        };
        // Every critical section leaves a whole list: no panic can leave it half-changed.
        if let Some(table) = known(&self.tables.read().unwrap_or_else(PoisonError::into_inner)) {
            return table;
        }
        let read = Arc::new(read(listing));
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = known(&tables) {
            return table;
        }
        if tables.len() >= TABLES_MAX {
            tables.remove(0);
        }
        tables.push(ListingHeaders { listing: Arc::clone(listing), table: Arc::clone(&read) });
        read
    }
}

impl MirroredArgument {
    fn check(&self, headers: &HeaderMap, arguments: Option<&RawValue>) -> Result<(), ProtocolFault> {
        let present = headers.contains_key(self.header.as_str());
        let written = headers::decoded_text(headers, &self.header);
        let argument = self.find(arguments);
        let fits = match argument {
            MirroredValue::Absent => !present,
            MirroredValue::Unreadable => false,
            MirroredValue::Present(value) => match (value, &written) {
                (Value::String(text), Some(written)) => *text == **written,
                (Value::Bool(flag), Some(written)) => **written == *flag.to_string(),
                (Value::Number(number), Some(written)) => same_number(&number.to_string(), written),
                // No header can say it; whether the tool takes it is not the door's question.
                (Value::Array(_) | Value::Object(_), _) => !present,
                (_, _) => false,
            },
        };
        if fits {
            return Ok(());
        }
        let path = self.path.join(".");
        Err(ProtocolFault::header_mismatch(format!(
            "the header `{}` does not say what the argument `{path}` says",
            self.header
        ))
        .hint("list the tools again: their input schemas say which arguments stand in headers too"))
    }

    fn find(&self, arguments: Option<&RawValue>) -> MirroredValue {
        let Some(mut raw) = arguments else { return MirroredValue::Absent };
        for name in &self.path {
            if !raw.get().starts_with('{') {
                return MirroredValue::Absent;
            }
            // A member that stands twice would be found once here and once elsewhere.
            let Ok(object) = serde_json::from_str::<RawObject<'_>>(raw.get()) else { return MirroredValue::Unreadable };
            match object.get(name) {
                Some(member) => raw = member,
                None => return MirroredValue::Absent,
            }
        }
        match serde_json::from_str(raw.get()) {
            Ok(Value::Null) => MirroredValue::Absent,
            Ok(value) => MirroredValue::Present(value),
            Err(_) => MirroredValue::Unreadable,
        }
    }
}

/// What stands at the annotated place.
enum MirroredValue {
    /// Nothing, or null.
    Absent,
    Present(Value),
    Unreadable,
}

/// Whether two numbers are the same, however they are written: `42` and `42.0` are.
fn same_number(one: &str, other: &str) -> bool {
    one == other
        || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other))
            if one.to_bits() == other.to_bits() && one.abs() <= SAFE_INTEGER_MAX)
}

fn read(listing: &Listing) -> HeadersByTool {
    #[derive(Deserialize)]
    struct ListedInputSchema {
        #[serde(rename = "inputSchema")]
        input_schema: Value,
    }
    // Most definitions have none, and are not taken apart.
    let candidates = listing.tools.iter().filter(|tool| tool.definition.get().contains(fields::member::PARAM_HEADER));
    let tables = candidates.filter_map(|tool| {
        let definition: ListedInputSchema = serde_json::from_str(tool.definition.get()).ok()?;
        match mirrored(&definition.input_schema) {
            Some(mirrored) if !mirrored.is_empty() => Some((tool.name.clone(), mirrored)),
            Some(_) => None,
            None => {
                tracing::warn!(tool = tool.name, "its `x-mcp-header` annotations are invalid and not looked at");
                None
            }
        }
    });
    tables.collect()
}

/// The annotations of a schema. None if one of them breaks the rules.
fn mirrored(schema: &Value) -> Option<Vec<MirroredArgument>> {
    let mirrored = |annotated: AnnotatedParam| {
        let header = format!("{}{}", fields::header::PARAM_PREFIX, annotated.name.to_ascii_lowercase());
        MirroredArgument { header, path: annotated.path }
    };
    Some(annotated_params(schema)?.into_iter().map(mirrored).collect())
}

#[cfg(test)]
#[path = "param_headers_tests.rs"]
mod tests;
