//! The key of an operation: the client's own, or one derived from the operation or step that the client named. It is never derived from the
//! arguments alone, because two genuine payments of the same amount would then be one.

use std::sync::Arc;

use hmac::Mac as _;
use servanda_contract::{Digest, digest::DigestDomain};
use servanda_effects::{JournalError, Notebook, effect::ClientKey};
use servanda_gates::{JudgedCall, OperationIdentity};
use tokio::sync::OnceCell;

use crate::secrets::NotebookSecret;

/// Where the secret for steps is kept.
const STEP_SECRET: &str = "step-keys";
/// Separates this use of the secret from any other.
const STEP_DOMAIN: &[u8] = b"servanda/step/v1";

/// Makes keys.
#[derive(Debug)]
pub(crate) struct ClientKeyFactory {
    notebook: Arc<dyn Notebook>,
    secret: OnceCell<NotebookSecret>,
}

impl ClientKeyFactory {
    pub(crate) fn new(notebook: Arc<dyn Notebook>) -> Self {
        Self { notebook, secret: OnceCell::new() }
    }

    /// The key of a permitted call. A call that says nothing about its operation is an operation of its own.
    pub(crate) async fn key_for(&self, permit: &JudgedCall) -> Result<ClientKey, JournalError> {
        Ok(match permit.operation().identity() {
            None => ClientKey::Call(permit.call_id().clone()),
            Some(OperationIdentity::Key(key)) => ClientKey::Given(key.clone()),
            Some(OperationIdentity::Operation { id, workflow, run }) => {
                ClientKey::Derived(operation_digest(permit, id, workflow, run))
            }
            Some(OperationIdentity::Step(step)) => {
                let secret =
                    self.secret.get_or_try_init(|| NotebookSecret::load(self.notebook.as_ref(), STEP_SECRET)).await?;
                ClientKey::Derived(step_digest(secret, permit, step))
            }
        })
    }
}

fn operation_digest(permit: &JudgedCall, id: &str, workflow: &str, run: &str) -> Digest {
    let (caller, identity) = (&permit.proposal().caller, &permit.contract().contract().identity);
    // Only the major version counts: a contract that was corrected between two attempts must not make two effects of them.
    let version = identity.major().to_string();
    let texts = [workflow, run, &caller.tenant, &caller.principal, &identity.name, &version, id];
    let payload = permit.payload_digest();
    let mut parts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    parts.push(payload.as_bytes());
    Digest::compute(DigestDomain::Operation, &parts)
}

fn step_digest(secret: &NotebookSecret, permit: &JudgedCall, step: &str) -> Digest {
    let caller = &permit.proposal().caller;
    let session = caller.session.as_deref().unwrap_or_default();
    let tool = permit.contract().contract().identity.name.as_bytes();
    let parts = [STEP_DOMAIN, session.as_bytes(), tool, step.as_bytes(), permit.arguments().bytes()];
    let code = parts
        .into_iter()
        .fold(secret.hmac(), |code, part| code.chain_update((part.len() as u64).to_be_bytes()).chain_update(part));
    Digest::from(<[u8; 32]>::from(code.finalize().into_bytes()))
}

#[cfg(test)]
mod tests;
