//! The fence: the durable mark between deciding and doing. A call that may change something is an effect on record before
//! its first byte leaves; without the mark there is no [`Fenced`], and without a [`Fenced`] no upstream moves.
//!
//! The mark is one commit: the effect becomes this call's to dispatch, and the call's record is written beside it.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use servanda_contract::{
    CallId, CallRecord, Digest, GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge, taxonomy::NextAction,
    tool::EffectClass,
};

use crate::{
    Permit,
    budget::Cleared,
    effect::{
        self, Applied, Begin, Change, Claim, ClientKey, Effect, EffectId, EffectKey, EffectState, Effects, Event, Go,
        Notice, OwnerId, Reply, Rules, Target,
    },
    order, room,
};

/// A future a port returns.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A call that is durably this process's to send, where it has to be. The only thing an upstream performs.
#[derive(Debug)]
pub struct Fenced {
    call_id: CallId,
    upstream: String,
    upstream_tool: String,
    arguments: Bytes,
    effect_class: EffectClass,
    mark: Option<Mark>,
}

/// The effect of a fenced call, and the evidence that it is this process's to dispatch.
#[derive(Debug)]
struct Mark {
    claim: Claim,
    key: EffectKey,
    upstream_key: String,
    was_sent_before: bool,
}

/// On what a permitted call is fenced.
#[derive(Debug)]
pub struct Intent {
    /// Which operation it is.
    pub key: ClientKey,
    /// This process.
    pub owner: OwnerId,
    /// How long a dispatch may take.
    pub timeout_ms: u64,
    /// The nonce of the state that the call goes on from.
    pub continues: Option<String>,
    /// Whether its end can be asked for later: then it is an effect even if it changes nothing.
    pub outlasts: bool,
    /// What a crash leaves behind.
    pub record: CallRecord,
    /// Whether the operator said that a store which may lose what it acknowledged is good enough for everything.
    pub accepts_lost_commits: bool,
}

/// A call that is not to be sent. It is back as it was: nothing was done with it.
#[derive(Debug)]
pub struct NotFenced {
    /// The call.
    pub cleared: Cleared,
    /// Why.
    pub why: WhyNot,
}

/// Why a call is not to be sent.
#[derive(Debug)]
pub enum WhyNot {
    /// It could not be put on record.
    NotOnRecord(Box<Refusal>),
    /// Its effect is not this call's to dispatch: what the store says about it.
    Reply {
        /// What it came to.
        reply: Reply,
        /// The effect; none if there is none.
        effect: Option<Arc<Effect>>,
    },
}

/// What becomes of an effect without an owner.
#[derive(Debug)]
pub enum Recovery {
    /// The upstream dedupes: the same bytes are to be sent again.
    Resend(Box<Fenced>, Arc<Effect>),
    /// A status tool is to be asked, and the effect settled by what it says.
    Ask(Claim, Arc<Effect>),
    /// Nothing is left to do.
    Done(Reply, Option<Arc<Effect>>),
}

/// Where calls are put on record that are no effects, or none any more. Implemented by the ledger.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Puts the record of a finished call down: durably before returning if `durable`, else soon after.
    /// `quarantine` is an answer that broke its contract and must not be passed on.
    fn finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>>;

    /// The record of a finished call, if there is one.
    fn recall<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>>;
}

/// The journal could not keep a record.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the journal could not keep the record: {reason}")]
pub struct JournalError {
    reason: String,
    leaves_doubt: bool,
    is_of_content: bool,
}

/// Lets a read through that needs no effect on record: it changes nothing, is no operation with a key, no client asks for its end later, and
/// its contract asks nothing first. Every other call comes back unchanged, to be fenced.
pub fn pass_read(cleared: Cleared, key: &ClientKey, outlasts: bool) -> Result<Fenced, Box<Cleared>> {
    let permit = cleared.permit();
    let is_effect = permit.effect_class().mutates() || key.can_come_again() || outlasts;
    if is_effect || permit.asks_first() || cleared.is_due() {
        return Err(Box::new(cleared));
    }
    Ok(Fenced::unmarked(permit))
}

/// Fences a call that every gate let pass. One of class R that is nobody's operation, and whose end nobody asks for later, changes nothing
/// and needs no mark; every other waits for it.
pub async fn fence(cleared: Cleared, intent: Intent, effects: &dyn Effects) -> Result<Fenced, Box<NotFenced>> {
    // What has to be asked first is claimed first: there is no way around it here.
    if cleared.permit().asks_first() {
        return Err(not_on_record(cleared, "its contract wants to know something first, and nobody asked"));
    }
    if cleared.is_due() {
        return Err(not_on_record(cleared, "what it costs has to be kept back first, and nobody did"));
    }
    let (mut cleared, started) = start(cleared, &intent, Go::Dispatch, effects)?;
    if let (Some(started), Some(why)) = (&started, effects.out_of_room()) {
        cleared = Box::pin(room::check(cleared, &started.begin, &why, effects)).await?;
    }
    let permit = cleared.permit();
    let Some(Started { target, begin }) = started else { return Ok(Fenced::unmarked(permit)) };
    let request = begin.request;
    let mut record = intent.record;
    if !begin.key.client_key.can_come_again() {
        // Of a key that was used before, the handle is another one.
        record.effect_id = Some(begin.id.to_string());
    }
    let event = Event::Begin(Box::new(begin));
    let change = Change { target: target.clone(), event, record: Some(record), quarantine: None, notices: Vec::new() };
    match effects.apply(change).await {
        Ok(Applied { reply: Reply::Mine(claim), effect: Some(effect) }) if is_dispatched(&effect, &claim) => {
            Ok(Fenced::marked(permit.call_id().clone(), &effect))
        }
        #[cfg(feature = "unfenced")]
        Ok(_) => Ok(Fenced::unmarked(permit)),
        #[cfg(not(feature = "unfenced"))]
        Ok(Applied { reply, effect }) => Err(Box::new(NotFenced { cleared, why: WhyNot::Reply { reply, effect } })),
        // Whether it was applied is not known: only what is read afterwards is evidence.
        Err(error) => match effects.find(target).await {
            Ok(Some(effect)) if is_own(&effect, &intent.owner, permit.call_id()) => {
                Ok(Fenced::marked(permit.call_id().clone(), &effect))
            }
            found => {
                let why = no_mark(permit, Unmarked { key: &intent.key, request, error: &error, found });
                Err(Box::new(NotFenced { cleared, why }))
            }
        },
    }
}

/// A call as an effect, about to be begun.
pub(crate) struct Started {
    pub(crate) target: Target,
    pub(crate) begin: Begin,
}

/// What it takes to begin a call, which is nothing where it is no effect.
pub(crate) fn start(
    cleared: Cleared,
    intent: &Intent,
    go: Go,
    effects: &dyn Effects,
) -> Result<(Cleared, Option<Started>), Box<NotFenced>> {
    let permit = cleared.permit();
    if !permit.effect_class().mutates() && !intent.key.can_come_again() && !intent.outlasts {
        return Ok((cleared, None));
    }
    // After a failover nobody would know that it was sent, and it would be sent again.
    if permit.effect_class() == EffectClass::N
        && !intent.accepts_lost_commits
        && let Some(why) = effects.loses_commits()
    {
        return Err(could_be_forgotten(cleared, &why));
    }
    let key = order::effect_key(permit, intent.key.clone());
    let order = match order::order(permit, &key, intent.timeout_ms) {
        Ok(order) => order,
        Err(error) => return Err(not_on_record(cleared, &error.to_string())),
    };
    let begin = Begin {
        id: EffectId::new(),
        key: key.clone(),
        request: permit.payload_digest(),
        class: permit.effect_class(),
        owner: intent.owner.clone(),
        call_id: permit.call_id().clone(),
        order,
        go,
        continues: intent.continues.clone(),
    };
    Ok((cleared, Some(Started { target: Target::Key(key), begin })))
}

/// Takes what can be taken of an effect that nobody looks after. The record is written if that changes it, a notice if that
/// ends it so.
pub async fn recover(
    id: &EffectId,
    owner: &OwnerId,
    record: Option<CallRecord>,
    notices: Vec<Notice>,
    effects: &dyn Effects,
) -> Result<Recovery, JournalError> {
    let event = Event::Recover(owner.clone());
    let change = Change { target: Target::Id(id.clone()), event, record, quarantine: None, notices };
    let Applied { reply, effect } = effects.apply(change).await?;
    Ok(match (reply, effect) {
        (Reply::Mine(claim), Some(effect)) if is_dispatched(&effect, &claim) => {
            Recovery::Resend(Box::new(Fenced::marked(effect.call_id.clone(), &effect)), effect)
        }
        (Reply::Ask(claim), Some(effect)) => Recovery::Ask(claim, effect),
        (reply, effect) => Recovery::Done(reply, effect),
    })
}

fn is_dispatched(effect: &Effect, claim: &Claim) -> bool {
    effect.state == EffectState::Dispatching && effect.claim() == *claim
}

/// Whether a dispatch is this very call's.
fn is_own(effect: &Effect, owner: &OwnerId, call_id: &CallId) -> bool {
    effect.state == EffectState::Dispatching && effect.owner == *owner && effect.call_id == *call_id
}

fn could_be_forgotten(cleared: Cleared, why: &str) -> Box<NotFenced> {
    let refusal = Refusal::new(
        cleared.permit().call_id().clone(),
        GateName::Fence,
        TaxonomyClass::DependencyUnavailable,
        format!("the store may lose what it acknowledged, and this call cannot be repeated, so it was not sent: {why}"),
        "tell the user: only an operator can change this".to_owned(),
    )
    .for_operators("make the standby synchronous, or accept the risk with `accepts_lost_commits: true`")
    .with_next_action(NextAction::StopAndTellUser);
    let refusal = refusal.with_effect(EffectKnowledge::None);
    Box::new(NotFenced { cleared, why: WhyNot::NotOnRecord(Box::new(refusal)) })
}

/// A mark that was not made for all one knows, and what the store says about the key.
pub(crate) struct Unmarked<'a> {
    pub(crate) key: &'a ClientKey,
    pub(crate) request: Digest,
    pub(crate) error: &'a JournalError,
    pub(crate) found: Result<Option<Effect>, JournalError>,
}

/// Why a call is not sent whose mark could not be made. A store that cannot write may still be read: a key that is done is
/// answered. Otherwise the refusal claims no less than what earlier calls with the key may have done.
pub(crate) fn no_mark(permit: &Permit, unmarked: Unmarked<'_>) -> WhyNot {
    let Unmarked { key, request, error, found } = unmarked;
    if let Ok(Some(found)) = &found
        && let Some(answer) = effect::replay(found, request)
    {
        return WhyNot::Reply { reply: Reply::Replay(answer), effect: Some(Arc::new(found.clone())) };
    }
    let of_key = match &found {
        Ok(Some(found)) if found.request != request => EffectKnowledge::None,
        Ok(found) => effect::of_key(found.as_ref()),
        Err(_) => effect::of_unread_key(key.can_come_again(), Rules::IN_FORCE),
    };
    let mut refusal = off_record(permit, &error.to_string());
    match effect::unmarked(permit.effect_class(), error.leaves_doubt(), of_key) {
        EffectKnowledge::None => {}
        EffectKnowledge::Unknown if of_key != EffectKnowledge::Unknown => refusal.leave_in_doubt(),
        _ => refusal.mark_unknown_before(),
    }
    WhyNot::NotOnRecord(refusal)
}

pub(crate) fn not_on_record(cleared: Cleared, why: &str) -> Box<NotFenced> {
    let why = WhyNot::NotOnRecord(off_record(cleared.permit(), why));
    Box::new(NotFenced { cleared, why })
}

fn off_record(permit: &Permit, why: &str) -> Box<Refusal> {
    let refusal = Refusal::new(
        permit.call_id().clone(),
        GateName::Fence,
        TaxonomyClass::DependencyUnavailable,
        format!("the call could not be put on record, so it was not sent: {why}"),
        "make the same call again when the gateway's store takes writes".to_owned(),
    )
    .for_operators("`servanda doctor` looks at the store");
    Box::new(refusal.with_effect(EffectKnowledge::None))
}

impl JournalError {
    /// Nothing was kept.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: false, is_of_content: false }
    }

    /// Nothing was kept, because of what was handed in or of the one row it is about: the store itself works.
    pub fn of_content(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: false, is_of_content: true }
    }

    /// Nobody knows whether it was kept.
    pub fn in_doubt(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), leaves_doubt: true, is_of_content: false }
    }

    /// Whether the store itself works.
    pub const fn is_of_content(&self) -> bool {
        self.is_of_content
    }

    /// Whether it may have been kept all the same.
    pub const fn leaves_doubt(&self) -> bool {
        self.leaves_doubt
    }

    /// Why.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl Fenced {
    pub(crate) fn unmarked(permit: &Permit) -> Self {
        let binding = &permit.contract().contract().binding;
        Self {
            call_id: permit.call_id().clone(),
            upstream: binding.upstream.clone(),
            upstream_tool: binding.tool.clone(),
            arguments: permit.arguments().bytes().clone(),
            effect_class: permit.effect_class(),
            mark: None,
        }
    }

    /// What is sent is what the effect says, which for one that was sent before is what was sent before.
    pub(crate) fn marked(call_id: CallId, effect: &Effect) -> Self {
        let order = &effect.order;
        Self {
            call_id,
            upstream: order.upstream.clone(),
            upstream_tool: order.upstream_tool.clone(),
            arguments: order.arguments.clone(),
            effect_class: effect.class,
            mark: Some(Mark {
                claim: effect.claim(),
                key: effect.key.clone(),
                upstream_key: order.upstream_key.clone(),
                was_sent_before: effect.was_sent_before(),
            }),
        }
    }

    /// The call.
    pub fn call_id(&self) -> &CallId {
        &self.call_id
    }

    /// The upstream's id in the configuration.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The tool's own name at the upstream.
    pub fn upstream_tool(&self) -> &str {
        &self.upstream_tool
    }

    /// The argument bytes, to be sent as they are.
    pub fn arguments(&self) -> &Bytes {
        &self.arguments
    }

    /// What may follow an uncertain dispatch.
    pub fn effect_class(&self) -> EffectClass {
        self.effect_class
    }

    /// Whether an earlier dispatch of its key may have done it: then this one proves nothing by having done nothing.
    pub fn was_sent_before(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.was_sent_before)
    }

    /// The evidence by which its end is settled; none if it is no effect.
    pub fn claim(&self) -> Option<&Claim> {
        self.mark.as_ref().map(|mark| &mark.claim)
    }

    /// What its effect is looked up by; none if it is no effect.
    pub fn key(&self) -> Option<&EffectKey> {
        self.mark.as_ref().map(|mark| &mark.key)
    }

    /// The key that an upstream which dedupes or can be asked is given; none if it is no effect.
    pub fn upstream_key(&self) -> Option<&str> {
        self.mark.as_ref().map(|mark| mark.upstream_key.as_str())
    }
}
