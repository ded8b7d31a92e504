//! What a person who decides is shown beside the call itself, because others say it: the state before the call, by the contract's read tool,
//! and what the upstream's own dry run says would happen. Both are asked when a ticket is opened, at the same time and for a short time, and
//! neither changes anything. What is said is data; if nothing is said, the ticket says why, and people are asked all the same.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use servanda_approval::{StateBefore, TicketPreview};
use servanda_contract::preview::UpstreamPreview;
use servanda_gates::{HeldCall, sensitive_in_state};

use super::{
    context::CallContext,
    preview::{bounded_preview, unless_given_up},
    state::CallPipeline,
};
use crate::{
    clock::within_ms,
    internal_call::{self, InternalCall, InternalCallError},
};

/// How long the questions may take together.
const ASKING_MS_MAX: u64 = 5_000;
/// Bytes of the state before the call that a ticket keeps.
const BEFORE_BYTES_MAX: usize = 16 * 1024;

impl CallPipeline<'_> {
    /// The state before a held call, and the upstream's own preview of it. `before` is the contract's question about the state: a tool and its
    /// arguments.
    pub(super) async fn packet_states(
        &self,
        held: &HeldCall,
        before: Option<(String, Bytes)>,
        context: &CallContext,
    ) -> (Option<StateBefore>, Option<TicketPreview>) {
        let before = async {
            match before {
                Some((tool, arguments)) => Some(self.state_before(held, tool, arguments).await),
                None => None,
            }
        };
        let preview = async {
            match held.dry_run_arguments() {
                Some(arguments) => Some(self.upstream_preview(held, arguments, context).await),
                None => None,
            }
        };
        tokio::join!(before, preview)
    }

    async fn state_before(&self, held: &HeldCall, tool: String, arguments: Bytes) -> StateBefore {
        let question = arguments.clone();
        let asking = InternalCall { tool: &tool, arguments, caller: Arc::clone(&held.proposal().caller) };
        let asked = internal_call::ask_state(self.core, self.snapshot, asking, within_ms(ASKING_MS_MAX)).await;
        let judged = asked.map_err(InternalCallError::into_words).and_then(|(by, state)| {
            if state.to_string().len() > BEFORE_BYTES_MAX {
                return Err("the state is too long to be shown".to_owned());
            }
            let told = (held.contract(), held.arguments().bytes());
            let sensitive = sensitive_in_state(&state, (&by, &question), told);
            sensitive.map(|sensitive| (state, sensitive)).map_err(|repeats| repeats.to_string())
        });
        let at_ms = self.core.clock.now().unix_ms();
        match judged {
            Ok((state, sensitive)) => StateBefore { tool, at_ms, state: Ok(state), sensitive },
            Err(why) => StateBefore { tool, at_ms, state: Err(why), sensitive: BTreeMap::new() },
        }
    }

    async fn upstream_preview(&self, held: &HeldCall, arguments: Bytes, context: &CallContext) -> TicketPreview {
        let asked = async {
            let asking =
                InternalCall { tool: &self.record.tool, arguments, caller: Arc::clone(&held.proposal().caller) };
            let said = internal_call::ask_dry_run(self.core, self.snapshot, asking, within_ms(ASKING_MS_MAX)).await;
            said.map_err(InternalCallError::into_words).and_then(bounded_preview)
        };
        // A ticket asks the upstream no more often than dry runs may: else an agent could have it asked by changing a byte.
        let said = unless_given_up(&self.may_ask(held), context, asked).await;
        let at_ms = self.core.clock.now().unix_ms();
        let judged = said.and_then(|said| {
            let sensitive = held.contract().sensitive_in_preview(&said, held.arguments().bytes());
            sensitive.map(|sensitive| (said, sensitive)).map_err(|repeats| repeats.to_string())
        });
        match judged {
            Ok((said, sensitive)) => TicketPreview { at_ms, preview: UpstreamPreview::Said(said), sensitive },
            Err(why) => {
                TicketPreview { at_ms, preview: UpstreamPreview::NotAvailable(why), sensitive: BTreeMap::new() }
            }
        }
    }
}
