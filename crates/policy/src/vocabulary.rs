//! The words that policies are written in: the existing tools, their facts and the types of their arguments, taken from the
//! contracts. Deliberately without the policies: a vocabulary does not depend on permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use cedar_policy::Entity;
use servanda_contract::{
    ToolContract,
    schema::{CompiledSchema, SchemaError, SchemaProfile},
    tool::SideEffectClass,
};

use crate::{
    context_needs::{CombinedNeeds, ContextNeeds},
    entity_types::EntityTypes,
    facts::{CedarToolFacts, FactInterner, VisibleArguments},
    numbers::next_number,
    types::UntypedArgument,
};

/// What is known about one tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// Its contract.
    pub contract: &'a ToolContract,
    /// The tenants that may use it; empty means all.
    pub tenants: &'a BTreeSet<String>,
    /// Whether a call can have a milder class than the contract, because the program in its arguments decides.
    pub program_decides_class: bool,
    /// The compiled schema of the arguments, if the contract was admitted. Otherwise it is compiled here.
    pub input: Option<&'a Arc<CompiledSchema>>,
}

/// The tools of a gateway as policies see them.
#[derive(Debug)]
pub struct Vocabulary {
    tools: BTreeMap<String, PolicyTool>,
    untyped: OnceLock<Vec<UntypedArgument>>,
    names: Arc<EntityTypes>,
}

/// Why contracts do not make a vocabulary.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// Two contracts of one name: a policy could not say which it means.
    #[error("two contracts are named `{tool}`: policies could not tell them apart")]
    SameName {
        /// The name.
        tool: String,
    },
    /// A name that admission would have refused.
    #[error("the tool name {tool:?} is not one a policy can name: use letters, digits, `_`, `.` and `-`, at most 128")]
    Name {
        /// The name.
        tool: String,
    },
    /// Arguments whose schema cannot be enforced have no type either.
    #[error("the input schema of `{tool}` cannot be read")]
    Schema {
        /// The tool.
        tool: String,
        /// The reason.
        source: SchemaError,
    },
    /// Cedar refused an entity that we built: a defect of ours.
    #[error("the policy engine does not accept the tool `{tool}`: {reason}")]
    Engine {
        /// The tool.
        tool: String,
        /// Cedar's message.
        reason: String,
    },
}

/// One tool in calls of one class.
#[derive(Debug)]
pub(crate) struct PolicyTool {
    /// Unique among all tools of all vocabularies.
    pub number: u64,
    pub facts: Arc<CedarToolFacts>,
    pub class: SideEffectClass,
    /// The same tool as policies see it in a call of a milder class than the contract's.
    milder: BTreeMap<SideEffectClass, Self>,
}

impl Vocabulary {
    /// The vocabulary of some tools.
    pub fn from_tools<'a>(tools: impl IntoIterator<Item = ToolFacts<'a>>) -> Result<Self, VocabularyError> {
        let names = Arc::new(EntityTypes::new().map_err(|error| engine("", &error))?);
        let mut vocabulary = Self { tools: BTreeMap::new(), untyped: OnceLock::new(), names };
        let mut common = FactInterner::default();
        for facts in tools {
            vocabulary.add(&facts, &mut common)?;
        }
        Ok(vocabulary)
    }

    /// Which arguments of which tools policies cannot see, and why.
    pub fn untyped(&self) -> &[UntypedArgument] {
        self.untyped.get_or_init(|| self.tools.values().flat_map(PolicyTool::untyped).collect())
    }

    /// The names of the tools, in order.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Whether the program in the arguments of a call decides how grave the call is.
    pub fn program_decides_class(&self, tool: &str) -> bool {
        self.tool(tool).is_some_and(|tool| !tool.milder.is_empty())
    }

    pub(crate) fn tools(&self) -> &BTreeMap<String, PolicyTool> {
        &self.tools
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&PolicyTool> {
        self.tools.get(name)
    }

    pub(crate) fn has_upstream(&self, name: &str) -> bool {
        self.tools.values().any(|tool| *tool.facts.upstream == *name)
    }

    pub(crate) fn names(&self) -> &EntityTypes {
        &self.names
    }

    fn add(&mut self, facts: &ToolFacts<'_>, common: &mut FactInterner) -> Result<(), VocabularyError> {
        let contract = facts.contract;
        let name = &contract.identity.name;
        let spelled = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if name.is_empty() || name.len() > 128 || !name.bytes().all(spelled) {
            return Err(VocabularyError::Name { tool: name.clone() });
        }
        if self.tools.contains_key(name) {
            return Err(VocabularyError::SameName { tool: name.clone() });
        }
        let input = match facts.input {
            Some(input) => Arc::clone(input),
            None => CompiledSchema::compile_document(&contract.affordance.input_schema, SchemaProfile::Arguments)
                .map(|compiled| Arc::new(compiled.without_validator()))
                .map_err(|source| VocabularyError::Schema { tool: name.clone(), source })?,
        };
        let known =
            Arc::new(CedarToolFacts::from_contract(contract, facts.tenants, input, Arc::clone(&self.names), common));
        let of_class = |class: SideEffectClass| {
            let (number, facts) = (next_number(), Arc::clone(&known));
            PolicyTool { number, facts, class, milder: BTreeMap::new() }
        };
        let declared = contract.transactional.side_effect_class;
        let milder = SideEffectClass::ALL.into_iter().filter(|class| facts.program_decides_class && *class < declared);
        let milder = milder.map(|class| (class, of_class(class))).collect();
        self.tools.insert(name.clone(), PolicyTool { milder, ..of_class(declared) });
        Ok(())
    }
}

impl PolicyTool {
    /// The tool as policies see it in a call of that class. A call without a class, or with an unknown one, gets the
    /// contract's.
    pub(crate) fn for_class(&self, class: Option<SideEffectClass>) -> &Self {
        class.and_then(|class| self.milder.get(&class)).unwrap_or(self)
    }

    /// The tool as policies see it, in calls of every class.
    pub(crate) fn for_all_classes(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.milder.values())
    }

    /// The tool and its action, as Cedar entities.
    pub(crate) fn entities(&self) -> Result<[Entity; 2], String> {
        self.facts.entities(self.class)
    }

    /// Whether a call may have an argument that policies read but cannot hold, so that the call is refused.
    pub(crate) fn may_get_unfit_argument(&self, needs: &ContextNeeds) -> bool {
        let all: CombinedNeeds<'_> = [needs].into_iter().collect();
        let VisibleArguments { arguments, open, .. } = self.facts.parameters();
        let undeclared = |name: &String| !arguments.contains_key(name);
        arguments.iter().any(|(name, argument)| all.argument(name) && argument.kind.may_not_fit())
            || *open && (needs.whole || needs.all_arguments || needs.arguments.iter().any(undeclared))
    }

    /// Which of its arguments policies cannot see.
    fn untyped(&self) -> impl Iterator<Item = UntypedArgument> {
        self.facts.parameters().unseen.iter().map(|left_out| {
            let steps = left_out.path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")));
            UntypedArgument { tool: self.facts.name.clone(), pointer: steps.collect(), reason: left_out.reason.clone() }
        })
    }
}

impl<'a> From<&'a ToolContract> for ToolFacts<'a> {
    fn from(contract: &'a ToolContract) -> Self {
        static EVERYBODY: BTreeSet<String> = BTreeSet::new();
        Self { contract, tenants: &EVERYBODY, program_decides_class: false, input: None }
    }
}

fn engine(tool: &str, reason: &impl ToString) -> VocabularyError {
    VocabularyError::Engine { tool: tool.to_owned(), reason: reason.to_string() }
}
