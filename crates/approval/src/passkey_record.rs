//! A signature by a person's passkey, as warrants carry it: everything that an outsider needs to check it without the gateway.

use serde::{Deserialize, Serialize};
use servanda_authority::passkey::{
    BadRelyingParty, PasskeyAssertionResponse, PasskeyExpectation, PasskeyFault, PasskeyPublicKey, RelyingParty,
    VerifiedPasskeyAssertion,
};
use servanda_contract::Digest;

/// What a passkey signed, with everything that an outsider needs to check it. All members are base64url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PasskeyAssertionRecord {
    /// The id of the passkey.
    pub credential_id: String,
    /// Its public key, as a COSE key.
    pub public_key: String,
    /// `authenticatorData`.
    pub authenticator_data: String,
    /// `clientDataJSON`.
    pub client_data_json: String,
    /// The signature.
    pub signature: String,
    /// The relying party that the passkey belongs to.
    pub rp_id: String,
    /// The origin of the page.
    pub origin: String,
}

/// Why a recorded signature counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyRecordFault {
    /// Its site and its origin do not belong together.
    #[error(transparent)]
    Party(BadRelyingParty),
    /// Key, signature or what they are about is wrong.
    #[error(transparent)]
    Passkey(PasskeyFault),
}

impl PasskeyAssertionRecord {
    /// Checks that the passkey in this record signed the challenge, on a page of the record's origin, with a person who was present and
    /// verified. It does not name the owner of the passkey: a checker compares `public_key` with the one that the person registered.
    pub fn verify(&self, expected_challenge: &Digest) -> Result<(), PasskeyRecordFault> {
        let party = RelyingParty::new(&self.rp_id, &self.origin).map_err(PasskeyRecordFault::Party)?;
        let key = PasskeyPublicKey::try_from(self.public_key.clone()).map_err(PasskeyRecordFault::Passkey)?;
        let response = PasskeyAssertionResponse {
            client_data_json: self.client_data_json.clone(),
            authenticator_data: self.authenticator_data.clone(),
            signature: self.signature.clone(),
        };
        let expected = PasskeyExpectation { challenge: expected_challenge.as_bytes(), party: &party };
        response.verify_recorded(&key, &expected).map_err(PasskeyRecordFault::Passkey)
    }
}

impl From<&VerifiedPasskeyAssertion> for PasskeyAssertionRecord {
    fn from(verified: &VerifiedPasskeyAssertion) -> Self {
        let (response, passkey, party) = (verified.response(), verified.passkey(), verified.party());
        Self {
            credential_id: passkey.credential_id.clone(),
            public_key: passkey.public_key.clone().into(),
            authenticator_data: response.authenticator_data.clone(),
            client_data_json: response.client_data_json.clone(),
            signature: response.signature.clone(),
            rp_id: party.id().to_owned(),
            origin: party.origin().to_owned(),
        }
    }
}
