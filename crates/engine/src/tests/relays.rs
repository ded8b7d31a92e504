//! Resources, prompts and completions over several upstreams.

mod rights;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Value, json};
use servanda_catalog::names::ExposedNaming;
use servanda_mcp::{Era, RpcError};
use servanda_upstream::{Answer, PerformFailure};

use crate::{
    Gateway as _, InquiryAnswer, InquirySubject, RequestTerms, Requester,
    testing::{
        EngineHarness, ScriptedRequest, ScriptedServer, again, ask, call, inquiry, listening, parse, rejected,
        requester, said,
    },
};

fn modern() -> Requester {
    requester(Era::Modern, &json!({"elicitation": {}}))
}

fn complete(answer: Result<InquiryAnswer, RpcError>) -> Value {
    match answer {
        Ok(InquiryAnswer::Complete(json)) => parse(&json),
        other => panic!("not complete: {other:?}"),
    }
}

async fn ask_for(
    harness: &EngineHarness,
    requester: &Requester,
    subject: InquirySubject,
    params: Value,
) -> Result<InquiryAnswer, RpcError> {
    harness.engine.inquire(inquiry(requester, subject, &params, RequestTerms::default())).await
}

fn not_found(code: i64) -> PerformFailure {
    rejected(code, "Resource not found", None)
}

/// A library with two pages of resources, prompts, and a resource that links to another.
fn library(heard: &ScriptedRequest) -> Result<Answer, PerformFailure> {
    let era = Era::Legacy;
    let cursor = heard.params["cursor"].as_str();
    Ok(said(
        era,
        &match (heard.method, cursor) {
            ("resources/list", None) => json!({"resources": [{"uri": "lib://a", "name": "a"}], "nextCursor": ""}),
            ("resources/list", Some("")) => json!({"resources": [{"uri": "lib://b", "name": "b"}], "_meta": {"x": 1}}),
            ("resources/list", Some(_)) => {
                return Err(rejected(-32602, "bad cursor", None));
            }
            ("resources/templates/list", _) => {
                json!({"resourceTemplates": [{"uriTemplate": "lib://{id}", "name": "t"}]})
            }
            ("prompts/list", _) => json!({"prompts": [{"name": "greet"}, {"name": "größe", "arguments": []}]}),
            ("prompts/get", _) => json!({"messages": [
                {"role": "user", "content": {"type": "resource", "resource": {"uri": "lib://a", "text": heard.params["name"]}}}
            ]}),
            ("resources/read", _) if heard.params["uri"] == "lib://a" => {
                json!({"contents": [{"uri": "lib://a", "text": "A", "n": 1.5}]})
            }
            ("resources/read", _) => return Err(not_found(-32002)),
            ("completion/complete", _) => json!({"completion": {"values": [heard.params.to_string()]}}),
            ("tools/call", _) => json!({"content": [{"type": "resource_link", "uri": "lib://a", "name": "a"}]}),
            other => panic!("{other:?}"),
        },
    ))
}

fn libraries() -> (EngineHarness, Arc<ScriptedServer>) {
    let capable = json!({"resources": {}, "prompts": {}, "completions": {}});
    let library_server = ScriptedServer::new(Era::Legacy, &capable, |heard| {
        let answered = library(&heard);
        async move { answered }
    });
    let empty = ScriptedServer::new(Era::Modern, &capable, |heard| async move {
        let list = heard.method.split('/').nth(usize::from(heard.method.contains("templates"))).unwrap();
        let name = if list == "templates" { "resourceTemplates" } else { list };
        Ok(said(Era::Modern, &json!({"resultType": "complete", name: [], "ttlMs": 5})))
    });
    let last = ScriptedServer::new(Era::Modern, &json!({"resources": {}}), |heard| async move {
        match heard.method {
            "resources/list" => {
                let text = r#"{"resultType":"complete", "resources":[ {"uri":"last://x","size":1.0} ],"ttlMs":300,"cacheScope":"public"}"#;
                Ok(Answer { result: Bytes::from_static(text.as_bytes()), era: Era::Modern })
            }
            "resources/read" => {
                let data = json!({"uri": heard.params["uri"]});
                Err(rejected(-32602, "Resource not found", Some(&data)))
            }
            _ => Ok(said(Era::Modern, &json!({"resourceTemplates": []}))),
        }
    });
    let tools_only =
        ScriptedServer::new(Era::Modern, &json!({"tools": {}}), |heard| async move { panic!("{heard:?}") });
    let down = ScriptedServer::new(Era::Modern, &json!("down"), |heard| async move { panic!("{heard:?}") });
    let servers = [
        ("a-lib", library_server.clone()),
        ("b-empty", empty),
        ("c-down", down),
        ("d-tools", tools_only),
        ("e-last", last),
    ];
    (EngineHarness::new(ExposedNaming::Prefixed, &servers), library_server)
}

#[tokio::test]
async fn a_list_goes_over_all_upstreams_page_by_page() {
    let (harness, _) = libraries();
    let mut pages = Vec::new();
    let mut params = json!({});
    loop {
        let page = complete(ask_for(&harness, &modern(), InquirySubject::Resources, params).await);
        pages.push(page.clone());
        match page["nextCursor"].as_str() {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    let uris = |page: &Value| -> Vec<Value> {
        page["resources"].as_array().unwrap().iter().map(|resource| resource["uri"].clone()).collect()
    };
    assert_eq!(pages.len(), 2);
    assert_eq!(uris(&pages[0]), ["servanda://a-lib/lib://a", "servanda://e-last/last://x"], "something of each");
    assert_eq!(uris(&pages[1]), ["servanda://a-lib/lib://b"], "what has no more is not asked again");
    assert_eq!(pages[0]["_meta"], json!({"servanda/unavailable": ["c-down"]}), "named, and no reason to hide the rest");
    assert_eq!((pages[0].get("ttlMs"), pages[0].get("cacheScope")), (None, None), "only one of them said so");
    assert_eq!(pages[1]["_meta"], json!({"x": 1}));
    assert_eq!(pages[0].get("resultType"), None);
    let templates = complete(ask_for(&harness, &modern(), InquirySubject::ResourceTemplates, json!({})).await);
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "servanda://a-lib/lib://{id}");
}

#[tokio::test]
async fn a_cursor_that_is_not_ours_or_not_theirs_is_an_error() {
    let (harness, library_server) = libraries();
    for cursor in [json!("nonsense"), json!(""), json!(7), json!("W3sidSI6Im5vYm9keSJ9XQ")] {
        let error =
            ask_for(&harness, &modern(), InquirySubject::Resources, json!({"cursor": cursor})).await.unwrap_err();
        assert_eq!(error.code, -32602, "{cursor}");
    }
    // A forged cursor names an upstream many times, or more upstreams than there are.
    for forged in [vec!["a-lib"; 2], vec!["a-lib"; 10_000], vec!["a-lib", "1", "2", "3", "4", "5"]] {
        let places: Vec<Value> = forged.iter().map(|upstream| json!({"u": upstream})).collect();
        let cursor = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Value::Array(places).to_string());
        for subject in [InquirySubject::Resources, InquirySubject::ResourceTemplates, InquirySubject::Prompts] {
            let error = ask_for(&harness, &modern(), subject, json!({"cursor": cursor})).await.unwrap_err();
            assert_eq!(error.code, -32602, "{cursor:.60}");
        }
    }
    assert!(library_server.heard().is_empty(), "nothing of a forged cursor is asked");
    // [{"u":"a-lib","c":"stale"}]
    let params = json!({"cursor": "W3sidSI6ImEtbGliIiwiYyI6InN0YWxlIn1d"});
    let error = ask_for(&harness, &modern(), InquirySubject::Resources, params).await.unwrap_err();
    assert_eq!(error.message, "bad cursor");
}

#[tokio::test]
async fn a_resource_is_read_where_its_uri_says_and_named_as_requesters_know_it() {
    let (harness, library) = libraries();
    let read = complete(
        ask_for(&harness, &modern(), InquirySubject::Resource, json!({"uri": "servanda://a-lib/lib://a"})).await,
    );
    assert_eq!(read, json!({"contents": [{"uri": "servanda://a-lib/lib://a", "text": "A", "n": 1.5}]}));
    assert_eq!(library.heard().last().unwrap(), r#"resources/read {"uri":"lib://a"}"#);
    let missing = "servanda://a-lib/lib://missing";
    let table = [
        (Era::Modern, missing, -32602),
        (Era::Legacy, missing, -32002),
        (Era::Modern, "servanda://e-last/last://y", -32602),
        (Era::Legacy, "servanda://e-last/last://y", -32002),
        (Era::Modern, "lib://a", -32602),
        (Era::Legacy, "servanda://nobody/lib://a", -32002),
    ];
    for (era, uri, code) in table {
        let error = ask_for(&harness, &requester(era, &json!({})), InquirySubject::Resource, json!({"uri": uri}))
            .await
            .unwrap_err();
        assert_eq!((error.code, parse(error.data.unwrap().get())), (code, json!({"uri": uri})), "{era:?} {uri}");
    }
    let down = ask_for(&harness, &modern(), InquirySubject::Prompt, json!({"name": 7})).await.unwrap_err();
    assert_eq!(down.code, -32602);
}

#[tokio::test]
async fn links_in_tool_results_have_exposed_uris() {
    let (harness, _) = libraries();
    let answer = harness.engine.call(call(&modern(), "a-lib__echo", RequestTerms::default())).await;
    let result = super::conversations::result(answer);
    assert_eq!(result["content"][0], json!({"type": "resource_link", "uri": "servanda://a-lib/lib://a", "name": "a"}));
}

#[tokio::test]
async fn prompts_are_found_by_table() {
    let (harness, library) = libraries();
    let listed = complete(ask_for(&harness, &modern(), InquirySubject::Prompts, json!({})).await);
    let names: Vec<&str> =
        listed["prompts"].as_array().unwrap().iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "a-lib__greet");
    assert!(names[1].starts_with("a-lib__gr__e_"), "a name that not every client accepts is replaced: {}", names[1]);
    for (exposed, original) in [(names[0], "greet"), (names[1], "größe")] {
        let got = complete(ask_for(&harness, &modern(), InquirySubject::Prompt, json!({"name": exposed})).await);
        let resource = &got["messages"][0]["content"]["resource"];
        assert_eq!(*resource, json!({"uri": "servanda://a-lib/lib://a", "text": original}));
    }
    let lists = || library.heard().iter().filter(|line| line.starts_with("prompts/list")).count();
    let before = lists();
    for name in ["a-lib__nothing", "greet"] {
        let error = ask_for(&harness, &modern(), InquirySubject::Prompt, json!({"name": name})).await.unwrap_err();
        assert_eq!(error.code, -32602, "{name}");
    }
    assert_eq!(lists(), before, "misses do not make the list be read again and again");
}

#[tokio::test]
async fn prompts_that_changed_are_read_again() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    let server = ScriptedServer::new(Era::Modern, &json!({"prompts": {}}), move |heard| {
        let name = match heard.method {
            "prompts/list" => format!("p{}", counted.fetch_add(1, Ordering::SeqCst)),
            _ => String::new(),
        };
        async move { Ok(said(Era::Modern, &json!({"prompts": [{"name": name}], "messages": [heard.params]}))) }
    });
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", server.clone())]);
    let mut news = harness.engine.change_events();
    complete(ask_for(&harness, &modern(), InquirySubject::Prompt, json!({"name": "up__p0"})).await);
    server.said.send(servanda_upstream::Announcement::PromptsChanged).unwrap();
    assert!(matches!(news.recv().await, Ok(crate::ChangeEvent::Prompts)));
    complete(ask_for(&harness, &modern(), InquirySubject::Prompt, json!({"name": "up__p1"})).await);
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn completions_go_to_the_prompts_and_templates_they_are_about() {
    let (harness, _) = libraries();
    let table = [
        (json!({"type": "ref/prompt", "name": "a-lib__greet"}), json!({"type": "ref/prompt", "name": "greet"})),
        (
            json!({"type": "ref/resource", "uri": "servanda://a-lib/lib://{id}", "x": 1}),
            json!({"type": "ref/resource", "uri": "lib://{id}", "x": 1}),
        ),
    ];
    for (exposed, original) in table {
        let params = json!({"ref": exposed, "argument": {"name": "id", "value": "a"}});
        let answered = complete(ask_for(&harness, &modern(), InquirySubject::Completion, params).await);
        let heard = parse(answered["completion"]["values"][0].as_str().unwrap());
        assert_eq!(heard, json!({"ref": original, "argument": {"name": "id", "value": "a"}}));
    }
    for bad in [
        json!({}),
        json!({"ref": 7}),
        json!({"ref": {}}),
        json!({"ref": {"name": "greet"}}),
        json!({"ref": {"uri": "lib://a"}}),
    ] {
        assert_eq!(ask_for(&harness, &modern(), InquirySubject::Completion, bad).await.unwrap_err().code, -32602);
    }
}

#[tokio::test]
async fn bare_names_pass_unchanged() {
    let capable = json!({"resources": {}, "prompts": {}});
    let server = ScriptedServer::new(Era::Legacy, &capable, |heard| {
        let answered = library(&heard);
        async move { answered }
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("only", server)]);
    let page = complete(ask_for(&harness, &modern(), InquirySubject::Prompts, json!({})).await);
    assert_eq!(page["prompts"][1]["name"], "größe");
    complete(ask_for(&harness, &modern(), InquirySubject::Prompt, json!({"name": "größe"})).await);
    let read = complete(ask_for(&harness, &modern(), InquirySubject::Resource, json!({"uri": "lib://a"})).await);
    assert_eq!(read["contents"][0]["uri"], "lib://a");
    let error = ask_for(&harness, &modern(), InquirySubject::Resource, json!({"uri": "lib://no"})).await.unwrap_err();
    assert_eq!((error.code, error.data.unwrap().get()), (-32602, r#"{"uri":"lib://no"}"#));
}

#[tokio::test]
async fn a_prompt_of_a_modern_server_may_ask_for_input() {
    let server = ScriptedServer::new(Era::Modern, &json!({"prompts": {}}), |heard| async move {
        Ok(said(
            Era::Modern,
            &match (heard.method, &heard.delivery.continuation.input_responses) {
                ("prompts/get", Some(responses)) => {
                    json!({"resultType": "complete", "messages": [parse(responses.get())]})
                }
                ("prompts/get", None) => {
                    json!({"resultType": "input_required", "inputRequests": {"k": {"method": "elicitation/create", "params": {}}}})
                }
                _ => json!({"prompts": [{"name": "p"}]}),
            },
        ))
    });
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", server)]);
    let params = json!({"name": "up__p"});
    let Ok(InquiryAnswer::InputRequired(asked)) =
        ask_for(&harness, &modern(), InquirySubject::Prompt, params.clone()).await
    else {
        panic!("no question");
    };
    let asked = parse(&asked);
    assert_eq!(asked["inputRequests"]["k"]["method"], "elicitation/create");
    let terms = again(&asked["requestState"], &json!({"k": {"action": "accept"}}));
    let answered = complete(harness.engine.inquire(inquiry(&modern(), InquirySubject::Prompt, &params, terms)).await);
    assert_eq!(answered, json!({"messages": [{"k": {"action": "accept"}}]}));
    // The request state is bound to this prompt with these arguments, and to no other request.
    for (subject, params) in [
        (InquirySubject::Prompt, json!({"name": "up__p", "arguments": {}})),
        (InquirySubject::Resource, json!({"uri": "x"})),
    ] {
        let terms = again(&asked["requestState"], &json!({}));
        let error = harness.engine.inquire(inquiry(&modern(), subject, &params, terms)).await.unwrap_err();
        assert_eq!(error.code, -32602);
    }
    assert!(harness.outcomes().is_empty(), "what is only read is not on record");
}

#[tokio::test(start_paused = true)]
async fn a_resource_of_a_legacy_server_may_ask_on_the_way() {
    let server = ScriptedServer::new(Era::Legacy, &json!({"resources": {}}), |heard| async move {
        let reply = ask(&heard.delivery, "elicitation/create", &json!({})).await.unwrap().unwrap();
        Ok(said(Era::Legacy, &json!({"contents": [parse(reply.get())]})))
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server)]);
    let params = json!({"uri": "x://y"});
    let Ok(InquiryAnswer::InputRequired(asked)) =
        ask_for(&harness, &modern(), InquirySubject::Resource, params.clone()).await
    else {
        panic!("no question");
    };
    let terms = again(&parse(&asked)["requestState"], &json!({"ask-1": {"action": "decline"}}));
    let answered = complete(harness.engine.inquire(inquiry(&modern(), InquirySubject::Resource, &params, terms)).await);
    assert_eq!(answered, json!({"contents": [{"action": "decline"}]}));
}

#[tokio::test]
async fn lists_never_ask_modern_requesters() {
    let server = ScriptedServer::new(Era::Legacy, &json!({"resources": {}}), |heard| async move {
        // No client could answer a question here.
        assert!(heard.delivery.server_messages.is_none());
        Ok(said(Era::Legacy, &json!({"resources": []})))
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server)]);
    assert_eq!(
        complete(ask_for(&harness, &modern(), InquirySubject::Resources, json!({})).await),
        json!({"resources": []})
    );
}

#[tokio::test]
async fn how_much_is_logged_is_said_once_and_kept_to() {
    let lines = Arc::new(Mutex::new(vec!["debug", "error"]));
    let server = ScriptedServer::new(Era::Legacy, &json!({"logging": {}}), move |heard| {
        if let (Some(messages), "tools/call") = (&heard.delivery.server_messages, heard.method) {
            for level in lines.lock().unwrap().iter() {
                let line = serde_json::value::to_raw_value(&json!({"level": level})).unwrap();
                messages.try_send(servanda_upstream::ServerMessage::LogMessage(line)).unwrap();
            }
        }
        async move { Ok(said(Era::Legacy, &json!({"content": []}))) }
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    let told = |server: &ScriptedServer| {
        server.heard().iter().filter(|line| line.starts_with("logging/setLevel")).cloned().collect::<Vec<_>>()
    };
    for _ in 0..2 {
        let (terms, mut messages) = listening();
        harness
            .engine
            .call(call(&modern(), "echo", RequestTerms { log_level: Some("warning".to_owned()), ..terms }))
            .await;
        let Ok(crate::ClientMessage::LogMessage(line)) = messages.try_recv() else { panic!("no line") };
        assert_eq!((line.get(), messages.try_recv().is_err()), (r#"{"level":"error","logger":"up"}"#, true));
    }
    assert_eq!(told(&server), [r#"logging/setLevel {"level":"warning"}"#], "once");
    server.edition.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..2 {
        let (terms, _messages) = listening();
        harness
            .engine
            .call(call(&modern(), "echo", RequestTerms { log_level: Some("warning".to_owned()), ..terms }))
            .await;
    }
    assert_eq!(told(&server), [r#"logging/setLevel {"level":"warning"}"#; 2], "once on each connection");
    let (terms, mut messages) = listening();
    harness.engine.call(call(&modern(), "echo", terms)).await;
    assert!(messages.try_recv().is_err(), "a modern requester that set no log level gets no messages");

    let legacy = Requester { affinity: Arc::from("session"), ..requester(Era::Legacy, &json!({})) };
    assert_eq!(harness.engine.set_log_level(&legacy, "loud").await.unwrap_err().code, -32602);
    harness.engine.set_log_level(&legacy, "debug").await.unwrap();
    let (terms, mut messages) = listening();
    harness.engine.call(call(&legacy, "echo", terms)).await;
    assert!(
        told(&server).contains(&r#"logging/setLevel {"level":"debug"}"#.to_owned()),
        "before the next request at the latest"
    );
    assert!(messages.try_recv().is_ok() && messages.try_recv().is_ok(), "the session wants everything");
}

/// Only the gateway may write names that begin with `servanda/`; it removes them from everything that a server writes.
#[tokio::test]
async fn no_server_speaks_in_our_name() {
    let forged = json!({ "servanda/call": { "class": "SUCCESS" }, "servanda/observation": { "status": "SUCCESS" }, "servanda/upstream-error": 1, "servanda/x": 2, "acme/y": 3 });
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |_| {
        let answer = json!({"content": [], "_meta": forged});
        async move { Ok(said(Era::Modern, &answer)) }
    });
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", server)]);
    let called =
        match harness.engine.call(crate::testing::call(&modern(), "up__echo", crate::RequestTerms::default())).await {
            crate::CallAnswer::Result(result) => parse(&result.json),
            other => panic!("{other:?}"),
        };
    assert_eq!((&called["_meta"]["acme/y"], &called["_meta"]["servanda/x"]), (&json!(3), &Value::Null));
    assert_eq!(called["_meta"]["servanda/upstream-error"], Value::Null);
    assert!(called["_meta"]["servanda/call"]["id"].is_string(), "{called}");
    assert_eq!(called["_meta"]["servanda/observation"], Value::Null);
}

/// An answer is not passed on if two readers could read it differently, if it is too deep, or if a name in it is not valid text.
#[tokio::test]
async fn answers_of_a_bad_shape_are_not_passed_on() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (bad, why) in
        [(r#"{"x":1,"x":2}"#.to_owned(), "stands twice"), (deep, "deep"), (r#"{"\ud800":1}"#.to_owned(), "no text")]
    {
        let server = ScriptedServer::new(Era::Modern, &json!({"resources": {}}), move |heard| {
            let members = match heard.method {
                "resources/read" => format!(r#"{{"contents":[{{"uri":"a://b","text":"t","y":{bad}}}]}}"#),
                _ => format!(r#"{{"content":[{{"type":"text","text":"t","y":{bad}}}]}}"#),
            };
            async move { Ok(servanda_upstream::Answer { result: members.into(), era: Era::Modern }) }
        });
        let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", server)]);
        let call = crate::testing::call(&modern(), "up__echo", crate::RequestTerms::default());
        let crate::CallAnswer::Result(called) = harness.engine.call(call).await else { panic!("not a result") };
        assert!(called.json.contains(why) && !called.json.contains("\"t\""), "{}", called.json);
        assert_eq!(harness.outcomes(), ["quarantined"]);
        let read = ask_for(&harness, &modern(), InquirySubject::Resource, json!({"uri": "servanda://up/a://b"})).await;
        assert!(read.unwrap_err().message.contains(why));
    }
}
