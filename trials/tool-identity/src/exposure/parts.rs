//! The parts of a prefixed name: the characters of a server's and a tool's name that every provider accepts, and a hash if that
//! is not enough.

use sha1::{Digest as _, Sha1};

/// The longest prefixed name.
const NAME_CHARS_MAX: usize = 64;
/// How much of a hash is written.
const HASH_CHARS: usize = 8;
/// How much of the name is kept before `_` and the hash.
const KEPT_CHARS_MAX: usize = NAME_CHARS_MAX - HASH_CHARS - 1;

/// The acceptable part of a name: one `_` for every other code point, no `_` or `-` at the ends.
pub fn safe_part(value: &str, fallback: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
    let safe: String = value.chars().map(|character| if plain(character) { character } else { '_' }).collect();
    let safe = safe.trim_matches(['_', '-']);
    if safe.is_empty() { fallback.to_owned() } else { safe.to_owned() }
}

/// The readable name of a tool of a server. Several tools can have the same.
pub fn base_name(server: &str, tool: &str) -> String {
    format!("mcp_{}__{}", safe_part(server, "server"), safe_part(tool, "tool"))
}

/// The readable name if it is short enough and may be used; else as much of it as fits, and a hash of the seed.
pub fn shorten(base: &str, seed: &str, hash_anyway: bool) -> String {
    if !hash_anyway && base.chars().count() <= NAME_CHARS_MAX {
        return base.to_owned();
    }
    let kept: String = base.chars().take(KEPT_CHARS_MAX).collect();
    let kept = kept.trim_end_matches(['_', '-']);
    // SHA-1, because the names must equal those of other clients; nothing here relies on its strength.
    let hash = servanda_contract::digest::hex(&Sha1::digest(seed.as_bytes()));
    let hash: String = hash.chars().take(HASH_CHARS).collect();
    format!("{}_{hash}", if kept.is_empty() { "mcp" } else { kept })
}
