//! Passkeys: vectors that other software made, ceremonies of an authenticator of ours that lies in every way, and bytes at random.

mod authenticator;
mod ceremonies;
mod encoding;
mod vectors;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decoded(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}
