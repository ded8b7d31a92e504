//! Where a policy can apply, from its scope: a decision looks only at policies that can concern its tool and its principal.
//! Cedar itself has no index and would look at all.

use std::collections::HashMap;

use cedar_policy::{
    ActionConstraint, Context, EntityTypeName, EntityUid, EvalResult, Policy, PolicySetError, PrincipalConstraint,
    Request, ResourceConstraint, eval_expression,
};

use crate::{
    bucket::{Bucket, Rule},
    load::{Loaded, MAY_NEVER_APPLY},
    names::{CALL, Names},
    principal::{Principal, fingerprint},
    validate::tool_of,
    vocabulary::{Tool, Vocabulary},
};

/// Tools that one policy may name, so that the index stays small.
const TOOLS_NAMED_MAX: usize = 1_024;
/// Conditions that are asked once for a tool while loading; where there are more, each call asks.
const FIXED_MAX: usize = 200_000;

/// Where a policy applies: there and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    tools: Vec<ToolKey>,
    principals: Principals,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ToolKey {
    Any,
    Upstream(String),
    Tool(String),
}

/// Whom a policy is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Principals {
    Everybody,
    Kind(EntityTypeName),
    Exactly(EntityUid),
    Within(EntityUid),
    KindWithin(EntityTypeName, EntityUid),
}

/// All policies, by where they apply.
#[derive(Debug, Default)]
pub(crate) struct Index {
    places: HashMap<ToolKey, ByPrincipal>,
}

#[derive(Debug, Default)]
struct ByPrincipal {
    everybody: Bucket,
    kinds: HashMap<EntityTypeName, Bucket>,
    /// By the fingerprint of the party that is named.
    some: HashMap<u64, HashMap<EntityUid, Named>>,
}

/// Policies that name one party.
#[derive(Debug, Default)]
struct Named {
    exactly: Bucket,
    within: Bucket,
    kinds_within: HashMap<EntityTypeName, Bucket>,
}

impl Index {
    pub(crate) fn of(vocabulary: &Vocabulary, loaded: &[Loaded]) -> Result<Self, Box<PolicySetError>> {
        let mut index = Self::default();
        let fixed = loaded.iter().filter(|policy| policy.condition.is_some() && policy.is_fixed()).count();
        let settle = fixed.saturating_mul(vocabulary.tools().len()) <= FIXED_MAX;
        for policy in loaded {
            let settled = settle && policy.condition.is_some() && policy.is_fixed();
            for key in &policy.place.tools {
                index.bucket(key, &policy.place.principals).add_listing(policy)?;
                if settled {
                    index.settle(vocabulary, key, policy);
                } else {
                    index.bucket(key, &policy.place.principals).add_rule(Rule::of(policy), &policy.needs);
                }
            }
        }
        Ok(index)
    }

    /// The policies that concern a call of this tool by this principal. Every policy is in one of them at most.
    pub(crate) fn buckets<'a>(&'a self, name: &str, tool: &Tool, principal: &'a Principal) -> Vec<&'a Bucket> {
        let keys = [ToolKey::Any, ToolKey::Upstream(tool.upstream.clone()), ToolKey::Tool(name.to_owned())];
        let kind = principal.uid.type_name();
        let mut found = Vec::new();
        for place in keys.iter().filter_map(|key| self.places.get(key)) {
            found.push(&place.everybody);
            found.extend(place.kinds.get(kind));
            if place.some.is_empty() {
                continue;
            }
            for (fingerprint, key) in &principal.keys {
                let Some(named) = place.some.get(fingerprint).and_then(|alike| alike.get(key)) else { continue };
                found.push(&named.within);
                found.extend(named.kinds_within.get(kind));
                found.extend((*key == principal.uid).then_some(&named.exactly));
            }
        }
        found
    }

    fn bucket(&mut self, key: &ToolKey, principals: &Principals) -> &mut Bucket {
        let place = self.places.entry(key.clone()).or_default();
        match principals {
            Principals::Everybody => &mut place.everybody,
            Principals::Kind(kind) => place.kinds.entry(kind.clone()).or_default(),
            Principals::Exactly(uid) => &mut place.named(uid).exactly,
            Principals::Within(uid) => &mut place.named(uid).within,
            Principals::KindWithin(kind, uid) => place.named(uid).kinds_within.entry(kind.clone()).or_default(),
        }
    }

    /// Asks once for each tool what no call can change. What fails is left to be asked, so that it fails the call.
    fn settle(&mut self, vocabulary: &Vocabulary, key: &ToolKey, policy: &Loaded) {
        for (name, tool) in vocabulary.tools().iter().filter(|(name, tool)| key.covers(name, tool)) {
            let mut rule = Rule::of(policy);
            match tool.holds(&rule) {
                Some(false) => continue,
                Some(true) => rule.condition = None,
                None => {}
            }
            let of_tool = ToolKey::Tool(name.clone());
            self.bucket(&of_tool, &policy.place.principals).add_rule(rule, &policy.needs);
        }
    }
}

impl Place {
    /// Whether it can apply to calls of this tool.
    pub(crate) fn covers(&self, name: &str, tool: &Tool) -> bool {
        self.tools.iter().any(|key| key.covers(name, tool))
    }
}

impl ByPrincipal {
    fn named(&mut self, uid: &EntityUid) -> &mut Named {
        self.some.entry(fingerprint(uid)).or_default().entry(uid.clone()).or_default()
    }
}

impl ToolKey {
    fn covers(&self, name: &str, tool: &Tool) -> bool {
        match self {
            Self::Any => true,
            Self::Upstream(upstream) => *upstream == tool.upstream,
            Self::Tool(named) => named == name,
        }
    }
}

impl Tool {
    /// Whether a condition about the tool alone holds; none if it fails.
    fn holds(&self, rule: &Rule) -> Option<bool> {
        let condition = rule.condition.as_ref()?;
        let nobody = self.resource.clone();
        let request = Request::new(nobody, self.action.clone(), self.resource.clone(), Context::empty(), None).ok()?;
        match eval_expression(&request, &self.entities, condition).ok()? {
            EvalResult::Bool(holds) => Some(holds),
            _ => None,
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
        ToolKey::Upstream(upstream) => vocabulary.tool(tool).is_none_or(|tool| tool.upstream == *upstream),
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

/// The name that was probably meant.
pub(crate) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = wanted.chars().count();
    // A comparison takes the product of both lengths, and a policy may name anything: every character more or less is one
    // difference, so most names need no comparison.
    let alike = known.into_iter().filter(|name| name.chars().count().abs_diff(length) <= name.len() / 3);
    let near = alike.map(|name| (strsim::damerau_levenshtein(wanted, name), name)).min();
    near.filter(|(distance, name)| *distance <= name.len() / 3).map(|(_, name)| name)
}

fn did_you_mean(vocabulary: &Vocabulary, resource: &ToolKey) -> String {
    let (wanted, known): (&str, Vec<&str>) = match resource {
        ToolKey::Upstream(wanted) => (wanted, vocabulary.tools().values().map(|tool| tool.upstream.as_str()).collect()),
        ToolKey::Tool(wanted) => (wanted, vocabulary.tools().keys().map(String::as_str).collect()),
        ToolKey::Any => ("", Vec::new()),
    };
    match nearest(wanted, known) {
        Some(name) => format!("did you mean `{name}`? If it may be absent: `@{MAY_NEVER_APPLY}(\"why\")`"),
        None => format!("if it may be absent, say so: `@{MAY_NEVER_APPLY}(\"why\")`"),
    }
}
