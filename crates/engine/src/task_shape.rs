//! Tasks on the wire: flat with `ttlMs` in the modern era, in a `task` with `ttl` in the legacy one. As little as possible is read;
//! everything else stays as it was written.

use std::borrow::Cow;

use serde_json::value::RawValue;
use servanda_contract::record::QuestionRecord;
use servanda_mcp::{
    Era, RawObject, RpcError,
    envelope::{code, to_json},
    fields::{member, meta, result_type},
};
use servanda_upstream::{Answer, UpstreamInquiry};

use crate::questions::{ClientInputRequests, QuestionRules, legible_in_brief};

/// What the eras call the same members: modern, then legacy.
const RENAMED: [(&str, &str); 2] = [("ttlMs", "ttl"), ("pollIntervalMs", "pollInterval")];
/// Members that a modern task holds and a legacy task does not. A requester gets none of them as the server wrote them.
const INLINE: [&str; 4] = ["result", "error", member::INPUT_REQUESTS, member::REQUEST_STATE];
const STATUS_MESSAGE: &str = "statusMessage";

/// A task that an upstream made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreatedTask {
    /// Its id at the upstream.
    pub(crate) theirs: String,
    /// The era it was made in.
    pub(crate) era: Era,
    /// How long the upstream keeps it, if it says so.
    pub(crate) ttl_ms: Option<u64>,
    /// How often the upstream wants to be asked about it.
    pub(crate) poll_ms: Option<u64>,
}

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    /// The status of a task object; none if it has no known status.
    pub(crate) fn from_task(task: &RawObject<'_>) -> Option<Self> {
        let word: String = serde_json::from_str(task.get("status")?.get()).ok()?;
        Some(match word.as_str() {
            "working" => Self::Working,
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => return None,
        })
    }

    /// Whether no other status follows.
    pub(crate) const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The task that an answer to a call is about, if it is about one. A legacy server makes a task only if the call asked for one.
/// An answer that two readers could read differently makes no task.
pub(crate) fn created_task(answer: &Answer) -> Option<CreatedTask> {
    servanda_mcp::shape::inspect(&answer.result).ok()?;
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).ok()?;
    match answer.era {
        Era::Modern => {
            let kind: String = serde_json::from_str(members.get(member::RESULT_TYPE)?.get()).ok()?;
            (kind == result_type::TASK).then(|| read(&members, Era::Modern)).flatten()
        }
        Era::Legacy if members.get("content").is_none() => {
            let task = serde_json::from_str::<RawObject<'_>>(members.get(member::TASK)?.get()).ok()?;
            read(&task, Era::Legacy)
        }
        Era::Legacy => None,
    }
}

fn read(task: &RawObject<'_>, era: Era) -> Option<CreatedTask> {
    let [ttl, poll] = RENAMED.map(|(modern, legacy)| if era == Era::Modern { modern } else { legacy });
    let number = |name: &str| task.get(name).and_then(|raw| serde_json::from_str::<u64>(raw.get()).ok());
    let theirs = serde_json::from_str(task.get(member::TASK_ID)?.get()).ok()?;
    Some(CreatedTask { theirs, era, ttl_ms: number(ttl), poll_ms: number(poll) })
}

/// The answer to the call, in the requester's era and with the gateway's id. The questions that come with the task are recorded.
pub(crate) fn render_created(
    answer: &Answer,
    requester_era: Era,
    ours: &str,
    rules: &QuestionRules,
    record: &mut Vec<QuestionRecord>,
) -> Option<String> {
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).ok()?;
    if answer.era == Era::Modern {
        let modern = with_questions(members.clone(), ours, rules, record);
        return Some(match requester_era {
            Era::Modern => modern,
            Era::Legacy => format!(r#"{{"task":{}}}"#, to_legacy(&members, ours)),
        });
    }
    let task = serde_json::from_str::<RawObject<'_>>(members.get(member::TASK)?.get()).ok()?;
    if requester_era == Era::Modern {
        return Some(to_modern(&task, ours));
    }
    let notes = members.get(member::META).map_or_else(String::new, |raw| format!(r#","{}":{raw}"#, member::META));
    Some(format!(r#"{{"{}":{}{notes}}}"#, member::TASK, with_id(task, ours)))
}

/// A modern task with its questions as the requester gets them; it has questions only while it waits for input. Questions that may not be
/// asked are left out, and the task's status message says so: a task cannot be told that a question is declined, so it would wait for ever.
pub(crate) fn with_questions(
    task: RawObject<'_>,
    ours: &str,
    rules: &QuestionRules,
    record: &mut Vec<QuestionRecord>,
) -> String {
    let asked =
        task.get(member::INPUT_REQUESTS).filter(|_| TaskStatus::from_task(&task) == Some(TaskStatus::InputRequired));
    let Some(raw) = asked else { return with_id(task, ours) };
    let ClientInputRequests { input_requests, refused } = rules.check_all(raw, record);
    let questions = format!(r#""{}":{input_requests}"#, member::INPUT_REQUESTS);
    if refused.is_empty() {
        return with_members(&with_id(task, ours), &questions);
    }
    let message = format!("the gateway did not pass on what the server asked: {}; cancel the task", refused.join("; "));
    let task = with_id(task.without(&[STATUS_MESSAGE]), ours);
    with_members(&task, &format!(r#"{questions},"{STATUS_MESSAGE}":{}"#, to_json(&message)))
}

/// A task with the gateway's id and without the [`INLINE`] members, otherwise as it is.
pub(crate) fn with_id(task: RawObject<'_>, ours: &str) -> String {
    renamed(&task.without(&[member::RESULT_TYPE]).without(&INLINE), ours, |_| None)
}

/// A modern task as legacy requesters read it.
pub(crate) fn to_legacy(task: &RawObject<'_>, ours: &str) -> String {
    let mut without = vec![member::RESULT_TYPE, member::META];
    without.extend(INLINE);
    renamed(&task.clone().without(&without), ours, |name| {
        RENAMED.iter().find(|(modern, _)| *modern == name).map(|(_, legacy)| *legacy)
    })
}

/// A legacy task as modern requesters read it.
pub(crate) fn to_modern(task: &RawObject<'_>, ours: &str) -> String {
    let json = renamed(&task.clone().without(&[member::META]).without(&INLINE), ours, |name| {
        RENAMED.iter().find(|(_, legacy)| *legacy == name).map(|(modern, _)| *modern)
    });
    // Modern requesters are promised this member; null means that the server decides how long the task is kept.
    if task.get("ttl").is_some() { json } else { with_members(&json, r#""ttlMs":null"#) }
}

fn renamed(task: &RawObject<'_>, ours: &str, other_name: impl Fn(&str) -> Option<&'static str>) -> String {
    let member = |(name, raw): (&str, &RawValue)| {
        let value = match name {
            member::TASK_ID => to_json(ours),
            STATUS_MESSAGE => shown(raw),
            _ => raw.get().to_owned(),
        };
        format!("{}:{value}", to_json(other_name(name).unwrap_or(name)))
    };
    format!("{{{}}}", task.iter().map(member).collect::<Vec<_>>().join(","))
}

/// A server's words with hidden characters spelled out.
fn shown(raw: &RawValue) -> String {
    servanda_mcp::shape::with_texts(raw.get(), legible_in_brief).map_or_else(|| "null".to_owned(), Cow::into_owned)
}

/// An object with more members, which must be JSON and new to it.
pub(crate) fn with_members(object: &str, members: &str) -> String {
    let inside = object.strip_suffix('}').unwrap_or(object);
    let separator = if inside.ends_with('{') { "" } else { "," };
    format!("{inside}{separator}{members}}}")
}

/// A result with the gateway's id in `_meta["io.modelcontextprotocol/related-task"]`; without that member if the gateway has no id for it.
pub(crate) fn with_related_task(result: &[u8], ours: Option<&str>) -> Option<String> {
    let members: RawObject<'_> = serde_json::from_slice(result).ok()?;
    let notes: RawObject<'_> = serde_json::from_str(members.get(member::META)?.get()).ok()?;
    notes.get(meta::RELATED_TASK)?;
    let notes = match ours {
        None => notes.without(&[meta::RELATED_TASK]).to_json(),
        Some(ours) => {
            let related = format!(r#"{{"taskId":{}}}"#, to_json(ours));
            notes.to_json_with(|name, _| (name == meta::RELATED_TASK).then(|| related.clone()))
        }
    };
    Some(members.to_json_with(|name, _| (name == member::META).then(|| notes.clone())))
}

/// A question about a task of an upstream.
pub(crate) fn task_question(method: &'static str, theirs: &str) -> UpstreamInquiry {
    let id = RawValue::from_string(to_json(theirs)).ok();
    let params = id.map(|id| (member::TASK_ID.to_owned(), id)).into_iter().collect();
    UpstreamInquiry { method, name: Some(theirs.to_owned()), params }
}

/// The error of a failed task.
pub(crate) fn task_error(raw: Option<&RawValue>) -> RpcError {
    let error = raw.and_then(|raw| serde_json::from_str::<RpcError>(raw.get()).ok());
    error.unwrap_or_else(|| RpcError::new(code::INTERNAL_ERROR, "the task failed without saying why"))
}

/// Adds to a legacy result which task it belongs to.
pub(crate) fn add_related_task(result: &str, ours: &str) -> String {
    let members: RawObject<'_> = serde_json::from_str(result).unwrap_or_default();
    let notes = members.get(member::META).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let notes = with_members(
        &RawObject::to_json(&notes),
        &format!(r#"{}:{{"taskId":{}}}"#, to_json(meta::RELATED_TASK), to_json(ours)),
    );
    let rest = members.without(&[member::META]).to_json();
    with_members(&rest, &format!(r#""{}":{notes}"#, member::META))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use servanda_mcp::{Era, RawObject};
    use servanda_upstream::Answer;

    use crate::questions::QuestionRules;

    use super::{CreatedTask, TaskStatus, created_task, render_created, to_legacy, to_modern, with_related_task};

    fn answer(era: Era, text: &'static str) -> Answer {
        Answer { result: Bytes::from_static(text.as_bytes()), era }
    }

    const MODERN: &str =
        r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":60000,"pollIntervalMs":100,"x":1.0}"#;
    const LEGACY: &str =
        r#"{"task":{"taskId":"t","status":"working","ttl":60000,"pollInterval":100,"x":1.0},"_meta":{"a":1}}"#;

    #[test]
    fn tasks_are_told_from_other_answers() {
        let made = |era| Some(CreatedTask { theirs: "t".to_owned(), era, ttl_ms: Some(60_000), poll_ms: Some(100) });
        let table = [
            (answer(Era::Modern, MODERN), made(Era::Modern)),
            (answer(Era::Modern, r#"{"resultType":"complete","taskId":"t"}"#), None),
            (answer(Era::Modern, r#"{"resultType":"task"}"#), None),
            (answer(Era::Legacy, LEGACY), made(Era::Legacy)),
            (answer(Era::Legacy, r#"{"content":[],"task":{"taskId":"t"}}"#), None),
            (answer(Era::Legacy, MODERN), None),
        ];
        for (answer, expected) in table {
            assert_eq!(created_task(&answer), expected, "{answer:?}");
        }
    }

    fn rules() -> QuestionRules {
        QuestionRules::new(&std::sync::Arc::from("up"), true)
    }

    /// A question in any member, status and era: it is asked only while the task waits for input.
    #[test]
    fn no_question_passes_as_it_was_written() {
        const RAW: &str =
            r#""inputRequests":{"k":{"method":"elicitation/create","params":{"message":"RAW"}}},"requestState":"RAW""#;
        for status in ["working", "input_required", "completed", "failed", "cancelled"] {
            let task = format!(
                r#""taskId":"t","status":"{status}","statusMessage":"\u202ex","result":"RAW","error":"RAW",{RAW}"#
            );
            let modern = format!(r#"{{"resultType":"task",{task}}}"#);
            let legacy = format!(r#"{{"task":{{{task}}},{RAW}}}"#);
            for (era, text) in [(Era::Modern, modern), (Era::Legacy, legacy)] {
                let answer = Answer { result: Bytes::from(text), era };
                for requester_era in [Era::Modern, Era::Legacy] {
                    let mut record = Vec::new();
                    let made = render_created(&answer, requester_era, "o", &rules(), &mut record).unwrap();
                    let is_put = era == Era::Modern && status == "input_required";
                    assert_eq!(record.len(), usize::from(is_put), "{made}");
                    let is_shown = is_put && requester_era == Era::Modern;
                    assert_eq!(made.contains("[asked by the tool server `up`] RAW"), is_shown, "{made}");
                    assert_eq!(made.matches("RAW").count(), usize::from(is_shown), "{made}");
                    assert!(made.contains("<U+202E>x"), "{made}");
                }
            }
        }
    }

    #[test]
    fn requesters_get_their_own_form_and_our_id() {
        let table = [
            (
                Era::Modern,
                answer(Era::Modern, MODERN),
                r#"{"taskId":"o","status":"working","ttlMs":60000,"pollIntervalMs":100,"x":1.0}"#,
            ),
            (
                Era::Legacy,
                answer(Era::Legacy, LEGACY),
                r#"{"task":{"taskId":"o","status":"working","ttl":60000,"pollInterval":100,"x":1.0},"_meta":{"a":1}}"#,
            ),
            (
                Era::Legacy,
                answer(Era::Modern, MODERN),
                r#"{"task":{"taskId":"o","status":"working","ttl":60000,"pollInterval":100,"x":1.0}}"#,
            ),
            (
                Era::Modern,
                answer(Era::Legacy, LEGACY),
                r#"{"taskId":"o","status":"working","ttlMs":60000,"pollIntervalMs":100,"x":1.0}"#,
            ),
        ];
        for (requester_era, answer, expected) in table {
            assert_eq!(
                render_created(&answer, requester_era, "o", &rules(), &mut Vec::new()).as_deref(),
                Some(expected)
            );
        }
    }

    #[test]
    fn states_cross_without_what_the_other_era_says_elsewhere() {
        let modern: RawObject<'_> =
            serde_json::from_str(r#"{"taskId":"t","status":"completed","ttlMs":null,"result":{"content":[]}}"#)
                .unwrap();
        assert_eq!(to_legacy(&modern, "o"), r#"{"taskId":"o","status":"completed","ttl":null}"#);
        assert!(TaskStatus::from_task(&modern).unwrap().is_terminal());
        let legacy: RawObject<'_> = serde_json::from_str(r#"{"taskId":"t","status":"working"}"#).unwrap();
        assert_eq!(to_modern(&legacy, "o"), r#"{"taskId":"o","status":"working","ttlMs":null}"#);
        assert_eq!(TaskStatus::from_task(&legacy), Some(TaskStatus::Working));
    }

    #[test]
    fn related_tasks_have_our_id_or_none() {
        const RESULT: &[u8] =
            br#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"a":1}}"#;
        assert_eq!(
            with_related_task(RESULT, Some("o")).unwrap(),
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"o"},"a":1}}"#
        );
        assert_eq!(with_related_task(RESULT, None).unwrap(), r#"{"content":[],"_meta":{"a":1}}"#);
        assert_eq!(with_related_task(br#"{"content":[]}"#, Some("o")), None);
    }
}
