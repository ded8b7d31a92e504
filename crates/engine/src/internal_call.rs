//! Calls a read-only tool for the gateway itself: to learn whether something was done, or what the state is before a call. The question
//! passes the gates under that tool's own contract, which must change nothing and have no preconditions. It has no record of its own; its
//! result is on the record of the call that it is asked for.
//!
//! An upstream's own dry run of a call is such a question, too: the contract's author says that it changes nothing.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, value::RawValue};
use servanda_contract::{
    CallId, Caller, OperationKeys, Proposal, Refusal, TaxonomyClass, expectation::Aims, tool::Identity,
};
use servanda_effects::effect::ClientKey;
use servanda_gates::{CompiledContract, ContractResolver, Fenced, Trail, pass_question, pass_read, resolve};
use servanda_mcp::ClientCapabilities;
use servanda_upstream::RequestOptions;
use tokio::time::Instant;

use crate::{
    answers::observe::{self, CheckedAnswer},
    client::for_recorded_caller,
    clock::{CallStopwatch, within_ms},
    core::Core,
    trace,
    world::{UpstreamMember, WorldSnapshot},
};

/// How long a server may take to become ready.
const READY_MS_MAX: u64 = 5_000;

/// One question to a read-only tool.
#[derive(Debug)]
pub(crate) struct InternalCall<'a> {
    /// The tool, by contract name.
    pub(crate) tool: &'a str,
    /// The arguments as JSON.
    pub(crate) arguments: Bytes,
    /// The caller on whose behalf it is asked.
    pub(crate) caller: Arc<Caller>,
}

/// A tool that the gateway may call for itself.
#[derive(Debug)]
pub(crate) struct InternalTool {
    pub(crate) contract: Arc<CompiledContract>,
    pub(crate) member: Arc<UpstreamMember>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InternalCallError {
    /// The question could not be asked: nothing was learned, and it may be asked again.
    NotAsked(String),
    /// The question was asked, and the answer cannot be used.
    Unusable(String),
}

/// Asks, and returns the structured answer, or null if there is none.
pub(crate) async fn ask(
    core: &Core,
    snapshot: &WorldSnapshot,
    asking: InternalCall<'_>,
    deadline: Instant,
) -> Result<Value, InternalCallError> {
    let structured = |observed: &CheckedAnswer<'_>| parsed(observed.data);
    ask_for(core, snapshot, asking, deadline, structured).await
}

/// Asks, and returns the structured answer, or null if there is none, with the contract of the tool that gave it.
pub(crate) async fn ask_state(
    core: &Core,
    snapshot: &WorldSnapshot,
    asking: InternalCall<'_>,
    deadline: Instant,
) -> Result<(Arc<CompiledContract>, Value), InternalCallError> {
    let structured = |observed: &CheckedAnswer<'_>| parsed(observed.data);
    let tool = named_tool(snapshot, asking.tool);
    perform(core, asking, tool, deadline, structured).await
}

/// Asks, and returns the structured answer, or else the content.
pub(crate) async fn ask_content(
    core: &Core,
    snapshot: &WorldSnapshot,
    asking: InternalCall<'_>,
    deadline: Instant,
) -> Result<Value, InternalCallError> {
    let seen = |observed: &CheckedAnswer<'_>| parsed(observed.data.or_else(|| observed.members.get("content")));
    ask_for(core, snapshot, asking, deadline, seen).await
}

/// Asks an upstream for its own dry run of a call, as the tool that its contract says it is: one that only reads. The tool is named by its
/// exposed name. Returns the structured
/// answer, or else the content.
pub(crate) async fn ask_dry_run(
    core: &Core,
    snapshot: &WorldSnapshot,
    asking: InternalCall<'_>,
    deadline: Instant,
) -> Result<Value, InternalCallError> {
    let seen = |observed: &CheckedAnswer<'_>| parsed(observed.data.or_else(|| observed.members.get("content")));
    let (exposed, no_dry_run) = (asking.tool, || "its contract names no dry run of the upstream".to_owned());
    let tool = async {
        let ready = internal_tool(snapshot, exposed).await;
        let InternalTool { contract, member } = ready.ok_or_else(|| format!("`{exposed}` cannot be called"))?;
        let contract = Arc::clone(contract.dry_run().ok_or_else(no_dry_run)?.contract());
        Ok(InternalTool { contract, member })
    };
    perform(core, asking, tool, deadline, seen).await.map(|(_, said)| said)
}

async fn ask_for(
    core: &Core,
    snapshot: &WorldSnapshot,
    asking: InternalCall<'_>,
    deadline: Instant,
    part: impl FnOnce(&CheckedAnswer<'_>) -> Value,
) -> Result<Value, InternalCallError> {
    let tool = named_tool(snapshot, asking.tool);
    perform(core, asking, tool, deadline, part).await.map(|(_, said)| said)
}

/// The tool of that contract name.
async fn named_tool(snapshot: &WorldSnapshot, name: &str) -> Result<InternalTool, String> {
    let exposed = exposed_name(snapshot, |identity| identity.name == name);
    let exposed = exposed.ok_or_else(|| format!("there is no contract `{name}`"))?;
    let ready = internal_tool(snapshot, &exposed).await;
    ready.ok_or_else(|| format!("`{name}` cannot be called"))
}

async fn perform(
    core: &Core,
    asking: InternalCall<'_>,
    tool: impl Future<Output = Result<InternalTool, String>>,
    deadline: Instant,
    part: impl FnOnce(&CheckedAnswer<'_>) -> Value,
) -> Result<(Arc<CompiledContract>, Value), InternalCallError> {
    let name = asking.tool;
    let asked = async {
        let InternalTool { contract, member } = tool.await?;
        let upstream_requester = for_recorded_caller(&asking.caller);
        let fenced = fenced(core, Arc::clone(&contract), asking)?;
        let performed = member
            .server
            .perform(fenced, RequestOptions { requester: upstream_requester, ..RequestOptions::for_gateway(deadline) })
            .await;
        member.health.record_outcome(&performed.outcome);
        let answer = performed.outcome.map_err(|failure| failure.to_string())?;
        Ok::<_, String>((contract, answer))
    };
    let asked = tokio::time::timeout_at(deadline, asked).await;
    let asked = asked.unwrap_or_else(|_| Err("there was no answer in time".to_owned()));
    let (contract, answer) = asked.map_err(InternalCallError::NotAsked)?;
    let observed = observe::observe(&contract, &answer.result)
        .map_err(|broken| InternalCallError::Unusable(format!("its answer {}", broken.message)))?;
    if observed.class != TaxonomyClass::Success {
        return Err(InternalCallError::Unusable(format!("`{name}` failed")));
    }
    let said = part(&observed);
    Ok((contract, said))
}

fn parsed(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The tool of a contract as it is now: today's contract applies, and a tool that is held back is not called. None while its server is not
/// ready; then it may be asked again later.
pub(crate) async fn internal_tool(snapshot: &WorldSnapshot, exposed: &str) -> Option<InternalTool> {
    snapshot.discovery.refresh_for_gateway(exposed).await;
    let contract = snapshot.catalog.resolve(exposed, &ClientCapabilities::none()).ok()?;
    let member = snapshot.member(&contract.contract().binding.upstream)?.clone();
    member.server.offer(within_ms(READY_MS_MAX)).await.ok()?;
    member.health.admit_call().is_ok().then_some(InternalTool { contract, member })
}

/// The exposed name of a contract.
pub(crate) fn exposed_name(snapshot: &WorldSnapshot, of: impl Fn(&Identity) -> bool) -> Option<String> {
    let mut entries = snapshot.catalog.entries();
    entries.find(|(_, entry)| of(&entry.contract.contract().identity)).map(|(name, _)| name.to_owned())
}

/// The question as a call that passed the gates.
fn fenced(core: &Core, contract: Arc<CompiledContract>, asking: InternalCall<'_>) -> Result<Fenced, String> {
    let InternalCall { tool, arguments, caller } = asking;
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
    let resolved = resolve(proposal, &NamedContract(contract), &mut trail);
    let cleared = resolved.and_then(|resolved| pass_question(resolved, core.gate_limits, &mut trail));
    let cleared = cleared.map_err(|refusal| format!("`{tool}` does not accept the question: {}", refusal.message))?;
    pass_read(cleared, &key, false).map_err(|_| "the question could not be asked".to_owned())
}

/// Resolves every proposal to this one contract.
pub(crate) struct NamedContract(pub(crate) Arc<CompiledContract>);

impl ContractResolver for NamedContract {
    fn contract_of(&self, _proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>> {
        Ok(Arc::clone(&self.0))
    }
}

impl InternalCallError {
    /// The reason in words.
    pub(crate) fn into_words(self) -> String {
        match self {
            Self::NotAsked(why) | Self::Unusable(why) => why,
        }
    }
}
