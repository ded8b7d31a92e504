//! Attributes with a fixed set of words: a policy that compares one with another word is wrong, and would silently never hold.
//! Cedar has no type for such words, so this module checks the policy's syntax.

use serde_json::Value;
use servanda_contract::tool::{DataClassification as Data, EgressPolicy as Egress, QuestionKind, SideEffectClass};

use crate::{
    facts::{egress, sensitivity},
    findings::{PolicyFinding, PolicyFindingKind},
    loaded::{LoadedPolicy, PolicySource},
    nearest::nearest,
};

/// Every comparison of a policy with a word that its attribute never has.
pub(crate) fn findings(policy: &LoadedPolicy, sources: &[PolicySource<'_>]) -> Vec<PolicyFinding> {
    let Ok(syntax) = policy.policy.to_json() else { return Vec::new() };
    let mut found = Vec::new();
    // A chain of conditions may be long, so the loop walks it without recursion.
    let mut left = vec![&syntax];
    while let Some(expression) = left.pop() {
        match expression {
            Value::Object(members) => {
                for (operator, inner) in members {
                    found.extend(compared(operator, inner).into_iter().filter_map(|(path, word)| {
                        let words = words(&path)?;
                        (!words.contains(&word)).then(|| finding(policy, sources, &path, word, &words))
                    }));
                    left.push(inner);
                }
            }
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
    found
}

/// The attributes and the words that an operator compares.
fn compared<'a>(operator: &str, inner: &'a Value) -> Vec<(String, &'a str)> {
    let (Some(left), Some(right)) = (inner.get("left"), inner.get("right")) else { return Vec::new() };
    let word = |value: &'a Value| value.get("Value").and_then(Value::as_str);
    let pair = |attribute: &'a Value, other: &'a Value| attribute_path(attribute).zip(word(other));
    match operator {
        "==" | "!=" => [pair(left, right), pair(right, left)].into_iter().flatten().collect(),
        "contains" => {
            let items = left.get("Set").and_then(Value::as_array).into_iter().flatten();
            items.filter_map(|item| pair(right, item)).collect()
        }
        _ => Vec::new(),
    }
}

/// `resource.side_effect_class`, written as in a policy, if the expression is nothing else.
fn attribute_path(expression: &Value) -> Option<String> {
    let mut steps = Vec::new();
    let mut at = expression;
    loop {
        if let Some(variable) = at.get("Var").and_then(Value::as_str) {
            steps.push(variable);
            steps.reverse();
            return Some(steps.join("."));
        }
        let step = at.get(".")?;
        steps.push(step.get("attr").and_then(Value::as_str)?);
        at = step.get("left")?;
    }
}

/// The words that an attribute can have; `None` if it can have any.
fn words(path: &str) -> Option<Vec<&'static str>> {
    Some(match path {
        "resource.side_effect_class" => SideEffectClass::ALL.map(SideEffectClass::word).to_vec(),
        "resource.data_classification" => {
            let all = [Data::Public, Data::Internal, Data::Confidential, Data::Regulated, Data::Secret];
            all.map(|one| sensitivity(one).0).to_vec()
        }
        "resource.egress" => {
            let all = [Egress::None, Egress::AllowlistedDomains, Egress::PrivateNetworkOnly];
            all.into_iter().chain([Egress::UnrestrictedWithApproval]).map(egress).collect()
        }
        "context.question" => QuestionKind::ALL.map(QuestionKind::word).to_vec(),
        _ => return None,
    })
}

fn finding(
    policy: &LoadedPolicy,
    sources: &[PolicySource<'_>],
    path: &str,
    word: &str,
    words: &[&str],
) -> PolicyFinding {
    let message = format!("it compares `{path}` with \"{}\", which it never is", word.escape_debug());
    let hint = match nearest(word, words.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("it is one of {}", words.join(", ")),
    };
    let offset = policy.text.find(word).unwrap_or_default();
    PolicyFinding { hint: Some(hint), ..policy.finding(sources, offset, PolicyFindingKind::Type, message) }
}
