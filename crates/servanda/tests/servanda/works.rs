//! Long work from outside: begun as a task or returned as a handle, and fetched from another process after the first was killed.

use serde_json::{Value, json};

use crate::{
    agent::{Agent, Reply},
    contract::{Contract, count_effects, reads, slow_change},
    gateway::Gateway,
    world::{World, until},
};

/// The same slow tool of another company, whose contract says that it accepts our key.
fn slow_keyed() -> Contract {
    let mut contract = slow_change().of("other");
    contract.0["effect"]["class"] = json!("K");
    // Another resource, so that its calls do not wait behind the first company's.
    contract.0["effect"]["manifest"][0]["resource"] = json!("other/*");
    contract.0["effect"]["key"] = json!({ "meta": "key" });
    contract.0["effect"]["key_window_sec"] = json!(7200);
    contract
}

fn report() -> Contract {
    reads("monthly_report").input(&["month"], &json!({ "month": { "type": "string" } }))
}

/// Two companies; callers of their slow tools wait for a moment.
fn world() -> World {
    let world = World::empty();
    let (company, other) = (world.sample(&["--misbehave"]), world.sample_with("other.db", &["--misbehave"]));
    world.configure(&json!({ "company": company, "other": other }));
    for contract in [slow_change(), slow_keyed(), report(), count_effects()] {
        world.add(&contract);
    }
    world.waiting_ms(300).unpinned()
}

fn slow(tool: &str, milliseconds: u64) -> Value {
    json!({ "name": tool, "arguments": { "milliseconds": milliseconds } })
}

fn fetch(agent: &Agent, handle: &Value, wait_ms: u64) -> Reply {
    agent.call("servanda__result", json!({ "handle": handle, "wait_ms": wait_ms }))
}

/// The answer to a slow legacy request, which may come at the end of a stream.
fn last_of(agent: &Agent, method: &'static str, params: Value) -> Reply {
    let mut exchange = agent.begin("late", method, params);
    if exchange.headers.get("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
        let last = std::iter::from_fn(|| exchange.next_event()).last().expect("an answer");
        return Reply::of(last);
    }
    Reply::of(exchange.text())
}

/// Asks as a modern client that supports tasks.
fn ask_of_task(gateway: &Gateway, method: &'static str, mut params: Value) -> Reply {
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    params["_meta"] = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
    let agent = gateway.modern();
    let name = params["taskId"].as_str().unwrap_or_default().to_owned();
    let mut question = agent.question(1, method, params);
    if !name.is_empty() {
        question = question.with("mcp-name", &name);
    }
    Reply::of(agent.exchange(&question).text())
}

#[test]
fn a_task_or_a_handle_is_asked_for_while_it_goes_on_and_afterwards() {
    let world = world();
    let gateway = world.serve();
    // Modern: a task with the members of its era, and the result inside it.
    let created = ask_of_task(&gateway, "tools/call", slow("company__misbehave_slow", 3_000));
    assert_eq!((&created.result()["resultType"], &created.result()["status"]), (&json!("task"), &json!("working")));
    let id = created.result()["taskId"].clone();
    let mut got = until("the task to end", || {
        let got = ask_of_task(&gateway, "tasks/get", json!({ "taskId": id }));
        (got.result()["status"] != "working").then_some(got)
    });
    assert_eq!(got.result()["status"], "completed", "{}", got.raw);
    assert_eq!(got.result()["result"]["isError"], false, "{}", got.raw);
    // Legacy: the same in the form of 2025-11-25.
    let legacy = gateway.legacy();
    let mut params = slow("company__misbehave_slow", 1_000);
    params["task"] = json!({});
    let created = last_of(&legacy, "tools/call", params);
    let task = &created.result()["task"];
    assert!(task["ttl"].is_u64() && task["createdAt"].is_string() && task["lastUpdatedAt"].is_string(), "{task}");
    got = last_of(&legacy, "tasks/result", json!({ "taskId": task["taskId"] }));
    assert_eq!(got.success()["_meta"]["io.modelcontextprotocol/related-task"], json!({ "taskId": task["taskId"] }));
    let listed = legacy.ask("tasks/list", json!({}));
    assert!(listed.raw.contains(task["taskId"].as_str().unwrap()), "{}", listed.raw);
    let listed = legacy.ask("tools/list", json!({}));
    let tools = listed.result()["tools"].as_array().unwrap().clone();
    let slow_tool = tools.iter().find(|tool| tool["name"] == "company__misbehave_slow").unwrap();
    assert_eq!(slow_tool["execution"]["taskSupport"], "optional");
    assert!(tools.iter().any(|tool| tool["name"] == "servanda__result"));
    // Without tasks: a handle, which returns the same bytes however often it is used.
    let plain = gateway.modern();
    let handed = plain.call("company__misbehave_slow", json!({ "milliseconds": 1500 }));
    let refusal = handed.refusal();
    assert_eq!((&refusal["error_code"], &refusal["retryable"]), (&json!("IDEMPOTENCY_CONFLICT"), &json!(false)));
    let handle = refusal["handle"].clone();
    assert!(fetch(&plain, &handle, 0).refusal()["message"].as_str().unwrap().contains("still goes on"));
    let fetched = until("the result", || {
        let reply = fetch(&plain, &handle, 200);
        (reply.result()["isError"] == false).then_some(reply)
    });
    assert_eq!(fetched.result()["content"], fetch(&plain, &handle, 0).result()["content"]);
    assert_eq!(fetched.observation()["execution_metadata"]["idempotency_hit"], true);
    assert_eq!(world.record(&fetched.call_id())["outcome"], "replayed");
    assert_eq!(world.record(&handed.call_id())["outcome"], "completed", "the call itself is on record by its own end");
}

#[test]
fn progress_is_kept_for_people_too() {
    let world = world();
    let gateway = world.serve();
    gateway.modern().call("company__monthly_report", json!({ "month": "2026-10" }));
    let shown = until("the progress to be kept", || {
        let listed = world.run(&["effects", "--json"]).ended(0).json();
        let report =
            listed.as_array()?.iter().find(|effect| effect["order"]["exposed_tool"] == "company__monthly_report")?;
        let shown = world.run(&["effects", "show", report["id"].as_str()?]).ended(0).stdout;
        shown.contains("progress").then_some(shown)
    });
    assert!(shown.contains(" of 5"), "{shown}");
}

#[test]
fn what_a_killed_gateway_left_is_found_again_or_honestly_unknown() {
    let world = world();
    let gateway = world.serve();
    let legacy = gateway.legacy();
    // The upstream is connected, so that a call that is cut off has been sent.
    legacy.call("company__count_effects", json!({})).success();
    let mut params = slow("other__misbehave_slow", 4_000);
    params["task"] = json!({});
    let keyed = last_of(&legacy, "tools/call", params).result()["task"]["taskId"].clone();
    let handle =
        gateway.modern().call("company__misbehave_slow", json!({ "milliseconds": 4000 })).refusal()["handle"].clone();
    gateway.kill();
    world.assert_nothing_left();

    let gateway = world.serve();
    let (legacy, plain) = (gateway.legacy(), gateway.modern());
    assert_eq!(legacy.ask("tasks/get", json!({ "taskId": keyed })).result()["status"], "working");
    let goes_on = fetch(&plain, &handle, 0).refusal();
    assert!(goes_on["message"].as_str().unwrap().contains("still goes on"), "{handle}: {goes_on}");
    // After a while its owner counts as dead; then a call that can be sent again is, and the other's outcome is unknown.
    let found = last_of(&legacy, "tasks/result", json!({ "taskId": keyed }));
    assert_eq!(found.success()["_meta"]["io.modelcontextprotocol/related-task"], json!({ "taskId": keyed }));
    assert_eq!(legacy.ask("tasks/get", json!({ "taskId": keyed })).result()["status"], "completed");
    let refusal = until("the outcome to be unknown", || {
        let refusal = fetch(&plain, &handle, 0).refusal();
        (!refusal["message"].as_str().unwrap().contains("still goes on")).then_some(refusal)
    });
    assert_eq!((&refusal["effect"], &refusal["retryable"]), (&json!("unknown"), &json!(false)), "{refusal}");
    assert!(refusal["operator_hint"].as_str().unwrap().contains("servanda effects show"), "{refusal}");
    let task = ask_of_task(&gateway, "tasks/get", json!({ "taskId": handle }));
    assert_eq!(
        (&task.result()["status"], &task.result()["error"]["data"]["effect"]),
        (&json!("failed"), &json!("unknown"))
    );
}

/// The tool that a plan names must exist at the same upstream and accept the operation; otherwise nothing starts.
#[test]
fn a_plan_that_cannot_be_followed_is_a_reason_not_to_start() {
    let plan = |tool: &str, argument: &str| {
        let mut contract = slow_change();
        contract.0["execution"]["poll"] = json!({ "tool": tool, "operation_pointer": "/id", "operation_argument": argument,
            "state_pointer": "/state", "done_states": ["done"] });
        contract
    };
    let table = [
        (plan("company.monthly_report", "month"), None),
        (plan("company.gone", "month"), Some("`execution.poll.tool`: there is no contract `company.gone`")),
        (
            plan("other.misbehave_slow", "milliseconds"),
            Some("there is no contract `other.misbehave_slow` that changes nothing"),
        ),
        (
            plan("other.count_effects", "month"),
            Some("`other.count_effects` is a tool of `other`, and not of `company`"),
        ),
        (
            plan("company.monthly_report", "id"),
            Some("`execution.poll.operation_argument`: `company.monthly_report` has no argument `id`"),
        ),
    ];
    for (contract, reason) in table {
        let world = world();
        world.add(&count_effects().of("other"));
        world.add(&contract);
        let checked = world.run(&["check"]);
        match reason {
            None => drop(checked.ended(0)),
            Some(reason) => {
                let checked = checked.ended(2);
                let said = checked.everything();
                assert!(said.contains(reason) && said.contains("company.misbehave_slow.json"), "{reason}: {said}");
            }
        }
    }
}
