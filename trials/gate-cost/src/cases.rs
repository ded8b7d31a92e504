//! The calls whose cost is counted: one tool, in the shapes that gate 6 tells apart, and under as many policies as gate 8 may have.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{
    CallId, Caller, OperationKeys, Proposal, Refusal, Timestamp, document,
    expectation::{Aims, BehaviourPattern, Expectation, ExpectationSource},
    tool::{Mutability, ToolContract},
};
use servanda_gates::{
    CompiledContract, ContractResolver, RegisteredContracts, ResolvedCall, Stopwatch, ToolExpectation, Trail, admit,
    resolve,
};

use crate::rules::Rules;

/// A call that is made again and again.
pub(crate) struct Case {
    /// What it is, in the table.
    pub(crate) what: &'static str,
    contract: Arc<CompiledContract>,
    arguments: Bytes,
    expected: Vec<ToolExpectation>,
    /// Whether gate 6 refuses it.
    pub(crate) refused: bool,
    /// What gates 7 and 8 judge by; the gateway's own account where there is nothing.
    pub(crate) rules: Option<Rules>,
}

/// The calls by which gates 7 and 8 are counted.
pub(crate) fn ruled() -> Vec<Case> {
    let case = |what, rules: fn(&CompiledContract) -> Rules| {
        let case = Case::new(what, None, SELECT, Task::None);
        let rules = Some(rules(&case.contract));
        Case { rules, ..case }
    };
    vec![
        Case::new("nobody is asked: the gateway's own question", None, SELECT, Task::None),
        case("6 policies, all built in", |contract| Rules::of(contract, 0, Rules::about_tools)),
        case("106 policies, 5 of them about this tool", |contract| Rules::of(contract, 100, Rules::about_tools)),
        case("106 policies, all about every tool", |contract| Rules::of(contract, 100, Rules::about_all)),
        case("106 policies, 1 looks at an argument", |contract| Rules::of(contract, 100, Rules::about_arguments)),
        case("6 policies, and 106 in shadow", |contract| Rules::of(contract, 0, Rules::about_tools).shadowed(contract)),
    ]
}

const SELECT: &str = "SELECT id, total FROM invoices WHERE customer = 'c_17' ORDER BY issued DESC LIMIT 20";
const DELETE: &str = "DELETE FROM invoices WHERE customer = 'c_17'";
const COMMANDS: &str = "grep -rn 'TODO' src | sort | uniq -c | head -n 20";

/// All of them, in the order of the table.
pub(crate) fn all() -> Vec<Case> {
    let long = long_select();
    vec![
        Case::new("nothing expected, no program among the arguments", None, SELECT, Task::None),
        Case::new("expected by a task, no program", None, SELECT, Task::Reads),
        Case::new("nothing expected, short SELECT", Some("postgresql"), SELECT, Task::None),
        Case::new("expected by a task, short SELECT", Some("postgresql"), SELECT, Task::Reads),
        Case::new("expected by a task, 2 kB of SQL with CTEs, not read", None, &long, Task::Reads),
        Case::new("expected by a task, 2 kB of SQL with CTEs", Some("postgresql"), &long, Task::Reads),
        Case::new("nothing expected, shell command", Some("shell"), COMMANDS, Task::None),
        Case::refused("DELETE, refused for what it would do", Some("postgresql"), DELETE, Task::None),
        Case::refused("the tool is not what the task expects, refused", None, SELECT, Task::Changes),
    ]
}

#[derive(Clone, Copy)]
enum Task {
    None,
    Reads,
    Changes,
}

impl Case {
    fn new(what: &'static str, program: Option<&str>, text: &str, task: Task) -> Self {
        let allowed = |mutability| {
            let pattern = BehaviourPattern { mutability: Some(mutability), ..BehaviourPattern::default() };
            let source = ExpectationSource::Task("triage".to_owned());
            vec![ToolExpectation::Known(Expectation { source, allowed: vec![pattern] })]
        };
        let expected = match task {
            Task::None => Vec::new(),
            Task::Reads => allowed(Mutability::Pure),
            Task::Changes => allowed(Mutability::Mutates),
        };
        let arguments = Bytes::from(json!({ "query": text, "rows_max": 20 }).to_string());
        Self { what, contract: contract(program), arguments, expected, refused: false, rules: None }
    }

    fn refused(what: &'static str, program: Option<&str>, text: &str, task: Task) -> Self {
        Self { refused: true, ..Self::new(what, program, text, task) }
    }

    /// The call once more, as it comes to the gates.
    pub(crate) fn resolved(&self) -> ResolvedCall {
        let proposal = Proposal {
            call_id: CallId::new(),
            caller: Caller::local().into(),
            tool: "company__read_query".to_owned(),
            arguments: self.arguments.clone(),
            received_at: Timestamp::from_unix_ms(1_800_000_000_000),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            chain: String::new(),
            caller_wait_ms: None,
            keys: OperationKeys::default(),
            aims: Aims::default(),
        };
        let resolved = resolve(Box::new(proposal), self, &mut Trail::new(&NoTime)).expect("the only contract");
        resolved.expecting(self.expected.clone())
    }
}

impl ContractResolver for Case {
    fn contract_of(&self, _proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>> {
        Ok(Arc::clone(&self.contract))
    }
}

/// Resolving is not counted.
struct NoTime;

impl Stopwatch for NoTime {
    fn elapsed_us(&self) -> u64 {
        0
    }
}

/// A tool that only reads, whose `query` is a program if it is said which.
fn contract(program: Option<&str>) -> Arc<CompiledContract> {
    let mut contract: ToolContract =
        document::read("read_query.yaml", include_str!("read_query.yaml")).expect("the contract is one");
    if let Some(program) = program {
        contract.affordance.input_schema["properties"]["query"]["x-effect"] = Value::from(program);
        if program == "shell" {
            contract.affordance.examples.clear();
        }
    }
    Arc::new(admit(contract, &RegisteredContracts::new()).unwrap_or_else(|rejection| panic!("{rejection}")))
}

/// A query as reports have them: some common table expressions, joins, windows, about two kilobytes.
fn long_select() -> String {
    let part = |number: usize| {
        format!(
            "month_{number} AS (SELECT i.customer, date_trunc('month', i.issued) AS month, sum(i.total) AS total, count(*) AS \
             bills FROM invoices i JOIN customers c ON c.id = i.customer WHERE i.status IN ('open', 'paid') AND c.region = \
             'r_{number}' GROUP BY i.customer, date_trunc('month', i.issued) HAVING sum(i.total) > {number}00)"
        )
    };
    let parts: Vec<String> = (1..=5).map(part).collect();
    let unions: Vec<String> = (1..=5).map(|number| format!("SELECT * FROM month_{number}")).collect();
    format!(
        "WITH {} SELECT customer, month, total, rank() OVER (PARTITION BY month ORDER BY total DESC) AS place FROM ({}) AS months \
         WHERE bills > 1 ORDER BY month, place LIMIT 100",
        parts.join(", "),
        unions.join(" UNION ALL ")
    )
}
