//! Checks the passkeys in a warrant against public keys that an outsider got from the people themselves. So the check needs no trust in the
//! gateway: it cannot make a passkey's signature, and it cannot exchange the key.

use servanda_authority::passkey::PasskeyPublicKey;
use servanda_contract::legibility;

use crate::WarrantClaims;

/// A passkey whose public key is known from elsewhere, and the person whom it is said to belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPasskey {
    person: Option<String>,
    public_key: String,
}

/// Why the passkeys in a warrant are not the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnownPasskeyFault {
    /// The text is no public key.
    #[error("`{0}` is not the public key of a passkey, with or without a person: ben=pQEC…")]
    NotKey(String),
    /// A decision was signed by a passkey that is not among the known ones.
    #[error("the decision of `{0}` was signed by another passkey")]
    OtherPasskey(String),
    /// The passkey is known as another person's.
    #[error("the decision of `{approver}` was signed by the passkey of `{owner}`")]
    OtherPerson {
        /// Who decided, as the warrant says.
        approver: String,
        /// Whose passkey it is.
        owner: String,
    },
    /// No decision was signed by a known passkey.
    #[error("no decision in the warrant was signed by the passkey {0}")]
    Unused(String),
}

impl KnownPasskey {
    /// Reads `KEY` or `PERSON=KEY`; the person as `NAME` or `TENANT/NAME`.
    pub fn read(text: &str) -> Result<Self, KnownPasskeyFault> {
        let (person, key) = text.trim().rsplit_once('=').map_or((None, text.trim()), |(who, key)| (Some(who), key));
        let not_key = || KnownPasskeyFault::NotKey(legibility::reveal(text).chars().take(60).collect());
        let key = PasskeyPublicKey::try_from(key.to_owned()).map_err(|_| not_key())?;
        if person.is_some_and(str::is_empty) {
            return Err(not_key());
        }
        Ok(Self { person: person.map(str::to_owned), public_key: key.into() })
    }

    fn name(&self) -> String {
        let key: String = self.public_key.chars().take(16).collect();
        self.person.as_ref().map_or_else(|| format!("{key}…"), |person| format!("of `{}`", legibility::reveal(person)))
    }
}

impl WarrantClaims {
    /// Checks that the passkeys in a warrant that was checked before are these, and that each of these signed a decision in it.
    pub fn check_passkeys(&self, known: &[KnownPasskey]) -> Result<(), KnownPasskeyFault> {
        let mut unused: Vec<&KnownPasskey> = known.iter().collect();
        for signed in &self.approvers {
            let Some(record) = &signed.passkey else { continue };
            let (tenant, approver) = (&signed.decision.tenant, &signed.decision.approver);
            let shown = || legibility::reveal(approver).to_string();
            let Some(passkey) = known.iter().find(|known| known.public_key == record.public_key) else {
                return Err(KnownPasskeyFault::OtherPasskey(shown()));
            };
            let is_theirs = |person: &String| person == approver || *person == format!("{tenant}/{approver}");
            if let Some(owner) = passkey.person.as_ref().filter(|person| !is_theirs(person)) {
                let owner = legibility::reveal(owner).to_string();
                return Err(KnownPasskeyFault::OtherPerson { approver: shown(), owner });
            }
            unused.retain(|known| known.public_key != record.public_key);
        }
        unused.first().map_or(Ok(()), |unused| Err(KnownPasskeyFault::Unused(unused.name())))
    }
}
