//! Where a policy can apply, by its scope: to which tools, and to which parties.

use cedar_policy::{ActionConstraint, EntityTypeName, EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

use crate::{
    entity_types::{CALL, EntityTypes, tool_of},
    nearest::nearest,
    vocabulary::{PolicyTool, Vocabulary},
};

/// The annotation that allows a policy to never apply; its value is the reason.
pub(crate) const MAY_NEVER_APPLY: &str = "may_never_apply";
/// The most tools that one policy may name, so that the index stays small.
const TOOLS_NAMED_MAX: usize = 1_024;
/// Where a policy applies, and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PolicyScope {
    pub tools: Vec<ScopeTool>,
    pub principals: ScopePrincipals,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ScopeTool {
    Any,
    Upstream(String),
    Tool(String),
}

/// The parties that a policy is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScopePrincipals {
    Everybody,
    Kind(EntityTypeName),
    Exactly(EntityUid),
    Within(EntityUid),
    KindWithin(EntityTypeName, EntityUid),
}

impl PolicyScope {
    /// Whether it can apply to calls of this tool.
    pub(crate) fn covers(&self, name: &str, tool: &PolicyTool) -> bool {
        self.tools.iter().any(|key| key.covers(name, tool))
    }
}

impl ScopeTool {
    fn covers(&self, name: &str, tool: &PolicyTool) -> bool {
        match self {
            Self::Any => true,
            Self::Upstream(upstream) => **upstream == *tool.facts.upstream,
            Self::Tool(named) => named == name,
        }
    }
}

/// Where a policy can apply, or why it never can and what to do.
pub(crate) fn policy_scope(vocabulary: &Vocabulary, policy: &Policy) -> Result<PolicyScope, (String, String)> {
    let meant = policy.annotation(MAY_NEVER_APPLY).is_some();
    let never = |message: String, hint: String| {
        if meant { Ok(Vec::new()) } else { Err((message, hint)) }
    };
    parties_qualified(policy)?;
    let principals = principals(policy);
    let Some(resource) = resource_key(vocabulary.names(), policy) else {
        // The validator reports what is wrong with it. With the annotation, the policy applies to nothing.
        return Ok(PolicyScope { tools: Vec::new(), principals });
    };
    let known = match &resource {
        ScopeTool::Any => true,
        ScopeTool::Upstream(upstream) => vocabulary.has_upstream(upstream),
        ScopeTool::Tool(tool) => vocabulary.tool(tool).is_some(),
    };
    let tools = if !known {
        never(unknown(&resource), did_you_mean(vocabulary, &resource))?
    } else if let Some(named) = named_tools(policy) {
        let names_some = !named.is_empty();
        let fitting = named.into_iter().filter(|tool| fits(vocabulary, tool, &resource));
        let keys: Vec<ScopeTool> = fitting.map(ScopeTool::Tool).collect();
        match keys.len() {
            0 if names_some && resource != ScopeTool::Any => {
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
    Ok(PolicyScope { tools, principals })
}

/// The tools of the action constraint; `None` if it covers all of them. The validator reports unknown ones.
fn named_tools(policy: &Policy) -> Option<Vec<String>> {
    let mut tools: Vec<String> = match policy.action_constraint() {
        ActionConstraint::Any => return None,
        // No call has the group itself as its action.
        ActionConstraint::Eq(action) => tool_of(&action).into_iter().collect(),
        ActionConstraint::In(actions) if actions.iter().any(is_every_call) => return None,
        ActionConstraint::In(actions) => actions.iter().filter_map(tool_of).collect(),
    };
    tools.sort_unstable();
    tools.dedup();
    Some(tools)
}

fn fits(vocabulary: &Vocabulary, tool: &str, resource: &ScopeTool) -> bool {
    match resource {
        ScopeTool::Any => true,
        ScopeTool::Upstream(upstream) => vocabulary.tool(tool).is_none_or(|tool| *tool.facts.upstream == **upstream),
        ScopeTool::Tool(named) => named == tool,
    }
}

fn is_every_call(action: &EntityUid) -> bool {
    action.type_name().basename() == "Action" && action.id().unescaped() == CALL
}

/// The tools that the resource constraint covers; `None` if it covers no tool.
fn resource_key(names: &EntityTypes, policy: &Policy) -> Option<ScopeTool> {
    match policy.resource_constraint() {
        ResourceConstraint::Any => Some(ScopeTool::Any),
        ResourceConstraint::Is(kind) => (kind == names.tool).then_some(ScopeTool::Any),
        ResourceConstraint::Eq(uid) => tool_key(names, &uid).filter(|key| matches!(key, ScopeTool::Tool(_))),
        ResourceConstraint::In(uid) => tool_key(names, &uid),
        ResourceConstraint::IsIn(kind, uid) => tool_key(names, &uid).filter(|_| kind == names.tool),
    }
}

fn tool_key(names: &EntityTypes, uid: &EntityUid) -> Option<ScopeTool> {
    let id = uid.id().unescaped().to_owned();
    match uid.type_name() {
        kind if *kind == names.tool => Some(ScopeTool::Tool(id)),
        kind if *kind == names.upstream => Some(ScopeTool::Upstream(id)),
        _ => None,
    }
}

fn principals(policy: &Policy) -> ScopePrincipals {
    match policy.principal_constraint() {
        PrincipalConstraint::Any => ScopePrincipals::Everybody,
        PrincipalConstraint::Is(kind) => ScopePrincipals::Kind(kind),
        PrincipalConstraint::Eq(uid) => ScopePrincipals::Exactly(uid),
        PrincipalConstraint::In(uid) => ScopePrincipals::Within(uid),
        PrincipalConstraint::IsIn(kind, uid) => ScopePrincipals::KindWithin(kind, uid),
    }
}

/// Refuses a party without a tenant anywhere in the policy: it would match no caller.
fn parties_qualified(policy: &Policy) -> Result<(), (String, String)> {
    for uid in policy.entity_literals() {
        let party = matches!(uid.type_name().basename(), "User" | "Agent" | "Group");
        if party && uid.id().unescaped().split_once('/').is_none_or(|(tenant, _)| tenant.is_empty()) {
            let hint = format!("write `{}::\"<tenant>/{}\"`", uid.type_name(), uid.id().escaped());
            return Err((format!("`{uid}` names no tenant, so it matches no caller"), hint));
        }
    }
    Ok(())
}

fn unknown(resource: &ScopeTool) -> String {
    match resource {
        ScopeTool::Upstream(upstream) => format!("there is no upstream `{upstream}`"),
        ScopeTool::Tool(tool) => format!("there is no tool `{tool}`"),
        ScopeTool::Any => "there is no such thing".to_owned(),
    }
}

fn did_you_mean(vocabulary: &Vocabulary, resource: &ScopeTool) -> String {
    let (wanted, known): (&str, Vec<&str>) = match resource {
        ScopeTool::Upstream(wanted) => {
            (wanted, vocabulary.tools().values().map(|tool| &*tool.facts.upstream).collect())
        }
        ScopeTool::Tool(wanted) => (wanted, vocabulary.tools().keys().map(String::as_str).collect()),
        ScopeTool::Any => ("", Vec::new()),
    };
    match nearest(wanted, known) {
        Some(name) => format!("did you mean `{name}`? If it may be absent: `@{MAY_NEVER_APPLY}(\"why\")`"),
        None => format!("if it may be absent, say so: `@{MAY_NEVER_APPLY}(\"why\")`"),
    }
}
