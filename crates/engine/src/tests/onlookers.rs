//! Who may know of an earlier call: the same user with a narrower credential asks about it, cancels it, answers it, and subscribes to its
//! changes.

use serde_json::{Value, json};
use servanda_authority::{
    Rights,
    rights::{ResourcePatterns, Scopes, ToolPatterns},
};
use servanda_contract::{ToolContract, time::Clock as _, tool::SideEffectClass};
use servanda_mcp::{ClientCapabilities, Era};

use super::{
    conversations::result,
    effects::Bank,
    works::{about, fetch, legacy, long, slow, takes_tasks, task, until_status},
};
use crate::{
    Gateway as _, InquirySubject, RequestTerms, Requester,
    testing::{ScriptedRequest, ScriptedServer, call, draft, everything, requester_with, said, snapshot_of, text},
};

/// A tool whose calls change or read `invoice/{text}`.
fn of_invoices(tool: &str, writes: bool) -> ToolContract {
    let mut contract = draft("up", tool, writes);
    let effect = if writes {
        json!({"class": "N", "mutation_class": "write_irreversible",
            "manifest": [{"resource": "invoice/{text}", "operation": "UPDATE", "scope": "tenant"}]})
    } else {
        json!({"class": "R", "mutation_class": "read_only", "reads": ["invoice/{text}"]})
    };
    contract.effect = Some(serde_json::from_value(effect).unwrap());
    contract
}

/// A credential's rights, and whether they cover a change of `invoice/hello` and a read of it.
fn table() -> Vec<(&'static str, Rights, bool, bool)> {
    let tools = |pattern: &str| Rights { tools: ToolPatterns::read(&[pattern]).unwrap(), ..everything() };
    let resources = |pattern: &str| Rights { resources: ResourcePatterns::read(&[pattern]).unwrap(), ..everything() };
    vec![
        ("everything", everything(), true, true),
        ("no scope", Rights { scopes: Scopes::none(), ..everything() }, false, false),
        ("only reads", Rights { ceiling: SideEffectClass::ReadOnly, ..everything() }, false, true),
        ("every tool of the server", tools("up.*"), true, true),
        ("another tool", tools("up.other"), false, false),
        ("the invoice", resources("invoice/hello"), true, true),
        ("another invoice", resources("invoice/2"), false, false),
        ("every invoice", resources("invoice/*"), true, true),
    ]
}

/// Whether a requester may know of a task. Every kind of request must give the same answer, and a request that is not allowed must not
/// reach the server.
async fn may_know(bank: &Bank, rights: Rights, id: &Value) -> bool {
    let ada = |era: Era, capabilities: &ClientCapabilities| Requester {
        era,
        capabilities: capabilities.clone(),
        ..requester_with("acme", "ada", rights.clone(), bank.clock.now())
    };
    let modern = ada(Era::Modern, &takes_tasks().capabilities);
    let legacy = ada(Era::Legacy, &legacy().capabilities);
    let of = || json!({"taskId": id, "inputResponses": {}});
    let engine = &bank.harness.engine;
    let heard = bank.server.heard().len();
    let mut answers = Vec::new();
    for (requester, subject) in [
        (&modern, InquirySubject::Task),
        (&legacy, InquirySubject::Task),
        (&modern, InquirySubject::TaskUpdate),
        (&modern, InquirySubject::TaskCancel),
        (&legacy, InquirySubject::TaskCancel),
    ] {
        answers.push(about(&bank.harness, requester, subject, of()).await.is_ok());
    }
    let listed = about(&bank.harness, &legacy, InquirySubject::Tasks, json!({})).await.unwrap();
    answers.push(listed["tasks"].as_array().unwrap().iter().any(|task| task["taskId"] == *id));
    let wanted = vec!["unknown".to_owned(), id.as_str().unwrap().to_owned()];
    for requester in [&modern, &legacy] {
        answers.push(!engine.known_tasks(requester, wanted.clone()).await.is_empty());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert!(answers[0] || bank.server.heard().len() == heard, "nothing was passed on");
    answers[0]
}

/// A modern server that runs every call as a task.
fn tasks_only() -> std::sync::Arc<ScriptedServer> {
    ScriptedServer::new(Era::Modern, &json!({}), |heard: ScriptedRequest| async move {
        let task = json!({"taskId": "theirs", "status": "working", "ttlMs": 60_000});
        let kind = if heard.method == "tools/call" { "task" } else { "complete" };
        let mut answer = task;
        answer["resultType"] = json!(kind);
        Ok(said(Era::Modern, &answer))
    })
}

#[tokio::test]
async fn a_task_of_an_upstream_is_known_to_credentials_that_cover_its_call() {
    for (tool, writes) in [("write", true), ("echo", false)] {
        for (name, rights, of_change, of_read) in table() {
            let bank = Bank::new(tasks_only(), vec![of_invoices(tool, writes)]);
            let requester = Requester {
                capabilities: takes_tasks().capabilities,
                era: Era::Modern,
                ..requester_with("acme", "ada", everything(), bank.clock.now())
            };
            let created = task(bank.call(call(&requester, tool, RequestTerms::default())).await);
            let known = if writes { of_change } else { of_read };
            assert_eq!(may_know(&bank, rights, &created["taskId"]).await, known, "{tool}, {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_work_is_known_to_credentials_that_cover_its_call() {
    for (tool, writes) in [("write", true), ("echo", false)] {
        for (name, rights, of_change, of_read) in table() {
            let slow = slow(&[]);
            let bank = Bank::new(slow.server.clone(), vec![long(of_invoices(tool, writes))]);
            let mut requester = requester_with("acme", "ada", everything(), bank.clock.now());
            (requester.capabilities, requester.era) = (takes_tasks().capabilities, Era::Modern);
            let created = task(bank.call(call(&requester, tool, RequestTerms::default())).await);
            let (id, known) = (&created["taskId"], if writes { of_change } else { of_read });
            slow.go.add_permits(1);
            until_status(&bank.harness, &requester, id, "completed").await;
            let onlooker = requester_with("acme", "ada", rights.clone(), bank.clock.now());
            let fetched = result(bank.call(fetch(&onlooker, &json!({"handle": id}))).await).to_string();
            assert_eq!(fetched.contains("done"), known, "{tool}, {name}: {fetched}");
            assert_eq!(may_know_of_ended(&bank, rights, id).await, known, "{tool}, {name}");
        }
    }
}

/// The same for work that has ended and cannot be cancelled.
async fn may_know_of_ended(bank: &Bank, rights: Rights, id: &Value) -> bool {
    let mut requester = requester_with("acme", "ada", rights, bank.clock.now());
    requester.era = Era::Legacy;
    let result = about(&bank.harness, &requester, InquirySubject::TaskResult, json!({"taskId": id})).await;
    let known = bank.harness.engine.known_tasks(&requester, vec![id.as_str().unwrap().to_owned()]).await;
    assert_eq!(result.is_ok(), !known.is_empty(), "{result:?}");
    result.is_ok()
}

#[tokio::test]
async fn where_the_contract_is_gone_what_is_on_record_has_to_be_covered() {
    let bank = Bank::new(tasks_only(), vec![of_invoices("write", true)]);
    let mut requester = requester_with("acme", "ada", everything(), bank.clock.now());
    (requester.capabilities, requester.era) = (takes_tasks().capabilities, Era::Modern);
    let created = task(bank.call(call(&requester, "write", RequestTerms::default())).await);
    let silent = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "")) });
    let after = bank.harness.restarted(snapshot_of(&silent, vec![of_invoices("echo", false)]), bank.clock.clone());
    let id = created["taskId"].as_str().unwrap().to_owned();
    for (name, rights, of_change, _) in table() {
        // The scopes that the call required are no longer known.
        let known = of_change || name == "no scope";
        let requester = requester_with("acme", "ada", rights, bank.clock.now());
        assert_eq!(!after.engine.known_tasks(&requester, vec![id.clone()]).await.is_empty(), known, "{name}");
    }
    let grave = Rights { ceiling: SideEffectClass::HighRiskExternal, ..everything() };
    let requester = requester_with("acme", "ada", grave, bank.clock.now());
    assert!(after.engine.known_tasks(&requester, vec![id]).await.is_empty(), "it may have been graver");
}
