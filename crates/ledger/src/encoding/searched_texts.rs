//! The texts of a stored record that a search looks into, read without decoding the rest: a search looks at many records and lists few.
//!
//! Whatever is odd about a record (its version, a dictionary entry that was not read yet, bytes that cannot be read) is left to `decode`, which
//! says what is wrong. Deliberately not here: the check sum, and what a text is compared with.

use super::{
    ENCODING_VERSION,
    bytes::{Decoder, MalformedBytes},
    dictionary::{DictionaryEntries, DictionaryEntryId},
    parts, tag,
};

/// What is known about a record whose texts were looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SearchedTexts {
    /// When its call was received.
    pub(crate) received_ms: u64,
    /// Whether one of the texts is the one that was looked for.
    pub(crate) found: bool,
}

/// Looks into the tool, the contract's name, the user and the agents of a record, until `is_it` says that it found what it looks for. None if
/// only decoding can tell.
pub(crate) fn look(
    stored: &[u8],
    entries: &DictionaryEntries,
    is_it: impl FnMut(&str) -> bool,
) -> Option<SearchedTexts> {
    let (fields, _) = stored.split_last_chunk::<4>()?;
    read(Decoder::new(fields), entries, is_it).ok().flatten()
}

fn read(
    mut fields: Decoder<'_>,
    entries: &DictionaryEntries,
    mut is_it: impl FnMut(&str) -> bool,
) -> Result<Option<SearchedTexts>, MalformedBytes> {
    if fields.byte()? != ENCODING_VERSION {
        return Ok(None);
    }
    fields.number()?;
    let (mut received_ms, mut found) = (None, false);
    while !fields.is_at_end() {
        let (tag, mut content) = fields.field()?;
        match tag {
            tag::CALLER if !found => {
                // The tenant is a condition of its own.
                content.text()?;
                found = is_it(&content.text()?);
            }
            tag::ACTORS => {
                while !found && !content.is_at_end() {
                    content.byte()?;
                    found = is_it(&content.text()?);
                }
            }
            // The name is the first text of a contract.
            tag::TOOL | tag::CONTRACT if !found => found = is_it(&content.text()?),
            tag::CONTRACT_ENTRY if !found => {
                let Some(entry) = entries.get(DictionaryEntryId(content.array()?)) else { return Ok(None) };
                let [tool, contract] = parts::names_of_tool_entry(&mut Decoder::new(entry))?;
                found = is_it(&tool) || is_it(&contract);
            }
            tag::RECEIVED => received_ms = Some(content.number()?),
            _ => {}
        }
    }
    Ok(received_ms.map(|received_ms| SearchedTexts { received_ms, found }))
}
