//! `servanda revoke`: revokes a credential by its id, with all credentials derived from it. It takes effect at once, because a running
//! gateway reads revocations from the store on every request.

use std::path::Path;

use servanda_authn::revocation::{self, Revocation};
use servanda_authority::{CredentialId, token::credential_of_id};
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;

use super::keys;
use crate::{cli::RevokeArgs, commands::operator, configuration, failure::CommandFailure, screen::Screen};

pub(crate) async fn run(config: &Path, args: &RevokeArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let credential = credential(args)?;
    let ledger = configuration::ledger_place(&loaded)?.open().await?;
    if credential.as_str().starts_with("key:") {
        let revoked = keys::revoke(&ledger, credential.as_str()).await;
        ledger.close().await;
        return keys::tell_revoked(&revoked?, screen);
    }
    let now = Revocation { at: SystemClock.now(), by: operator::user_name() };
    let revoked = revocation::revoke(ledger.as_ref(), &credential, &now).await;
    ledger.close().await;
    let revoked = revoked.map_err(|error| {
        CommandFailure::failed(format!("the store of revocations does not answer: {}", error.reason()))
            .hint("nothing was revoked; `servanda doctor` looks at the ledger")
    })?;
    if screen.json {
        let (at, by) = (revoked.at.to_string(), revoked.by);
        return screen.json(&serde_json::json!({ "credential": credential, "revoked_at": at, "by": by }));
    }
    screen.data(format_args!("{credential} is revoked since {}", revoked.at))?;
    screen.say("it is not accepted from now on, nor is anything that was derived from it; waiting calls are not sent");
    screen.say("credentials are not kept, only what was revoked: `servanda explain` shows by which a call was made");
    Ok(())
}

fn credential(args: &RevokeArgs) -> Result<CredentialId, CommandFailure> {
    if let (Some(jti), Some(issuer)) = (&args.jti, &args.issuer) {
        return Ok(credential_of_id(issuer, jti));
    }
    let text = args.credential.as_deref().unwrap_or_default().trim();
    // The typed text may be a credential, so it is not repeated.
    CredentialId::read(text).or_else(|| CredentialId::read(&format!("key:{text}"))).ok_or_else(|| {
        let failure = CommandFailure::bad_input("that is not the id of a credential");
        if text.starts_with("svk_") || text.starts_with("sva1.") || text.matches('.').count() == 2 {
            return failure.hint(
                "it looks like the credential itself, which is now in the history of this shell; `servanda keys list` and \
                 `servanda explain` show the ids that are revoked by",
            );
        }
        failure.hint("write it like key:…, agent:…, token:… or oidc:…; `servanda keys list` and `servanda explain` show them")
    })
}
