//! Registration: a person makes a passkey, and the gateway remembers its public key.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use super::{
    PasskeyExpectation, PasskeyFault, PasskeyPublicKey,
    authenticator_data::{AUTHENTICATOR_DATA_BYTES_MAX, AuthenticatorData, NewCredential},
    cbor::{CborItem, only_item},
    client_data::{self, CLIENT_DATA_BYTES_MAX, PasskeyCeremony},
    decode,
};

/// Bytes of an attestation object: the certificates of a statement fit.
const ATTESTATION_BYTES_MAX: usize = 64 << 10;
/// How many ways of reaching an authenticator are remembered, and how long their names are.
const TRANSPORTS_MAX: usize = 8;
const TRANSPORT_BYTES_MAX: usize = 32;

/// A new passkey, as `PublicKeyCredential.toJSON()` gives it in the browser. Members that are not used are not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeyRegistration {
    /// The id of the passkey.
    pub id: String,
    /// `public-key`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What browser and authenticator say.
    pub response: PasskeyAttestationResponse,
}

/// What browser and authenticator say about a new passkey, in base64url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeyAttestationResponse {
    /// What the browser says.
    #[serde(rename = "clientDataJSON")]
    pub client_data_json: String,
    /// What the authenticator says, in CBOR.
    #[serde(rename = "attestationObject")]
    pub attestation_object: String,
    /// How the authenticator can be reached: `usb`, `internal` and so on.
    #[serde(default)]
    pub transports: Vec<String>,
}

/// A passkey that a person registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredPasskey {
    /// Its id, in base64url.
    pub credential_id: String,
    /// Its public key, as a COSE key in base64url.
    pub public_key: PasskeyPublicKey,
    /// The counter of its latest signature; zero if the authenticator does not count.
    pub sign_count: u32,
    /// The site that it belongs to.
    pub rp_id: String,
    /// Whether it may be copied to other devices of the person.
    pub is_backup_eligible: bool,
    /// How the authenticator can be reached; browsers want to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transports: Vec<String>,
}

impl PasskeyRegistration {
    /// Checks the registration. The maker of the authenticator is not checked: a statement about it is ignored.
    pub fn verify(&self, expected: &PasskeyExpectation<'_>) -> Result<RegisteredPasskey, PasskeyFault> {
        if self.kind != "public-key" {
            return Err(PasskeyFault::Malformed("type"));
        }
        let client_data = decode(&self.response.client_data_json, CLIENT_DATA_BYTES_MAX, "clientDataJSON")?;
        client_data::check(&client_data, PasskeyCeremony::Registration, expected)?;
        let attestation = decode(&self.response.attestation_object, ATTESTATION_BYTES_MAX, "attestationObject")?;
        let authenticator_data = authenticator_data(&attestation)?;
        let data = AuthenticatorData::read(authenticator_data, expected.party.id())?;
        let Some(NewCredential { id, cose }) = data.credential else {
            return Err(PasskeyFault::Malformed("authenticatorData"));
        };
        let credential_id = URL_SAFE_NO_PAD.encode(id);
        if credential_id != self.id {
            return Err(PasskeyFault::OtherPasskey);
        }
        Ok(RegisteredPasskey {
            credential_id,
            public_key: PasskeyPublicKey::read(cose)?,
            sign_count: data.sign_count,
            rp_id: expected.party.id().to_owned(),
            is_backup_eligible: data.is_backup_eligible,
            transports: self.transports(),
        })
    }

    fn transports(&self) -> Vec<String> {
        let spelled = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        let is_known = |name: &&String| name.len() <= TRANSPORT_BYTES_MAX && name.bytes().all(spelled);
        self.response.transports.iter().filter(is_known).take(TRANSPORTS_MAX).cloned().collect()
    }
}

/// The authenticator data in an attestation object, which has three members and no other.
fn authenticator_data(attestation: &[u8]) -> Result<&[u8], PasskeyFault> {
    let malformed = PasskeyFault::Malformed("attestationObject");
    let item = only_item(attestation).map_err(|_| malformed)?;
    let members = item.members().filter(|members| members.len() == 3).ok_or(malformed)?;
    let member =
        |wanted: &str| members.iter().find(|(name, _)| *name == CborItem::Text(wanted)).map(|(_, value)| value);
    let (Some(CborItem::Text(format)), Some(CborItem::Map(statement)), Some(CborItem::Bytes(data))) =
        (member("fmt"), member("attStmt"), member("authData"))
    else {
        return Err(malformed);
    };
    let contradicts_itself = *format == "none" && !statement.is_empty();
    if contradicts_itself || data.len() > AUTHENTICATOR_DATA_BYTES_MAX { Err(malformed) } else { Ok(data) }
}
