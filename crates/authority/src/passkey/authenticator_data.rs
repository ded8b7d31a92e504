//! `authenticatorData`: what the authenticator says, in bytes that it signs (`WebAuthn` §6.1).

use sha2::{Digest as _, Sha256};

use super::{
    CREDENTIAL_ID_BYTES_MAX, PasskeyFault,
    cbor::{self, CborItem},
};

/// Bytes of it: an id of the greatest length, a large key and extensions fit.
pub(super) const AUTHENTICATOR_DATA_BYTES_MAX: usize = 16 << 10;

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const HAS_CREDENTIAL: u8 = 0x40;
const HAS_EXTENSIONS: u8 = 0x80;

/// What the authenticator says, for the right site, about a person that was present and verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthenticatorData<'a> {
    /// Whether the passkey may be copied to other devices of the person.
    pub(super) is_backup_eligible: bool,
    /// The signature counter; zero if the authenticator has none.
    pub(super) sign_count: u32,
    /// The new passkey, in a registration.
    pub(super) credential: Option<NewCredential<'a>>,
}

/// A new passkey: its id and its COSE key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewCredential<'a> {
    pub(super) id: &'a [u8],
    pub(super) cose: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    /// Reads the bytes, all of them, and checks whom they are about.
    pub(super) fn read(bytes: &'a [u8], rp_id: &str) -> Result<Self, PasskeyFault> {
        let malformed = PasskeyFault::Malformed("authenticatorData");
        let (site, rest) = bytes.split_first_chunk::<32>().ok_or(malformed)?;
        let ([flags], rest) = rest.split_first_chunk::<1>().ok_or(malformed)?;
        let (counter, rest) = rest.split_first_chunk::<4>().ok_or(malformed)?;
        let has = |flag: u8| flags & flag != 0;
        let (credential, rest) = if has(HAS_CREDENTIAL) {
            let (credential, rest) = credential(rest).ok_or(malformed)?;
            (Some(credential), rest)
        } else {
            (None, rest)
        };
        let rest = if has(HAS_EXTENSIONS) { after_extensions(rest).ok_or(malformed)? } else { rest };
        if !rest.is_empty() {
            return Err(malformed);
        }
        if site[..] != Sha256::digest(rp_id.as_bytes())[..] {
            return Err(PasskeyFault::OtherRelyingParty);
        }
        if !has(USER_PRESENT) {
            return Err(PasskeyFault::NotPresent);
        }
        if !has(USER_VERIFIED) {
            return Err(PasskeyFault::NotVerified);
        }
        if has(BACKED_UP) && !has(BACKUP_ELIGIBLE) {
            return Err(PasskeyFault::BackupState);
        }
        let sign_count = u32::from_be_bytes(*counter);
        Ok(Self { is_backup_eligible: has(BACKUP_ELIGIBLE), sign_count, credential })
    }
}

/// The attested credential data, and what follows it.
fn credential(bytes: &[u8]) -> Option<(NewCredential<'_>, &[u8])> {
    // The model of the authenticator comes first. Nothing vouches for it, so it is not looked at.
    let (_model, rest) = bytes.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if !(1..=CREDENTIAL_ID_BYTES_MAX).contains(&length) {
        return None;
    }
    let (id, key_and_more) = rest.split_at_checked(length)?;
    let (_, rest) = cbor::first_item(key_and_more).ok()?;
    let (cose, rest) = key_and_more.split_at_checked(key_and_more.len().checked_sub(rest.len())?)?;
    Some((NewCredential { id, cose }, rest))
}

/// What follows the outputs of extensions, none of which is used.
fn after_extensions(bytes: &[u8]) -> Option<&[u8]> {
    match cbor::first_item(bytes).ok()? {
        (CborItem::Map(_), rest) => Some(rest),
        _ => None,
    }
}
