//! Serialises the table of names, so that a name that an agent learned before a restart still means its tool afterwards. Does
//! not decide where the table is stored.

use serde::{Deserialize, Serialize};
use servanda_identity::layers::gateway::{Generation, NameTableEntry};

use crate::names::{NamePolicy, NameTable, RETIRED_NAMES_MAX, upstream_tool};

/// The version of the form.
const VERSION: u32 = 1;

/// A table that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NameStoreError {
    /// The text is not in this form.
    #[error("the table of names cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// The text has a later version.
    #[error("the table of names has version {0}, which this servanda does not know")]
    Version(u32),
}

#[derive(Serialize, Deserialize)]
struct StoredNameTable {
    version: u32,
    generation: u64,
    names: Vec<StoredName>,
}

#[derive(Serialize, Deserialize)]
struct StoredName {
    name: String,
    upstream: String,
    tool: String,
    /// The first list that it was missing from; `None` if it was in the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
}

/// Serialises the table.
pub fn write(table: &NameTable) -> Result<String, NameStoreError> {
    let written = |NameTableEntry { name, tool, since }: NameTableEntry| StoredName {
        name,
        upstream: tool.upstream.to_string(),
        tool: tool.name,
        since: since.map(|since| since.0),
    };
    let names = table.entries().map(written).collect();
    Ok(serde_json::to_string(&StoredNameTable { version: VERSION, generation: table.generation().0, names })?)
}

/// Reads a table. The naming scheme is not stored; the maker of the next list gives it.
pub fn read(text: &str) -> Result<NameTable, NameStoreError> {
    #[derive(Deserialize)]
    struct NameTableVersion {
        version: u32,
    }
    let NameTableVersion { version } = serde_json::from_str(text)?;
    if version != VERSION {
        return Err(NameStoreError::Version(version));
    }
    let StoredNameTable { generation, names, .. } = serde_json::from_str(text)?;
    let meanings = names.into_iter().map(|StoredName { name, upstream, tool, since }| NameTableEntry {
        name,
        tool: upstream_tool(&upstream, &tool),
        since: since.map(Generation),
    });
    Ok(NameTable::restore(NamePolicy::default(), RETIRED_NAMES_MAX, Generation(generation), meanings))
}

/// Whether two tables remember the same names, whatever their list numbers.
pub fn is_same_table(one: &NameTable, other: &NameTable) -> bool {
    let present = |table: &NameTable| -> Vec<_> {
        table.entries().map(|meaning| (meaning.name, meaning.tool, meaning.since.is_none())).collect()
    };
    present(one) == present(other)
}
