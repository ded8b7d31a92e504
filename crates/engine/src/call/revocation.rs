//! Checks that the credential of a call is still good when the call is dispatched. The call may have waited for its turn, for an answer or
//! for a question; if its credential was revoked meanwhile, nothing is sent.
//!
//! Revocation is read from the store every time, because a cache would miss what others revoked a moment ago. Local mode has no credential,
//! so nothing is read for it.

use std::collections::BTreeMap;

use servanda_authority::{AuthenticatedCaller, CredentialMethod, caller::RevocationStatus};
use servanda_contract::{CallId, GateName, Refusal, TaxonomyClass};
use servanda_effects::NoteKind;

use crate::core::Core;

/// Checks that neither the caller's credential nor any credential that it comes from was revoked.
pub(crate) async fn recheck(
    core: &Core,
    authority: &AuthenticatedCaller,
    call_id: &CallId,
) -> Result<(), Box<Refusal>> {
    if *authority.method() == CredentialMethod::Local {
        return Ok(());
    }
    let now = core.clock.now();
    let mut standings = BTreeMap::new();
    for credential in authority.lineage() {
        let standing = match core.notebook.read(NoteKind::Revoked, credential.as_str(), now).await {
            Ok(None) => RevocationStatus::Good,
            Ok(Some(_)) => RevocationStatus::Revoked,
            Err(error) => {
                tracing::warn!(%call_id, %credential, %error, "the store cannot say whether a credential was revoked");
                RevocationStatus::Unknown
            }
        };
        standings.insert(credential, standing);
    }
    let standing_of = |credential: &_| standings.get(credential).copied().unwrap_or(RevocationStatus::Unknown);
    authority.recheck(now, standing_of).map(drop).map_err(|error| refuse(call_id.clone(), error.to_string()))
}

/// Refuses a call because the store did not answer in time.
pub(crate) fn not_in_time(call_id: CallId) -> Box<Refusal> {
    refuse(call_id, "the gateway could not find out in time whether the credential was revoked".to_owned())
}

fn refuse(call_id: CallId, message: String) -> Box<Refusal> {
    let hint = "nothing was sent; get a new credential and call again".to_owned();
    Box::new(Refusal::new(call_id, GateName::Scope, TaxonomyClass::PermissionDenied, message, hint))
}
