//! Requests about tasks, from requesters of either era about tasks of either era.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_contract::record::QuestionRecord;
use servanda_mcp::{
    Era, RawObject, RpcError,
    capabilities::TASKS_EXTENSION,
    envelope::{code, to_json},
    fields::{member as field, method},
};
use servanda_upstream::{Answer, PerformFailure, UpstreamInquiry};
use tokio::{task::JoinSet, time::Instant};

use super::{INQUIRY_MS_MAX, InquiryContext, InquiryRelay, from_failure, text, with_text};
use crate::{
    answers::{
        refusals::{self, invalid_params},
        upstream_failure,
    },
    client::{Inquiry, InquirySubject, Requester},
    deferred::upstream_tasks::{TaskNote, TaskSettlement, find, present, with_status},
    long_running::{self, InquiryWait, held},
    questions::ClientFailure,
    task_shape::{TaskStatus, add_related_task, task_error, task_question, to_modern, with_members, with_related_task},
    world::{UpstreamMember, WorldSnapshot},
};

/// How long a legacy requester may wait for a task's result.
const RESULT_MS_MAX: u64 = 3_600_000;
/// How often the engine asks about a modern task for a legacy requester that waits.
const POLL_MS: (u64, u64) = (100, 5_000);
const POLL_MS_DEFAULT: u64 = 1_000;

/// How many tasks of a list are asked about at once.
const ASKED_AT_ONCE_MAX: usize = 16;

/// A requester's task, and where it runs.
struct TaskInquiry {
    relay: Arc<InquiryRelay>,
    snapshot: Arc<WorldSnapshot>,
    member: Arc<UpstreamMember>,
    context: InquiryContext,
    ours: String,
    note: TaskNote,
}

/// Answers an inquiry about tasks.
pub(crate) async fn inquire(relay: &Arc<InquiryRelay>, inquiry: Inquiry) -> Result<String, RpcError> {
    let Inquiry { requester, subject, mut params, mut terms } = inquiry;
    allowed(&requester, subject)?;
    // For a task these are ordinary parameters; a door separates them because other requests use them to continue.
    if let Some(responses) = terms.input_responses.take() {
        params.push((field::INPUT_RESPONSES.to_owned(), responses));
    }
    let ms_max = if subject == InquirySubject::TaskResult { RESULT_MS_MAX } else { INQUIRY_MS_MAX };
    let cancel = terms.cancel.clone();
    let context = InquiryContext::new(relay, requester, terms, ms_max).await;
    if subject == InquirySubject::Tasks {
        return list(relay, &context).await;
    }
    let ours = text(&params, field::TASK_ID)?;
    let note = match find(&relay.deferred, &context.requester, &ours).await {
        Ok(note) => note,
        Err(no_task) => {
            let (long_running, requester) = (&relay.deferred.long_running, &context.requester);
            let asker = InquiryWait { requester, deadline: context.deadline, cancel: &cancel };
            if let Some(seen) = long_running::find(&relay.core, requester, &ours).await {
                return long_running::inquire(long_running, asker, seen, subject).await;
            }
            let seen = held::find(&relay.core, requester, &ours).await.ok_or(no_task)?;
            return held::inquire(long_running, asker, seen, subject).await;
        }
    };
    let snapshot = relay.core.snapshot();
    let member = snapshot.member(&note.upstream).cloned().ok_or_else(|| {
        invalid_params("the server of this task is not configured any more")
            .with_hint("operators: `servanda doctor` looks at every upstream")
    })?;
    let mut context = context.refusing_questions(&note.refused_questions);
    if context.requester.era != note.requester_era {
        context = context.in_task_era(note.upstream_era);
    }
    let asked = TaskInquiry { relay: Arc::clone(relay), snapshot, member, context, ours, note };
    match subject {
        InquirySubject::TaskResult => asked.result().await,
        InquirySubject::TaskCancel => Box::pin(asked.cancel()).await,
        InquirySubject::TaskUpdate => asked.update(params).await,
        _ => Box::pin(asked.get()).await,
    }
}

fn allowed(requester: &Requester, subject: InquirySubject) -> Result<(), RpcError> {
    let of_the_other_era = match requester.era {
        Era::Modern => matches!(subject, InquirySubject::TaskResult | InquirySubject::Tasks),
        Era::Legacy => subject == InquirySubject::TaskUpdate,
    };
    if of_the_other_era {
        return Err(RpcError::new(code::METHOD_NOT_FOUND, format!("no such method: `{}`", subject.method())));
    }
    if requester.era == Era::Modern && !requester.capabilities.has_extension(TASKS_EXTENSION) {
        return Err(refusals::undeclared(&format!(r#"{{"extensions":{{"{TASKS_EXTENSION}":{{}}}}}}"#)));
    }
    Ok(())
}

impl TaskInquiry {
    /// Answers `tasks/get`: the task's present state.
    async fn get(mut self) -> Result<String, RpcError> {
        let requester_era = self.context.requester.era;
        let answer = self.ask(task_question(method::TASKS_GET, &self.note.theirs)).await?;
        let task: RawObject<'_> = serde_json::from_slice(&answer.result).map_err(|_| self.no_task())?;
        let is_over = matches!(TaskStatus::from_task(&task), Some(TaskStatus::Completed | TaskStatus::Failed));
        // A modern requester gets the result with the state; a legacy server must be asked for it by another method.
        if is_over && (requester_era, self.note.upstream_era) == (Era::Modern, Era::Legacy) {
            let base = to_modern(&task, &self.ours);
            let ending = self.ask_result().await;
            return Ok(self.modern_end(&base, ending).await);
        }
        let no_task = self.no_task();
        present(self.settlement(), &answer.result, requester_era).await.ok_or(no_task)
    }

    /// Waits for the task's result. Only legacy requesters do this.
    async fn result(mut self) -> Result<String, RpcError> {
        let ending = match self.note.upstream_era {
            Era::Legacy => self.ask_result().await,
            Era::Modern => self.await_modern_end().await,
        };
        let ours = self.ours.clone();
        match ending {
            Ok(result) => {
                let result = without_result_type(&self.settlement().with_result(&result).await?);
                let related = with_related_task(result.as_bytes(), Some(&ours));
                Ok(related.unwrap_or_else(|| add_related_task(&result, &ours)))
            }
            Err(failure) => {
                if let Some(error) = upstream_failure::server_error(&failure) {
                    self.settlement().with_error(&error).await;
                }
                Err(from_failure(&failure, &self.member))
            }
        }
    }

    /// Cancels the task. A modern requester gets an acknowledgement, a legacy one the task.
    async fn cancel(mut self) -> Result<String, RpcError> {
        let answer = self.ask(task_question(method::TASKS_CANCEL, &self.note.theirs)).await?;
        match (self.context.requester.era, self.note.upstream_era) {
            (Era::Modern, Era::Modern) => Ok(acknowledged(&answer)),
            (Era::Modern, Era::Legacy) => {
                self.settlement().cancelled().await;
                Ok("{}".to_owned())
            }
            (Era::Legacy, Era::Legacy) => {
                let no_task = self.no_task();
                present(self.settlement(), &answer.result, Era::Legacy).await.ok_or(no_task)
            }
            (Era::Legacy, Era::Modern) => Box::pin(self.get()).await,
        }
    }

    /// Passes on the answers to the task's questions. Only modern requesters do this.
    async fn update(mut self, params: Vec<(String, Box<RawValue>)>) -> Result<String, RpcError> {
        if self.note.upstream_era == Era::Legacy {
            // A legacy task asks while a requester waits for its result, and is answered there.
            return Ok("{}".to_owned());
        }
        let params = with_text(&params, field::TASK_ID, &self.note.theirs);
        let question = UpstreamInquiry { method: method::TASKS_UPDATE, name: Some(self.note.theirs.clone()), params };
        self.ask(question).await.map(|answer| acknowledged(&answer))
    }

    async fn ask(&mut self, question: UpstreamInquiry) -> Result<Answer, RpcError> {
        self.try_ask(question).await.map_err(|failure| from_failure(&failure, &self.member))
    }

    async fn ask_result(&mut self) -> Result<Bytes, ClientFailure> {
        let question = task_question(method::TASKS_RESULT, &self.note.theirs);
        self.try_ask(question).await.map(|answer| answer.result)
    }

    /// Asks the server about the task. Questions that the server asks meanwhile go on the record of the call.
    async fn try_ask(&mut self, question: UpstreamInquiry) -> Result<Answer, ClientFailure> {
        let mut asked = Vec::new();
        let answer = self.context.ask_for_record(&self.relay, &self.member, question, &mut asked).await;
        self.keep(asked).await;
        answer
    }

    async fn keep(&mut self, asked: Vec<QuestionRecord>) {
        let mut ended = self.settlement();
        ended.add_questions(asked).await;
        self.note = ended.note;
    }

    /// A failure in the words that the requester may see.
    async fn failure_for_client(&mut self, failure: PerformFailure) -> ClientFailure {
        let mut asked = Vec::new();
        let failure = self.context.question_rules(&self.relay, &self.member).failure_for_client(failure, &mut asked);
        self.keep(asked).await;
        failure
    }

    /// Waits for the end of a modern task.
    async fn await_modern_end(&mut self) -> Result<Bytes, ClientFailure> {
        loop {
            let answer = self.try_ask(task_question(method::TASKS_GET, &self.note.theirs)).await?;
            let poll_ms = match modern_task_state(&answer) {
                Ok(ModernTaskState::Ended(result)) => return Ok(result),
                Ok(ModernTaskState::Running { poll_ms }) => poll_ms,
                Err(failure) => return Err(self.failure_for_client(failure).await),
            };
            let pause = Duration::from_millis(poll_ms.unwrap_or(POLL_MS_DEFAULT).clamp(POLL_MS.0, POLL_MS.1));
            if Instant::now() + pause >= self.context.deadline {
                let still_runs = PerformFailure::TimedOut { note: Some("the task still runs".to_owned()) };
                return Err(self.failure_for_client(still_runs).await);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// A legacy task that has ended, as a modern requester reads it.
    async fn modern_end(self, base: &str, ending: Result<Bytes, ClientFailure>) -> String {
        match ending {
            Ok(result) => {
                let result = with_related_task(&result, None).map_or(result, Bytes::from);
                match self.settlement().with_result(&result).await {
                    Ok(result) => with_members(&with_status(base, "completed"), &format!(r#""result":{result}"#)),
                    Err(error) => {
                        with_members(&with_status(base, "failed"), &format!(r#""error":{}"#, to_json(&error)))
                    }
                }
            }
            Err(failure) => {
                let error = from_failure(&failure, &self.member);
                if matches!(&*failure, PerformFailure::Rejected { .. }) {
                    self.settlement().with_error(&error).await;
                }
                with_members(&with_status(base, "failed"), &format!(r#""error":{}"#, to_json(&error)))
            }
        }
    }

    fn settlement(&self) -> TaskSettlement<'_> {
        let Self { snapshot, member, ours, note, .. } = self;
        TaskSettlement { deferred: &self.relay.deferred, snapshot, member, ours, note: note.clone() }
    }

    fn no_task(&self) -> RpcError {
        RpcError::new(code::INTERNAL_ERROR, format!("`{}` answered with something that is not a task", self.member.id))
    }
}

/// The state of a modern task.
enum ModernTaskState {
    Ended(Bytes),
    Running { poll_ms: Option<u64> },
}

/// The state of a modern task, for a requester that waits for its result.
fn modern_task_state(answer: &Answer) -> Result<ModernTaskState, PerformFailure> {
    let malformed = |why: &str| PerformFailure::Malformed { why: why.to_owned() };
    let task: RawObject<'_> =
        serde_json::from_slice(&answer.result).map_err(|_| malformed("the task is not a JSON object"))?;
    match TaskStatus::from_task(&task).ok_or_else(|| malformed("the task has no status"))? {
        TaskStatus::Completed => {
            let result = task.get("result").ok_or_else(|| malformed("the task has no result"))?;
            Ok(ModernTaskState::Ended(Bytes::copy_from_slice(result.get().as_bytes())))
        }
        TaskStatus::Failed => Err(upstream_failure::rejected(task_error(task.get("error")))),
        TaskStatus::Cancelled => {
            Err(upstream_failure::rejected(RpcError::new(code::INVALID_PARAMS, "the task was cancelled")))
        }
        TaskStatus::Working | TaskStatus::InputRequired => {
            let poll_ms = task.get("pollIntervalMs").and_then(|raw| serde_json::from_str::<u64>(raw.get()).ok());
            Ok(ModernTaskState::Running { poll_ms })
        }
    }
}

/// The tasks of a legacy requester's principal, as their servers report them now. Tasks that no server knows any more are left out.
async fn list(relay: &Arc<InquiryRelay>, context: &InquiryContext) -> Result<String, RpcError> {
    let mut asking = JoinSet::new();
    let mut order = Vec::new();
    let mut tasks = HashMap::new();
    for ours in relay.deferred.long_running.lists.task_ids(&relay.core, &context.requester.caller).await {
        let Ok(note) = find(&relay.deferred, &context.requester, &ours).await else {
            if let Some(seen) = long_running::find(&relay.core, &context.requester, &ours).await {
                order.push(ours.clone());
                tasks.insert(ours, long_running::state(&relay.core.snapshot(), &seen, context.requester.era));
            } else if let Some(seen) = held::find(&relay.core, &context.requester, &ours).await {
                order.push(ours.clone());
                tasks.insert(ours, held::state_for(&relay.core, &context.requester, &seen));
            }
            continue;
        };
        let snapshot = relay.core.snapshot();
        let Some(member) = snapshot.member(&note.upstream).cloned() else { continue };
        order.push(ours.clone());
        let context = context.clone().refusing_questions(&note.refused_questions);
        let asked = TaskInquiry { relay: Arc::clone(relay), snapshot, member, context, ours: ours.clone(), note };
        asking.spawn(async move { (ours, Box::pin(asked.get()).await) });
        if asking.len() >= ASKED_AT_ONCE_MAX
            && let Some(Ok((ours, Ok(task)))) = asking.join_next().await
        {
            tasks.insert(ours, task);
        }
    }
    while let Some(asked) = asking.join_next().await {
        if let Ok((ours, Ok(task))) = asked {
            tasks.insert(ours, task);
        }
    }
    let tasks: Vec<String> = order.iter().filter_map(|ours| tasks.remove(ours)).collect();
    Ok(format!(r#"{{"tasks":[{}]}}"#, tasks.join(",")))
}

fn acknowledged(answer: &Answer) -> String {
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).unwrap_or_default();
    members.without(&[field::RESULT_TYPE, field::INPUT_REQUESTS, field::REQUEST_STATE]).to_json()
}

fn without_result_type(json: &str) -> String {
    serde_json::from_str::<RawObject<'_>>(json).unwrap_or_default().without(&[field::RESULT_TYPE]).to_json()
}
