//! What a policy's annotations say about approvals: `@approval("operator")` on a permit makes the calls that it permits need one.
//!
//! | annotation | value |
//! |---|---|
//! | `@approval` | a pattern, or `required` for the pattern of the call's class, or `none`: the class alone asks for no approval |
//! | `@approvers` | groups, separated by commas |
//! | `@quorum` | how many people |
//! | `@presence` | `session`, `fresh` or `passkey` |
//! | `@decide_within` | `90s`, `30m`, `4h` or `2d` |

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use servanda_contract::tool::{ApprovalPattern, Presence};

use crate::demand::people_in_words;

/// The longest time to decide.
const DECIDE_WITHIN_MS_MAX: u64 = 30 * 86_400_000;
/// The most people.
const QUORUM_MAX: u8 = 9;

/// What one policy says about approvals.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyApproval {
    /// The policy's id.
    pub policy: String,
    /// Whether it asks for an approval; if not, it lifts the approval that the class alone would ask for.
    pub required: bool,
    /// Who decides; none means as for the class of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<ApprovalPattern>,
    /// The groups whose members may decide.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// How many people have to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u8>,
    /// How sure the gateway must be that a person decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<Presence>,
    /// How long people have to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decide_within_ms: Option<u64>,
}

/// An annotation that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`@{annotation}`: {message}")]
pub struct PolicyApprovalFault {
    /// The annotation.
    pub annotation: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl PolicyApproval {
    /// The annotations that are about approvals.
    pub const ANNOTATIONS: [&'static str; 5] = ["approval", "approvers", "quorum", "presence", "decide_within"];

    /// Reads the annotations of a policy; none if it says nothing about approvals. `annotation` gives the value of an annotation.
    pub fn read<'a>(
        policy: &str,
        annotation: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<Self>, PolicyApprovalFault> {
        let Some(word) = annotation("approval") else {
            let alone = Self::ANNOTATIONS.into_iter().find(|name| annotation(name).is_some());
            let message = "it describes an approval, and the policy asks for none";
            let hint = "write `@approval(\"required\")`, or a pattern instead of `required`, beside it";
            return alone.map_or(Ok(None), |name| Err(PolicyApprovalFault::new(name, message, hint)));
        };
        let (required, pattern) = match word {
            "none" => (false, None),
            "required" | "" => (true, None),
            word => (true, Some(ApprovalPattern::from_word(word).ok_or_else(|| unknown_pattern(word))?)),
        };
        let groups = annotation("approvers").map(groups).transpose()?.unwrap_or_default();
        let quorum = annotation("quorum").map(quorum_of).transpose()?;
        let presence = annotation("presence").map(presence_of).transpose()?;
        let decide_within_ms = annotation("decide_within").map(duration_ms).transpose()?;
        let says_more = !groups.is_empty() || quorum.is_some() || presence.is_some() || decide_within_ms.is_some();
        if !required && says_more {
            let message = "`none` asks for no approval, so nothing can be said about one";
            let hint = "write `@approval(\"required\")`, or leave out the other annotations about approvals";
            return Err(PolicyApprovalFault::new("approval", message, hint));
        }
        if pattern == Some(ApprovalPattern::Dual) && quorum == Some(1) {
            let hint = "leave out `@quorum`, or write `@approval(\"operator\")` for one approver";
            return Err(PolicyApprovalFault::new("quorum", "`dual` needs two people or more", hint));
        }
        Ok(Some(Self { policy: policy.to_owned(), required, pattern, groups, quorum, presence, decide_within_ms }))
    }

    /// Whether it asks for an approval.
    pub const fn asks(&self) -> bool {
        self.required
    }

    /// Whether it lifts the approval that the class alone would ask for.
    pub const fn lifts(&self) -> bool {
        !self.required
    }

    /// What it says, in words: `asks for approval by 2 approvers of finance`.
    pub fn describe(&self) -> String {
        if self.lifts() {
            return "lifts the approval that the class alone asks for".to_owned();
        }
        let presence = self.presence.unwrap_or_default();
        let says_who = self.pattern.is_some() || self.quorum.is_some() || !self.groups.is_empty();
        if !says_who && presence == Presence::Session {
            return "asks for approval as for the class of the call".to_owned();
        }
        let least = if self.pattern == Some(ApprovalPattern::Dual) { 2 } else { 1 };
        let people = people_in_words(self.pattern, self.quorum.unwrap_or(least), &self.groups, presence);
        format!("asks for approval by {people}")
    }
}

impl PolicyApprovalFault {
    fn new(annotation: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { annotation, message: message.into(), hint: hint.into() }
    }
}

fn unknown_pattern(word: &str) -> PolicyApprovalFault {
    let known: Vec<&str> = ApprovalPattern::ALL.iter().map(|pattern| pattern.word()).collect();
    let hint = format!("write required, none, {}", known.join(", "));
    PolicyApprovalFault::new("approval", format!("there is no pattern `{word}`"), hint)
}

fn groups(text: &str) -> Result<BTreeSet<String>, PolicyApprovalFault> {
    let groups: BTreeSet<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if groups.contains("") {
        // An empty set of groups would mean every approver.
        let hint = "write the names of groups with commas between them, such as \"finance, board\"";
        return Err(PolicyApprovalFault::new("approvers", "a group has no name", hint));
    }
    Ok(groups)
}

fn quorum_of(text: &str) -> Result<u8, PolicyApprovalFault> {
    let number = text.parse().ok().filter(|number| (1..=QUORUM_MAX).contains(number));
    let hint = format!("write a number from 1 to {QUORUM_MAX}");
    number.ok_or_else(|| PolicyApprovalFault::new("quorum", format!("`{text}` people cannot approve"), hint))
}

fn presence_of(text: &str) -> Result<Presence, PolicyApprovalFault> {
    let hint = "write session, fresh or passkey";
    Presence::from_word(text)
        .ok_or_else(|| PolicyApprovalFault::new("presence", format!("there is no presence `{text}`"), hint))
}

fn duration_ms(text: &str) -> Result<u64, PolicyApprovalFault> {
    let wrong = || {
        let hint = "write a number with s, m, h or d, such as 90s, 30m, 4h or 2d, at most 30d";
        PolicyApprovalFault::new("decide_within", format!("`{text}` is not a time to decide"), hint)
    };
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let ms = number.checked_mul(unit_ms).ok_or_else(wrong)?;
    if (1..=DECIDE_WITHIN_MS_MAX).contains(&ms) { Ok(ms) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;
