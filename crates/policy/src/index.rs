//! Where a policy can apply, from its scope: a decision looks only at policies that can concern its tool and its principal.
//! Cedar itself has no index and would look at all.

use std::{
    cell::OnceCell,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use cedar_policy::{
    ActionConstraint, Context, Entities, EntityTypeName, EntityUid, Policy, PolicySetError, PrincipalConstraint,
    Request, ResourceConstraint,
};

use crate::{
    bucket::{Bucket, Rule},
    load::{Loaded, MAY_NEVER_APPLY},
    names::{CALL, Names},
    principal::{Principal, fingerprint},
    request::Question,
    validate::tool_of,
    vocabulary::{Tool, Vocabulary},
};

/// Tools that one policy may name, so that the index stays small.
const TOOLS_NAMED_MAX: usize = 1_024;
/// Tools of which it is remembered what no call can change. Beyond them all is forgotten and it begins anew.
const TOOLS_REMEMBERED_MAX: usize = 4_096;

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
    /// What no call can change of a tool, by the tool's number: evaluated when the tool is first called, and then kept for all callers.
    fixed: RwLock<HashMap<u64, FixedRules>>,
}

/// What rules say of a tool in every call of it, by the numbers of the rules.
type FixedRules = Arc<[(u32, Holds)]>;

/// Whether a condition about a tool alone holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Yes,
    No,
    /// It fails, and so does each call that asks it.
    Fails,
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
    pub(crate) fn of(loaded: &[Loaded]) -> Result<Self, Box<PolicySetError>> {
        let mut index = Self::default();
        let mut fixed = 0;
        for policy in loaded {
            let mut rule = Rule::of(policy);
            if policy.condition.is_some() && policy.is_fixed() {
                rule.fixed = Some(fixed);
                fixed += 1;
            }
            for key in &policy.place.tools {
                let bucket = index.bucket(key, &policy.place.principals);
                bucket.add_listing(policy)?;
                bucket.add_rule(rule.clone(), &policy.needs);
            }
        }
        Ok(index)
    }

    /// What is known of rules that no call of a tool can change. Those that were not asked yet are asked now.
    pub(crate) fn fixed<'r>(&self, tool: &Tool, rules: impl Iterator<Item = &'r Rule>) -> HashMap<u32, Holds> {
        let known = self.fixed.read().unwrap_or_else(PoisonError::into_inner).get(&tool.number).cloned();
        let mut found: HashMap<u32, Holds> = known.iter().flat_map(|known| known.iter().copied()).collect();
        let before = found.len();
        let alone = OnceCell::new();
        for rule in rules {
            let Some(number) = rule.fixed else { continue };
            found.entry(number).or_insert_with(|| {
                let alone: &Option<Question> = alone.get_or_init(|| tool.alone());
                alone.as_ref().map_or(Holds::Fails, |alone| Holds::of(alone, rule))
            });
        }
        if found.len() > before {
            let mut remembered = self.fixed.write().unwrap_or_else(PoisonError::into_inner);
            if remembered.len() >= TOOLS_REMEMBERED_MAX {
                remembered.clear();
            }
            remembered.insert(tool.number, found.iter().map(|(number, holds)| (*number, *holds)).collect());
        }
        found
    }

    /// The policies that concern a call of this tool by this principal. Every policy is in one of them at most.
    pub(crate) fn buckets<'a>(&'a self, name: &str, tool: &Tool, principal: &'a Principal) -> Vec<&'a Bucket> {
        let keys = [ToolKey::Any, ToolKey::Upstream(tool.facts.upstream.to_string()), ToolKey::Tool(name.to_owned())];
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
            Self::Upstream(upstream) => **upstream == *tool.facts.upstream,
            Self::Tool(named) => named == name,
        }
    }
}

impl Holds {
    fn of(question: &Question, rule: &Rule) -> Self {
        match rule.condition.as_ref().map(|condition| question.holds(condition)) {
            Some(Ok(true)) => Self::Yes,
            Some(Ok(false)) => Self::No,
            Some(Err(_)) | None => Self::Fails,
        }
    }
}

impl Tool {
    /// The question that is about the tool and no call of it; none if it cannot be put.
    fn alone(&self) -> Option<Question> {
        let (tool, action) = (self.facts.resource(), self.facts.action());
        let request = Request::new(tool.clone(), action, tool, Context::empty(), None).ok()?;
        let entities = Entities::from_entities(self.entities().ok()?, None).ok()?;
        Some(Question { request, entities: Arc::new(entities) })
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
        ToolKey::Upstream(wanted) => (wanted, vocabulary.tools().values().map(|tool| &*tool.facts.upstream).collect()),
        ToolKey::Tool(wanted) => (wanted, vocabulary.tools().keys().map(String::as_str).collect()),
        ToolKey::Any => ("", Vec::new()),
    };
    match nearest(wanted, known) {
        Some(name) => format!("did you mean `{name}`? If it may be absent: `@{MAY_NEVER_APPLY}(\"why\")`"),
        None => format!("if it may be absent, say so: `@{MAY_NEVER_APPLY}(\"why\")`"),
    }
}
