//! Two tenants, each with a user of the same name and every right, at one gateway: a table of every way to read something. For anything
//! that belongs to one tenant, the other gets exactly the answer for something that does not exist. Each path first shows that its owner
//! does see it.
//!
//! `tenants_offers` tests what upstreams offer to one tenant alone.

use serde_json::{Value, json};

use crate::{
    access::WRITE,
    agent::{Agent, Reply},
    contract::{Contract, changes, reads},
    gateway::Gateway,
    http::{Exchange, Question},
    world::{World, until},
};

const SERVER: &str = include_str!("tenants.py");
const STAFF: &str = r#"@id("staff-only")
forbid (principal, action == Action::"call:company.staff", resource)
unless { principal in Group::"acme/staff" };
"#;
/// A possible name of a task or an effect.
const NO_HANDLE: &str = "eff_00000000000000000000000000000000";
const NO_CALL: &str = "call_00000000000000000000000000000000";

/// A gateway with an upstream for all tenants and one for the first tenant only, and the credentials of the two users.
pub(crate) struct Tenancy {
    /// Dropped before its world.
    pub(crate) gateway: Gateway,
    pub(crate) world: World,
    pub(crate) ours: Side,
    pub(crate) theirs: Side,
}

/// A tenant's user, in both eras.
pub(crate) struct Side {
    pub(crate) key: String,
    pub(crate) modern: Agent,
    pub(crate) legacy: Agent,
}

type Path = (&'static str, fn(&Tenancy));

/// Every way to reach what another user's call, session or task left.
const PATHS: [Path; 15] = [
    ("a session", a_session),
    ("the place in a stream", a_place_in_a_stream),
    ("a stored answer", a_stored_answer),
    ("a cached read", a_cached_read),
    ("the state of a question", a_state),
    ("long work", long_work),
    ("news of a task", news_of_a_task),
    ("an earlier call", an_earlier_call),
    ("whose turn it is", a_turn),
    ("a chain of repairs", a_chain),
    ("a rate", a_rate),
    ("a budget", a_budget),
    ("a group", a_group),
    ("an exchange of tokens", an_exchange),
    ("pages without a credential", pages),
];

#[test]
fn nothing_of_one_tenant_is_there_for_another() {
    let tenancy = Tenancy::begin();
    for (name, path) in PATHS {
        eprintln!("path: {name}");
        path(&tenancy);
    }
}

impl Tenancy {
    pub(crate) fn begin() -> Self {
        let world = World::empty();
        world.write("server/tenants.py", SERVER);
        let server =
            |id: &str| json!({ "command": "python3", "args": [world.path("server/tenants.py"), id, world.path(id)] });
        let mut vault = server("vault");
        vault["tenants"] = json!(["acme"]);
        world.configure(&json!({ "company": server("company"), "vault": vault }));
        for contract in contracts() {
            world.add(&contract);
        }
        world.write("policies/staff.cedar", STAFF);
        let world = world.unpinned().waiting_ms(100).guarding(&[]);
        let once = |per: &str| json!({ "dimension": "external", "amount": 1, "per": per, "period": "total" });
        let critical = json!({ "dimension": "critical", "amount": 100, "per": "caller", "period": "total" });
        world.change_config(|config| {
            config["budgets"] = json!([critical, once("caller"), once("tenant"), once("tool")]);
        });
        let gateway = world.serve();
        let side = |tenant: &str| {
            let (key, _) = world.key(tenant, "ada", &[WRITE, "vault:read"], &["--group", "staff"]);
            let (modern, legacy) = (gateway.bearing(&key), Agent::legacy_bearing(gateway.address, &key));
            Side { key, modern, legacy }
        };
        let (ours, theirs) = (side("acme"), side("globex"));
        Self { gateway, world, ours, theirs }
    }

    /// How often an upstream got such a call.
    fn heard(&self, what: &str) -> usize {
        let heard = std::fs::read_to_string(self.world.path("company")).unwrap_or_default();
        heard.lines().filter(|line| line.starts_with(what)).count()
    }
}

impl Side {
    /// Asks as a modern client that supports tasks.
    pub(crate) fn ask(&self, method: &'static str, params: Value) -> Reply {
        self.ask_able(method, params, json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }))
    }

    fn ask_able(&self, method: &'static str, mut params: Value, capabilities: Value) -> Reply {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let named = ["taskId", "uri"].into_iter().find_map(|member| params[member].as_str().map(str::to_owned));
        let mut question = self.modern.question(1, method, params);
        if let Some(name) = named {
            question = question.with("mcp-name", &name);
        }
        Reply::of(self.modern.exchange(&question).text())
    }

    /// A modern subscription to all of this.
    pub(crate) fn listen(&self, notifications: &Value) -> Exchange {
        let meta = json!({ "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } });
        self.modern.begin(1, "subscriptions/listen", json!({ "notifications": notifications, "_meta": meta }))
    }
}

/// What a user is told, without values that are always different and without the name they asked for.
#[track_caller]
pub(crate) fn told(reply: &Reply, name: &str) -> String {
    let mut told = match reply.message.get("error") {
        Some(error) => error.clone(),
        None => reply.refusal(),
    };
    // A refusal is in the error's `data`, or is the whole error.
    let refusal = if told["data"].is_object() { &mut told["data"] } else { &mut told };
    refusal.as_object_mut().unwrap().remove("call_id");
    told.to_string().replace(name, "[NAME]")
}

fn contracts() -> Vec<Contract> {
    let text = |contract: Contract| contract.input(&[], &json!({ "text": { "type": "string" } })).timeout("standard");
    let mut note = text(reads("note"));
    note.0["security"]["data_classification"] = json!("public");
    note.0["execution"]["cache_ttl_sec"] = json!(600);
    note.0["behaviour"] = json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" });
    let mut limited = text(reads("limited"));
    limited.0["runtime"]["rate_limits"] = json!({ "window_sec": 3600, "max_requests": 1 });
    let mut send = text(changes("send"));
    send.0["transactional"]["side_effect_class"] = json!("HIGH_RISK_EXTERNAL");
    let write = text(changes("write"));
    let mut slow = text(changes("slow")).timeout("long_running");
    slow.0["effect"]["manifest"][0]["resource"] = json!("company/book");
    let others = ["ask", "announce", "staff", "release"].map(|tool| text(reads(tool)));
    let vault = ["note", "announce", "extra"].map(|tool| text(reads(tool)).of("vault").scopes(&["vault:read"]));
    [note, limited, send, write, slow].into_iter().chain(others).chain(vault).collect()
}

fn call(tool: &str, text: &str) -> Value {
    json!({ "name": tool, "arguments": { "text": text } })
}

fn a_session(tenancy: &Tenancy) {
    let owner = &tenancy.ours.legacy;
    let hijacked = owner.showing(&tenancy.theirs.key);
    let made_up = tenancy.theirs.legacy.in_session("0123456789abcdef0123456789abcdef");
    for method in ["POST", "GET", "DELETE"] {
        let question = |agent: &Agent| Question { method, ..agent.question(1, "ping", json!({})) };
        let answer = |agent: &Agent| {
            let answer = agent.exchange(&question(agent));
            (answer.status, answer.text())
        };
        let (status, body) = answer(&hijacked);
        assert_eq!((status, &body), (404, &answer(&made_up).1), "{method}");
    }
    assert_eq!(owner.ask("ping", json!({})).result(), &json!({}), "and it is still there");
}

/// A stream of one user cannot be resumed by the other, neither in their own session nor in the owner's.
fn a_place_in_a_stream(tenancy: &Tenancy) {
    let owner = &tenancy.ours.legacy;
    let mut params = call("company__announce", "all");
    params["_meta"] = json!({ "progressToken": 7 });
    let stream = owner.begin(7, "tools/call", params).text();
    let place = stream.lines().find_map(|line| line.strip_prefix("id: ")).expect("a place to resume at").to_owned();
    let resume = |agent: &Agent, place: &str| agent.exchange(&agent.listening().with("last-event-id", place));
    let again = resume(owner, &place).text();
    assert!(again.contains("company says all"), "{again}");
    let stranger = &tenancy.theirs.legacy;
    assert_eq!(resume(&owner.showing(&tenancy.theirs.key), &place).status, 404);
    let (told, absent) = (resume(stranger, &place), resume(stranger, &format!("{place}9")));
    assert_eq!(told.status, absent.status);
    if told.status != 200 {
        assert_eq!(told.text(), absent.text());
        return;
    }
    drop(absent);
    assert_eq!(first_until_marked(tenancy, told), Vec::<String>::new());
}

/// What the other tenant's stream brings before a later event of their own.
fn first_until_marked(tenancy: &Tenancy, mut stream: Exchange) -> Vec<String> {
    let stranger = &tenancy.theirs.legacy;
    stranger.ask("resources/subscribe", json!({ "uri": "servanda://company/book://company" })).result();
    tenancy.theirs.modern.call("company__announce", json!({ "text": "updated" })).success();
    let events = std::iter::from_fn(|| stream.next_event());
    let before = events.take_while(|event| !event.contains("resources/updated")).collect();
    stranger.ask("resources/unsubscribe", json!({ "uri": "servanda://company/book://company" })).result();
    before
}

fn a_stored_answer(tenancy: &Tenancy) {
    let keyed = |side: &Side| {
        let question =
            side.modern.question(1, "tools/call", call("company__write", "stored")).with("idempotency-key", "k");
        let reply = Reply::of(side.modern.exchange(&question).text());
        reply.success();
        reply.observation()["execution_metadata"]["idempotency_hit"].clone()
    };
    assert_eq!((keyed(&tenancy.ours), keyed(&tenancy.ours)), (json!(false), json!(true)));
    assert_eq!((keyed(&tenancy.theirs), keyed(&tenancy.theirs)), (json!(false), json!(true)));
    assert_eq!(tenancy.heard("write"), 2);
}

/// Public data are cached for all users of a tenant, but not across tenants.
fn a_cached_read(tenancy: &Tenancy) {
    let read = |side: &Side| {
        side.modern.call("company__note", json!({ "text": "cached" })).success();
        side.legacy.call("company__note", json!({ "text": "cached" })).success();
        tenancy.heard("note {\"text\": \"cached\"}")
    };
    assert_eq!((read(&tenancy.ours), read(&tenancy.ours)), (1, 1));
    assert_eq!((read(&tenancy.theirs), read(&tenancy.theirs)), (2, 2));
}

fn a_state(tenancy: &Tenancy) {
    let able = || json!({ "elicitation": { "form": {} } });
    let asked = tenancy.ours.ask_able("tools/call", call("company__ask", "x"), able());
    let asked = asked.result();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = asked["requestState"].as_str().unwrap();
    let name = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answered = |side: &Side, state: &str| {
        let mut params = call("company__ask", "x");
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({ name: { "action": "accept", "content": { "word": "ours" } } });
        side.ask_able("tools/call", params, able())
    };
    let middle = state.len() / 2;
    let other = if state.as_bytes()[middle] == b'A' { "B" } else { "A" };
    let broken = format!("{}{other}{}", &state[..middle], &state[middle + 1..]);
    let (shown, unknown) = (answered(&tenancy.theirs, state), answered(&tenancy.theirs, &broken));
    assert_eq!(told(&shown, state), told(&unknown, &broken));
    assert!(answered(&tenancy.ours, state).raw.contains("heard"), "its owner goes on with it");
}

/// Begins a change that runs until it is released, and waits until it has been sent.
fn begin_slow(tenancy: &Tenancy, text: &str) -> String {
    let created = tenancy.ours.ask("tools/call", call("company__slow", text));
    let id = created.result()["taskId"].as_str().unwrap_or_else(|| panic!("no task: {}", created.raw)).to_owned();
    let sent = format!("slow {}", json!({ "text": text })).replace(':', ": ");
    until("the slow change to be sent", || (tenancy.heard(&sent) == 1).then_some(()));
    id
}

/// Lets it end, and waits until its owner is told so.
fn release(tenancy: &Tenancy, id: &str) {
    tenancy.ours.modern.call("company__release", json!({})).success();
    until("the slow change to end", || {
        (tenancy.ours.ask("tasks/get", json!({ "taskId": id })).result()["status"] == "completed").then_some(())
    });
}

fn long_work(tenancy: &Tenancy) {
    let (ours, theirs) = (&tenancy.ours, &tenancy.theirs);
    let id = begin_slow(tenancy, "long");
    assert_eq!(ours.ask("tasks/get", json!({ "taskId": id })).result()["status"], "working");
    assert!(ours.legacy.ask("tasks/list", json!({})).raw.contains(&id));
    assert!(!theirs.legacy.ask("tasks/list", json!({})).raw.contains(&id));
    for method in ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result"] {
        let ask = |id: &str| match method {
            "tasks/update" => theirs.ask(method, json!({ "taskId": id, "inputResponses": {} })),
            "tasks/result" => theirs.legacy.ask(method, json!({ "taskId": id })),
            _ => theirs.ask(method, json!({ "taskId": id })),
        };
        assert_eq!(told(&ask(&id), &id), told(&ask(NO_HANDLE), NO_HANDLE), "{method}");
    }
    let fetch = |side: &Side, id: &str| side.modern.call("servanda__result", json!({ "handle": id }));
    assert_eq!(told(&fetch(theirs, &id), &id), told(&fetch(theirs, NO_HANDLE), NO_HANDLE));
    assert!(fetch(ours, &id).raw.contains("still goes on"), "its owner is told of it, and it was not cancelled");
    release(tenancy, &id);
    assert!(fetch(ours, &id).raw.contains("at last"));
    assert_eq!(told(&fetch(theirs, &id), &id), told(&fetch(theirs, NO_HANDLE), NO_HANDLE), "nor when it has ended");
}

fn news_of_a_task(tenancy: &Tenancy) {
    let id = begin_slow(tenancy, "news");
    let wanted = json!({ "taskIds": [id], "resourceSubscriptions": ["servanda://company/book://company"] });
    let (mut ours, mut theirs) = (tenancy.ours.listen(&wanted), tenancy.theirs.listen(&wanted));
    for stream in [&mut ours, &mut theirs] {
        assert!(stream.next_event().unwrap().contains("acknowledged"));
    }
    release(tenancy, &id);
    assert!(ours.next_event().unwrap().contains(&id), "its owner is told");
    assert_eq!(first_until_marked(tenancy, theirs), Vec::<String>::new());
}

fn an_earlier_call(tenancy: &Tenancy) {
    let earlier = tenancy.ours.modern.call("company__note", json!({ "text": "earlier" })).call_id();
    let like = |side: &Side, call_id: &str| {
        let mut params = call("company__note", "like");
        params["_meta"] = json!({ "servanda/like": call_id, "servanda/chain": call_id });
        side.ask("tools/call", params)
    };
    // A record is written a moment after its answer.
    until("the earlier call to be on record", || {
        (like(&tenancy.ours, &earlier).result()["isError"] != true).then_some(())
    });
    assert_eq!(told(&like(&tenancy.theirs, &earlier), &earlier), told(&like(&tenancy.theirs, NO_CALL), NO_CALL));
}

/// The slow change and the quick one touch the same resource: the same tenant's call waits, the other tenant's does not and learns nothing
/// of it.
fn a_turn(tenancy: &Tenancy) {
    let id = begin_slow(tenancy, "turn");
    let write = |side: &Side| {
        let mut params = call("company__write", "turn");
        params["_meta"] = json!({ "servanda/timeout-ms": 500 });
        side.ask("tools/call", params)
    };
    write(&tenancy.theirs).success();
    assert_eq!(write(&tenancy.ours).result()["isError"], true, "ours waits in vain");
    release(tenancy, &id);
}

fn a_chain(tenancy: &Tenancy) {
    let attempt = |side: &Side| {
        let params =
            json!({ "name": "company__note", "arguments": { "text": 7 }, "_meta": { "servanda/chain": "order 7" } });
        side.ask("tools/call", params).refusal()["repair"].clone()
    };
    assert_eq!(attempt(&tenancy.ours)["attempt"], 1);
    assert_eq!(attempt(&tenancy.ours)["stopped"], "same_arguments");
    assert_eq!(attempt(&tenancy.theirs), json!({ "attempt": 1, "attempts_max": 5 }));
}

fn a_rate(tenancy: &Tenancy) {
    let call = |side: &Side| side.modern.call("company__limited", json!({ "text": "x" }));
    call(&tenancy.ours).success();
    assert_eq!(call(&tenancy.ours).refusal()["error_code"], "RATE_LIMITED");
    call(&tenancy.theirs).success();
}

/// Once a day per caller, tenant and tool: after ours have used up all three, theirs are still unused.
fn a_budget(tenancy: &Tenancy) {
    let call = |side: &Side| side.modern.call("company__send", json!({ "text": "x" }));
    call(&tenancy.ours).success();
    assert_eq!(call(&tenancy.ours).refusal()["error_code"], "BUDGET_EXHAUSTED");
    call(&tenancy.theirs).success();
}

/// Both keys have the group `staff`.
fn a_group(tenancy: &Tenancy) {
    let call = |side: &Side| side.modern.call("company__staff", json!({ "text": "x" }));
    call(&tenancy.ours).success();
    assert_eq!(call(&tenancy.theirs).refusal()["gate"], "policy");
    let shown = |side: &Side| side.modern.tools().contains(&"company__staff".to_owned());
    assert_eq!((shown(&tenancy.ours), shown(&tenancy.theirs)), (true, false));
}

fn an_exchange(tenancy: &Tenancy) {
    let kind = "urn:ietf:params:oauth:token-type:access_token";
    let exchange = |subject: &str, actor: &str| {
        tenancy.gateway.exchange(&[("subject_token", subject), ("actor_token", actor), ("actor_token_type", kind)])
    };
    let (ours, theirs) = (&tenancy.ours.key, &tenancy.theirs.key);
    let (status, answer) = exchange(ours, ours);
    assert_eq!(status, 200, "{answer}");
    let agent = answer["access_token"].as_str().unwrap();
    for (subject, actor) in [(ours.as_str(), theirs.as_str()), (theirs, ours), (agent, theirs), (theirs, agent)] {
        let (status, answer) = exchange(subject, actor);
        assert_eq!(status, 400, "{answer}");
        assert!(!answer.to_string().contains("acme") && answer.get("access_token").is_none(), "{answer}");
    }
    // An agent of our user is not in a session of theirs.
    let hijacked = tenancy.theirs.legacy.showing(agent);
    assert_eq!(hijacked.begin(1, "ping", json!({})).status, 404);
}

/// Pages that need no credential.
fn pages(tenancy: &Tenancy) {
    let address = tenancy.gateway.address;
    let mut read: Vec<String> = [
        "/livez",
        "/healthz",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/metrics",
        "/",
        "/readyz",
    ]
    .into_iter()
    .map(|path| Question::page(path).ask(address).text())
    .collect();
    read.push(Question::form("/oauth/token", &[]).ask(address).text());
    let nobody = tenancy.gateway.modern().begin(1, "tools/list", json!({}));
    read.extend([nobody.headers["www-authenticate"].clone(), nobody.text()]);
    assert!(read[0].contains("alive") && read[2].contains("resource"), "{read:?}");
    for text in read {
        assert!(!["acme", "globex", "vault"].iter().any(|word| text.contains(word)), "{text}");
    }
}
