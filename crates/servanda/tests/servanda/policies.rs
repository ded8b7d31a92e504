//! Policies as an operator uses them: files beside the configuration, mistakes with their places, cases, explanations, what other policies
//! would have decided, and shadow policies.

use serde_json::{Value, json};

use crate::{
    contract::{count_effects, get_invoice, pay_invoice, slow_change},
    snapshot::Page,
    world::{World, until},
};

const SMALL: &str = r#"// What the desk may pay.
@id("small-payments")
@reason("more than 100 CHF is paid by the accountant")
forbid (principal, action == Action::"call:company.pay_invoice", resource)
when { context.args.amount_cents > 10000 };
"#;

const NOBODY_PAYS: &str = r#"@id("nobody-pays")
@reason("payments are stopped")
forbid (principal, action, resource)
when { resource.name == "company.pay_invoice" };
"#;

const QUICK: &str = r#"@id("only-quick")
forbid (principal, action == Action::"call:company.misbehave_slow", resource)
when { context.args.milliseconds > 1000 };
"#;

const LITTLE: &str = r#"{"invoice_id":"inv_1003","amount_cents":100,"currency":"CHF"}"#;
const MUCH: &str = r#"{"invoice_id":"inv_1003","amount_cents":20000,"currency":"CHF"}"#;

fn company() -> World {
    World::company([get_invoice(), pay_invoice(), count_effects(), slow_change()]).unpinned()
}

fn with_policy(world: &World, policy: &Value) {
    world.change_config(|config| config["policy"] = policy.clone());
}

#[test]
fn a_bad_rule_refuses_every_start_and_names_its_place() {
    let world = company();
    world.write("policies/pay.cedar", SMALL);
    world.write(
        "policies/team/typos.cedar",
        "@id(\"typo\")\nforbid (principal, action == Action::\"call:company.pay_invoce\", resource);\n\n\
         permit (principal, action, resource) when { resource.colour == \"red\" };\n",
    );
    let mut page = Page::new(&world);
    let told = page.run(&["check"]).ended(2).stderr;
    for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["stdio"], &["call", "company__count_effects", "{}"]] {
        assert_eq!(world.run(args).ended(2).stderr, told, "{args:?}");
    }
    assert!(!world.has(".servanda") && !world.has("books.db"), "something was started");
    for (policy, what) in [
        (json!({ "files": ["policies/*.ceder"] }), "a pattern that means no file"),
        (json!({ "files": ["poli*/pay.cedar"] }), "a star in a folder's name"),
        (json!({ "mode": "shadow", "shadow": ["policies/pay.cedar"] }), "two shadows"),
        (json!({ "mode": "audit" }), "no such mode"),
    ] {
        with_policy(&world, &policy);
        page.head(what);
        page.run(&["check"]).ended(2);
    }
    with_policy(&world, &json!({ "files": ["policies/pay.cedar"], "defaults": "off" }));
    page.head("one file");
    page.run(&["check"]).ended(0);
    page.compare("policy_check");
}

#[test]
fn what_policies_say_to_calls_and_of_them() {
    let world = company();
    world.write("policies/pay.cedar", SMALL);
    let mut page = Page::new(&world);
    let paid = world.call("company__pay_invoice", LITTLE).ended(0).call_id();
    let refused = page.run(&["call", "company__pay_invoice", MUCH]).ended(3).call_id();
    assert_eq!(world.effects(), 1);
    let read = world.call("company__get_invoice", r#"{"invoice_id":"inv_1007"}"#).ended(0).call_id();
    page.run(&["explain", &refused]).ended(0);
    page.head("arguments are not on record");
    page.run(&["policy", "explain", &refused]).ended(0);
    page.run(&["policy", "explain", &read]).ended(0);
    page.head("an effect keeps them while its outcome is unknown");
    let slow = ["call", "company__misbehave_slow", r#"{"milliseconds":20000}"#, "--timeout-ms", "3000"];
    let unknown = world.run(&slow).ended(4).call_id();
    page.run(&["policy", "explain", &unknown]).ended(0);
    let again = world.run(&slow).call_id();
    let effect_of = |call: &str| world.run(&["explain", call, "--json"]).ended(0).json()["effect_id"].clone();
    assert_eq!((effect_of(&again), effect_of(&again).is_string()), (effect_of(&unknown), true));
    page.head("but only for the call that it is of");
    page.run(&["policy", "explain", &again]).ended(0);
    page.head("or a person gives them");
    world.write("args.json", MUCH);
    page.run(&["policy", "explain", &refused, "--arguments", "args.json"]).ended(0);
    let other = world.run_with_input(&["policy", "explain", &refused, "--arguments", "-"], LITTLE).ended(0);
    page.show("policy explain [CALL] --arguments - < other.json", &other);
    page.run(&["policy", "explain", "call_0"]).ended(2);
    page.compare("policy_explain");
    let known = world.run(&["policy", "explain", &refused, "--json"]).ended(0).json();
    assert_eq!(known["policy"]["by"], json!(["small-payments"]));
    assert_eq!(known["now"]["depends_on_arguments"]["by"], json!(["small-payments"]));

    let mut page = Page::new(&world);
    page.run(&["policy", "what-if"]).ended(2);
    world.write("next/pay.cedar", NOBODY_PAYS);
    world.write("next/slow.cedar", QUICK);
    page.run(&["policy", "what-if", "--policies", "next", "--since", "1d"]).ended(0);
    let report = world.run(&["policy", "what-if", "--policies", "next", "--json"]).ended(0).json();
    // The effect of the slow call keeps its own arguments, not those of the next call; the payment would be refused with any arguments.
    assert_eq!((&report["calls"], &report["same"], &report["depends"]), (&json!(5), &json!(2), &json!(1)));
    let changed: Vec<&Value> = report["changes"].as_array().unwrap().iter().map(|change| &change["call_id"]).collect();
    assert_eq!(changed, [&json!(unknown), &json!(paid)]);
    let report = world.run(&["policy", "what-if", "--policies", "policies", "--json"]).ended(0).json();
    assert_eq!(report["depends_on"], json!({ "small-payments": 2 }), "what they were is not on record");
    world.write("bad.cedar", "forbid (principal, action, resource) when { resource.colour == 1 };");
    page.run(&["policy", "what-if", "--policies", "bad.cedar"]).ended(2);
    page.compare("policy_what_if");
}

const TWO_PEOPLE: &str = r#"@id("two-people-pay")
@approval("dual")
@approvers("finance")
permit (principal, action == Action::"call:company.pay_invoice", resource);
"#;

/// A call that a policy holds for approval is told of as a decision of its own, by every command and in the records of a trial.
#[test]
fn policies_ask_people() {
    let world = company();
    let paid = world.call("company__pay_invoice", LITTLE).ended(0).call_id();
    world.write("next/two.cedar", TWO_PEOPLE);
    let what_if = |policies: &str| world.run(&["policy", "what-if", "--policies", policies, "--json"]).ended(0).json();
    let change = &what_if("next")["changes"][0];
    assert_eq!(
        (&change["call_id"], &change["was"], &change["would_be"]),
        (&json!(paid), &json!("allowed"), &json!("approval"))
    );
    let page = world.run(&["policy", "what-if", "--policies", "next"]).ended(0).stdout;
    assert!(page.contains("1  allowed, and would be held for approval"), "{page}");
    with_policy(&world, &json!({ "shadow": ["next"] }));
    let tried = world.call("company__pay_invoice", LITTLE).ended(0).call_id();
    let record = world.run(&["explain", &tried, "--json"]).ended(0).json();
    let shadow = json!({ "would_have": "approval", "cause": "dual", "by": ["default.grave-writes", "two-people-pay"] });
    assert_eq!(record["policy"]["shadow"], shadow);

    with_policy(&world, &json!({ "files": ["next"] }));
    let effects = world.effects();
    let held = world.call("company__pay_invoice", MUCH).ended(3).call_id();
    assert_eq!(world.effects(), effects, "nothing was sent");
    let page = world.run(&["policy", "explain", &held]).ended(0).stdout;
    assert!(page.contains("allowed, with approval by 2 approvers of finance"), "{page}");
    assert!(
        page.contains("by `two-people-pay` (next/two.cedar:1), asks for approval by 2 approvers of finance"),
        "{page}"
    );
    world.write("args.json", MUCH);
    let page = world.run(&["policy", "explain", &held, "--arguments", "args.json"]).ended(0).stdout;
    assert!(page.contains("allowed, with approval by 2 approvers of finance"), "{page}");
    assert!(page.contains("the policy `two-people-pay` asks for one"), "{page}");
    let now =
        world.run(&["policy", "explain", &held, "--json"]).ended(0).json()["now"]["whatever_the_arguments"].clone();
    assert_eq!((&now["allowed"], &now["approval"]["quorum"]), (&json!(true), &json!(2)));
    world.write("before/none.cedar", "@id(\"all\") permit (principal, action, resource);");
    let report = what_if("before");
    let change = &report["changes"][0];
    assert_eq!((&change["was"], &change["would_be"]), (&json!("approval"), &json!("allowed")), "{report}");
    assert_eq!(report["same"], json!(2), "{report}");
}

#[test]
fn cases_hold_policies() {
    let world = company();
    world.write("policies/pay.cedar", SMALL);
    world.write(
        "cases.yaml",
        "cases:\n\
         - { name: a little is paid, tool: company.pay_invoice, args: { invoice_id: inv_1, amount_cents: 100, currency: EUR }, \
         expect: allow }\n\
         - { name: much is not, tool: company.pay_invoice, args: { invoice_id: inv_1, amount_cents: 10001, currency: EUR }, \
         expect: deny, by: [small-payments] }\n",
    );
    let mut page = Page::new(&world);
    page.run(&["policy", "test", "cases.yaml"]).ended(0);
    world.write("next/pay.cedar", NOBODY_PAYS);
    page.head("other policies");
    page.run(&["policy", "test", "cases.yaml", "--policies", "next"]).ended(1);
    world.write("typo.yaml", "cases:\n- { name: a typo is no refusal, tool: company.pay_invoce, expect: deny }\n");
    page.run(&["policy", "test", "typo.yaml"]).ended(1);
    world.write(
        "unfit.yaml",
        "cases:\n\
         - { name: nor is a misspelt argument, tool: company.pay_invoice, args: { amount_cent: 10001 }, expect: deny }\n\
         - { name: nor one of another type, tool: company.pay_invoice, args: { amount_cents: much }, expect: deny }\n",
    );
    page.run(&["policy", "test", "unfit.yaml"]).ended(1);
    world.write("bad.yaml", "cases:\n- { name: x, tol: y, expect: deny }\n");
    page.run(&["policy", "test", "bad.yaml"]).ended(2);
    page.run(&["policy", "test", "absent.yaml"]).ended(2);
    page.compare("policy_test");
    let outcomes = world.run(&["policy", "test", "cases.yaml", "--json"]).ended(0).json();
    assert_eq!(outcomes[1]["explanation"]["cause"], json!("forbidden"));
    let schema = world.run(&["policy", "schema"]).ended(0).stdout;
    assert!(schema.contains("\"call:company.pay_invoice\"") && schema.contains("\"amount_cents\": Long"), "{schema}");
}

#[test]
fn policies_in_shadow_are_told_of_and_decide_nothing() {
    let world = company();
    world.write("policies/pay.cedar", NOBODY_PAYS);
    with_policy(&world, &json!({ "mode": "shadow", "defaults": "off" }));
    let mut page = Page::new(&world);
    page.run(&["check"]).ended(0);
    let paid = world.call("company__pay_invoice", LITTLE).ended(0).call_id();
    assert_eq!(world.effects(), 1, "it was paid");
    page.run(&["explain", &paid]).ended(0);
    page.run(&["policy", "explain", &paid]).ended(0);
    page.run(&["policy", "what-if"]).ended(0);
    page.compare("policy_shadow");
    let record = world.run(&["explain", &paid, "--json"]).ended(0).json();
    assert_eq!(record["policy"]["by"], json!(["default.grave-writes"]));
    let shadow = json!({ "would_have": "refused", "cause": "forbidden", "by": ["nobody-pays"] });
    assert_eq!(record["policy"]["shadow"], shadow);
    let mut gateway = world.serve();
    assert!(gateway.said().contains("`shadow`: what you wrote (1 policy) is not enforced"), "{}", gateway.said());
    assert_eq!(gateway.modern().tools().len(), 4, "nothing is hidden by what is only tried out");
    gateway.terminate();
    assert_eq!(gateway.wait(), Some(0));
}

#[test]
fn a_running_gateway_takes_other_policies_and_keeps_the_good_ones() {
    let world = company();
    world.write("policies/none.cedar", "");
    let mut gateway = world.serve();
    let agent = gateway.legacy();
    assert_eq!(agent.tools().len(), 4);
    world.write("policies/pay.cedar", NOBODY_PAYS);
    until("the tool to be gone from the list", || (agent.tools().len() == 3).then_some(()));
    assert_eq!(
        agent.call("company__pay_invoice", serde_json::from_str::<Value>(LITTLE).unwrap()).refusal()["gate"],
        "policy"
    );
    until("the policy to be told of", || gateway.said().contains("1 policy new (nobody-pays)").then_some(()));
    world.write("policies/pay.cedar", "permit (principal, action, resource) when { resource.colour == 1 };");
    until("the mistake to be told", || gateway.said().contains("the earlier one stays in force").then_some(()));
    assert!(gateway.said().contains("policies/pay.cedar:1:"), "{}", gateway.said());
    assert_eq!(agent.tools().len(), 3);
    std::fs::remove_file(world.path("policies/pay.cedar")).unwrap();
    until("the tool to be back", || (agent.tools().len() == 4).then_some(()));
    world.write("policies/pay.cedar", NOBODY_PAYS);
    until("the tool to be gone again", || (agent.tools().len() == 3).then_some(()));
    std::fs::rename(world.path("policies"), world.path("elsewhere")).unwrap();
    until("the folder to be missed", || gateway.said().contains("policies` is gone").then_some(()));
    assert_eq!(agent.tools().len(), 3, "a folder that is gone takes no policy away");
    with_policy(&world, &json!({ "files": [] }));
    until("none to be what was said", || (agent.tools().len() == 4).then_some(()));
    gateway.terminate();
    assert_eq!(gateway.wait(), Some(0));
}

#[test]
fn an_upstream_of_other_tenants_is_not_there() {
    let world = company();
    world.change_config(|config| config["upstreams"]["company"]["tenants"] = json!(["acme", "rival"]));
    let refused = world.call("company__count_effects", "{}").ended(3);
    assert!(refused.stderr.contains("there is no tool `company__count_effects`"), "{}", refused.stderr);
    assert!(!world.has("books.db"), "its server was started");
    let absent = world.call("company__absent", "{}").ended(3);
    let words = |text: &str| text.lines().next().unwrap().replace("company__count_effects", "X");
    assert_eq!(words(&refused.stderr), words(&absent.stderr.replace("company__absent", "X")));
    world.change_config(|config| config["upstreams"]["company"]["tenants"] = json!(["local"]));
    world.call("company__count_effects", "{}").ended(0);
}

/// A call that nothing permits: the message names the permits, and which of their conditions are not met.
#[test]
fn a_call_that_nothing_permits_shows_the_permits_that_do_not_hold() {
    let world = company();
    let permit = "@id(\"reads-only\")\npermit (principal, action, resource) when { resource.side_effect_class == \"READ_ONLY\" };\n";
    world.write("policies/p.cedar", permit);
    with_policy(&world, &json!({ "files": ["policies/p.cedar"], "defaults": "off" }));
    let ran = world.run(&["call", "company__pay_invoice", LITTLE]);
    let call = ran.stderr.split_whitespace().last().unwrap().to_owned();
    let page = world.run(&["policy", "explain", &call]).ended(0).stdout;
    assert!(page.contains("permit `reads-only` does not hold: condition 1 of 1 is not met"), "{page}");
}
