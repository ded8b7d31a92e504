//! Where a policy can apply, from its scope: a decision looks only at policies that can concern its tool and its principal.
//! Cedar itself has no index and would look at all.

use std::collections::HashMap;

use cedar_policy::{ActionConstraint, EntityUid, Policy, PolicySetError, PrincipalConstraint, ResourceConstraint};

use crate::{
    bucket::Bucket,
    load::{Loaded, MAY_NEVER_APPLY},
    principal::Principal,
    validate::tool_of,
    vocabulary::{Tool, Vocabulary},
};

/// A policy that names more tools than this is looked at for all, so that the index stays small.
const TOOLS_NAMED_MAX: usize = 64;

/// Where a policy can apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    tools: Vec<ToolKey>,
    /// Whom it can be about; none is everybody.
    principal: Option<EntityUid>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ToolKey {
    Any,
    Upstream(String),
    Tool(String),
}

/// All policies, by where they can apply.
#[derive(Debug, Default)]
pub(crate) struct Index {
    places: HashMap<ToolKey, ByPrincipal>,
}

#[derive(Debug, Default)]
struct ByPrincipal {
    anybody: Option<Bucket>,
    some: HashMap<EntityUid, Bucket>,
}

impl Index {
    pub(crate) fn of(loaded: &[Loaded]) -> Result<Self, Box<PolicySetError>> {
        let mut index = Self::default();
        for policy in loaded {
            for tool in &policy.place.tools {
                let by_principal = index.places.entry(tool.clone()).or_default();
                let bucket = match &policy.place.principal {
                    None => by_principal.anybody.get_or_insert_default(),
                    Some(principal) => by_principal.some.entry(principal.clone()).or_default(),
                };
                bucket.add(policy)?;
            }
        }
        Ok(index)
    }

    /// The policies that can concern a call of this tool by this principal. Every policy is in one of them at most.
    pub(crate) fn buckets<'a>(&'a self, name: &str, tool: &Tool, principal: &'a Principal) -> Vec<&'a Bucket> {
        let keys = [ToolKey::Any, ToolKey::Upstream(tool.upstream.clone()), ToolKey::Tool(name.to_owned())];
        let mut found = Vec::new();
        for by_principal in keys.iter().filter_map(|key| self.places.get(key)) {
            found.extend(by_principal.anybody.as_ref());
            if !by_principal.some.is_empty() {
                found.extend(principal.keys.iter().filter_map(|key| by_principal.some.get(key)));
            }
        }
        found
    }
}

/// Where a policy can apply, or why it never can and what to do.
pub(crate) fn place(vocabulary: &Vocabulary, policy: &Policy) -> Result<Place, (String, String)> {
    let meant = policy.annotation(MAY_NEVER_APPLY).is_some();
    let never = |message: String, hint: String| {
        if meant { Ok(Vec::new()) } else { Err((message, hint)) }
    };
    let resource = match policy.resource_constraint() {
        ResourceConstraint::Any | ResourceConstraint::Is(_) => ToolKey::Any,
        ResourceConstraint::Eq(uid) | ResourceConstraint::In(uid) | ResourceConstraint::IsIn(_, uid) => tool_key(&uid),
    };
    let known = match &resource {
        ToolKey::Any => true,
        ToolKey::Upstream(upstream) => vocabulary.has_upstream(upstream),
        ToolKey::Tool(tool) => vocabulary.tool(tool).is_some(),
    };
    parties_qualified(policy)?;
    let principal = principal_key(policy);
    let tools = if !known {
        never(unknown(&resource), did_you_mean(vocabulary, &resource))?
    } else if let Some(named) = named_tools(policy) {
        let fitting = named.into_iter().filter(|tool| fits(vocabulary, tool, &resource));
        let keys: Vec<ToolKey> = fitting.map(ToolKey::Tool).collect();
        match keys.len() {
            0 if resource != ToolKey::Any => {
                let hint = "the action of a tool and its resource go together: name one of them".to_owned();
                never("the action and the resource are of different tools".to_owned(), hint)?
            }
            0..=TOOLS_NAMED_MAX => keys,
            _ => vec![resource],
        }
    } else {
        vec![resource]
    };
    Ok(Place { tools, principal })
}

/// The tools of the action constraint, if it names only actions of tools. Unknown ones are left to the validator.
fn named_tools(policy: &Policy) -> Option<Vec<String>> {
    let mut tools: Vec<String> = match policy.action_constraint() {
        ActionConstraint::Any => return None,
        ActionConstraint::Eq(action) => vec![tool_of(&action)?],
        ActionConstraint::In(actions) => actions.iter().map(tool_of).collect::<Option<_>>()?,
    };
    tools.sort_unstable();
    tools.dedup();
    Some(tools)
}

fn fits(vocabulary: &Vocabulary, tool: &str, resource: &ToolKey) -> bool {
    match resource {
        ToolKey::Any => true,
        ToolKey::Upstream(upstream) => vocabulary.tool(tool).is_none_or(|tool| tool.upstream == *upstream),
        ToolKey::Tool(named) => named == tool,
    }
}

fn tool_key(uid: &EntityUid) -> ToolKey {
    match uid.type_name().basename() {
        "Tool" => ToolKey::Tool(uid.id().unescaped().to_owned()),
        "Upstream" => ToolKey::Upstream(uid.id().unescaped().to_owned()),
        // The validator says what is wrong with it.
        _ => ToolKey::Any,
    }
}

fn principal_key(policy: &Policy) -> Option<EntityUid> {
    match policy.principal_constraint() {
        PrincipalConstraint::Any | PrincipalConstraint::Is(_) => None,
        PrincipalConstraint::Eq(uid) | PrincipalConstraint::In(uid) | PrincipalConstraint::IsIn(_, uid) => Some(uid),
    }
}

/// A party without a tenant is nobody, wherever in the policy it is named.
fn parties_qualified(policy: &Policy) -> Result<(), (String, String)> {
    for uid in policy.entity_literals() {
        let party = matches!(uid.type_name().basename(), "User" | "Agent" | "Group");
        if party && uid.id().unescaped().split_once('/').is_none_or(|(tenant, _)| tenant.is_empty()) {
            let hint = format!("write `{}::\"<tenant>/{}\"`", uid.type_name(), uid.id().escaped());
            return Err((format!("`{uid}` names no tenant, so nobody is meant"), hint));
        }
    }
    Ok(())
}

fn unknown(resource: &ToolKey) -> String {
    match resource {
        ToolKey::Upstream(upstream) => format!("there is no upstream `{upstream}`"),
        ToolKey::Tool(tool) => format!("there is no tool `{tool}`"),
        ToolKey::Any => "there is no such thing".to_owned(),
    }
}

fn did_you_mean(vocabulary: &Vocabulary, resource: &ToolKey) -> String {
    let (wanted, known): (&str, Vec<&str>) = match resource {
        ToolKey::Upstream(wanted) => (wanted, vocabulary.tools().values().map(|tool| tool.upstream.as_str()).collect()),
        ToolKey::Tool(wanted) => (wanted, vocabulary.tools().keys().map(String::as_str).collect()),
        ToolKey::Any => ("", Vec::new()),
    };
    let near = known.into_iter().map(|name| (strsim::damerau_levenshtein(wanted, name), name)).min();
    match near.filter(|(distance, name)| *distance <= name.len() / 3) {
        Some((_, name)) => format!("did you mean `{name}`? If it may be absent: `@{MAY_NEVER_APPLY}(\"why\")`"),
        None => format!("if it may be absent, say so: `@{MAY_NEVER_APPLY}(\"why\")`"),
    }
}
