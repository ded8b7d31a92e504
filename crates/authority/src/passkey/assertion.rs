//! Assertion: a person signs a challenge with a registered passkey.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    PasskeyExpectation, PasskeyFault, PasskeyPublicKey, RegisteredPasskey, RelyingParty,
    authenticator_data::{AUTHENTICATOR_DATA_BYTES_MAX, AuthenticatorData},
    client_data::{self, CLIENT_DATA_BYTES_MAX, PasskeyCeremony},
    decode,
};

/// Bytes of a signature: one by an RSA key of 8192 bits fits.
const SIGNATURE_BYTES_MAX: usize = 1024;

/// A signature by a passkey, as `PublicKeyCredential.toJSON()` gives it in the browser. Members that are not used are not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeyAssertion {
    /// The id of the passkey.
    pub id: String,
    /// `public-key`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What browser and authenticator say.
    pub response: PasskeyAssertionResponse,
}

/// What browser and authenticator say, and the signature, in base64url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeyAssertionResponse {
    /// What the browser says.
    #[serde(rename = "clientDataJSON")]
    pub client_data_json: String,
    /// What the authenticator says.
    #[serde(rename = "authenticatorData")]
    pub authenticator_data: String,
    /// The signature over both.
    pub signature: String,
}

/// Evidence: a registered passkey signed the challenge, and a person was present and verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPasskeyAssertion {
    response: PasskeyAssertionResponse,
    passkey: RegisteredPasskey,
    party: RelyingParty,
}

impl PasskeyAssertion {
    /// Checks that this passkey signed the challenge, and that its counter grew.
    pub fn verify(
        &self,
        expected: &PasskeyExpectation<'_>,
        passkey: &RegisteredPasskey,
    ) -> Result<VerifiedPasskeyAssertion, PasskeyFault> {
        if self.kind != "public-key" {
            return Err(PasskeyFault::Malformed("type"));
        }
        if self.id != passkey.credential_id {
            return Err(PasskeyFault::OtherPasskey);
        }
        if passkey.rp_id != expected.party.id() {
            return Err(PasskeyFault::OtherRelyingParty);
        }
        let signed = self.response.check(&passkey.public_key, expected)?;
        if signed.is_backup_eligible != passkey.is_backup_eligible {
            return Err(PasskeyFault::BackupState);
        }
        // An authenticator without a counter says zero each time.
        let has_counter = signed.sign_count != 0 || passkey.sign_count != 0;
        if has_counter && signed.sign_count <= passkey.sign_count {
            return Err(PasskeyFault::Cloned);
        }
        Ok(VerifiedPasskeyAssertion {
            response: self.response.clone(),
            passkey: RegisteredPasskey { sign_count: signed.sign_count, ..passkey.clone() },
            party: expected.party.clone(),
        })
    }
}

impl PasskeyAssertionResponse {
    /// Checks that a key signed the challenge. This is all that can be checked later: a counter says nothing about a signature of the past.
    pub fn verify_recorded(
        &self,
        key: &PasskeyPublicKey,
        expected: &PasskeyExpectation<'_>,
    ) -> Result<(), PasskeyFault> {
        self.check(key, expected).map(|_| ())
    }

    fn check(&self, key: &PasskeyPublicKey, expected: &PasskeyExpectation<'_>) -> Result<SignedState, PasskeyFault> {
        let client_data = decode(&self.client_data_json, CLIENT_DATA_BYTES_MAX, "clientDataJSON")?;
        client_data::check(&client_data, PasskeyCeremony::Signature, expected)?;
        let bytes = decode(&self.authenticator_data, AUTHENTICATOR_DATA_BYTES_MAX, "authenticatorData")?;
        let data = AuthenticatorData::read(&bytes, expected.party.id())?;
        if data.credential.is_some() {
            // Only a registration has a new passkey in it.
            return Err(PasskeyFault::Malformed("authenticatorData"));
        }
        let signature = decode(&self.signature, SIGNATURE_BYTES_MAX, "signature")?;
        let message = [bytes.as_slice(), Sha256::digest(&client_data).as_slice()].concat();
        key.verify(&message, &signature).map_err(|_| PasskeyFault::Signature)?;
        Ok(SignedState { is_backup_eligible: data.is_backup_eligible, sign_count: data.sign_count })
    }
}

/// The state of a passkey that it signed.
struct SignedState {
    is_backup_eligible: bool,
    sign_count: u32,
}

impl VerifiedPasskeyAssertion {
    /// What browser and authenticator said.
    pub const fn response(&self) -> &PasskeyAssertionResponse {
        &self.response
    }

    /// The passkey with its new counter, to be stored in place of the old one.
    pub const fn passkey(&self) -> &RegisteredPasskey {
        &self.passkey
    }

    /// Where it was used.
    pub const fn party(&self) -> &RelyingParty {
        &self.party
    }
}
