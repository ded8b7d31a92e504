//! A note with its signatures: reading, writing, verifying with known keys.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    key::{Endorsement, VerifierKey},
    name::{KeyId, KeyName},
};

/// Bytes of a note. The specification asks for 16 signatures of up to 5 kB at least.
pub const NOTE_BYTES_MAX: usize = 256 * 1024;
/// Signatures of a note.
pub const SIGNATURES_MAX: usize = 64;
/// Bytes of a signature, without the key's id.
pub const SIGNATURE_BYTES_MAX: usize = 8 * 1024;

/// What begins the line of a signature.
const SIGNATURE_MARK: &str = "\u{2014} ";

/// A text with signatures, none of which was verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedNote {
    // INVARIANT: ends in a newline, has no other control character.
    text: String,
    signatures: Vec<NoteSignature>,
}

/// A signature, not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteSignature {
    /// Under which name.
    pub name: KeyName,
    /// By which key.
    pub id: KeyId,
    /// The signature without the id.
    pub bytes: Vec<u8>,
}

/// What is wrong with a note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteFault {
    /// Too large.
    #[error("a note has at most {NOTE_BYTES_MAX} bytes and {SIGNATURES_MAX} signatures")]
    TooLarge,
    /// Not UTF-8, or control characters.
    #[error("a note is UTF-8 without control characters other than newlines")]
    Characters,
    /// No blank line, or no signatures after it.
    #[error("a note is a text, a blank line, and at least one signature")]
    Form,
    /// A line of a signature.
    #[error("line {line} of the signatures is not `\u{2014} <name> <base64>`")]
    SignatureLine {
        /// Which line, from 1.
        line: usize,
    },
    /// Two of the keys have the same name and id.
    #[error("two keys have the name `{0}` and the same id")]
    AmbiguousKeys(KeyName),
    /// A known key's signature that is not one.
    #[error("the signature of `{name}` ({id}) is false")]
    FalseSignature {
        /// The key's name.
        name: KeyName,
        /// The key's id.
        id: KeyId,
    },
    /// A signature under a known name by another key.
    #[error("`{name}` signed with the key {id}, which is not the known one")]
    ForeignKey {
        /// The name.
        name: KeyName,
        /// The other key's id.
        id: KeyId,
    },
    /// No known key signed.
    #[error("no known key signed the note")]
    Unsigned,
}

impl SignedNote {
    /// A text without signatures yet. `None` if it does not end in a newline or has another control character.
    pub fn new(text: String) -> Option<Self> {
        is_text(&text).then_some(Self { text, signatures: Vec::new() })
    }

    /// Reads a note of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NoteFault> {
        if bytes.len() > NOTE_BYTES_MAX {
            return Err(NoteFault::TooLarge);
        }
        str::from_utf8(bytes).map_err(|_| NoteFault::Characters)?.parse()
    }

    /// The text. It means nothing unless a key that should sign it did.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signatures, not verified.
    pub fn signatures(&self) -> &[NoteSignature] {
        &self.signatures
    }

    /// Adds a signature. Returns false if there are too many.
    pub fn add(&mut self, signature: NoteSignature) -> bool {
        let has_room = self.signatures.len() < SIGNATURES_MAX;
        if has_room {
            self.signatures.push(signature);
        }
        has_room
    }

    /// Verifies the signatures of the known keys; others are ignored. Each key is returned once.
    pub fn verify(&self, known: &[&VerifierKey]) -> Result<Vec<Endorsement>, NoteFault> {
        let mut found: Vec<Endorsement> = Vec::new();
        for (position, key) in known.iter().enumerate() {
            if known.iter().skip(position + 1).any(|other| other.name() == key.name() && other.id() == key.id()) {
                return Err(NoteFault::AmbiguousKeys(key.name().clone()));
            }
            let of_key = |signature: &&NoteSignature| signature.name == *key.name() && signature.id == key.id();
            for signature in self.signatures.iter().filter(of_key) {
                let wrong = || NoteFault::FalseSignature { name: key.name().clone(), id: key.id() };
                let verified = key.verify(&self.text, &signature.bytes).ok_or_else(wrong)?;
                if found.last().is_none_or(|last| last.key != **key) {
                    found.push(verified);
                }
            }
        }
        if found.is_empty() { Err(self.why_unsigned(known)) } else { Ok(found) }
    }

    /// Tells a signature under a known name by another key from a note that has nothing to do with the known keys.
    pub(crate) fn why_unsigned(&self, known: &[&VerifierKey]) -> NoteFault {
        let is_known = |signature: &&NoteSignature| known.iter().any(|key| *key.name() == signature.name);
        let foreign = self.signatures.iter().find(is_known);
        let foreign = foreign.map(|by| NoteFault::ForeignKey { name: by.name.clone(), id: by.id });
        foreign.unwrap_or(NoteFault::Unsigned)
    }
}

fn is_text(text: &str) -> bool {
    text.ends_with('\n') && text.bytes().all(|byte| byte >= 0x20 || byte == b'\n')
}

impl FromStr for SignedNote {
    type Err = NoteFault;

    fn from_str(note: &str) -> Result<Self, NoteFault> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(NoteFault::TooLarge);
        }
        let (text, lines) = note.rsplit_once("\n\n").ok_or(NoteFault::Form)?;
        let lines = lines.strip_suffix('\n').ok_or(NoteFault::Form)?;
        let mut read = Self::new(format!("{text}\n")).ok_or(NoteFault::Characters)?;
        for (position, line) in lines.split('\n').enumerate() {
            let signature = parse_signature(line).ok_or(NoteFault::SignatureLine { line: position + 1 })?;
            if !read.add(signature) {
                return Err(NoteFault::TooLarge);
            }
        }
        Ok(read)
    }
}

fn parse_signature(line: &str) -> Option<NoteSignature> {
    let (name, encoded) = line.strip_prefix(SIGNATURE_MARK)?.split_once(' ')?;
    let bytes = STANDARD.decode(encoded).ok()?;
    let (id, bytes) = bytes.split_first_chunk()?;
    let has_length = (1..=SIGNATURE_BYTES_MAX).contains(&bytes.len());
    has_length.then_some(NoteSignature { name: name.parse().ok()?, id: KeyId::new(*id), bytes: bytes.to_vec() })
}

impl fmt::Display for SignedNote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.text)?;
        self.signatures.iter().try_for_each(|signature| writeln!(formatter, "{signature}"))
    }
}

impl fmt::Display for NoteSignature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.id.as_bytes(), self.bytes.as_slice()].concat();
        write!(formatter, "{SIGNATURE_MARK}{} {}", self.name, STANDARD.encode(bytes))
    }
}
