//! Where a policy can apply, from its scope: to which tools, and to whom.

use cedar_policy::{ActionConstraint, EntityTypeName, EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

use crate::{
    names::{CALL, Names, tool_of},
    nearest::nearest,
    vocabulary::{Tool, Vocabulary},
};

/// The annotation that lets a policy be one that can never apply, with the reason as its value.
pub(crate) const MAY_NEVER_APPLY: &str = "may_never_apply";
/// Tools that one policy may name, so that the index stays small.
const TOOLS_NAMED_MAX: usize = 1_024;
/// Where a policy applies: there and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub tools: Vec<ToolKey>,
    pub principals: Principals,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ToolKey {
    Any,
    Upstream(String),
    Tool(String),
}

/// Whom a policy is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principals {
    Everybody,
    Kind(EntityTypeName),
    Exactly(EntityUid),
    Within(EntityUid),
    KindWithin(EntityTypeName, EntityUid),
}

impl Place {
    /// Whether it can apply to calls of this tool.
    pub(crate) fn covers(&self, name: &str, tool: &Tool) -> bool {
        self.tools.iter().any(|key| key.covers(name, tool))
    }
}

impl ToolKey {
    fn covers(&self, name: &str, tool: &Tool) -> bool {
        match self {
            Self::Any => true,
            Self::Upstream(upstream) => **upstream == *tool.facts.upstream,
            Self::Tool(named) => named == name,
        }
    }
}

/// Where a policy can apply, or why it never can and what to do.
pub(crate) fn place(vocabulary: &Vocabulary, policy: &Policy) -> Result<Place, (String, String)> {
    let meant = policy.annotation(MAY_NEVER_APPLY).is_some();
    let never = |message: String, hint: String| {
        if meant { Ok(Vec::new()) } else { Err((message, hint)) }
    };
    parties_qualified(policy)?;
    let principals = principals(policy);
    let Some(resource) = resource_key(vocabulary.names(), policy) else {
        // The validator says what is wrong with it, unless it may never apply: then it never does.
        return Ok(Place { tools: Vec::new(), principals });
    };
    let known = match &resource {
        ToolKey::Any => true,
        ToolKey::Upstream(upstream) => vocabulary.has_upstream(upstream),
        ToolKey::Tool(tool) => vocabulary.tool(tool).is_some(),
    };
    let tools = if !known {
        never(unknown(&resource), did_you_mean(vocabulary, &resource))?
    } else if let Some(named) = named_tools(policy) {
        let names_some = !named.is_empty();
        let fitting = named.into_iter().filter(|tool| fits(vocabulary, tool, &resource));
        let keys: Vec<ToolKey> = fitting.map(ToolKey::Tool).collect();
        match keys.len() {
            0 if names_some && resource != ToolKey::Any => {
                let hint = "the action of a tool and its resource go together: name one of them".to_owned();
                never("the action and the resource are of different tools".to_owned(), hint)?
            }
            0..=TOOLS_NAMED_MAX => keys,
            _ => {
                let hint = "name their upstreams, or write several policies".to_owned();
                return Err((format!("it names more than {TOOLS_NAMED_MAX} tools"), hint));
            }
        }
    } else {
        vec![resource]
    };
    Ok(Place { tools, principals })
}

/// The tools of the action constraint; none if it is about all of them. Unknown ones are left to the validator.
fn named_tools(policy: &Policy) -> Option<Vec<String>> {
    let mut tools: Vec<String> = match policy.action_constraint() {
        ActionConstraint::Any => return None,
        // No call's action is the group itself.
        ActionConstraint::Eq(action) => tool_of(&action).into_iter().collect(),
        ActionConstraint::In(actions) if actions.iter().any(is_every_call) => return None,
        ActionConstraint::In(actions) => actions.iter().filter_map(tool_of).collect(),
    };
    tools.sort_unstable();
    tools.dedup();
    Some(tools)
}

fn fits(vocabulary: &Vocabulary, tool: &str, resource: &ToolKey) -> bool {
    match resource {
        ToolKey::Any => true,
        ToolKey::Upstream(upstream) => vocabulary.tool(tool).is_none_or(|tool| *tool.facts.upstream == **upstream),
        ToolKey::Tool(named) => named == tool,
    }
}

fn is_every_call(action: &EntityUid) -> bool {
    action.type_name().basename() == "Action" && action.id().unescaped() == CALL
}

/// The tools that the resource constraint is about; none if it is about no tool.
fn resource_key(names: &Names, policy: &Policy) -> Option<ToolKey> {
    match policy.resource_constraint() {
        ResourceConstraint::Any => Some(ToolKey::Any),
        ResourceConstraint::Is(kind) => (kind == names.tool).then_some(ToolKey::Any),
        ResourceConstraint::Eq(uid) => tool_key(names, &uid).filter(|key| matches!(key, ToolKey::Tool(_))),
        ResourceConstraint::In(uid) => tool_key(names, &uid),
        ResourceConstraint::IsIn(kind, uid) => tool_key(names, &uid).filter(|_| kind == names.tool),
    }
}

fn tool_key(names: &Names, uid: &EntityUid) -> Option<ToolKey> {
    let id = uid.id().unescaped().to_owned();
    match uid.type_name() {
        kind if *kind == names.tool => Some(ToolKey::Tool(id)),
        kind if *kind == names.upstream => Some(ToolKey::Upstream(id)),
        _ => None,
    }
}

fn principals(policy: &Policy) -> Principals {
    match policy.principal_constraint() {
        PrincipalConstraint::Any => Principals::Everybody,
        PrincipalConstraint::Is(kind) => Principals::Kind(kind),
        PrincipalConstraint::Eq(uid) => Principals::Exactly(uid),
        PrincipalConstraint::In(uid) => Principals::Within(uid),
        PrincipalConstraint::IsIn(kind, uid) => Principals::KindWithin(kind, uid),
    }
}

/// Refuses a party without a tenant, wherever the policy names it: it would match no caller.
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
        ToolKey::Upstream(wanted) => (wanted, vocabulary.tools().values().map(|tool| &*tool.facts.upstream).collect()),
        ToolKey::Tool(wanted) => (wanted, vocabulary.tools().keys().map(String::as_str).collect()),
        ToolKey::Any => ("", Vec::new()),
    };
    match nearest(wanted, known) {
        Some(name) => format!("did you mean `{name}`? If it may be absent: `@{MAY_NEVER_APPLY}(\"why\")`"),
        None => format!("if it may be absent, say so: `@{MAY_NEVER_APPLY}(\"why\")`"),
    }
}
