//! The forms a secret is looked for in: as it is, in hex, and in base64 at any place of a longer text.

use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{GeneralPurpose, general_purpose::NO_PAD},
};
use servanda_contract::digest::hex;
use zeroize::Zeroizing;

/// One form, wiped when it was handed to the searcher.
pub(super) type Form = Zeroizing<Vec<u8>>;

/// Every form, some of them equal.
pub(super) fn of(secret: &[u8]) -> Vec<Form> {
    let mut forms = vec![secret.to_vec(), hex(secret).into_bytes(), hex(secret).to_uppercase().into_bytes()];
    for alphabet in [&STANDARD, &URL_SAFE] {
        let engine = GeneralPurpose::new(alphabet, NO_PAD);
        forms.extend((0..3).map(|offset| in_base64(secret, &engine, offset)));
    }
    forms.into_iter().map(Zeroizing::new).collect()
}

/// The characters that only the secret decides, if `offset` bytes of other text stand before it in their group of three.
/// What is left of it beside them are a few bits at each end.
fn in_base64(secret: &[u8], engine: &GeneralPurpose, offset: usize) -> Vec<u8> {
    let shifted = Zeroizing::new([vec![0; offset].as_slice(), secret].concat());
    let (first, end) = ((offset * 8).div_ceil(6), shifted.len() * 8 / 6);
    engine.encode(&*shifted).into_bytes().get(first..end).unwrap_or_default().to_vec()
}
