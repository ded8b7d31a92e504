//! `servanda policy test`: runs the cases of a file against the policies, and explains each that differs from what is expected.

use std::path::Path;

use serde_json::Value;
use servanda_approval::ApprovalSettings;
use servanda_gates::CompiledContract;
use servanda_identity::layers::gateway::near_names;
use servanda_policy::{CaseOutcome, Policies, PolicyCase, PolicyCases, run_cases};

use super::PolicyCommandContext;
use crate::{
    failure::CommandFailure,
    files,
    screen::{Screen, TextStyle, paint, plural},
};

pub(super) fn run(
    context: &PolicyCommandContext<'_>,
    file: &Path,
    policies: Option<&Path>,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let policies = policies.map_or_else(|| context.written_policies(), |path| context.policies_at(path))?;
    let text = files::read_text(file, files::TEXT_BYTES_MAX).map_err(|error| {
        CommandFailure::bad_input(format!("cannot read the cases in `{}`: {error}", file.display()))
            .hint("docs/policy.md shows what a file of cases looks like")
    })?;
    let cases = PolicyCases::read(&file.display().to_string(), &text).map_err(|error| {
        CommandFailure::bad_input(error.to_string()).hint("docs/policy.md shows what a file of cases looks like")
    })?;
    if cases.cases.is_empty() {
        return Err(CommandFailure::bad_input(format!("there are no cases in `{}`", file.display())));
    }
    let authorities = context.authorities()?;
    let outcomes = outcomes(context, (&policies, authorities.approvals()), &cases);
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    if screen.json {
        screen.json(&outcomes)?;
    } else {
        let lines: Vec<String> = outcomes.iter().map(page).collect();
        screen.data(lines.join("\n"))?;
    }
    let counted = plural(outcomes.len(), "case", "cases");
    if failed > 0 {
        return Err(CommandFailure::failed(format!("{failed} of {} cases failed", outcomes.len()))
            .hint("correct the policies or the cases; servanda policy schema lists the names"));
    }
    screen.say(format_args!("{counted} as expected"));
    Ok(())
}

/// The outcomes of the cases. An unknown tool and impossible arguments fail the case, although a call with them would be refused: otherwise
/// a case that expects a refusal would pass because of a typo.
fn outcomes(
    context: &PolicyCommandContext<'_>,
    (policies, approvals): (&Policies, &ApprovalSettings),
    cases: &PolicyCases,
) -> Vec<CaseOutcome> {
    let contract = |tool: &str| context.contracts.iter().find(|contract| contract.contract().identity.name == tool);
    let mut outcomes =
        run_cases(policies, cases, approvals, &|tool, arguments| contract(tool)?.program_class(arguments.bytes()));
    for (outcome, case) in outcomes.iter_mut().zip(&cases.cases) {
        outcome.failures.extend(unknown_tool(policies, case));
        outcome.failures.extend(unfit_arguments(context, case));
    }
    outcomes
}

/// Argument names and types that no call can have. A case need not give all arguments.
fn unfit_arguments(context: &PolicyCommandContext<'_>, case: &PolicyCase) -> Vec<String> {
    let is_its = |contract: &&CompiledContract| contract.contract().identity.name == case.tool;
    let Some(contract) = context.contracts.iter().find(is_its) else { return Vec::new() };
    let found = contract.input().judge(&Value::Object(case.args.clone()));
    let wrong = found.structure.into_iter().chain(found.types).filter(|error| error.actual != "missing");
    wrong.map(|error| format!("no call has such arguments: {}", error.message)).collect()
}

fn unknown_tool(policies: &Policies, case: &PolicyCase) -> Option<String> {
    let names: Vec<&str> = policies.vocabulary().tool_names().collect();
    if names.contains(&case.tool.as_str()) {
        return None;
    }
    let own = |name: &'_ str| name.rsplit('.').next().unwrap_or_default().len();
    let known = names.iter().map(|name| (*name, name.get(name.len() - own(name)..).unwrap_or(name)));
    let near = near_names(&case.tool.replace("__", "."), known, 1);
    let hint = match near.first() {
        Some(name) => format!("did you mean `{name}`?"),
        None => "a case names the contract, as `servanda policy schema` does".to_owned(),
    };
    Some(format!("there is no tool `{}`: {hint}", case.tool))
}

fn page(outcome: &CaseOutcome) -> String {
    let shown = crate::screen::one_line(&outcome.name);
    if outcome.passed() {
        return format!("{}  {shown}", paint("pass", TextStyle::Good));
    }
    let mut lines = vec![format!("{}  {shown}", paint("FAIL", TextStyle::Bad))];
    lines.extend(outcome.failures.iter().map(|failure| format!("      {failure}")));
    let explanation = outcome.explanation.as_ref().map(ToString::to_string).unwrap_or_default();
    lines.extend(explanation.lines().map(|line| format!("      {line}")));
    lines.join("\n")
}
