//! The only thing that an upstream performs: a call that passed the gates and, if it may change something, is
//! recorded as an effect. Only the fence makes one.

use bytes::Bytes;
use servanda_contract::{CallId, tool::EffectClass};
use servanda_effects::effect::{Claim, Effect, EffectKey};

use crate::Permit;

/// A call that this process may send. If it may change something, that is durably recorded. The only thing an
/// upstream performs.
#[derive(Debug)]
pub struct Fenced {
    call_id: CallId,
    upstream: String,
    upstream_tool: String,
    arguments: Bytes,
    effect_class: EffectClass,
    mark: Option<DispatchMark>,
}

/// The effect of a fenced call, and the claim that lets this process dispatch it.
#[derive(Debug)]
struct DispatchMark {
    claim: Claim,
    key: EffectKey,
    upstream_key: String,
    was_sent_before: bool,
}

impl Fenced {
    pub(super) fn unmarked(permit: &Permit) -> Self {
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

    /// Makes a fenced call from its effect. An effect that was sent before is sent again in the same bytes.
    pub(super) fn marked(call_id: CallId, effect: &Effect) -> Self {
        let order = &effect.order;
        Self {
            call_id,
            upstream: order.upstream.clone(),
            upstream_tool: order.upstream_tool.clone(),
            arguments: order.arguments.clone(),
            effect_class: effect.class,
            mark: Some(DispatchMark {
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

    /// Whether an earlier dispatch of its key may have done it. Then it proves nothing if this dispatch did
    /// nothing.
    pub fn was_sent_before(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.was_sent_before)
    }

    /// The claim by which its end is settled; none if it has no effect.
    pub fn claim(&self) -> Option<&Claim> {
        self.mark.as_ref().map(|mark| &mark.claim)
    }

    /// The key that its effect is looked up by; none if it has no effect.
    pub fn key(&self) -> Option<&EffectKey> {
        self.mark.as_ref().map(|mark| &mark.key)
    }

    /// The key that is sent to an upstream that deduplicates or can be asked; none if it has no effect.
    pub fn upstream_key(&self) -> Option<&str> {
        self.mark.as_ref().map(|mark| mark.upstream_key.as_str())
    }
}
