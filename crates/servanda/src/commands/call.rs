//! `servanda call`: makes one call through every gate, recorded like any other.

use std::{fmt::Write as _, io::Read as _, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use servanda_authn::revocation;
use servanda_authority::AuthenticatedCaller;
use servanda_contract::{Caller, Observation, Refusal, refusal::EffectKnowledge, time::Clock as _};
use servanda_engine::{
    Aims, AnswerDetail, CallAnswer, CallRequest, Gateway as _, OperationKeys, RequestTerms, Requester, SystemClock,
};
use servanda_ledger::LedgerSchemaPolicy;
use servanda_mcp::fields::meta;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{keys::key_lookup, operator, preview};
use crate::{
    cli::CallArgs, configuration, failure::CommandFailure, screen::Screen, stopping::Stop, wiring::AssembledGateway,
};

/// The members of a tool result that a person looks at.
#[derive(Deserialize)]
struct PrintedToolResult<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(rename = "isError", default)]
    is_error: bool,
    #[serde(rename = "_meta")]
    meta: serde_json::Map<String, Value>,
}

pub(crate) async fn run(config: &Path, args: &CallArgs, screen: Screen) -> Result<(), CommandFailure> {
    let mut loaded = configuration::read(config)?;
    // Long work would end with this process, so the caller waits for it.
    loaded.config.long_work.wait_ms_max = None;
    let stop = Stop::on_signals(loaded.config.limits.drain_ms_max)?;
    let arguments = tokio::select! {
        arguments = arguments(args) => arguments?,
        () = stop.requested.cancelled() => return Err(CommandFailure::failed("stopped")),
    };
    let gateway = AssembledGateway::assemble(&loaded, LedgerSchemaPolicy::Require, None).await?;
    gateway.stay_alive();
    let requester = match &args.acting_as {
        None => super::local_requester("servanda-cli"),
        Some(name) => match requester_for_key(&gateway, name).await {
            Ok(holder) => holder,
            Err(failure) => {
                let _ = gateway.close(&stop).await;
                return Err(failure);
            }
        },
    };
    let cancel = CancellationToken::new();
    let request = CallRequest {
        requester,
        tool: args.tool.clone(),
        arguments,
        // Every run of the command is a person's own attempt, so it never counts as a loop.
        chain: Some(servanda_contract::CallId::new().to_string()),
        keys: OperationKeys { idempotency_key: args.key.clone(), ..OperationKeys::default() },
        aims: Aims { task: args.task.clone(), intent: args.intent.clone(), like: args.like.clone() },
        task: None,
        // A person reads the answer, so it is returned in full.
        terms: RequestTerms {
            caller_wait_ms: args.timeout_ms,
            cancel: cancel.clone(),
            detail: AnswerDetail::Full,
            dry_run: args.dry_run,
            ..RequestTerms::default()
        },
    };
    let waiting = screen.wait(format!("calling {}", args.tool));
    let started = Instant::now();
    let mut calling = std::pin::pin!(gateway.engine.call(request));
    let answer = tokio::select! {
        answer = &mut calling => Some(answer),
        () = stop.requested.cancelled() => None,
    };
    waiting.finish_and_clear();
    // The limit from the command line ran out, not the contract's.
    let timed_out = args.timeout_ms.is_some_and(|ms| started.elapsed() >= Duration::from_millis(ms));
    let Some(answer) = answer else {
        cancel.cancel();
        // The call runs on until it learns that it was cut off and has recorded that.
        let (_, _) = tokio::join!(calling, gateway.close_now(&stop));
        return Err(CommandFailure::failed("stopped").hint("`servanda explain --last` says how far the call came"));
    };
    // The answer says how the call ended.
    let _ = gateway.close(&stop).await;
    show_answer(answer, timed_out, args, screen)
}

/// The holder of the API key that the operator named, for whom the operator acts.
async fn requester_for_key(gateway: &AssembledGateway, key: &str) -> Result<Requester, CommandFailure> {
    let now = SystemClock.now();
    let stored = key_lookup::by_name(gateway.notebook(), key, now).await?;
    let not_good = |why: &dyn std::fmt::Display| {
        CommandFailure::bad_input(format!("cannot call as `{key}`: {why}")).hint("`servanda keys list` shows them")
    };
    let holder = stored.authenticate_for_operator(now).map_err(|why| not_good(&why))?;
    revocation::require_not_revoked(gateway.notebook(), &holder, now).await.map_err(|why| not_good(&why))?;
    Ok(requester_by_operator(Arc::new(holder)))
}

/// The requester for a call that the operator makes for the holder of an API key.
fn requester_by_operator(holder: Arc<AuthenticatedCaller>) -> Requester {
    let mut requester = super::local_requester("servanda-cli");
    let client = requester.caller.client.as_ref();
    let client = client.map(|client| format!("{client}, operated by {}", operator::user_name()));
    requester.caller = Arc::new(Caller { client, ..holder.caller() });
    requester.affinity = Arc::from(format!("operator/{}", holder.credential()));
    requester.authority = holder;
    requester
}

/// Prints the answer of a call.
fn show_answer(answer: CallAnswer, timed_out: bool, args: &CallArgs, screen: Screen) -> Result<(), CommandFailure> {
    match answer {
        CallAnswer::UnknownTool(mut refusal) => {
            if screen.json {
                screen.json(&refusal)?;
            }
            // The hint is for agents; on the command line, a person runs `servanda tools` instead.
            refusal.hint = refusal.hint.replace("`tools/list`", "`servanda tools`");
            let hint = format!("`servanda tools` lists every tool; servanda explain {}", refusal.call_id);
            Err(refused(&refusal).hint(hint))
        }
        CallAnswer::Failed(error) => Err(CommandFailure::failed(error.message)),
        CallAnswer::InputRequired(_) | CallAnswer::Task(_) => {
            Err(CommandFailure::failed("the tool asks for input that only an MCP client can give")
                .hint("call it from an MCP client"))
        }
        CallAnswer::Result(result) if args.dry_run => preview::show(&result.json, screen),
        CallAnswer::Result(result) => show(&result.json, timed_out, args.raw, screen),
    }
}

async fn arguments(args: &CallArgs) -> Result<Bytes, CommandFailure> {
    match args.arguments.as_deref() {
        None => Ok(Bytes::new()),
        Some("-") => {
            // Reads on its own thread, so that signals are handled while stdin has no input.
            let read = tokio::task::spawn_blocking(|| {
                let mut text = Vec::new();
                std::io::stdin().read_to_end(&mut text).map(|_| text)
            });
            let text = read.await.map_err(|error| CommandFailure::failed(error.to_string()))??;
            Ok(text.into())
        }
        Some(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
    }
}

fn show(json: &str, timed_out: bool, raw: bool, screen: Screen) -> Result<(), CommandFailure> {
    let unreadable = |error: serde_json::Error| CommandFailure::failed(format!("the answer cannot be read: {error}"));
    let answered: PrintedToolResult<'_> = serde_json::from_str(json).map_err(unreadable)?;
    let observation = answered.meta.get(meta::OBSERVATION).cloned().unwrap_or_default();
    let observation: Observation = serde_json::from_str(&observation.to_string()).map_err(unreadable)?;
    if screen.json {
        screen.json(&serde_json::from_str::<Value>(json).map_err(unreadable)?)?;
    }
    let text = answered.content.first().and_then(|block| block_text(block.get()));
    // A refusal by the gateway is JSON text; a tool's error is any text.
    let refusal =
        text.as_deref().filter(|_| answered.is_error).and_then(|text| serde_json::from_str::<Refusal>(text).ok());
    if let Some(refusal) = refusal {
        let hint = timed_out.then(|| after_time_out(&refusal));
        let failure = refused(&refusal);
        return Err(hint.into_iter().fold(failure, CommandFailure::hint));
    }
    if !screen.json {
        for block in &answered.content {
            let text = block_text(block.get()).unwrap_or_else(|| block.get().to_owned());
            // A program gets the tool's text unchanged. A person sees it with hidden characters spelled out, unless they ask for `--raw`.
            if raw || !screen.is_read_by_a_person() { screen.raw(&text)? } else { screen.data(text)? }
        }
        let call_id = &observation.tool_identity.call_id;
        let grant = answered.meta.get(meta::CALL).and_then(|call| call.get("grant")).and_then(Value::as_str);
        screen.say(format_args!(
            "{call_id} · {} · {} ms{}",
            observation.status.taxonomy_class.name(),
            observation.execution_metadata.latency_ms,
            grant.map(|grant| format!(" · by grant {grant}")).unwrap_or_default()
        ));
    }
    if answered.is_error {
        let call_id = &observation.tool_identity.call_id;
        return Err(CommandFailure::refused("the tool reported an error").hint(format!("servanda explain {call_id}")));
    }
    Ok(())
}

fn refused(refusal: &Refusal) -> CommandFailure {
    let mut message = format!("{} at {}: {}", refusal.gate.ended_word(), refusal.gate, refusal.message);
    if refusal.field_errors.len() > 1 {
        for error in &refusal.field_errors {
            let pointer = if error.pointer.is_empty() { "/" } else { &error.pointer };
            let _ = write!(message, "\n  {pointer}: {}", error.message);
        }
    }
    let _ = write!(message, "\n  repair: {}", refusal.hint);
    if let Some(hint) = &refusal.operator_hint {
        let _ = write!(message, "\n  operators: {hint}");
    }
    let hint = format!("servanda explain {}", refusal.call_id);
    match refusal.effect {
        EffectKnowledge::Unknown => CommandFailure::unknown_outcome(message).hint(hint),
        EffectKnowledge::None | EffectKnowledge::Happened | EffectKnowledge::UnknownBefore => {
            CommandFailure::refused(message).hint(hint)
        }
    }
}

/// What to do after the time limit from the command line ran out.
fn after_time_out(refusal: &Refusal) -> String {
    let call_id = &refusal.call_id;
    match refusal.effect {
        EffectKnowledge::Unknown | EffectKnowledge::UnknownBefore => {
            format!(
                "see whether it happened before you call again with a larger --timeout-ms; servanda explain {call_id}"
            )
        }
        EffectKnowledge::None | EffectKnowledge::Happened => {
            format!("raise --timeout-ms; servanda explain {call_id}")
        }
    }
}

fn block_text(block: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct PrintedTextBlock {
        text: Option<String>,
    }
    serde_json::from_str::<PrintedTextBlock>(block).ok()?.text
}
