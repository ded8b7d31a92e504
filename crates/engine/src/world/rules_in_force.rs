//! Tells the verifiable log which contracts and policies decide: what differs from what it was last told, before the first call is decided by
//! it.
//!
//! Deliberately not here: the texts. A decision names its contract by the same digest.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use servanda_catalog::Catalog;
use servanda_contract::{Digest, Timestamp, digest::DigestDomain};
use servanda_effects::{JournalError, LoggedChange, LoggedThing, Note, NoteKind, Notebook};

use super::authorities::Authorities;

/// How long a new world waits for the store to take up what decides in it.
const TELLING_MS_MAX: u64 = 5_000;
/// How often others may change it in between.
const WRITES_MAX: u32 = 8;
/// The key of the note, and the id of the policies in the log.
const POLICIES: &str = "policies";
/// Who changes rules: they are read from files, and nothing says who wrote those.
const BY: &str = "configuration";

/// What decides, by digests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RulesInForce {
    contracts: BTreeMap<String, Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policies: Option<Digest>,
}

/// Tells the log what decides from now on. If the store fails, the gateway continues, because each decision names its contract; it says so.
pub(crate) async fn tell(notebook: &dyn Notebook, catalog: &Catalog, authorities: &Authorities, now: Timestamp) {
    let rules = RulesInForce::of(catalog, authorities);
    let told = tokio::time::timeout(Duration::from_millis(TELLING_MS_MAX), keep(notebook, &rules, now)).await;
    if let Err(error) = told.unwrap_or_else(|_| Err(JournalError::new("there was no answer in time"))) {
        tracing::warn!(%error, "the verifiable log was not told which contracts and policies are in force now");
    }
}

async fn keep(notebook: &dyn Notebook, rules: &RulesInForce, now: Timestamp) -> Result<(), JournalError> {
    let value = serde_json::to_string(rules).map_err(|error| JournalError::new(error.to_string()))?;
    for _ in 0..WRITES_MAX {
        let found = notebook.read(NoteKind::RulesInForce, POLICIES, now).await?.map(|note| note.value);
        // A note that a later version wrote is replaced: everything is told again.
        let before: RulesInForce =
            found.as_deref().and_then(|found| serde_json::from_str(found).ok()).unwrap_or_default();
        let changes = rules.changes(&before, now);
        if changes.is_empty() {
            return Ok(());
        }
        let note =
            Note { kind: NoteKind::RulesInForce, key: POLICIES.to_owned(), value: value.clone(), expires_at: None };
        if notebook.write_logged(note, found, now, changes).await? {
            return Ok(());
        }
    }
    Err(JournalError::new("other gateways changed it all the time"))
}

impl RulesInForce {
    fn of(catalog: &Catalog, authorities: &Authorities) -> Self {
        let contracts = catalog.entries().map(|(_, entry)| {
            let identity = &entry.contract.contract().identity;
            (format!("{}@{}", identity.name, identity.version), entry.contract.digest())
        });
        let mut texts: Vec<(&str, &str)> = authorities.policies().texts().collect();
        texts.sort_unstable();
        let parts: Vec<&[u8]> = texts.iter().flat_map(|(id, text)| [id.as_bytes(), text.as_bytes()]).collect();
        let policies = Some(Digest::compute(DigestDomain::Policies, &parts));
        Self { contracts: contracts.collect(), policies }
    }

    /// What differs from what was in force before.
    fn changes(&self, before: &Self, at: Timestamp) -> Vec<LoggedChange> {
        let change = |thing, id: &str, change, digest| LoggedChange {
            thing,
            id: id.to_owned(),
            change,
            by: BY.to_owned(),
            call: None,
            digest,
            at,
        };
        let contract = |id: &str, word, digest| change(LoggedThing::Contract, id, word, digest);
        let gone = before.contracts.keys().filter(|id| !self.contracts.contains_key(*id));
        let mut changes: Vec<LoggedChange> = gone.map(|id| contract(id, "removed", None)).collect();
        changes.extend(self.contracts.iter().filter_map(|(id, digest)| match before.contracts.get(id) {
            Some(known) if known == digest => None,
            Some(_) => Some(contract(id, "changed", Some(*digest))),
            None => Some(contract(id, "added", Some(*digest))),
        }));
        if self.policies != before.policies {
            changes.push(change(LoggedThing::Policies, POLICIES, "in force", self.policies));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Digest, DigestDomain, RulesInForce, Timestamp};

    fn digest(text: &str) -> Digest {
        Digest::compute(DigestDomain::Contract, &[text.as_bytes()])
    }

    fn rules(contracts: &[(&str, &str)], policies: &str) -> RulesInForce {
        let contracts: BTreeMap<String, Digest> =
            contracts.iter().map(|(id, text)| ((*id).to_owned(), digest(text))).collect();
        RulesInForce { contracts, policies: Some(digest(policies)) }
    }

    #[test]
    fn only_what_differs_is_told() {
        let before = rules(&[("a@1.0.0", "a"), ("b@1.0.0", "b"), ("c@1.0.0", "c")], "p");
        let after = rules(&[("a@1.0.0", "a"), ("b@1.0.0", "other"), ("d@1.0.0", "d")], "q");
        let at = Timestamp::from_unix_ms(1);
        let told = after.changes(&before, at);
        let words: Vec<(&str, &str)> = told.iter().map(|change| (&*change.id, change.change)).collect();
        assert_eq!(
            words,
            [("c@1.0.0", "removed"), ("b@1.0.0", "changed"), ("d@1.0.0", "added"), ("policies", "in force")]
        );
        assert_eq!(told[2].digest, Some(digest("d")));
        assert!(after.changes(&after, at).is_empty());
        assert_eq!(after.changes(&RulesInForce::default(), at).len(), 4, "everything, the first time");
    }
}
