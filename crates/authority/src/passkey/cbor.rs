//! A reader of the CBOR that `WebAuthn` uses (CTAP2's canonical form): every item has a definite length and the shortest head, and no map has
//! a key twice. There are no tags and no floating-point numbers. It accepts maps in any order, because authenticators' libraries differ.
//!
//! A general decoder would accept more than one form of the same item, and signed bytes must mean one thing.

/// How deep items are nested.
const DEPTH_MAX: usize = 8;
/// How many members a map has. Comparing its keys takes time proportional to the square.
const MEMBERS_MAX: usize = 32;

/// An item. Bytes and texts are those of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CborItem<'a> {
    Unsigned(u64),
    /// -1 minus this number.
    Negative(u64),
    Bytes(&'a [u8]),
    Text(&'a str),
    Array(Vec<CborItem<'a>>),
    Map(Vec<(CborItem<'a>, CborItem<'a>)>),
    Simple(CborSimple),
}

/// The values without a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CborSimple {
    False,
    True,
    Null,
}

/// The bytes are not an item in this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotCbor;

/// The first item of some bytes, and the bytes behind it.
pub(super) fn first_item(bytes: &[u8]) -> Result<(CborItem<'_>, &[u8]), NotCbor> {
    let mut reader = CborReader { rest: bytes };
    let item = reader.item(DEPTH_MAX)?;
    Ok((item, reader.rest))
}

/// The one item that some bytes are.
pub(super) fn only_item(bytes: &[u8]) -> Result<CborItem<'_>, NotCbor> {
    match first_item(bytes)? {
        (item, []) => Ok(item),
        _ => Err(NotCbor),
    }
}

impl<'a> CborItem<'a> {
    /// The members of a map.
    pub(super) fn members(&self) -> Option<&[(CborItem<'a>, CborItem<'a>)]> {
        match self {
            Self::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The bytes of a byte string.
    pub(super) const fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether it is this integer.
    pub(super) fn is_integer(&self, wanted: i64) -> bool {
        match self {
            Self::Unsigned(number) => i64::try_from(*number) == Ok(wanted),
            Self::Negative(number) => i64::try_from(*number).is_ok_and(|number| -1 - number == wanted),
            _ => false,
        }
    }
}

struct CborReader<'a> {
    rest: &'a [u8],
}

impl<'a> CborReader<'a> {
    fn item(&mut self, depth: usize) -> Result<CborItem<'a>, NotCbor> {
        let depth = depth.checked_sub(1).ok_or(NotCbor)?;
        let [head] = self.array()?;
        let (major, info) = (head >> 5, head & 0x1f);
        if major == 7 {
            return match info {
                20 => Ok(CborItem::Simple(CborSimple::False)),
                21 => Ok(CborItem::Simple(CborSimple::True)),
                22 => Ok(CborItem::Simple(CborSimple::Null)),
                _ => Err(NotCbor),
            };
        }
        let argument = self.argument(info)?;
        Ok(match major {
            0 => CborItem::Unsigned(argument),
            1 => CborItem::Negative(argument),
            2 => CborItem::Bytes(self.take(argument)?),
            3 => CborItem::Text(std::str::from_utf8(self.take(argument)?).map_err(|_| NotCbor)?),
            4 => {
                let mut items = Vec::new();
                for _ in 0..argument {
                    items.push(self.item(depth)?);
                }
                CborItem::Array(items)
            }
            5 => self.map(argument, depth)?,
            _ => return Err(NotCbor),
        })
    }

    fn map(&mut self, count: u64, depth: usize) -> Result<CborItem<'a>, NotCbor> {
        let mut members: Vec<(CborItem<'a>, CborItem<'a>)> = Vec::new();
        for _ in 0..count {
            let name = self.item(depth)?;
            let is_name = matches!(name, CborItem::Unsigned(_) | CborItem::Negative(_) | CborItem::Text(_));
            let is_new = members.iter().all(|(known, _)| *known != name);
            if !is_name || !is_new || members.len() >= MEMBERS_MAX {
                return Err(NotCbor);
            }
            members.push((name, self.item(depth)?));
        }
        Ok(CborItem::Map(members))
    }

    /// The number in a head, which has only the form that no shorter one could replace.
    fn argument(&mut self, info: u8) -> Result<u64, NotCbor> {
        let (argument, least) = match info {
            0..=23 => (u64::from(info), 0),
            24 => (u64::from(u8::from_be_bytes(self.array()?)), 24),
            25 => (u64::from(u16::from_be_bytes(self.array()?)), 1 << 8),
            26 => (u64::from(u32::from_be_bytes(self.array()?)), 1 << 16),
            27 => (u64::from_be_bytes(self.array()?), 1 << 32),
            _ => return Err(NotCbor),
        };
        if argument < least { Err(NotCbor) } else { Ok(argument) }
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], NotCbor> {
        let (taken, rest) = self.rest.split_first_chunk::<COUNT>().ok_or(NotCbor)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], NotCbor> {
        let count = usize::try_from(count).map_err(|_| NotCbor)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(NotCbor)?;
        self.rest = rest;
        Ok(taken)
    }
}
