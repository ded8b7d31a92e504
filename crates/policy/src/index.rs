//! All policies by where they apply: a decision looks only at policies that can concern its tool and its principal. Cedar
//! itself has no index and would look at all.

use std::{
    cell::OnceCell,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use cedar_policy::{Context, Entities, EntityTypeName, EntityUid, PolicySetError, Request};

use crate::{
    bucket::{Bucket, Rule},
    loaded::Loaded,
    place::{Principals, ToolKey},
    principal::{Principal, fingerprint},
    request::Question,
    vocabulary::Tool,
};

/// Tools of which it is remembered what no call can change. Beyond them all is forgotten and it begins anew.
const TOOLS_REMEMBERED_MAX: usize = 4_096;

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

impl ByPrincipal {
    fn named(&mut self, uid: &EntityUid) -> &mut Named {
        self.some.entry(fingerprint(uid)).or_default().entry(uid.clone()).or_default()
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
