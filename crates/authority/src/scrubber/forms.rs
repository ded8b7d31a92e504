//! The forms in which a secret is searched for: verbatim, in hex, and in base64, once or twice, at any place of a
//! longer text. The searcher ignores case.

use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{GeneralPurpose, general_purpose::NO_PAD},
};
use servanda_contract::digest::hex;
use zeroize::Zeroizing;

/// Bytes of the longest secret that is searched for in base64 of base64: there are nine forms of it in each alphabet.
const TWICE_BYTES_MAX: usize = 1_024;

/// One form, wiped after it was passed to the searcher.
#[derive(Debug)]
pub(super) struct SecretForm {
    pub(super) bytes: Zeroizing<Vec<u8>>,
    pub(super) is_hex: bool,
    /// Whether it is hex or base64: no natural text becomes it when its blanks are removed.
    pub(super) is_encoded: bool,
}

/// Every form, some of them equal.
pub(super) fn all_forms(secret: &[u8]) -> Vec<SecretForm> {
    let mut forms = Vec::new();
    for alphabet in [&STANDARD, &URL_SAFE] {
        let engine = GeneralPurpose::new(alphabet, NO_PAD);
        for once in (0..3).map(|offset| Zeroizing::new(in_base64(secret, &engine, offset))) {
            if secret.len() <= TWICE_BYTES_MAX {
                forms.extend((0..3).map(|offset| in_base64(&once, &engine, offset)));
            }
            forms.push(once.to_vec());
        }
    }
    let form = |bytes, is_hex, is_encoded| SecretForm { bytes: Zeroizing::new(bytes), is_hex, is_encoded };
    let plain = form(secret.to_vec(), false, false);
    let in_hex = form(hex(secret).into_bytes(), true, true);
    forms.into_iter().map(|bytes| form(bytes, false, true)).chain([plain, in_hex]).collect()
}

/// The characters that only the secret determines, if `offset` bytes of other text precede it in their group of three.
/// What remains of the secret beside them is a few bits at each end.
fn in_base64(secret: &[u8], engine: &GeneralPurpose, offset: usize) -> Vec<u8> {
    let shifted = Zeroizing::new([vec![0; offset].as_slice(), secret].concat());
    let (first, end) = ((offset * 8).div_ceil(6), shifted.len() * 8 / 6);
    engine.encode(&*shifted).into_bytes().get(first..end).unwrap_or_default().to_vec()
}
