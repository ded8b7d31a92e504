//! All policies by scope: a decision evaluates only policies that can apply to its tool and its principal. Cedar itself has no
//! index and would evaluate all.

use std::{
    cell::OnceCell,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use cedar_policy::{Context, Entities, EntityTypeName, EntityUid, PolicySetError, Request};

use crate::{
    bucket::{PolicyBucket, PolicyRule},
    loaded::LoadedPolicy,
    principal::{Principal, fingerprint},
    request::CedarRequest,
    scope::{ScopePrincipals, ScopeTool},
    vocabulary::PolicyTool,
};

/// The most tools whose fixed results are cached. When the cache is full, it is cleared.
const TOOLS_REMEMBERED_MAX: usize = 4_096;

/// All policies, by scope.
#[derive(Debug, Default)]
pub(crate) struct PolicyIndex {
    places: HashMap<ScopeTool, PrincipalIndex>,
    /// Results that are the same for every call of a tool, by the tool's number: evaluated at the tool's first call, then kept
    /// for all callers.
    fixed: RwLock<HashMap<u64, FixedRules>>,
}

/// The results of rules that are the same for every call of a tool, by rule number.
type FixedRules = Arc<[(u32, ConditionResult)]>;

/// Whether a condition about a tool alone holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionResult {
    Yes,
    No,
    /// It fails, and so does each call that evaluates it.
    Fails,
}

#[derive(Debug, Default)]
struct PrincipalIndex {
    everybody: PolicyBucket,
    kinds: HashMap<EntityTypeName, PolicyBucket>,
    /// By the fingerprint of the named party.
    some: HashMap<u64, HashMap<EntityUid, PartyPolicies>>,
}

/// Policies that name one party.
#[derive(Debug, Default)]
struct PartyPolicies {
    exactly: PolicyBucket,
    within: PolicyBucket,
    kinds_within: HashMap<EntityTypeName, PolicyBucket>,
}

impl PolicyIndex {
    pub(crate) fn build(loaded: &[LoadedPolicy]) -> Result<Self, Box<PolicySetError>> {
        let mut index = Self::default();
        let mut fixed = 0;
        for policy in loaded {
            let mut rule = PolicyRule::from_loaded(policy);
            if policy.condition.is_some() && policy.is_fixed() {
                rule.fixed = Some(fixed);
                fixed += 1;
            }
            for key in &policy.scope.tools {
                let bucket = index.bucket(key, &policy.scope.principals);
                bucket.add_listing(policy)?;
                bucket.add_rule(rule.clone(), &policy.needs);
            }
        }
        Ok(index)
    }

    /// The results of rules that are the same for every call of a tool. Missing ones are evaluated now.
    pub(crate) fn fixed<'r>(
        &self,
        tool: &PolicyTool,
        rules: impl Iterator<Item = &'r PolicyRule>,
    ) -> HashMap<u32, ConditionResult> {
        let known = self.fixed.read().unwrap_or_else(PoisonError::into_inner).get(&tool.number).cloned();
        let mut found: HashMap<u32, ConditionResult> = known.iter().flat_map(|known| known.iter().copied()).collect();
        let before = found.len();
        let alone = OnceCell::new();
        for rule in rules {
            let Some(number) = rule.fixed else { continue };
            found.entry(number).or_insert_with(|| {
                let alone: &Option<CedarRequest> = alone.get_or_init(|| tool.alone());
                alone.as_ref().map_or(ConditionResult::Fails, |alone| ConditionResult::evaluate(alone, rule))
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

    /// The policies that can apply to a call of this tool by this principal. No policy is in more than one bucket.
    pub(crate) fn buckets<'a>(
        &'a self,
        name: &str,
        tool: &PolicyTool,
        principal: &'a Principal,
    ) -> Vec<&'a PolicyBucket> {
        let keys =
            [ScopeTool::Any, ScopeTool::Upstream(tool.facts.upstream.to_string()), ScopeTool::Tool(name.to_owned())];
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

    fn bucket(&mut self, key: &ScopeTool, principals: &ScopePrincipals) -> &mut PolicyBucket {
        let place = self.places.entry(key.clone()).or_default();
        match principals {
            ScopePrincipals::Everybody => &mut place.everybody,
            ScopePrincipals::Kind(kind) => place.kinds.entry(kind.clone()).or_default(),
            ScopePrincipals::Exactly(uid) => &mut place.named(uid).exactly,
            ScopePrincipals::Within(uid) => &mut place.named(uid).within,
            ScopePrincipals::KindWithin(kind, uid) => place.named(uid).kinds_within.entry(kind.clone()).or_default(),
        }
    }
}

impl PrincipalIndex {
    fn named(&mut self, uid: &EntityUid) -> &mut PartyPolicies {
        self.some.entry(fingerprint(uid)).or_default().entry(uid.clone()).or_default()
    }
}

impl ConditionResult {
    fn evaluate(question: &CedarRequest, rule: &PolicyRule) -> Self {
        match rule.condition.as_ref().map(|condition| question.holds(condition)) {
            Some(Ok(true)) => Self::Yes,
            Some(Ok(false)) => Self::No,
            Some(Err(_)) | None => Self::Fails,
        }
    }
}

impl PolicyTool {
    /// The Cedar request about the tool without a call; `None` if it cannot be built.
    fn alone(&self) -> Option<CedarRequest> {
        let (tool, action) = (self.facts.resource(), self.facts.action());
        let request = Request::new(tool.clone(), action, tool, Context::empty(), None).ok()?;
        let entities = Entities::from_entities(self.entities().ok()?, None).ok()?;
        Some(CedarRequest { request, entities: Arc::new(entities) })
    }
}
