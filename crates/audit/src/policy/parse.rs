//! Reading a policy's text: one definition a line, names as octets without a meaning.
//!
//! What the specification leaves open is refused: a last line without its newline may have been cut off, and a name defined twice
//! could mean two things.

use std::{collections::BTreeMap, str::FromStr};

use super::quorum::{LogPolicy, TrustedKey, WitnessGroup, WitnessMember};
use crate::{
    checkpoint::parse_decimal,
    note::{VerifierKey, VerifierKeyFault},
};

/// Bytes of a policy.
pub const LOG_POLICY_BYTES_MAX: usize = 1024 * 1024;
/// Logs of a policy; the specification asks for 32.
pub const LOG_POLICY_LOGS_MAX: usize = 64;
/// Witnesses of a policy; the specification asks for 32.
pub const LOG_POLICY_WITNESSES_MAX: usize = 256;
/// Groups of a policy; the specification asks for 32.
pub const LOG_POLICY_GROUPS_MAX: usize = 256;

/// What is wrong with a policy, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogPolicyFault {
    /// Too large.
    #[error("a policy has at most {LOG_POLICY_BYTES_MAX} bytes")]
    TooLarge,
    /// One line.
    #[error("line {line}: {fault}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        #[source]
        fault: LogPolicyLineFault,
    },
    /// No quorum.
    #[error("the policy has no `quorum` line; `quorum none` asks for no witnesses")]
    NoQuorum,
}

/// What is wrong with one line of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogPolicyLineFault {
    /// Octets that no policy has.
    #[error("control characters other than tab and newline are not allowed")]
    Characters,
    /// Cut off.
    #[error("the last line does not end in a newline: something may be missing")]
    CutOff,
    /// No such definition.
    #[error("a line begins with `log`, `witness`, `group`, `quorum` or `#`")]
    Keyword,
    /// Too few or too many items.
    #[error("the line is `{0}`")]
    Items(&'static str),
    /// A key that is none.
    #[error(transparent)]
    Key(#[from] VerifierKeyFault),
    /// A witness that makes no cosignatures.
    #[error("a witness has a key for cosignatures, of kind 0x04 or 0x06")]
    NotAWitnessKey,
    /// The same key once more.
    #[error("the same key is defined twice")]
    DuplicateKey,
    /// A name that is taken, or `none`.
    #[error("the name `{0}` is taken")]
    NameTaken(String),
    /// A name that no line before defines.
    #[error("`{0}` is not defined on a line before")]
    NameUnknown(String),
    /// A member of two groups, or twice of one.
    #[error("`{0}` is a member already; it would count twice")]
    MemberTwice(String),
    /// How many members are enough.
    #[error("enough is `all`, `any`, or a number from 1 to the {members} members")]
    Enough {
        /// The group's members.
        members: usize,
    },
    /// Two quorums.
    #[error("there is a quorum already")]
    SecondQuorum,
    /// Too many.
    #[error("a policy has at most {max} {what}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
}

type Names<'a> = BTreeMap<&'a [u8], NamedMember>;

/// What a name stands for, and whether it is a member of a group.
struct NamedMember {
    member: WitnessMember,
    is_member: bool,
}

impl LogPolicy {
    /// Reads a policy.
    pub fn from_bytes(policy: &[u8]) -> Result<Self, LogPolicyFault> {
        if policy.len() > LOG_POLICY_BYTES_MAX {
            return Err(LogPolicyFault::TooLarge);
        }
        let mut reader = LogPolicyReader::default();
        for (position, line) in policy.split_inclusive(|byte| *byte == b'\n').enumerate() {
            reader.read(line).map_err(|fault| LogPolicyFault::Line { line: position + 1, fault })?;
        }
        let quorum = match reader.quorum {
            Quorum::Missing => return Err(LogPolicyFault::NoQuorum),
            Quorum::Nobody => None,
            Quorum::Member(member) => Some(member),
        };
        Ok(Self { logs: reader.logs, witnesses: reader.witnesses, groups: reader.groups, quorum })
    }
}

impl FromStr for LogPolicy {
    type Err = LogPolicyFault;

    fn from_str(policy: &str) -> Result<Self, LogPolicyFault> {
        Self::from_bytes(policy.as_bytes())
    }
}

/// The quorum line, as far as it was read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Quorum {
    #[default]
    Missing,
    Nobody,
    Member(WitnessMember),
}

/// What the lines so far define.
#[derive(Default)]
struct LogPolicyReader<'a> {
    logs: Vec<TrustedKey>,
    witnesses: Vec<TrustedKey>,
    groups: Vec<WitnessGroup>,
    names: Names<'a>,
    quorum: Quorum,
}

impl<'a> LogPolicyReader<'a> {
    fn read(&mut self, line: &'a [u8]) -> Result<(), LogPolicyLineFault> {
        let line = line.strip_suffix(b"\n").ok_or(LogPolicyLineFault::CutOff)?;
        if line.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
            return Err(LogPolicyLineFault::Characters);
        }
        let items: Vec<&[u8]> =
            line.split(|byte| [b' ', b'\t'].contains(byte)).filter(|item| !item.is_empty()).collect();
        match *items {
            [] => Ok(()),
            [first, ..] if first.starts_with(b"#") => Ok(()),
            [b"log", key] => self.add_log(key, None),
            [b"log", key, url] => self.add_log(key, Some(url)),
            [b"log", ..] => Err(LogPolicyLineFault::Items("log <key> [<url>]")),
            [b"witness", name, key] => self.add_witness(name, key, None),
            [b"witness", name, key, url] => self.add_witness(name, key, Some(url)),
            [b"witness", ..] => Err(LogPolicyLineFault::Items("witness <name> <key> [<url>]")),
            [b"group", name, enough, ref members @ ..] if !members.is_empty() => self.add_group(name, enough, members),
            [b"group", ..] => Err(LogPolicyLineFault::Items("group <name> all|any|<number> <name>...")),
            [b"quorum", name] => self.set_quorum(name),
            [b"quorum", ..] => Err(LogPolicyLineFault::Items("quorum <name>")),
            _ => Err(LogPolicyLineFault::Keyword),
        }
    }

    fn add_log(&mut self, key: &[u8], url: Option<&[u8]>) -> Result<(), LogPolicyLineFault> {
        let log = trusted_key(key, url)?;
        push_key(&mut self.logs, log, "logs", LOG_POLICY_LOGS_MAX)
    }

    fn add_witness(&mut self, name: &'a [u8], key: &[u8], url: Option<&[u8]>) -> Result<(), LogPolicyLineFault> {
        let witness = trusted_key(key, url)?;
        if !witness.key.kind().is_cosignature() {
            return Err(LogPolicyLineFault::NotAWitnessKey);
        }
        self.define(name, WitnessMember::Witness(self.witnesses.len()))?;
        push_key(&mut self.witnesses, witness, "witnesses", LOG_POLICY_WITNESSES_MAX)
    }

    fn add_group(&mut self, name: &'a [u8], enough: &[u8], members: &[&[u8]]) -> Result<(), LogPolicyLineFault> {
        let count = members.len();
        let enough = match enough {
            b"all" => Some(count),
            b"any" => Some(1),
            number => str::from_utf8(number).ok().and_then(parse_decimal).and_then(|number| number.try_into().ok()),
        };
        let enough = enough.filter(|enough| (1..=count).contains(enough));
        let enough = enough.ok_or(LogPolicyLineFault::Enough { members: count })?;
        let max = LOG_POLICY_GROUPS_MAX;
        if self.groups.len() == max {
            return Err(LogPolicyLineFault::TooMany { what: "groups", max });
        }
        let members = members.iter().map(|member| self.take_member(member)).collect::<Result<_, _>>()?;
        // After its members, so that a group is not its own.
        self.define(name, WitnessMember::Group(self.groups.len()))?;
        self.groups.push(WitnessGroup { enough, members });
        Ok(())
    }

    fn set_quorum(&mut self, name: &[u8]) -> Result<(), LogPolicyLineFault> {
        if self.quorum != Quorum::Missing {
            return Err(LogPolicyLineFault::SecondQuorum);
        }
        self.quorum = match (name, self.names.get(name)) {
            (b"none", _) => Quorum::Nobody,
            (_, Some(named)) => Quorum::Member(named.member),
            (_, None) => return Err(LogPolicyLineFault::NameUnknown(shown(name))),
        };
        Ok(())
    }

    fn define(&mut self, name: &'a [u8], member: WitnessMember) -> Result<(), LogPolicyLineFault> {
        if name == b"none" || self.names.contains_key(name) {
            return Err(LogPolicyLineFault::NameTaken(shown(name)));
        }
        self.names.insert(name, NamedMember { member, is_member: false });
        Ok(())
    }

    fn take_member(&mut self, name: &[u8]) -> Result<WitnessMember, LogPolicyLineFault> {
        let named = self.names.get_mut(name).ok_or_else(|| LogPolicyLineFault::NameUnknown(shown(name)))?;
        if std::mem::replace(&mut named.is_member, true) {
            return Err(LogPolicyLineFault::MemberTwice(shown(name)));
        }
        Ok(named.member)
    }
}

fn trusted_key(key: &[u8], url: Option<&[u8]>) -> Result<TrustedKey, LogPolicyLineFault> {
    let key: VerifierKey = str::from_utf8(key).map_err(|_| VerifierKeyFault::Form)?.parse()?;
    Ok(TrustedKey { key, url: url.map(shown) })
}

fn push_key(
    keys: &mut Vec<TrustedKey>,
    new: TrustedKey,
    what: &'static str,
    max: usize,
) -> Result<(), LogPolicyLineFault> {
    // The same key under two names would count twice.
    if keys.iter().any(|known| known.key.public_key() == new.key.public_key()) {
        return Err(LogPolicyLineFault::DuplicateKey);
    }
    if keys.len() == max {
        return Err(LogPolicyLineFault::TooMany { what, max });
    }
    keys.push(new);
    Ok(())
}

fn shown(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}
