//! What an upstream performs: a call that passed the gates and, where it may change something, has its mark on record. Only the fence
//! makes one.

use bytes::Bytes;
use servanda_contract::{CallId, tool::EffectClass};
use servanda_effects::effect::{Claim, Effect, EffectKey};

use crate::Permit;

/// A call that is durably this process's to send, where it has to be. The only thing an upstream performs.
#[derive(Debug)]
pub struct Fenced {
    call_id: CallId,
    upstream: String,
    upstream_tool: String,
    arguments: Bytes,
    effect_class: EffectClass,
    mark: Option<DispatchMark>,
}

/// The effect of a fenced call, and the evidence that it is this process's to dispatch.
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

    /// What is sent is what the effect says, which for one that was sent before is what was sent before.
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
