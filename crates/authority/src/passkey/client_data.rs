//! `clientDataJSON`: what the browser says about a ceremony. The passkey signs its digest.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};
use servanda_contract::json::{self, JsonLimits};

use super::{PasskeyExpectation, PasskeyFault};

/// Bytes of the text.
pub(super) const CLIENT_DATA_BYTES_MAX: usize = 4096;
const LIMITS: JsonLimits = JsonLimits { bytes_max: CLIENT_DATA_BYTES_MAX, depth_max: 4 };

/// What a person did with a passkey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PasskeyCeremony {
    Registration,
    Signature,
}

/// Checks that the browser performed this ceremony, with this challenge, on a page of this origin that is not embedded elsewhere. Browsers
/// may add members.
pub(super) fn check(
    text: &[u8],
    ceremony: PasskeyCeremony,
    expected: &PasskeyExpectation<'_>,
) -> Result<(), PasskeyFault> {
    let malformed = PasskeyFault::Malformed("clientDataJSON");
    let Ok(Value::Object(members)) = json::decode(text, LIMITS) else { return Err(malformed) };
    let text = |name: &str| members.get(name).and_then(Value::as_str).ok_or(malformed);
    let wanted = match ceremony {
        PasskeyCeremony::Registration => "webauthn.create",
        PasskeyCeremony::Signature => "webauthn.get",
    };
    if text("type")? != wanted {
        return Err(PasskeyFault::OtherCeremony);
    }
    if text("challenge")? != URL_SAFE_NO_PAD.encode(expected.challenge) {
        return Err(PasskeyFault::OtherChallenge);
    }
    if text("origin")? != expected.party.origin() {
        return Err(PasskeyFault::OtherOrigin);
    }
    if is_embedded(&members) { Err(PasskeyFault::Embedded) } else { Ok(()) }
}

fn is_embedded(members: &Map<String, Value>) -> bool {
    let is_cross_origin = members.get("crossOrigin").is_some_and(|value| *value != Value::Bool(false));
    is_cross_origin || members.contains_key("topOrigin")
}
