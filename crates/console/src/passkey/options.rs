//! What a browser is asked, in the JSON form that `PublicKeyCredential.parse…OptionsFromJSON` reads.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use servanda_authority::passkey::{PASSKEY_CHALLENGE_BYTES, RelyingParty, StoredPasskey};

/// How long a browser waits for its person.
const TIMEOUT_MS: u64 = 120_000;
/// The algorithms that are verified: ES256, `EdDSA`, RS256.
const ALGORITHMS: [i32; 3] = [-7, -8, -257];

/// Asks for a new passkey. Authenticators that have one of `known` make no second one.
pub(crate) fn creation_options(
    party: &RelyingParty,
    person: (&str, &str),
    challenge: &[u8; PASSKEY_CHALLENGE_BYTES],
    known: &[StoredPasskey],
) -> String {
    let (handle, name) = person;
    let algorithms = ALGORITHMS.map(|algorithm| json!({ "type": "public-key", "alg": algorithm }));
    json!({
        "rp": { "id": party.id(), "name": "Servanda" },
        "user": { "id": handle, "name": name, "displayName": name },
        "challenge": URL_SAFE_NO_PAD.encode(challenge),
        "pubKeyCredParams": algorithms,
        "timeout": TIMEOUT_MS,
        "excludeCredentials": named(party, known),
        "authenticatorSelection": { "residentKey": "preferred", "userVerification": "required" },
        "attestation": "none",
    })
    .to_string()
}

/// Asks for a signature by one of these passkeys; by any that the authenticator has for this site, if there are none of them.
pub(crate) fn request_options(
    party: &RelyingParty,
    challenge: &[u8; PASSKEY_CHALLENGE_BYTES],
    allowed: &[StoredPasskey],
) -> String {
    json!({
        "challenge": URL_SAFE_NO_PAD.encode(challenge),
        "timeout": TIMEOUT_MS,
        "rpId": party.id(),
        "allowCredentials": named(party, allowed),
        "userVerification": "required",
    })
    .to_string()
}

/// The passkeys of this site, by their ids.
fn named(party: &RelyingParty, passkeys: &[StoredPasskey]) -> Vec<Value> {
    let own = passkeys.iter().map(|stored| &stored.passkey).filter(|passkey| passkey.rp_id == party.id());
    own.map(|passkey| json!({ "type": "public-key", "id": passkey.credential_id, "transports": passkey.transports }))
        .collect()
}
