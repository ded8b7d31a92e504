//! Calls a read-only tool on the gateway's own account: to learn whether something was done, or how the world is before a call. The
//! question passes the gates by that tool's own contract, which must change nothing and ask nothing first. It leaves no record of its
//! own; its result is on the record of the call that it is asked for.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, value::RawValue};
use servanda_contract::{
    CallId, Caller, OperationKeys, Proposal, Refusal, TaxonomyClass, expectation::Aims, tool::Identity,
};
use servanda_effects::effect::ClientKey;
use servanda_gates::{CompiledContract, Contracts, Fenced, Trail, pass_question, pass_read, resolve};
use servanda_mcp::ClientCapabilities;
use servanda_upstream::Delivery;
use tokio::time::Instant;

use crate::{
    answers::observe::{self, Observed},
    client::on_record,
    clock::{CallStopwatch, within_ms},
    core::Core,
    trace,
    world::{Member, Scene},
};

/// How long a server may take to be there.
const READY_MS_MAX: u64 = 5_000;

/// One question.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    /// The tool, by contract name.
    pub(crate) tool: &'a str,
    /// As JSON.
    pub(crate) arguments: Bytes,
    /// On whose behalf.
    pub(crate) caller: Caller,
}

/// A tool that the gateway may call on its own account.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) contract: Arc<CompiledContract>,
    pub(crate) member: Arc<Member>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It could not be asked: nothing was learned, and it may be asked again.
    NotAsked(String),
    /// It was asked, and what came back cannot be used.
    Unusable(String),
}

/// Asks, and returns the structured answer, null where there is none.
pub(crate) async fn ask(
    core: &Core,
    scene: &Scene,
    asking: Asking<'_>,
    deadline: Instant,
) -> Result<Value, Unanswered> {
    let structured = |observed: &Observed<'_>| parsed(observed.data);
    ask_for(core, scene, asking, deadline, structured).await
}

/// Asks, and returns what is there to be seen: the structured answer, else the content.
pub(crate) async fn look(
    core: &Core,
    scene: &Scene,
    asking: Asking<'_>,
    deadline: Instant,
) -> Result<Value, Unanswered> {
    let seen = |observed: &Observed<'_>| parsed(observed.data.or_else(|| observed.members.get("content")));
    ask_for(core, scene, asking, deadline, seen).await
}

async fn ask_for(
    core: &Core,
    scene: &Scene,
    asking: Asking<'_>,
    deadline: Instant,
    part: impl FnOnce(&Observed<'_>) -> Value,
) -> Result<Value, Unanswered> {
    let tool = asking.tool;
    let asked = async {
        let exposed = exposed_as(scene, |identity| identity.name == tool);
        let exposed = exposed.ok_or_else(|| format!("there is no contract `{tool}`"))?;
        let ready = ready(scene, &exposed).await;
        let Ready { contract, member } = ready.ok_or_else(|| format!("`{tool}` cannot be called"))?;
        let counterpart = on_record(&asking.caller);
        let fenced = fenced(core, Arc::clone(&contract), asking)?;
        let performed = member.server.perform(fenced, Delivery { counterpart, ..Delivery::until(deadline) }).await;
        member.guard.learn(&performed.outcome);
        let answer = performed.outcome.map_err(|failure| failure.to_string())?;
        Ok::<_, String>((contract, answer))
    };
    let asked = tokio::time::timeout_at(deadline, asked).await;
    let asked = asked.unwrap_or_else(|_| Err("there was no answer in time".to_owned()));
    let (contract, answer) = asked.map_err(Unanswered::NotAsked)?;
    let observed = observe::observe(&contract, &answer.result)
        .map_err(|broken| Unanswered::Unusable(format!("its answer {}", broken.message)))?;
    if observed.class != TaxonomyClass::Success {
        return Err(Unanswered::Unusable(format!("`{tool}` failed")));
    }
    Ok(part(&observed))
}

fn parsed(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The tool of a contract as it is now: what is sent today keeps today's promises, and what is held back is not called. None
/// while its server is not there; then it is looked again later.
pub(crate) async fn ready(scene: &Scene, exposed: &str) -> Option<Ready> {
    scene.discovery.acquaint_itself(exposed).await;
    let contract = scene.catalog.resolve(exposed, &ClientCapabilities::none()).ok()?;
    let member = scene.member(&contract.contract().binding.upstream)?.clone();
    member.server.offer(within_ms(READY_MS_MAX)).await.ok()?;
    member.guard.ask().is_ok().then_some(Ready { contract, member })
}

/// The exposed name of a contract.
pub(crate) fn exposed_as(scene: &Scene, of: impl Fn(&Identity) -> bool) -> Option<String> {
    let mut entries = scene.catalog.entries();
    entries.find(|(_, entry)| of(&entry.contract.contract().identity)).map(|(name, _)| name.to_owned())
}

/// The question as a call that passed the gates.
fn fenced(core: &Core, contract: Arc<CompiledContract>, asking: Asking<'_>) -> Result<Fenced, String> {
    let Asking { tool, arguments, caller } = asking;
    let proposal = Box::new(Proposal {
        call_id: CallId::new(),
        caller,
        tool: tool.to_owned(),
        arguments,
        received_at: core.clock.now(),
        trace_id: trace::new_trace_id(),
        chain: String::new(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
        aims: Aims::default(),
    });
    let key = ClientKey::Call(proposal.call_id.clone());
    let stopwatch = CallStopwatch::start();
    let mut trail = Trail::new(&stopwatch);
    let resolved = resolve(proposal, &Named(contract), &mut trail);
    let cleared = resolved.and_then(|resolved| pass_question(resolved, core.gate_limits, &mut trail));
    let cleared = cleared.map_err(|refusal| format!("`{tool}` does not take the question: {}", refusal.message))?;
    pass_read(cleared, &key, false).map_err(|_| "the question could not be put".to_owned())
}

/// The tool that a contract names to be asked.
pub(crate) struct Named(pub(crate) Arc<CompiledContract>);

impl Contracts for Named {
    fn contract_of(&self, _proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>> {
        Ok(Arc::clone(&self.0))
    }
}

impl Unanswered {
    /// Why, in words.
    pub(crate) fn into_words(self) -> String {
        match self {
            Self::NotAsked(why) | Self::Unusable(why) => why,
        }
    }
}
