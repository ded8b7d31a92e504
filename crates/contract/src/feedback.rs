//! The part of a refusal that an agent gets: what it can act on, in few tokens. The record holds the rest, which `servanda
//! explain` shows and which the request can ask for with `_meta["servanda/detail"]: "full"`.
//!
//! The size is bounded for every refusal. Texts are cut by an estimate of their tokens, because the gateway does not ship a
//! tokenizer's tables. A test counts with the real tables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CallId, FieldError, GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge, taxonomy::NextAction};

/// The estimated token limit of a whole refusal.
const TOKENS_MAX: usize = 103;
/// Tokens for member names, quotes and the call's id.
const FRAME_TOKENS: usize = 36;
/// Tokens for the hint, limited so that room is left for the message.
const HINT_TOKENS_MAX: usize = 22;
/// The shortest cut text that is sent: fewer words would be useless.
const CUT_TOKENS_MIN: usize = 8;
/// Tokens for one field's pointer, and for the text that says what is expected there.
const POINTER_TOKENS_MAX: usize = 12;
const EXPECTED_TOKENS_MAX: usize = 30;
/// The same limit beside a suggestion, which says more than the list of all possible values.
const EXPECTED_BESIDE_SUGGESTION_TOKENS_MAX: usize = 13;
/// Tokens for the member names and quotes around one field error.
const FIELD_ERROR_TOKENS: usize = 9;
/// Tokens for a handle, and for a waiting time.
const HANDLE_TOKENS: usize = 24;
const RETRY_TOKENS: usize = 7;
/// What a refusal of gate 10 may have in addition: the ticket and the address where people decide.
const TICKET_TOKENS: usize = 70;
/// Tokens for the number of further errors.
const MORE_TOKENS: usize = 6;
/// Further field errors are only counted.
const FIELD_ERRORS_MAX: usize = 3;
/// Letters that count as one token. Most English words up to this length are one token.
const LETTERS_PER_TOKEN: usize = 8;
const DIGITS_PER_TOKEN: usize = 3;

/// The part of a refusal that an agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// The taxonomy class.
    pub error_code: TaxonomyClass,
    /// Where it was refused.
    pub gate: GateName,
    /// What happened, in one sentence; absent where the field errors say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The first errors in the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_errors: Vec<FieldFeedback>,
    /// How many more errors there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_errors: usize,
    /// What to do: the closed set of words.
    pub next_action: NextAction,
    /// The same in words, if there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How long to wait before the same call may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What to fetch the result by, for `ask_later`; or the ticket of the approval that the call needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// What is known about the outside world.
    pub effect: EffectKnowledge,
    /// `servanda explain` says the rest of it.
    pub call_id: CallId,
}

/// One thing wrong with one argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldFeedback {
    /// JSON Pointer into the arguments; empty for the whole.
    pub pointer: String,
    /// What the contract wants there.
    pub expected: String,
    /// The name or value that was probably meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
}

impl Feedback {
    /// What the agent is told of that refusal.
    pub fn from_refusal(refusal: &Refusal) -> Self {
        let is_about_ticket = refusal.gate == GateName::Confirmation;
        let is_told = is_about_ticket || refusal.next_action == NextAction::AskLater;
        let handle = refusal.handle.clone().filter(|_| is_told);
        let tokens_max = if is_about_ticket && handle.is_some() { TOKENS_MAX + TICKET_TOKENS } else { TOKENS_MAX };
        let aside = if handle.is_some() { HANDLE_TOKENS } else { 0 }
            + if refusal.retry_after_ms.is_some() { RETRY_TOKENS } else { 0 }
            + if refusal.field_errors.len() > 1 { MORE_TOKENS } else { 0 };
        let mut left = tokens_max.saturating_sub(FRAME_TOKENS + words_tokens(refusal) + aside);
        let field_errors = field_errors(refusal, &mut left);
        let more_errors = match field_errors.len() {
            0 => 0,
            told => refusal.field_errors.len().saturating_sub(told),
        };
        let message_tokens = tokens(&refusal.message);
        // The hint may use the tokens that the message leaves.
        let hint_max = HINT_TOKENS_MAX.max(left.saturating_sub(message_tokens)).min(left);
        let hint = fitting(&refusal.hint, hint_max);
        left = left.saturating_sub(tokens(&hint));
        let message = if says_it_by_field(refusal.gate) && !field_errors.is_empty() {
            String::new()
        } else {
            fitting(&refusal.message, left)
        };
        Self {
            error_code: refusal.error_code,
            gate: refusal.gate,
            message: Some(message).filter(|text| !text.is_empty()),
            field_errors,
            more_errors,
            next_action: refusal.next_action,
            hint: Some(hint).filter(|text| !text.is_empty()),
            retry_after_ms: refusal.retry_after_ms,
            handle,
            effect: refusal.effect,
            call_id: refusal.call_id.clone(),
        }
    }
}

/// The tokens of the enum words.
fn words_tokens(refusal: &Refusal) -> usize {
    let Refusal { error_code, gate, next_action, effect, .. } = refusal;
    serde_json::to_string(&(error_code, gate, next_action, effect)).map_or(TOKENS_MAX, |words| tokens(&words))
}

/// The errors in the arguments, which an agent can correct, as many as fit.
fn field_errors(refusal: &Refusal, left: &mut usize) -> Vec<FieldFeedback> {
    if refusal.gate == GateName::Observe {
        return Vec::new();
    }
    let by_field = says_it_by_field(refusal.gate);
    // For an error of the whole value, the message says more.
    let errors = refusal.field_errors.iter().filter(|error| by_field || !error.pointer.is_empty());
    let mut told = Vec::new();
    for error in errors.take(FIELD_ERRORS_MAX) {
        let error = FieldFeedback::from_error(error);
        let needed = error.tokens();
        if !told.is_empty() && needed > *left {
            break;
        }
        *left = left.saturating_sub(needed);
        told.push(error);
    }
    told
}

/// Whether the messages of that gate's refusals repeat the first field error.
fn says_it_by_field(gate: GateName) -> bool {
    matches!(gate, GateName::Structure | GateName::Types | GateName::Bounds)
}

impl FieldFeedback {
    fn from_error(error: &FieldError) -> Self {
        let expected_max =
            if error.did_you_mean.is_some() { EXPECTED_BESIDE_SUGGESTION_TOKENS_MAX } else { EXPECTED_TOKENS_MAX };
        Self {
            pointer: cut(&error.pointer, POINTER_TOKENS_MAX),
            expected: cut(&error.expected, expected_max),
            did_you_mean: error.did_you_mean.as_deref().map(|name| cut(name, POINTER_TOKENS_MAX)),
        }
    }

    fn tokens(&self) -> usize {
        let suggested = self.did_you_mean.as_deref().map_or(0, |name| tokens(name) + FIELD_ERROR_TOKENS / 2);
        FIELD_ERROR_TOKENS + tokens(&self.pointer) + tokens(&self.expected) + suggested
    }
}

/// The estimated tokens of a text.
fn tokens(text: &str) -> usize {
    prefix(text, usize::MAX).1
}

/// A text, cut to the limit; empty if too little of it would be left.
fn fitting(text: &str, tokens_max: usize) -> String {
    if tokens(text) <= tokens_max || tokens_max >= CUT_TOKENS_MIN { cut(text, tokens_max) } else { String::new() }
}

/// As many whole words of a text as fit.
fn cut(text: &str, tokens_max: usize) -> String {
    let (fits, _) = prefix(text, tokens_max);
    if fits == text.len() {
        return text.to_owned();
    }
    // One token is kept for the ellipsis.
    let (fits, _) = prefix(text, tokens_max.saturating_sub(1));
    let kept = text.get(..fits).unwrap_or_default();
    let kept = kept.trim_end_matches(|end: char| end.is_whitespace() || ",;:(`\"'".contains(end));
    if kept.is_empty() { String::new() } else { format!("{kept}…") }
}

/// How many bytes of a text fit, in whole runs of letters or digits, and their estimated tokens.
fn prefix(text: &str, tokens_max: usize) -> (usize, usize) {
    let (mut bytes, mut taken) = (0, 0);
    while let Some(rest) = text.get(bytes..).filter(|rest| !rest.is_empty()) {
        let (run, needed) = next_run(rest);
        if taken + needed > tokens_max {
            break;
        }
        (bytes, taken) = (bytes + run, taken + needed);
    }
    (bytes, taken)
}

/// The first run of letters or of digits, or the first other character: its bytes and its estimated tokens.
fn next_run(text: &str) -> (usize, usize) {
    let length = |of: fn(char) -> bool| text.find(|next: char| !of(next)).unwrap_or(text.len());
    let Some(first) = text.chars().next() else { return (0, 0) };
    if first.is_ascii_alphabetic() {
        let letters = length(|next| next.is_ascii_alphabetic());
        (letters, letters.div_ceil(LETTERS_PER_TOKEN))
    } else if first.is_ascii_digit() {
        let digits = length(|next| next.is_ascii_digit());
        (digits, digits.div_ceil(DIGITS_PER_TOKEN))
    } else {
        let needed = match first {
            // A space belongs to the word that follows it.
            ' ' => 0,
            _ if first.is_control() => 3,
            _ if first.is_alphabetic() || first.is_ascii() => 1,
            _ => first.len_utf8(),
        };
        (first.len_utf8(), needed)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(gate: GateName, class: TaxonomyClass) -> Refusal {
        Refusal::new(CallId::new(), gate, class, "what happened".to_owned(), "what to do".to_owned())
    }

    fn error(pointer: &str, expected: &str) -> FieldError {
        FieldError {
            field: pointer.trim_start_matches('/').to_owned(),
            pointer: pointer.to_owned(),
            expected: expected.to_owned(),
            actual: "something else".to_owned(),
            message: format!("`{pointer}` must be {expected}"),
            did_you_mean: None,
        }
    }

    #[test]
    fn field_errors_stand_for_the_message_where_they_say_the_same() {
        let errors = vec![error("/a", "integer"), error("/b", "string")];
        let types = Feedback::from_refusal(
            &refusal(GateName::Types, TaxonomyClass::TypeMismatch).with_field_errors(errors.clone()),
        );
        assert_eq!((types.message, types.field_errors.len(), types.more_errors), (None, 2, 0));
        let rule = refusal(GateName::Semantics, TaxonomyClass::SemanticInvalidity).with_field_errors(errors.clone());
        let rule = Feedback::from_refusal(&rule);
        assert_eq!((rule.message.as_deref(), rule.field_errors.len()), (Some("what happened"), 2));
        let parse = refusal(GateName::Parse, TaxonomyClass::SyntacticParseFail)
            .with_field_errors(vec![error("", "strict JSON within the limits")]);
        let parse = Feedback::from_refusal(&parse);
        assert_eq!((parse.message.as_deref(), parse.field_errors.len()), (Some("what happened"), 0));
        let class = TaxonomyClass::ObservationNormalizationFail;
        let observed = Feedback::from_refusal(&refusal(GateName::Observe, class).with_field_errors(errors));
        assert!(observed.field_errors.is_empty(), "no agent can correct the answer of a server");
    }

    #[test]
    fn what_does_not_fit_is_counted_and_cut_at_a_word() {
        let many: Vec<FieldError> = (0..64).map(|number| error(&format!("/field_{number}"), "a short text")).collect();
        let told = Feedback::from_refusal(
            &refusal(GateName::Structure, TaxonomyClass::StructuralViolation).with_field_errors(many),
        );
        assert!((1..=FIELD_ERRORS_MAX).contains(&told.field_errors.len()), "{told:?}");
        assert_eq!(told.field_errors.len() + told.more_errors, 64);
        let names: Vec<String> = (0..32).map(|number| format!("name_{number}")).collect();
        let long = error("/x", &format!("only {}", names.join(", ")));
        let told = Feedback::from_refusal(
            &refusal(GateName::Structure, TaxonomyClass::StructuralViolation).with_field_errors(vec![long]),
        );
        let expected = &told.field_errors[0].expected;
        assert!(expected.starts_with("only name_0, name_1") && expected.ends_with('…'), "{expected}");
        assert!(tokens(expected) <= EXPECTED_TOKENS_MAX + 3, "{expected}");
    }

    #[test]
    fn a_handle_is_told_only_to_an_agent_that_can_fetch_by_it() {
        let unknown = refusal(GateName::Fence, TaxonomyClass::UnknownError).with_handle("eff_1");
        assert_eq!(Feedback::from_refusal(&unknown).handle, None);
        let later = unknown.with_next_action(NextAction::AskLater);
        assert_eq!(Feedback::from_refusal(&later).handle.as_deref(), Some("eff_1"));
    }
}
