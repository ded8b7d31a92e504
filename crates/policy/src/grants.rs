//! A grant as a Cedar policy: what people read before it holds, and what is asked for each call that it might cover.
//!
//! The policy is a `permit` of its own, outside the operator's policies: it is asked only about calls that these have allowed and that would
//! be held for an approval. It sees the call's values in a form in which nothing can be read in two ways. An attribute that a value does not
//! have is an error in the policy, and an error admits nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr as _;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityId, EntityTypeName, EntityUid, PolicySet, Request,
    RestrictedExpression,
};
use servanda_approval::{
    ApprovalGrant, ArgumentBound, ArgumentLeaf, BoundRule, GrantedCall, LEAVES_MAX, argument_leaves,
};
use servanda_contract::{Caller, CallerActor, Digest};

/// The longest policy of a grant for one call: more than its bounds can have.
const POLICY_BYTES_MAX: usize = 128 << 10;

/// A call that a grant might cover.
#[derive(Debug, Clone, Copy)]
pub struct GrantQuestion<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The contract's name.
    pub tool: &'a str,
    /// The contract's digest.
    pub contract: &'a Digest,
    /// The canonical arguments.
    pub arguments: &'a [u8],
}

/// The policy of a grant: one `permit` for each of its calls.
pub fn grant_policy(grant: &ApprovalGrant) -> String {
    (0..grant.calls.len()).filter_map(|number| policy_of_call(grant, number)).collect::<Vec<_>>().join("\n")
}

/// The policy of one call of a grant. Its id names the ticket on which people approved the call, or its place in the plan.
fn policy_of_call(grant: &ApprovalGrant, number: usize) -> Option<String> {
    let call = grant.calls.get(number)?;
    let place = || format!("grant:{}/{}", grant.ticket, number + 1);
    let id = call.ticket.as_ref().map_or_else(place, |ticket| format!("grant:{ticket}"));
    let mut text = format!("@id({})\npermit (\n", literal(&id));
    let user = literal(&user_id(&grant.tenant, &grant.principal));
    let GrantedCall { tool_name, contract_digest, bounds, .. } = call;
    let (tool, contract) = (literal(tool_name), literal(&contract_digest.to_string()));
    let pointers: BTreeSet<String> = bounds.iter().map(|bound| literal(&bound.pointer)).collect();
    let fields: Vec<String> = pointers.into_iter().collect();
    let mut conditions = vec![
        format!("context.tenant == {}", literal(&grant.tenant)),
        format!("context.agents == {}", literal(&agents(&grant.actors))),
        format!("context.contract == {contract}"),
        format!("context.fields == [{}]", fields.join(", ")),
    ];
    conditions.extend(bounds.iter().map(condition));
    // Writing to a text does not fail.
    let _ = writeln!(
        text,
        "  principal == User::{user},\n  action == Action::\"call\",\n  resource == Tool::{tool}\n) when {{"
    );
    let _ = writeln!(text, "  {}\n}};", conditions.join(" &&\n  "));
    Some(text)
}

/// Whether a policy of a grant permits a call. Whatever cannot be decided is not permitted.
pub fn grant_admits(grant: &ApprovalGrant, question: &GrantQuestion<'_>) -> bool {
    // Each call by itself: an error in the policy of one must not end the others, and must not be hidden by them either.
    (0..grant.calls.len()).any(|number| granted_call_admits(grant, number, question))
}

/// Whether the policy of one call of a grant, counted from zero, permits a call.
pub fn granted_call_admits(grant: &ApprovalGrant, number: usize, question: &GrantQuestion<'_>) -> bool {
    is_permitted(grant, number, question).unwrap_or(false)
}

fn is_permitted(grant: &ApprovalGrant, number: usize, question: &GrantQuestion<'_>) -> Option<bool> {
    if grant.calls.get(number)?.bounds.len() > LEAVES_MAX {
        return None;
    }
    let text = policy_of_call(grant, number)?;
    if text.len() > POLICY_BYTES_MAX {
        return None;
    }
    let policies = PolicySet::from_str(&text).ok()?;
    let leaves = argument_leaves(question.arguments).ok()?;
    let caller = question.caller;
    let string = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let arguments = leaves.iter().map(|leaf| Some((leaf.pointer.clone(), value(leaf)?))).collect::<Option<Vec<_>>>()?;
    let context = Context::from_pairs([
        ("tenant".to_owned(), string(&caller.tenant)),
        ("agents".to_owned(), string(&agents(&caller.actors))),
        ("contract".to_owned(), string(&question.contract.to_string())),
        ("fields".to_owned(), RestrictedExpression::new_set(leaves.iter().map(|leaf| string(&leaf.pointer)))),
        ("arguments".to_owned(), RestrictedExpression::new_record(arguments).ok()?),
    ])
    .ok()?;
    let principal = entity("User", &user_id(&caller.tenant, &caller.principal))?;
    let (action, resource) = (entity("Action", "call")?, entity("Tool", question.tool)?);
    let request = Request::new(principal, action, resource, context, None).ok()?;
    let answer = Authorizer::new().is_authorized(&request, &policies, &Entities::empty());
    let has_errors = answer.diagnostics().errors().next().is_some();
    Some(answer.decision() == Decision::Allow && !has_errors)
}

/// What one argument has to be.
fn condition(bound: &ArgumentBound) -> String {
    let value = format!("context.arguments[{}]", literal(&bound.pointer));
    match &bound.rule {
        BoundRule::Equal(serde_json::Value::String(text)) => format!("{value}.text == {}", literal(text)),
        BoundRule::Equal(other) => format!("{value}.json == {}", literal(&other.to_string())),
        BoundRule::AtMost(most) => {
            let (least, most) = if most.starts_with('-') { (most.as_str(), "0.0") } else { ("0.0", most.as_str()) };
            let (least, most) = (literal(least), literal(most));
            format!(
                "{value}.number.greaterThanOrEqual(decimal({least})) &&\n  {value}.number.lessThanOrEqual(decimal({most}))"
            )
        }
        // A plain folder has no character that means something in a pattern.
        BoundRule::Below(folder) => format!("{value}.path like {}", literal(&format!("{folder}*"))),
        BoundRule::Origin(origin) => format!("{value}.origin == {}", literal(origin)),
    }
}

/// A value of the call as the policy sees it.
fn value(leaf: &ArgumentLeaf) -> Option<RestrictedExpression> {
    let string = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let mut members = vec![match leaf.value.as_str() {
        Some(text) => ("text".to_owned(), string(text)),
        None => ("json".to_owned(), string(&leaf.value.to_string())),
    }];
    members.extend(leaf.number().map(|number| ("number".to_owned(), RestrictedExpression::new_decimal(number))));
    members.extend(leaf.path.as_deref().map(|path| ("path".to_owned(), string(path))));
    members.extend(leaf.origin.as_deref().map(|origin| ("origin".to_owned(), string(origin))));
    RestrictedExpression::new_record(members).ok()
}

fn entity(kind: &str, id: &str) -> Option<EntityUid> {
    let kind = EntityTypeName::from_str(kind).ok()?;
    Some(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

fn user_id(tenant: &str, principal: &str) -> String {
    format!("{tenant}/{principal}")
}

/// The agents in their order, each with whether its name is proven, in a form that no name can imitate.
fn agents(actors: &[CallerActor]) -> String {
    let listed: Vec<(&str, bool)> = actors.iter().map(|actor| (actor.name.as_str(), actor.proven)).collect();
    serde_json::json!(listed).to_string()
}

/// A text as Cedar writes it. Everything but plain ASCII is spelled out, so that people read what is compared.
fn literal(text: &str) -> String {
    let mut written = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                written.push('\\');
                written.push(character);
            }
            ' '..='~' => written.push(character),
            other => written.extend(format!("\\u{{{:x}}}", u32::from(other)).chars()),
        }
    }
    written.push('"');
    written
}
