//! Policies that were read, validated and indexed: they decide calls.

use std::{collections::HashMap, sync::Arc};

use cedar_policy::Authorizer;

use crate::{
    deciding_policy::DecidingPolicy,
    findings::{PolicyFinding, PolicyFindingKind, PolicyLoadFailure},
    index::PolicyIndex,
    load::{BuiltInPermits, PolicyLimits, load},
    loaded::{LoadedPolicy, PolicySource},
    numbers::next_number,
    vocabulary::Vocabulary,
};

/// The Cedar text of the rules that always apply.
pub const ALWAYS_TEXT: &str = include_str!("always.cedar");
/// The Cedar text of the rules that apply unless they are switched off.
pub const DEFAULTS_TEXT: &str = include_str!("defaults.cedar");

/// A set of policies and the tools they are about. It never changes: other policies or other tools make another set.
pub struct Policies {
    vocabulary: Arc<Vocabulary>,
    index: PolicyIndex,
    loaded: Vec<LoadedPolicy>,
    by_id: HashMap<String, usize>,
    authorizer: Authorizer,
    look_at_client: bool,
    look_at_questions: bool,
    speak_of_approvals: bool,
    /// Unique to this set.
    number: u64,
}

impl Policies {
    /// Loads policies. If any of them has a mistake, none is loaded.
    pub fn load(
        vocabulary: Arc<Vocabulary>,
        sources: &[PolicySource<'_>],
        defaults: BuiltInPermits,
        limits: &PolicyLimits,
    ) -> Result<Self, PolicyLoadFailure> {
        let mut all = vec![PolicySource { name: "built-in always.cedar", text: ALWAYS_TEXT }];
        if defaults == BuiltInPermits::On {
            all.push(PolicySource { name: "built-in defaults.cedar", text: DEFAULTS_TEXT });
        }
        all.extend(sources);
        let loaded = load(&vocabulary, &all, limits).map_err(|findings| PolicyLoadFailure { findings })?;
        let index = PolicyIndex::build(&loaded).map_err(|error| {
            let (file, message) = ("policies".to_owned(), error.to_string());
            let kind = PolicyFindingKind::Engine;
            let finding = PolicyFinding { file, line: 1, column: 1, policy: None, kind, message, hint: None };
            PolicyLoadFailure { findings: vec![finding] }
        })?;
        let by_id = loaded.iter().enumerate().map(|(position, policy)| (policy.id.clone(), position)).collect();
        let look_at =
            |name: &str| loaded.iter().any(|policy| policy.needs.whole || policy.needs.attributes.contains(name));
        let (look_at_client, look_at_questions) = (look_at("client"), look_at("question"));
        let speak_of_approvals = loaded.iter().any(|policy| policy.deciding_policy.approval.is_some());
        Ok(Self {
            vocabulary,
            index,
            loaded,
            by_id,
            authorizer: Authorizer::new(),
            look_at_client,
            look_at_questions,
            speak_of_approvals,
            number: next_number(),
        })
    }

    /// The tools the policies are about.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// How many policies there are, including built-in ones.
    pub fn count(&self) -> usize {
        self.loaded.len()
    }

    /// How many of them are written by the operator.
    pub fn written_count(&self) -> usize {
        self.loaded.iter().filter(|policy| !policy.is_built_in()).count()
    }

    /// The policies by id, with their texts, for finding the differences between two sets.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.loaded.iter().map(|policy| (policy.id.as_str(), policy.text.as_str()))
    }

    /// How decisions report the policy of an id, if there is one.
    pub fn deciding_policy(&self, id: &str) -> Option<&DecidingPolicy> {
        self.get(id).map(|policy| &*policy.deciding_policy)
    }

    /// Whether any of them reads the name that the client's software gives itself.
    pub const fn look_at_client(&self) -> bool {
        self.look_at_client
    }

    /// Whether any policy decides about an upstream's questions to its caller.
    pub const fn look_at_questions(&self) -> bool {
        self.look_at_questions
    }

    /// Whether any policy asks for an approval, or lifts one.
    pub(crate) const fn speak_of_approvals(&self) -> bool {
        self.speak_of_approvals
    }

    /// The policies about a tool that read the caller's groups: their result is unknown if the groups are.
    pub fn look_at_groups(&self, tool: &str) -> Vec<&str> {
        let Some(known) = self.vocabulary.tool(tool) else { return Vec::new() };
        let looking = self.loaded.iter().filter(|policy| policy.looks_at_groups() && policy.scope.covers(tool, known));
        looking.map(|policy| policy.id.as_str()).collect()
    }

    pub(crate) fn loaded(&self) -> &[LoadedPolicy] {
        &self.loaded
    }

    pub(crate) fn index(&self) -> &PolicyIndex {
        &self.index
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    pub(crate) fn get(&self, id: &str) -> Option<&LoadedPolicy> {
        self.loaded.get(*self.by_id.get(id)?)
    }
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Policies").field("count", &self.loaded.len()).finish_non_exhaustive()
    }
}
