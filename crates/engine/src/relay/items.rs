//! Requests about one item of one upstream: reading a resource, getting a prompt, completing an argument. The upstream may answer the
//! first two with questions, as it may for calls.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_contract::{Digest, digest::DigestDomain};
use servanda_mcp::{
    Era, RawObject, RpcError,
    envelope::{code, to_json},
    fields::member as field,
};
use servanda_upstream::{Answer, Continuation, UpstreamInquiry};

use super::{
    INQUIRY_MS_MAX, InquiryContext, InquiryRelay, from_failure, from_read_failure, inquiry_context::not_an_object,
    no_resource, prompts, require_covered, require_unlimited, text, with_text,
};
use crate::{
    answers::refusals::{self, invalid_params},
    bridge::{
        ClientContinuation, ConversationEnd, OpenedRequest, ParkedReply, ParkedRequest, RequestAnswer, RequestBinding,
    },
    client::{Inquiry, InquiryAnswer, InquirySubject},
    world::{UpstreamMember, WorldSnapshot},
};

/// The upstream that an inquiry goes to, and the inquiry in that upstream's own terms.
struct InquiryRoute {
    member: Arc<UpstreamMember>,
    question: UpstreamInquiry,
    /// The name or URI as the requester wrote it.
    exposed: String,
}

struct ItemInquiry {
    snapshot: Arc<WorldSnapshot>,
    subject: InquirySubject,
    params: Vec<(String, Box<RawValue>)>,
    context: InquiryContext,
    continuation: Continuation,
    only_upstream: Option<String>,
    claim: Option<RequestBinding>,
}

/// Reads a resource or gets a prompt.
pub(super) async fn read(relay: &Arc<InquiryRelay>, inquiry: Inquiry) -> Result<InquiryAnswer, RpcError> {
    let Inquiry { requester, subject, params, mut terms } = inquiry;
    let brought =
        ClientContinuation { input_responses: terms.input_responses.take(), request_state: terms.request_state.take() };
    let gives_up = terms.cancel.clone();
    let (snapshot, era) = (relay.core.snapshot(), requester.era);
    let caller = requester.caller.clone();
    let context = InquiryContext::new(relay, requester, terms, INQUIRY_MS_MAX).await;
    let continuation = Continuation::default();
    let mut reading =
        ItemInquiry { snapshot, subject, params, context, continuation, only_upstream: None, claim: None };
    if era == Era::Legacy {
        return Box::pin(reading.run(relay)).await;
    }
    let claim = RequestBinding { caller, request: digest(subject, &reading.params), first_call: None, key: None };
    let answers = brought.input_responses.clone();
    match relay.bridge.open(brought, &claim).await? {
        OpenedRequest::Fresh(continuation) => reading.continuation = continuation,
        OpenedRequest::Round { upstream, continuation, .. } => {
            (reading.continuation, reading.only_upstream) = (continuation, Some(upstream));
        }
        // Bound to a call, so an inquiry never brings it.
        OpenedRequest::ApprovalPage => {}
        OpenedRequest::Parked { id, .. } => {
            let subscriber = reading.context.subscriber();
            return answer(relay.bridge.rejoin(&id, None, answers.as_deref(), subscriber, &gives_up).await);
        }
    }
    reading.claim = Some(claim.clone());
    if !reading.context.requester.capabilities.answers_anything() {
        return Box::pin(reading.run(relay)).await;
    }
    let (parked_request, turns) = ParkedRequest::open(claim, reading.context.subscriber());
    reading.context = reading.context.with_parked_request(Arc::clone(&parked_request));
    let inside = Arc::clone(relay);
    let underway = Box::pin(async move { RequestAnswer::Inquiry(reading.run(&inside).await) });
    answer(relay.bridge.run_until_answer(parked_request, turns, underway, &gives_up).await)
}

/// Completes an argument of a prompt or of a template.
pub(super) async fn complete(relay: &Arc<InquiryRelay>, inquiry: Inquiry) -> Result<String, RpcError> {
    let Inquiry { requester, params, terms, .. } = inquiry;
    let (snapshot, era) = (relay.core.snapshot(), requester.era);
    let context = InquiryContext::new(relay, requester, terms, INQUIRY_MS_MAX).await;
    let raw = params.iter().find(|(name, _)| name == "ref").map(|(_, raw)| raw);
    let reference: RawObject<'_> = raw
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .ok_or_else(|| invalid_params("`ref` must be an object"))?;
    let member_text = |name: &str| reference.get(name).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let (member, [name, other], theirs) = match (member_text("uri"), member_text("name")) {
        (Some(uri), _) => {
            require_covered(&context.requester, &uri)?;
            let (member, theirs) = snapshot.by_uri(&uri, &context.requester).ok_or_else(|| no_resource(era, &uri))?;
            (Arc::clone(member), ["uri", "name"], theirs.to_owned())
        }
        (None, Some(name)) => {
            require_unlimited(&context.requester)?;
            let found =
                prompts::find(&snapshot, &name, &context.requester, context.deadline).await.ok_or_else(no_prompt)?;
            (found.0, ["name", "uri"], found.1)
        }
        (None, None) => return Err(invalid_params("`ref` must have a `uri` or a `name`")),
    };
    let theirs = to_json(&theirs);
    // The server gets only the member that was checked, `uri` or `name`.
    let reference =
        reference.without(&[other]).to_json_with(|of_reference, _| (of_reference == name).then(|| theirs.clone()));
    let reference = RawValue::from_string(reference).map_err(|_| invalid_params("`ref` must be an object"))?;
    let change = |(name, raw): &(String, Box<RawValue>)| {
        (name.clone(), if name == "ref" { reference.clone() } else { raw.clone() })
    };
    let question = UpstreamInquiry {
        method: InquirySubject::Completion.method(),
        name: None,
        params: params.iter().map(change).collect(),
    };
    let answer = context.ask_one(relay, &member, question).await?;
    result(&answer, &member, |_, _| None)
}

impl ItemInquiry {
    async fn run(self, relay: &Arc<InquiryRelay>) -> Result<InquiryAnswer, RpcError> {
        let InquiryRoute { member, question, exposed } = self.route().await?;
        if self.only_upstream.as_deref().is_some_and(|only| only != member.id.as_ref()) {
            return Err(invalid_params("the request now goes to another upstream than the one that asked for input")
                .with_hint("make the request again, without `requestState`"));
        }
        let exposure = member.exposure();
        match self.context.converse(relay, &member, question, self.continuation, &mut Vec::new()).await {
            ConversationEnd::Answered { answer, .. } => {
                let expose = |name: &str, raw: &RawValue| match (self.subject, name) {
                    (InquirySubject::Resource, "contents") => exposure.expose_each(raw, "uri"),
                    (InquirySubject::Prompt, "messages") => exposure.messages(raw),
                    _ => None,
                };
                result(&answer, &member, expose).map(InquiryAnswer::Complete)
            }
            ConversationEnd::Failed(failure) if self.subject == InquirySubject::Resource => {
                Err(from_read_failure(&failure, &member, self.context.requester.era, &exposed))
            }
            ConversationEnd::Failed(failure) => Err(from_failure(&failure, &member)),
            ConversationEnd::Input(wanted) => {
                let claim = self.claim.ok_or_else(|| not_an_object(&member))?;
                let passed = relay.bridge.input_required_result(&wanted, &claim, &member.id).await;
                passed.map(|passed| InquiryAnswer::InputRequired(passed.json))
            }
            ConversationEnd::Task(_) => Err(not_an_object(&member)),
            ConversationEnd::Undeclared { required, .. } => Err(refusals::undeclared(&required)),
            ConversationEnd::NotGiven { what, .. } => Err(RpcError::new(
                code::INTERNAL_ERROR,
                format!("the upstream asked for `{}` and did not get it: {}", what.method, what.why),
            )
            .with_hint("make the request again if you can give what the upstream asks for")),
        }
    }

    async fn route(&self) -> Result<InquiryRoute, RpcError> {
        let name = if self.subject == InquirySubject::Prompt { "name" } else { "uri" };
        let exposed = text(&self.params, name)?;
        let requester = &self.context.requester;
        let (member, theirs) = if self.subject == InquirySubject::Prompt {
            let found = prompts::find(&self.snapshot, &exposed, requester, self.context.deadline).await;
            found.ok_or_else(no_prompt)?
        } else {
            let found = self.snapshot.by_uri(&exposed, requester);
            let (member, theirs) = found.ok_or_else(|| no_resource(self.context.requester.era, &exposed))?;
            (Arc::clone(member), theirs.to_owned())
        };
        let params = with_text(&self.params, name, &theirs);
        let question = UpstreamInquiry { method: self.subject.method(), name: Some(theirs), params };
        Ok(InquiryRoute { member, question, exposed })
    }
}

fn answer(turn: ParkedReply) -> Result<InquiryAnswer, RpcError> {
    match turn {
        ParkedReply::Input(json) => Ok(InquiryAnswer::InputRequired(json)),
        ParkedReply::Done(RequestAnswer::Inquiry(answer)) => answer,
        ParkedReply::Refused(error) => Err(error),
        // A request state is bound to its method, so an inquiry never waits for a call.
        ParkedReply::Done(RequestAnswer::Call(_)) => {
            Err(RpcError::new(code::INTERNAL_ERROR, "the request waited for another kind of answer"))
        }
    }
}

/// A result as the upstream wrote it, without `resultType`, and with some members in the requester's terms.
fn result(
    answer: &Answer,
    member: &UpstreamMember,
    expose: impl Fn(&str, &RawValue) -> Option<String>,
) -> Result<String, RpcError> {
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).map_err(|_| not_an_object(member))?;
    // Members that ask for input are removed, because they would reach the requester unchecked.
    let asks = [field::RESULT_TYPE, field::INPUT_REQUESTS, field::REQUEST_STATE];
    Ok(members.without(&asks).to_json_with(expose))
}

fn no_prompt() -> RpcError {
    invalid_params("there is no such prompt").with_hint("`prompts/list` lists all prompts")
}

/// Identifies an inquiry, so that the same inquiry is recognised when it is made again.
fn digest(subject: InquirySubject, params: &[(String, Box<RawValue>)]) -> Digest {
    let members = params.iter().flat_map(|(name, raw)| [name.as_bytes(), raw.get().as_bytes()]);
    let parts: Vec<&[u8]> = std::iter::once(subject.method().as_bytes()).chain(members).collect();
    Digest::compute(DigestDomain::Request, &parts)
}
