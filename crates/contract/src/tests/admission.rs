use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    Digest, ToolContract,
    admission::{Conjunct, judge},
    digest::DigestDomain,
    testing::void_invoice,
};

/// The fixture with the members at these pointers replaced; `null` removes an optional section.
fn changed(changes: &[(&str, Value)]) -> ToolContract {
    let mut contract = json!(void_invoice());
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        contract.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    serde_json::from_value(contract).unwrap()
}

fn failures(contract: &ToolContract) -> Vec<(Conjunct, String)> {
    judge(contract, &BTreeMap::new()).failures.into_iter().map(|failure| (failure.conjunct, failure.reason)).collect()
}

/// A read-only version of the fixture.
fn read_only() -> Vec<(&'static str, Value)> {
    vec![
        ("/effect", json!({ "class": "R", "mutation_class": "read_only" })),
        ("/behaviour", json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" })),
        ("/transactional/side_effect_class", json!("READ_ONLY")),
        ("/transactional/semantics", json!("read_only")),
    ]
}

#[test]
fn the_fixture_is_admitted_and_so_is_a_read_only_tool() {
    assert_eq!(failures(&void_invoice()), []);
    let mut changes = read_only();
    changes.extend([
        ("/security/required_scopes", json!([])),
        ("/observability/audit_required", json!(false)),
        ("/execution/cache_ttl_sec", json!(60)),
    ]);
    assert_eq!(failures(&changed(&changes)), []);
    changes.push(("/effect/reads", json!(["invoice/{invoice_id}"])));
    assert_eq!(failures(&changed(&changes)), []);
    changes.push(("/effect/overlap", json!("allow")));
    assert!(failures(&changed(&changes))[0].1.starts_with("effect.version and effect.overlap are for tools"));
}

/// The other classes may promise what class N must not, because they can keep the promise.
#[test]
fn a_keyed_tool_may_be_sent_again() {
    let effect = json!({ "class": "K", "mutation_class": "write_irreversible", "key": { "meta": "key" },
        "key_window_sec": 60, "manifest": [{ "resource": "invoice", "operation": "UPDATE", "scope": "tenant" }] });
    let changes = [
        ("/effect", effect),
        ("/transactional/semantics", json!("idempotent_write")),
        ("/runtime/max_retries", json!(2)),
        ("/error_contract/retryable_errors", json!(["TIMEOUT", "DEPENDENCY_UNAVAILABLE"])),
    ];
    assert_eq!(failures(&changed(&changes)), []);
}

/// One row per reason: the text of the failure, and the change that causes it. Nothing else may fail.
fn check(conjunct: Conjunct, rows: &[(&str, &[(&str, Value)])]) {
    for (words, changes) in rows {
        let found = failures(&changed(changes));
        assert_eq!(found.len(), 1, "{changes:?}: {found:?}");
        assert_eq!(found[0].0, conjunct, "{changes:?}: {found:?}");
        assert!(found[0].1.contains(words), "{changes:?}: {found:?}");
    }
}

#[test]
fn schema_valid() {
    let no_class = "`OOPS` is not a taxonomy class";
    let name = "identity.name must be text matching";
    let date = "identity.lifecycle.sunset_date must be text in the format `date`";
    let rate = "runtime.rate_limits.max_requests must be a number >= 1";
    let cost = "runtime.cost_profile.cost_per_call must be a number >= 0";
    let pattern = "affordance.input_schema: the pattern `(?=x)` is refused";
    check(
        Conjunct::SchemaValid,
        &[
            ("affordance.input_schema: the root must", &[("/affordance/input_schema", json!({ "type": "array" }))]),
            (pattern, &[("/affordance/input_schema/properties/note/pattern", json!("(?=x)"))]),
            ("affordance.output_schema: `$schema` names", &[("/affordance/output_schema/$schema", json!("draft-03"))]),
            (no_class, &[("/error_contract/repairable_errors", json!(["OOPS"]))]),
            (no_class, &[("/error_contract/retryable_errors", json!(["OOPS"]))]),
            (no_class, &[("/error_contract/fail_closed_errors", json!(["OOPS"]))]),
            (no_class, &[("/error_contract/escalation_errors", json!(["OOPS"]))]),
            (name, &[("/identity/name", json!("void invoice"))]),
            (name, &[("/identity/name", json!(""))]),
            (name, &[("/identity/name", json!("n".repeat(129)))]),
            (date, &[("/identity/lifecycle/sunset_date", json!("soon"))]),
            (date, &[("/identity/lifecycle/sunset_date", json!("2026-02-30"))]),
            ("runtime.timeout_ms must be a number >= 1", &[("/runtime/timeout_ms", json!(0))]),
            (rate, &[("/runtime/rate_limits/max_requests", json!(0))]),
            (cost, &[("/runtime/cost_profile/cost_per_call", json!(-1))]),
            ("idempotency.ttl_seconds must be a number >= 1", &[("/idempotency/ttl_seconds", json!(0))]),
        ],
    );
}

#[test]
fn errors_are_sorted_and_rules_addressed() {
    let repairable = "`SIGNATURE_MISMATCH` is in repairable_errors and in fail_closed_errors";
    let retryable = "`SIGNATURE_MISMATCH` is in retryable_errors and in fail_closed_errors";
    let stops = json!(["SIGNATURE_MISMATCH"]);
    let twice = "rules: the id `same` is used more than once";
    let rule = |fields: Value| json!({ "id": "same", "rule": "true", "message": "m", "fields": fields });
    check(
        Conjunct::SchemaValid,
        &[
            (repairable, &[("/error_contract/repairable_errors", stops.clone())]),
            (retryable, &[("/error_contract/retryable_errors", stops)]),
            (twice, &[("/rules", json!([rule(json!([])), rule(json!(["/note"])), rule(json!([]))]))]),
            ("rule `same`: the field `note` is not a JSON Pointer", &[("/rules", json!([rule(json!(["note"]))]))]),
        ],
    );
}

#[test]
fn version_registered_auth_policy_defined_and_timeout_class_assigned() {
    let version = "identity.version `1.0` is not a semantic version";
    let gone = "identity.lifecycle.status is `sunsetted`";
    check(
        Conjunct::VersionRegistered,
        &[
            (version, &[("/identity/version", json!("1.0"))]),
            (gone, &[("/identity/lifecycle/status", json!("sunsetted"))]),
        ],
    );
    let scope = "security.required_scopes is empty, but the tool changes something";
    check(
        Conjunct::AuthPolicyDefined,
        &[
            (scope, &[("/security/required_scopes", json!([]))]),
            ("security.required_scopes has an empty scope", &[("/security/required_scopes", json!(["a", " "]))]),
        ],
    );
    check(Conjunct::TimeoutClassAssigned, &[("execution.timeout_class is missing", &[("/execution", json!(null))])]);
}

#[test]
fn an_operation_can_be_asked_about_as_the_plan_says() {
    let plan = |changes: &[(&str, Value)]| {
        let mut execution = json!({ "timeout_class": "async", "poll": {
            "tool": "company.status", "operation_pointer": "/id", "operation_argument": "id", "state_pointer": "/state",
            "done_states": ["done"], "failed_states": ["failed"],
        } });
        for (member, value) in changes {
            let place = execution.pointer_mut(member).map(|place| *place = value.clone());
            if place.is_none() {
                execution["poll"][member.rsplit('/').next().unwrap()] = value.clone();
            }
        }
        execution
    };
    let table = [
        ("execution.poll is for long work", plan(&[("/timeout_class", json!("standard"))])),
        ("execution.poll.tool is the tool itself", plan(&[("/poll/tool", json!("company.void_invoice"))])),
        ("execution.poll.operation_pointer must be a JSON Pointer", plan(&[("/poll/operation_pointer", json!("id"))])),
        ("execution.poll.state_pointer must be a JSON Pointer", plan(&[("/poll/state_pointer", json!(""))])),
        ("execution.poll.result_pointer must be a JSON Pointer", plan(&[("/poll/result_pointer", json!("out"))])),
        ("execution.poll.operation_argument is empty", plan(&[("/poll/operation_argument", json!(" "))])),
        ("execution.poll.done_states is empty", plan(&[("/poll/done_states", json!([]))])),
        ("execution.poll: `done` cannot mean both", plan(&[("/poll/failed_states", json!(["done"]))])),
    ];
    for (reason, execution) in table {
        check(Conjunct::TimeoutClassAssigned, &[(reason, &[("/execution", execution)])]);
    }
    assert_eq!(failures(&changed(&[("/execution", plan(&[]))])), [], "a whole plan is admitted");
}

#[test]
fn idempotency_specified() {
    let keyed = "effect class K needs effect.key and effect.key_window_sec";
    let header = "effect.key names a header that cannot be sent";
    let required = ("/idempotency/required", json!(true));
    let idempotent = "transactional.semantics idempotent_write needs effect class K or Q";
    check(
        Conjunct::IdempotencySpecified,
        &[
            (keyed, &[("/effect/class", json!("K"))]),
            (keyed, &[("/effect/class", json!("K")), ("/effect/key_window_sec", json!(60))]),
            (keyed, &[("/effect/class", json!("K")), ("/effect/key", json!({ "meta": "key" }))]),
            (
                header,
                &[
                    ("/effect/class", json!("K")),
                    ("/effect/key_window_sec", json!(60)),
                    ("/effect/key", json!({ "header": "Mcp-Name" })),
                ],
            ),
            (
                header,
                &[
                    ("/effect/class", json!("K")),
                    ("/effect/key_window_sec", json!(60)),
                    ("/effect/key", json!({ "header": "no token" })),
                ],
            ),
            (
                "effect.key names an argument of the input schema",
                &[
                    ("/effect/class", json!("K")),
                    ("/effect/key_window_sec", json!(60)),
                    ("/effect/key", json!({ "argument": "invoice_id" })),
                ],
            ),
            ("effect.not_executed_errors has an empty text", &[("/effect/not_executed_errors", json!([" "]))]),
            ("effect class Q needs effect.key and effect.status", &[("/effect/class", json!("Q"))]),
            (idempotent, &[("/transactional/semantics", json!("idempotent_write"))]),
            ("runtime.max_retries must be 0 for effect class N", &[("/runtime/max_retries", json!(1))]),
            ("`TIMEOUT` leaves it open", &[("/error_contract/retryable_errors", json!(["RATE_LIMITED", "TIMEOUT"]))]),
            ("`UNKNOWN_ERROR` leaves it open", &[("/error_contract/retryable_errors", json!(["UNKNOWN_ERROR"]))]),
            (
                "`DEPENDENCY_UNAVAILABLE` leaves it open",
                &[("/error_contract/retryable_errors", json!(["DEPENDENCY_UNAVAILABLE"]))],
            ),
            ("but idempotency.supported is false", &[required.clone(), ("/idempotency/ttl_seconds", json!(60))]),
            ("but idempotency.ttl_seconds is null", &[required, ("/idempotency/supported", json!(true))]),
        ],
    );
}

#[test]
fn mutation_class_labeled() {
    let side_effect = "transactional.side_effect_class is READ_ONLY exactly when";
    let semantics = "transactional.semantics is read_only exactly when effect.class is R";
    let acts = "behaviour.action is READ or SEARCH exactly when";
    let reversible = "a reversible write names transactional.compensation_tool";
    check(
        Conjunct::MutationClassLabeled,
        &[
            ("effect.mutation_class is missing", &[("/effect/mutation_class", json!(null))]),
            (
                "effect.class is R exactly when",
                &[("/effect/class", json!("R")), ("/transactional/semantics", json!("read_only"))],
            ),
            (semantics, &[("/transactional/semantics", json!("read_only"))]),
            (side_effect, &[("/transactional/side_effect_class", json!("READ_ONLY"))]),
            ("effect.manifest lists every change", &[("/effect/manifest", json!([]))]),
            (reversible, &[("/effect/mutation_class", json!("write_reversible"))]),
            (
                "behaviour.mutability contradicts",
                &[("/behaviour/mutability", json!("PURE")), ("/behaviour/action", json!("SEARCH"))],
            ),
            (acts, &[("/behaviour/action", json!("READ"))]),
            (acts, &[("/behaviour/action", json!("SEARCH"))]),
            ("execution.cache_ttl_sec is only for", &[("/execution/cache_ttl_sec", json!(60))]),
            ("effect.reads is for tools that change nothing", &[("/effect/reads", json!(["invoice/*"]))]),
        ],
    );
}

#[test]
fn observability_instrumented() {
    let mapping = "/observability/error_taxonomy_mapping";
    check(
        Conjunct::ObservabilityInstrumented,
        &[
            ("observability.audit_required must be true", &[("/observability/audit_required", json!(false))]),
            ("but there is no verification section", &[("/verification", json!(null))]),
            ("`x` maps to `OOPS`, which is not a failure class", &[(mapping, json!({ "x": "OOPS" }))]),
            ("`x` maps to `SUCCESS`, which is not a failure class", &[(mapping, json!({ "x": "SUCCESS" }))]),
        ],
    );
}

#[test]
fn text_legible() {
    let property = json!({ "type": "string", "description": "plain" });
    check(
        Conjunct::TextLegible,
        &[
            (
                "affordance.model_description: has U+200B (zero width) as character 6",
                &[("/affordance/model_description", json!("Voids\u{200b} an invoice."))],
            ),
            ("affordance.title: has U+202E (a direction override)", &[("/affordance/title", json!("x\u{202e}y"))]),
            (
                "affordance.input_schema.properties.reason.description: has U+E0041 (a tag character",
                &[("/affordance/input_schema/properties/reason/description", json!("Why.\u{e0041}"))],
            ),
            (
                "affordance.input_schema.properties.re<U+00AD>ason: the name has U+00AD (a soft hyphen)",
                &[("/affordance/input_schema/properties/re\u{ad}ason", property.clone())],
            ),
            (
                "affordance.input_schema.properties.reаson: the name mixes scripts: U+0430",
                &[("/affordance/input_schema/properties/re\u{430}son", property)],
            ),
            ("binding.tool: the name mixes scripts: U+0456", &[("/binding/tool", json!("vo\u{456}d_invoice"))]),
            ("binding.tool: has U+FEFF (zero width)", &[("/binding/tool", json!("void_invoice\u{feff}"))]),
        ],
    );
    let plain = changed(&[("/affordance/model_description", json!("Voids 🧑\u{200d}🚀 ⚠\u{fe0f}\r\n– naïve, 請求書"))]);
    assert_eq!(failures(&plain), []);
}

#[test]
fn a_missing_effect_fails_both_conjuncts_that_need_it() {
    let found = failures(&changed(&[("/effect", json!(null))]));
    let conjuncts: Vec<Conjunct> = found.iter().map(|(conjunct, _)| *conjunct).collect();
    assert_eq!(conjuncts, [Conjunct::IdempotencySpecified, Conjunct::MutationClassLabeled]);
}

#[test]
fn an_answer_to_objections_is_one_line_that_says_something() {
    let behaviour = |reviewed: &str| json!({ "mutability": "MUTATES", "action": "UPDATE", "output_domain": "DATA", "reviewed": reviewed });
    let long = "x".repeat(301);
    let cases = [
        ("it works on a copy", None),
        (&*"x".repeat(300), None),
        ("", Some("it is empty")),
        ("  ", Some("it is empty")),
        ("one\ntwo", Some("one line")),
        (long.as_str(), Some("longer than 300 characters")),
    ];
    for (reviewed, expected) in cases {
        let contract = changed(&[("/behaviour", behaviour(reviewed))]);
        let found = failures(&contract);
        match expected {
            None => assert_eq!(found, []),
            Some(expected) => assert!(found.iter().any(|(_, reason)| reason.contains(expected)), "{found:?}"),
        }
        let declared = contract.behaviour.unwrap();
        let silent = crate::tool::Behaviour { reviewed: None, ..declared.clone() };
        assert_eq!(
            (declared.identity(), declared.extended_identity()),
            (silent.identity(), silent.extended_identity())
        );
    }
}

#[test]
fn a_version_means_one_contract() {
    let contract = void_invoice();
    let key = (contract.identity.name.clone(), contract.identity.version.clone());
    let same = BTreeMap::from([(key.clone(), contract.digest().unwrap())]);
    assert_eq!(judge(&contract, &same).failures, [], "the same contract again");
    let other = BTreeMap::from([(key, Digest::compute(DigestDomain::Contract, &[b"other"]))]);
    let found = judge(&contract, &other).failures;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reason, "another contract is already registered as `company.void_invoice` 1.0.0");
}

#[test]
fn every_failure_is_listed() {
    let found = failures(&changed(&[
        ("/error_contract/repairable_errors", json!(["OOPS", "AGAIN"])),
        ("/identity/version", json!("one")),
        ("/security/required_scopes", json!([])),
        ("/execution", json!(null)),
        ("/effect", json!(null)),
        ("/observability/audit_required", json!(false)),
    ]));
    let conjuncts: Vec<String> = found.iter().map(|(conjunct, _)| conjunct.to_string()).collect();
    let expected = [
        "SchemaValid",
        "SchemaValid",
        "VersionRegistered",
        "AuthPolicyDefined",
        "TimeoutClassAssigned",
        "IdempotencySpecified",
        "MutationClassLabeled",
        "ObservabilityInstrumented",
    ];
    assert_eq!(conjuncts, expected);
}
