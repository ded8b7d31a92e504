//! What people allow from now on, from outside: an agent over MCP, a person in the console and on the command line, and an outsider who
//! checks what was signed.

use serde_json::{Value, json};

use crate::{
    access::{READ, WRITE, payment},
    agent::Agent,
    contract::{count_effects, pay_invoice},
    gateway::Gateway,
    http::Question,
    world::World,
};

const PAY: &str = "company__pay_invoice";

/// A company where a person approves each payment, and olga is who decides.
fn world() -> World {
    let mut pay = pay_invoice().confirmed().scopes(&[READ, WRITE]);
    pay.0["transactional"]["side_effect_class"] = json!("HIGH_RISK_EXTERNAL");
    pay.0["approval"] = json!({ "pattern": "operator" });
    let world = World::company([pay, count_effects()]).unpinned().guarding(&[]);
    world.change_config(|config| {
        config["approvals"] = json!({ "wait_ms_max": 0, "roles": { "approver": ["acme/olga"] } });
    });
    world
}

/// A person's browser: it has a cookie and fills in forms.
struct PersonAtConsole<'a> {
    gateway: &'a Gateway,
    cookie: String,
}

impl<'a> PersonAtConsole<'a> {
    fn sign_in(gateway: &'a Gateway, key: &str) -> Self {
        let mut console = Self { gateway, cookie: String::new() };
        let answer = console.send(Question::form("/sign-in", &[("key", key)]));
        assert_eq!(answer.0, 303, "{}", answer.2);
        console.cookie = answer.1.split(';').next().unwrap().to_owned();
        console
    }

    fn send(&self, question: Question) -> (u16, String, String) {
        let origin = format!("http://{}", self.gateway.address);
        let question =
            question.with("sec-fetch-site", "same-origin").with("origin", &origin).with("cookie", &self.cookie);
        let exchange = question.ask(self.gateway.address);
        let header = |name: &str| exchange.headers.get(name).cloned().unwrap_or_default();
        let (status, cookie) = (exchange.status, header("set-cookie"));
        (status, cookie, exchange.text())
    }

    fn page(&self, path: &str) -> String {
        let (status, _, html) = self.send(Question::page(path));
        assert_eq!(status, 200, "{path}: {html}");
        html
    }

    /// Sends the form of an address back as it is, with what a person fills in.
    fn submit(&self, path: &str, more: &[(&str, &str)]) -> u16 {
        self.submit_from(&self.page(path), path, more).0
    }

    /// The same for a page that the person has open. Returns the page that comes back.
    fn submit_from(&self, html: &str, path: &str, more: &[(&str, &str)]) -> (u16, String) {
        let form = html.split("<form ").find(|form| form.contains(&format!("action=\"{path}\""))).unwrap();
        let hidden = form.split("<input type=\"hidden\" name=\"").skip(1).map(|field| {
            let (name, rest) = field.split_once('"').unwrap();
            let value = rest.split_once("value=\"").unwrap().1.split('"').next().unwrap();
            (name, value)
        });
        let fields: Vec<(&str, &str)> = hidden.chain(more.iter().copied()).collect();
        let (status, _, html) = self.send(Question::form(path, &fields));
        (status, html)
    }
}

fn ticket(agent: &Agent, arguments: Value) -> String {
    let refusal = agent.call(PAY, arguments).refusal();
    assert_eq!(refusal["error_code"], "CONFIRMATION_MISSING", "{refusal}");
    refusal["handle"].as_str().unwrap_or_else(|| panic!("no ticket: {refusal}")).to_owned()
}

#[test]
fn a_grant_is_made_used_seen_checked_and_taken_back() {
    let world = world();
    let (agent_key, _) = world.key("acme", "ada", &[READ, WRITE], &[]);
    let (olga, _) = world.key("acme", "olga", &["servanda:console"], &[]);
    let (ada, _) = world.key("acme", "ada", &["servanda:console"], &[]);
    let gateway = world.serve();
    let agent = gateway.bearing(&agent_key);
    let none = world.run(&["grants"]).ended(0);
    assert!(none.stderr.contains("nothing is allowed from now on"), "{none:?}");

    let id = ticket(&agent, payment(100));
    let shown = world.run(&["approvals", "show", &id, "--json"]).ended(0).json();
    let payload = shown["payload_hash"].as_str().unwrap().to_owned();
    let approve = ["approvals", "approve", &id, "--payload", &payload];
    world.run_with_env(&approve, &[("SERVANDA_CREDENTIAL", &olga)]).ended(0);
    agent.call(PAY, payment(100)).success();
    assert_eq!(world.effects(), 1);
    ticket(&agent, payment(60));

    let path = format!("/grants/{id}");
    let console = PersonAtConsole::sign_in(&gateway, &olga);
    let html = console.page(&path);
    assert!(html.contains("a number from 0 to 100.0") && html.contains("permit ("), "{html}");
    let of_ada = PersonAtConsole::sign_in(&gateway, &ada);
    assert!(of_ada.page(&path).contains("This is your own request"));
    // What was changed is shown first, and holds when the person agrees to it.
    let fields = [("uses", "2"), ("days", "7")];
    let (status, shown) = console.submit_from(&html, &path, &fields);
    assert!(status == 200 && shown.contains("Read what you would allow now"), "{status} {shown}");
    ticket(&agent, payment(60));
    assert_eq!(console.submit_from(&shown, &path, &fields).0, 303);

    let paid = agent.call(PAY, payment(60));
    paid.success();
    agent.call(PAY, payment(99)).success();
    assert_eq!(world.effects(), 3);
    let explained = world.run(&["explain", &paid.call_id()]).ended(0).stdout;
    assert!(explained.contains(&format!("use 1 of 2, allowed by olga: servanda grants show {id}")), "{explained}");
    assert_eq!(paid.result()["_meta"]["servanda/call"]["grant"], json!(id), "{}", paid.raw);
    let calls = world.run(&["calls", "--tool", PAY, "--outcome", "completed", "--json"]).ended(0).json();
    let granted: Vec<_> = calls.as_array().unwrap().iter().map(|call| call.get("grant").cloned()).collect();
    assert_eq!(granted, [Some(json!(id)), Some(json!(id)), None], "the first was approved itself: {calls}");
    let listed = world.run(&["calls"]).ended(0).stdout;
    assert_eq!(listed.matches(&format!("by grant {id}")).count(), 2, "{listed}");
    let link = format!("<a class=\"detail\" href=\"{path}\">by a grant</a>");
    assert_eq!(console.page("/calls").matches(&link).count(), 2);
    ticket(&agent, payment(40));
    assert_eq!(world.effects(), 3, "it is used up");

    let listed = world.run(&["grants", "list", "--json"]).ended(0).json();
    assert_eq!(
        (&listed[0]["ticket"], &listed[0]["state"], &listed[0]["used"]),
        (&json!(id), &json!("used up"), &json!(2))
    );
    let page = world.run(&["grants", "show", &id]).ended(0).stdout;
    assert!(page.contains("used        2 of 2") && page.contains(&paid.call_id()), "{page}");

    let statement = world.run(&["grants", "statement", &id]).ended(0).stdout;
    let key = world.run(&["approvals", "key"]).ended(0).stdout;
    world.write("grant.json", &statement);
    let verified = world.run(&["grants", "verify", "grant.json", "--key", key.trim()]).ended(0);
    assert!(verified.stderr.contains("the grant holds: olga allowed this"), "{verified:?}");
    assert!(verified.stdout.contains("lessThanOrEqual(decimal(\"100.0\"))"), "{verified:?}");
    world.write("grant.json", &statement.replace("100.0", "900.0"));
    let changed = world.run(&["grants", "verify", "grant.json", "--key", key.trim()]);
    assert_ne!(changed.code, Some(0));
    assert!(changed.stderr.contains("does not hold") && changed.stderr.contains("hint:"), "{changed:?}");
}

#[test]
fn a_grant_is_taken_back_on_the_command_line_by_a_person_only() {
    let world = world();
    let (agent_key, _) = world.key("acme", "ada", &[READ, WRITE], &[]);
    let (olga, _) = world.key("acme", "olga", &["servanda:console"], &[]);
    let (vera, _) = world.key("acme", "vera", &["servanda:console"], &[]);
    let gateway = world.serve();
    let agent = gateway.bearing(&agent_key);
    let id = ticket(&agent, payment(100));
    let console = PersonAtConsole::sign_in(&gateway, &olga);
    assert_eq!(console.submit(&format!("/approvals/{id}"), &[]), 303);
    assert_eq!(console.submit(&format!("/grants/{id}"), &[("uses", "20"), ("days", "7")]), 303);
    agent.call(PAY, payment(60)).success();

    let revoke = ["grants", "revoke", &id, "--reason", "the month is over"];
    for (credential, why) in [
        ("", "needs the credential of a person"),
        (agent_key.as_str(), "this credential is for agents"),
        (vera.as_str(), "a grant is taken back by its maker"),
    ] {
        let refused = world.run_with_env(&revoke, &[("SERVANDA_CREDENTIAL", credential)]);
        assert!(refused.code != Some(0) && refused.stderr.contains(why), "{refused:?}");
        assert!(refused.stderr.contains("hint:"), "{refused:?}");
    }
    agent.call(PAY, payment(50)).success();
    let revoked = world.run_with_env(&revoke, &[("SERVANDA_CREDENTIAL", &olga)]).ended(0);
    assert!(
        revoked.stdout.contains("taken back  by olga") && revoked.stdout.contains("the month is over"),
        "{revoked:?}"
    );
    ticket(&agent, payment(40));
    assert_eq!(world.effects(), 2, "the gateway that runs knows it at once");
    let again = world.run_with_env(&revoke, &[("SERVANDA_CREDENTIAL", &olga)]);
    assert!(again.code != Some(0) && again.stderr.contains("the grant has ended: a person took it back"), "{again:?}");
    let unknown = world.run(&["grants", "show", "apr_none"]);
    assert!(unknown.code != Some(0) && unknown.stderr.contains("hint:"), "{unknown:?}");
}

#[test]
fn a_plan_of_two_tickets_is_made_used_by_both_calls_and_taken_back_once() {
    let world = world();
    let (agent_key, _) = world.key("acme", "ada", &[READ, WRITE], &[]);
    let (olga, _) = world.key("acme", "olga", &["servanda:console"], &[]);
    let gateway = world.serve();
    let agent = gateway.bearing(&agent_key);
    let console = PersonAtConsole::sign_in(&gateway, &olga);
    let of_one = |cents: u64| payment(cents);
    let of_other = |cents: u64| json!({ "invoice_id": "inv_1005", "amount_cents": cents, "currency": "EUR" });
    let [first, second] = [of_one(100), of_other(30)].map(|arguments| {
        let id = ticket(&agent, arguments);
        assert_eq!(console.submit(&format!("/approvals/{id}"), &[]), 303);
        id
    });
    let path = format!("/grants/{first}");
    let html = console.page(&path);
    let offered = html.split_once("name=\"further\" value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    assert!(offered.starts_with(&second), "{offered}");
    let uses = format!("uses:{second}");
    let fields = [("uses", "1"), ("days", "7"), ("further", offered.as_str()), (uses.as_str(), "2"), ("cost_max", "")];
    let (status, shown) = console.submit_from(&html, &path, &fields);
    assert!(status == 200 && shown.contains("Read what you would allow now"), "{status} {shown}");
    assert_eq!(console.submit_from(&shown, &path, &fields).0, 303);

    agent.call(PAY, of_one(99)).success();
    ticket(&agent, of_one(98));
    agent.call(PAY, of_other(29)).success();
    let paid = agent.call(PAY, of_other(27));
    paid.success();
    ticket(&agent, of_other(26));
    ticket(&agent, of_other(31));
    assert_eq!(world.effects(), 3);
    let explained = world.run(&["explain", &paid.call_id()]).ended(0).stdout;
    assert!(explained.contains(&format!("use 2 of 2, allowed by olga: servanda grants show {first}")), "{explained}");
    let page = world.run(&["grants", "show", &first]).ended(0).stdout;
    let second_call = format!("call 2      company.pay_invoice 1.0.0, approved on {second}: 2 of 2 used");
    assert!(page.contains("used        3 of 3") && page.contains(&second_call), "{page}");
    assert!(world.run(&["grants"]).ended(0).stdout.contains("and 1 more call"));

    let statement = world.run(&["grants", "statement", &first]).ended(0).stdout;
    let key = world.run(&["approvals", "key"]).ended(0).stdout;
    world.write("plan.json", &statement);
    let verified = world.run(&["grants", "verify", "plan.json", "--key", key.trim()]).ended(0).stdout;
    assert_eq!(verified.matches("permit (").count(), 2, "{verified}");
    world.write("plan.json", &statement.replace("30.0", "90.0"));
    assert_ne!(world.run(&["grants", "verify", "plan.json", "--key", key.trim()]).code, Some(0));

    let revoke = ["grants", "revoke", &first, "--reason", "the month is over"];
    world.run_with_env(&revoke, &[("SERVANDA_CREDENTIAL", &olga)]).ended(0);
    ticket(&agent, of_one(97));
    ticket(&agent, of_other(28));
    assert_eq!(world.effects(), 3);
}

const PLAN: &str = "servanda__propose_plan";

/// The texts of an answer, and its structured content.
fn standing(answer: &Value) -> (&str, &Value) {
    let text = answer["content"][0]["text"].as_str().unwrap();
    (text, &answer["structuredContent"])
}

#[test]
fn an_agent_proposes_a_plan_a_person_approves_it_on_its_page_and_its_calls_go_through_until_their_count_ends() {
    let world = world();
    world.change_config(|config| config["approvals"]["plans"] = json!(true));
    let (agent_key, _) = world.key("acme", "ada", &[READ, WRITE], &[]);
    let (olga, _) = world.key("acme", "olga", &["servanda:console"], &[]);
    let gateway = world.serve();
    let agent = gateway.bearing(&agent_key);
    assert!(agent.tools().contains(&PLAN.to_owned()));
    let other = |cents: u64| json!({ "invoice_id": "inv_1005", "amount_cents": cents, "currency": "EUR" });
    let plan = json!({
        "purpose": "pay the <b>open</b> invoices",
        "calls": [
            { "tool": PAY, "arguments": payment(100), "times": 2 },
            { "tool": PAY, "arguments": other(30), "times": 1 },
        ],
    });
    let proposed = agent.call(PLAN, plan.clone());
    let answer = proposed.success();
    let (text, structured) = standing(answer);
    assert_eq!(structured["standing"], "pending", "{answer}");
    let id = structured["ticket"].as_str().unwrap().to_owned();
    assert!(text.contains("waits for approval by an approver") && text.contains(&id), "{text}");
    // Nothing is allowed before a person decides; what the agent would be refused, it is told at once.
    ticket(&agent, payment(99));
    let wrong = json!({ "purpose": "x", "calls": [{ "tool": PAY, "arguments": { "amount_cents": 1 }, "times": 1 }] });
    let refused = agent.call(PLAN, wrong);
    assert_eq!(refused.result()["isError"], true, "{}", refused.raw);
    assert_eq!(world.effects(), 0);

    let shown = world.run(&["approvals", "show", &id]).ended(0).stdout;
    for line in [
        "  would allow, without asking",
        "    company.pay_invoice 1.0.0, at most 2 times",
        "      /amount_cents a number from 0 to 100.0",
        "    company.pay_invoice 1.0.0, once",
        "    /purpose = pay the <b>open</b> invoices  (text)",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let console = PersonAtConsole::sign_in(&gateway, &olga);
    let path = format!("/approvals/{id}");
    let html = console.page(&path);
    assert!(html.contains("at most 2 times") && html.contains("Approve this plan"), "{html}");
    assert_eq!(console.submit(&path, &[]), 303);

    agent.call(PAY, payment(100)).success();
    agent.call(PAY, other(29)).success();
    ticket(&agent, other(28));
    let again = agent.call(PLAN, plan);
    let (_, structured) = standing(again.success());
    let left: Vec<&Value> = structured["calls"].as_array().unwrap().iter().map(|call| &call["left"]).collect();
    assert_eq!((&structured["standing"], left), (&json!("approved"), vec![&json!(1), &json!(0)]));
    let paid = agent.call(PAY, payment(98));
    paid.success();
    ticket(&agent, payment(97));
    assert_eq!(world.effects(), 3);
    is_told_on_the_command_line(&world, &id, &paid.call_id());
}

/// What people and outsiders see of a plan that is used up.
fn is_told_on_the_command_line(world: &World, id: &str, last_call: &str) {
    let explained = world.run(&["explain", last_call]).ended(0).stdout;
    assert!(explained.contains(&format!("use 2 of 2, allowed by olga: servanda grants show {id}")), "{explained}");
    let page = world.run(&["grants", "show", id]).ended(0).stdout;
    for line in [
        "  used        3 of 3",
        "  call 1      company.pay_invoice 1.0.0, approved in this plan: 2 of 2 used",
        "  call 2      company.pay_invoice 1.0.0, approved in this plan: 1 of 1 used",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
    }
    assert_eq!(page.matches("permit (").count(), 2, "{page}");

    let statement = world.run(&["grants", "statement", id]).ended(0).stdout;
    let key = world.run(&["approvals", "key"]).ended(0).stdout;
    world.write("plan.json", &statement.replace("\"uses_max\": 2", "\"uses_max\": 9"));
    assert_ne!(world.run(&["grants", "verify", "plan.json", "--key", key.trim()]).code, Some(0));
    world.write("plan.json", &statement);
    world.run(&["grants", "verify", "plan.json", "--key", key.trim()]).ended(0);
}
