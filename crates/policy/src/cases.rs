//! Cases: calls with their expected decisions, which people write beside their policies. This module parses and runs them; it
//! reads no files and prints nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use servanda_approval::ApprovalSettings;
use servanda_contract::{
    CallerActor, Timestamp,
    document::{self, DocumentError},
    json::{CanonicalBytes, canonicalize},
    tool::{QuestionKind, SideEffectClass},
};

use crate::{
    expectation::{ExpectedApproval, ExpectedDecision, quoted},
    explain::PolicyExplanation,
    policies::Policies,
    principal::{PartyIdentity, Principal, PrincipalError},
    request::{CallCircumstances, PolicyCall},
    vocabulary::Vocabulary,
};

/// The tenant and the user of cases that name none: those of local mode.
const LOCAL: &str = "local";

/// A file of cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyCases {
    /// The cases.
    pub cases: Vec<PolicyCase>,
}

/// One call and what is expected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyCase {
    /// What the case is about, in words.
    pub name: String,
    /// The caller; the local user by default.
    #[serde(default)]
    pub principal: CasePrincipal,
    /// The name of the tool's contract.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// Time, environment and purpose.
    #[serde(default)]
    pub env: CaseCircumstances,
    /// The expected decision.
    pub expect: ExpectedDecision,
    /// The approval that is expected; members that are left out are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ExpectedApproval>,
    /// The policies that must decide, exactly these; not checked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<BTreeSet<String>>,
}

/// The caller of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CasePrincipal {
    /// The tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The user. An agent need not have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The agent that acts, if it is not the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether the agent showed its own credential or an issuer vouches for it. Otherwise its name is only claimed, like every
    /// agent that `servanda delegate` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<bool>,
    /// The caller's scopes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<String>,
    /// The caller's groups.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
}

/// Time, environment and purpose of a case's call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCircumstances {
    /// The environment's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tenant in whose name the call is made; the principal's tenant by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The time, in milliseconds since 1970.
    #[serde(default)]
    pub time_ms: u64,
    /// The name that the client's software gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// The kind of question, if the case is about an upstream's question to the caller and not about the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionKind>,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseOutcome {
    /// The case's name.
    pub name: String,
    /// What differs from the expectation; empty if the case passed.
    pub failures: Vec<String>,
    /// Why it was decided like this; `None` if the call could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<PolicyExplanation>,
}

impl PolicyCases {
    /// Reads a file of cases, YAML or JSON. Errors name the line.
    pub fn read(file: &str, text: &str) -> Result<Self, DocumentError> {
        document::read(file, text)
    }
}

/// How grave a call of a tool with these arguments is, if the program in them decides.
pub type ProgramClass<'a> = dyn Fn(&str, &CanonicalBytes) -> Option<SideEffectClass> + 'a;

/// Runs every case. A call that a review queue may sample counts as held.
pub fn run_cases(
    policies: &Policies,
    cases: &PolicyCases,
    approvals: &ApprovalSettings,
    program_class: &ProgramClass<'_>,
) -> Vec<CaseOutcome> {
    cases.cases.iter().map(|case| run(policies, case, approvals, program_class)).collect()
}

impl CaseOutcome {
    /// Whether everything is as expected.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

fn run(
    policies: &Policies,
    case: &PolicyCase,
    approvals: &ApprovalSettings,
    program_class: &ProgramClass<'_>,
) -> CaseOutcome {
    match explain(policies, case, approvals, program_class) {
        Ok((explanation, by)) => {
            let failures = failures(case, &explanation, &by);
            CaseOutcome { name: case.name.clone(), failures, explanation: Some(explanation) }
        }
        Err(reason) => {
            let failures = vec![format!("the call cannot be evaluated: {reason}")];
            CaseOutcome { name: case.name.clone(), failures, explanation: None }
        }
    }
}

fn explain(
    policies: &Policies,
    case: &PolicyCase,
    approvals: &ApprovalSettings,
    program_class: &ProgramClass<'_>,
) -> Result<(PolicyExplanation, BTreeSet<String>), String> {
    let principal = case.principal.principal(policies.vocabulary()).map_err(|error| error.to_string())?;
    let arguments = canonicalize(&Value::Object(case.args.clone())).map_err(|error| error.to_string())?;
    let program_class = program_class(&case.tool, &arguments);
    let circumstances = CallCircumstances { program_class, ..case.env.circumstances(case.principal.tenant()) };
    let call =
        PolicyCall { principal: &principal, tool: &case.tool, arguments: &arguments, circumstances: &circumstances };
    let by = policies.decide(&call).by().iter().map(|deciding| deciding.policy.clone()).collect();
    Ok((policies.explain(&call, approvals), by))
}

fn failures(case: &PolicyCase, explanation: &PolicyExplanation, by: &BTreeSet<String>) -> Vec<String> {
    let mut failures = Vec::new();
    let decision = ExpectedDecision::of(explanation);
    if decision != case.expect {
        failures.push(format!("expected {}, got {}", case.expect.word(), decision.word()));
    }
    match (&case.approval, &explanation.approval) {
        (Some(expected), Some(demand)) => failures.extend(expected.differences(demand)),
        (Some(_), None) if case.expect != ExpectedDecision::Approval => {
            failures.push("the case describes an approval: write `expect: approval` with it".to_owned());
        }
        _ => {}
    }
    if let Some(wanted) = case.by.as_ref().filter(|wanted| *wanted != by) {
        let (wanted, found) = (quoted(wanted, "no policy"), quoted(by, "no policy"));
        failures.push(format!("expected it to be by {wanted}, and it is by {found}"));
    }
    failures
}

impl CasePrincipal {
    fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or(LOCAL)
    }

    fn principal(&self, vocabulary: &Vocabulary) -> Result<Principal, PrincipalError> {
        let identity = |id: &str| PartyIdentity {
            id: id.to_owned(),
            tenant: self.tenant().to_owned(),
            scopes: self.scopes.clone(),
            groups: self.groups.clone(),
        };
        if let (Some(agent), Some(false)) = (&self.agent, self.proven) {
            let claimed = CallerActor { name: agent.clone(), proven: false };
            return Principal::acting(vocabulary, &identity(self.user.as_deref().unwrap_or(LOCAL)), &[claimed]);
        }
        match (&self.agent, &self.user) {
            (None, user) => Principal::user(vocabulary, &identity(user.as_deref().unwrap_or(LOCAL))),
            (Some(agent), None) => Principal::agent(vocabulary, &identity(agent), None),
            (Some(agent), Some(user)) => Principal::agent(vocabulary, &identity(agent), Some(&identity(user))),
        }
    }
}

impl CaseCircumstances {
    fn circumstances<'a>(&'a self, tenant: &'a str) -> CallCircumstances<'a> {
        CallCircumstances {
            tenant: self.tenant.as_deref().unwrap_or(tenant),
            environment: self.name.as_deref().unwrap_or(LOCAL),
            time: Timestamp::from_unix_ms(self.time_ms),
            client: self.client.as_deref(),
            task: self.task.as_deref(),
            intent: self.intent.as_deref(),
            question: self.question,
            program_class: None,
        }
    }
}
