//! Who may see and decide what, and what the pages say about it.

use http::StatusCode;
use serde_json::json;
use servanda_approval::{ApprovalVerdict, TicketState};
use servanda_contract::tool::{ApprovalPattern, Presence, SideEffectClass};

use crate::{
    browser::{Browser, FoundForm},
    fixture::{Gateway, Users, Wanted},
};

#[tokio::test]
async fn a_person_reads_the_whole_packet_and_approves() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway
        .open(Wanted {
            before: Some(Ok(json!({"status": "open", "total": 120}))),
            after: Some("status: void"),
            compensation: Some("company.reopen_invoice"),
            price: Some("0.10 EUR"),
            ..Wanted::default()
        })
        .await;
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let inbox = ben.get("/approvals").await;
    for shown in [
        "Invoice inv_1007 becomes void",
        "billing-agent for ada",
        "0 of 1 approval",
        "medium risk",
        "Waiting <span class=\"count\">1</span>",
    ] {
        assert!(inbox.html.contains(shown), "{shown}: {}", inbox.html);
    }
    let page = ben.get(&format!("/approvals/{}", ticket.id)).await;
    let subject = &ticket.subject;
    for shown in [
        "company.void_invoice 1.0.0",
        "/invoice_id",
        "inv_1007",
        "{&#34;invoice_id&#34;:&#34;inv_1007&#34;,&#34;reason&#34;:&#34;duplicate&#34;}",
        &subject.payload.to_string(),
        "company.get_invoice at ",
        "/total",
        "status: void",
        "MEDIUM_RISK_WRITE",
        "contract asks for one",
        "acme/ada, through billing-agent",
        "an approver",
        "Decide until",
        "within 10 min of the approval",
        "“company.reopen_invoice” undoes it",
        "at most 0.10 EUR",
        "may not ask again for an hour",
        subject.call_id.as_str(),
        &subject.trace_id,
        "claude-code 3.1",
    ] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    let answer = ben.submit(&page.form("approve"), &[]).await;
    assert_eq!(
        (answer.status, answer.location()),
        (StatusCode::SEE_OTHER, format!("/approvals/{}", ticket.id).as_str())
    );
    let decided = gateway.ticket(&ticket.id).await;
    assert_eq!(decided.state, TicketState::Approved);
    let decision = &decided.decisions[0].decision;
    assert_eq!(
        (decision.approver.as_str(), decision.presence, decision.verdict),
        ("ben", Presence::Fresh, ApprovalVerdict::Approve)
    );
    assert!(decision.credential.starts_with("console:key:"), "{}", decision.credential);
    let page = ben.get(answer.location()).await;
    assert!(page.html.contains("with exactly these arguments") && !page.has_form("approve") && !page.has_form("deny"));
    assert!(ben.get("/approvals").await.html.contains("Nothing waits for a decision"));
    assert!(ben.get("/approvals?state=decided").await.html.contains("inv_1007"));
}

#[tokio::test]
async fn a_person_denies_with_a_reason() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open(Wanted::default()).await;
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let path = format!("/approvals/{}", ticket.id);
    let form = ben.get(&path).await.form("deny");
    let page = ben.submit(&form, &[("reason", &"x".repeat(501))]).await;
    assert!(page.status == StatusCode::BAD_REQUEST && page.html.contains("The reason is too long"));
    assert_eq!(ben.submit(&form, &[("reason", "not <b>this</b> month")]).await.status, StatusCode::SEE_OTHER);
    let decided = gateway.ticket(&ticket.id).await;
    assert_eq!(decided.denial().unwrap().decision.reason.as_deref(), Some("not <b>this</b> month"));
    assert!(ben.get(&path).await.html.contains("not &#60;b&#62;this&#60;/b&#62; month"));
}

/// Whom a page lets decide, and what it says to all others. Each may still send a form that they made themselves.
#[tokio::test]
async fn who_may_not_decide_is_told_why_and_cannot() {
    let gateway = Gateway::new(Users::Many);
    let finance = || Wanted { groups: &["finance"], ..Wanted::default() };
    let passkey = || Wanted { presence: Presence::Passkey, ..Wanted::default() };
    for (number, (wanted, person, groups, said)) in [
        (Wanted::default(), "vera", &[][..], "You may look and not decide"),
        (Wanted::default(), "ada", &[], "This is your own request"),
        (finance(), "ben", &[], "Another group decides about this"),
        (passkey(), "ben", &[], "This ticket needs a passkey"),
    ]
    .into_iter()
    .enumerate()
    {
        let ticket = gateway.open(Wanted { arguments: json!({ "number": number }), ..wanted }).await;
        let mut browser = Browser::with_key(&gateway, person, groups).await;
        let path = format!("/approvals/{}", ticket.id);
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(
            page.html.contains(said) && !page.has_form("approve") && !page.has_form("deny"),
            "{said}: {}",
            page.html
        );
        // A form of another page has a token for another address, so the person needs the page of a ticket that they may decide about.
        let own = gateway
            .open(Wanted {
                principal: person.to_owned(),
                agent: None,
                pattern: ApprovalPattern::Consent,
                arguments: json!({ "own": number }),
                ..Wanted::default()
            })
            .await;
        let own_form = browser.get(&format!("/approvals/{}", own.id)).await.form("approve");
        let token = own_form.fields.iter().find(|(name, _)| name == "form_token").unwrap().1.clone();
        let fields =
            [("form_token", token), ("payload", ticket.subject.payload.to_string()), ("verdict", "approve".to_owned())];
        let forged = FoundForm {
            fields: fields.map(|(name, value)| (name.to_owned(), value)).into(),
            ..own_form.clone().at(&path)
        };
        assert_eq!(browser.submit(&forged, &[]).await.status, StatusCode::FORBIDDEN);
        assert_eq!(gateway.ticket(&ticket.id).await.decisions.len(), 0, "{said}");
    }
}

#[tokio::test]
async fn another_tenants_ticket_does_not_exist() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open(Wanted::default()).await;
    let mut gus = Browser::with_key(&gateway, "globex/gus", &[]).await;
    let page = gus.get(&format!("/approvals/{}", ticket.id)).await;
    let missing = gus.get("/approvals/apr_00000000000000000000000000000000").await;
    assert_eq!((page.status, &page.html), (StatusCode::NOT_FOUND, &missing.html), "and looks like one that never was");
    assert!(!gus.get("/approvals?state=all").await.html.contains("inv_1007"));
    let review = gus.get(&format!("/approvals/review?ticket={}:{}", ticket.id, ticket.subject.payload)).await;
    assert!(!review.html.contains("inv_1007"));
    // The token of this form is good for every review of this session.
    let own = gateway.open(Wanted { tenant: "globex", principal: "gil".to_owned(), ..Wanted::default() }).await;
    let page = gus.get(&format!("/approvals/review?ticket={}:{}", own.id, own.subject.payload)).await;
    let mut form = page.form("deny");
    for field in form.fields.iter_mut().filter(|(name, _)| name == "ticket") {
        field.1 = format!("{}:{}", ticket.id, ticket.subject.payload);
    }
    assert!(gus.submit(&form, &[]).await.html.contains("there is no such ticket"));
    assert_eq!(gateway.ticket(&ticket.id).await.state, TicketState::Pending);
}

#[tokio::test]
async fn a_person_without_a_role_sees_and_consents_to_what_their_own_agents_ask() {
    let gateway = Gateway::new(Users::Many);
    let others = gateway.open(Wanted::default()).await;
    let own = gateway
        .open(Wanted {
            principal: "otto".to_owned(),
            pattern: ApprovalPattern::Consent,
            consequence: Some("Otto's letter is sent".to_owned()),
            ..Wanted::default()
        })
        .await;
    let mut otto = Browser::with_key(&gateway, "otto", &[]).await;
    let inbox = otto.get("/approvals").await;
    assert!(inbox.html.contains("letter is sent") && !inbox.html.contains("inv_1007"), "{}", inbox.html);
    assert_eq!(otto.get(&format!("/approvals/{}", others.id)).await.status, StatusCode::NOT_FOUND);
    let form = otto.get(&format!("/approvals/{}", own.id)).await.form("approve");
    otto.submit(&form, &[]).await;
    assert_eq!(gateway.ticket(&own.id).await.state, TicketState::Approved);
}

#[tokio::test]
async fn a_sign_in_that_is_not_fresh_is_renewed_and_comes_back() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway
        .open(Wanted { presence: Presence::Fresh, class: SideEffectClass::CriticalMutation, ..Wanted::default() })
        .await;
    let (_, key) = gateway.key("ben", &[], &["servanda:console"]).await;
    let mut ben = Browser::new(&gateway);
    ben.post("/sign-in", &[("key", &key)]).await;
    let path = format!("/approvals/{}", ticket.id);
    let form = ben.get(&path).await.form("approve");
    gateway.clock.pass_ms(5 * 60_000 + 60_000);
    let page = ben.submit(&form, &[]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.html.contains("Sign in again to decide"), "{}", page.html);
    let next = format!("/sign-in?next=%2Fapprovals%2F{}", ticket.id.as_str().replace('_', "%5F"));
    assert!(page.html.contains(&format!("href=\"{next}\"")), "{}", page.html);
    let again = ben.get(&next).await;
    assert!(
        again.html.contains("Sign in again") && again.html.contains(&format!("name=\"next\" value=\"{path}\"")),
        "{}",
        again.html
    );
    let back = ben.post("/sign-in", &[("key", &key), ("next", &path)]).await;
    assert_eq!(back.location(), path);
    let form = ben.get(&path).await.form("approve");
    assert_eq!(ben.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(gateway.ticket(&ticket.id).await.state, TicketState::Approved);
}

#[tokio::test]
async fn two_people_approve_and_one_cannot_twice() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open(Wanted { pattern: ApprovalPattern::Dual, quorum: 2, ..Wanted::default() }).await;
    let path = format!("/approvals/{}", ticket.id);
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let page = ben.get(&path).await;
    assert!(page.html.contains("1 more approval is needed after yours"), "{}", page.html);
    let form = page.form("approve");
    ben.submit(&form, &[]).await;
    let page = ben.get(&path).await;
    assert!(
        page.html.contains("You have decided about this") && page.html.contains("1 of 2 approvals"),
        "{}",
        page.html
    );
    assert_eq!(ben.submit(&form, &[]).await.status, StatusCode::FORBIDDEN);
    let mut finance = Browser::with_key(&gateway, "fay", &["finance"]).await;
    let form = finance.get(&path).await.form("approve");
    finance.submit(&form, &[]).await;
    assert_eq!(gateway.ticket(&ticket.id).await.state, TicketState::Approved);
}

#[tokio::test]
async fn the_emergency_role_is_taken_on_purpose() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway
        .open(Wanted { pattern: ApprovalPattern::Dual, quorum: 2, groups: &["finance"], ..Wanted::default() })
        .await;
    let mut bree = Browser::with_key(&gateway, "bree", &[]).await;
    let path = format!("/approvals/{}", ticket.id);
    let page = bree.get(&path).await;
    assert!(page.html.contains("Deciding takes the emergency role"));
    let form = page.form("approve");
    assert_eq!(bree.submit(&form, &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(bree.submit(&form, &[("break_glass", "yes")]).await.status, StatusCode::SEE_OTHER);
    assert!(gateway.ticket(&ticket.id).await.decisions[0].decision.break_glass);
}

#[tokio::test]
async fn masked_arguments_are_masked_everywhere() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway
        .open(Wanted {
            arguments: json!({"iban": "DE89370400440532013000", "amount": 5, "pin": "0042"}),
            consequence: Some("5 EUR go to DE89370400440532013000".to_owned()),
            after: Some("paid to DE89370400440532013000"),
            sensitive: &[("/iban", "personal"), ("/pin", "secret")],
            ..Wanted::default()
        })
        .await;
    let paths = [
        "/approvals".to_owned(),
        format!("/approvals/{}", ticket.id),
        format!("/approvals/review?ticket={}:{}", ticket.id, ticket.subject.payload),
    ];
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    for path in &paths {
        let (for_ben, for_cleo) = (ben.get(path).await.html, cleo.get(path).await.html);
        assert!(!for_ben.contains("DE8937") && !for_ben.contains("0042"), "{path}: {for_ben}");
        assert!(!for_cleo.contains("0042"), "an administrator sees no secrets: {path}");
    }
    assert!(cleo.get(&paths[1]).await.html.contains("DE8937"));
    let review = ben.get(&paths[2]).await;
    assert!(
        !review.has_form("approve") && review.has_form("deny"),
        "what is not shown whole is not approved with others"
    );
}

#[tokio::test]
async fn several_tickets_are_reviewed_and_decided_each_by_itself() {
    let gateway = Gateway::new(Users::Many);
    let mut tickets = Vec::new();
    for number in 0..5 {
        let arguments = json!({"invoice_id": format!("inv_{number}"), "reason": if number == 4 { "dupli\u{202e}cate" } else { "x" }});
        tickets.push(gateway.open(Wanted { arguments, ..Wanted::default() }).await);
    }
    let own = gateway.open(Wanted { principal: "ben".to_owned(), ..Wanted::default() }).await;
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let inbox = ben.get("/approvals").await.html;
    let chosen: Vec<String> =
        tickets.iter().chain([&own]).map(|ticket| format!("{}:{}", ticket.id, ticket.subject.payload)).collect();
    assert!(chosen.iter().all(|choice| inbox.contains(&format!("value=\"{choice}\""))), "the inbox has the payloads");
    // One of them is another than the person chose, and comes as one that changed.
    let stale = format!("{}:{}", tickets[3].id, own.subject.payload);
    let query: Vec<String> = [&chosen[..3], std::slice::from_ref(&stale), &chosen[4..]]
        .concat()
        .iter()
        .map(|choice| format!("ticket={choice}"))
        .collect();
    let page = ben.get(&format!("/approvals/review?{}", query.join("&"))).await;
    assert!(page.html.contains("Approve 3 calls") && page.html.contains("Deny 4 calls"), "{}", page.html);
    assert!(
        page.html.contains("The ticket changed since you chose it") && page.html.contains("own the agent that did")
    );
    let mut form = page.form("approve");
    // One is decided meanwhile; what the page refused is sent all the same.
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let meanwhile = cleo.get(&format!("/approvals/{}", tickets[0].id)).await.form("deny");
    cleo.submit(&meanwhile, &[]).await;
    form.fields.extend(
        [stale, chosen[4].clone(), chosen[5].clone(), chosen[1].clone()].map(|choice| ("ticket".to_owned(), choice)),
    );
    let results = ben.submit(&form, &[]).await;
    assert!(results.html.contains("2 of 6 decisions recorded"), "{}", results.html);
    let mut states = Vec::new();
    for ticket in tickets.iter().chain([&own]) {
        states.push(gateway.ticket(&ticket.id).await.state);
    }
    let expected = ["denied", "approved", "approved", "pending", "pending", "pending"];
    assert_eq!(states.iter().map(|state| state.name()).collect::<Vec<_>>(), expected);
    let deny = ben.get(&format!("/approvals/review?ticket={}", chosen[4])).await.form("deny");
    ben.submit(&deny, &[("reason", "odd characters")]).await;
    assert_eq!(gateway.ticket(&tickets[4].id).await.state, TicketState::Denied);
}

#[tokio::test]
async fn at_most_fifty_are_decided_together() {
    let gateway = Gateway::new(Users::Many);
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let query: Vec<String> = (0..51).map(|number| format!("ticket=apr_{number}:x")).collect();
    let page = ben.get(&format!("/approvals/review?{}", query.join("&"))).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    assert!(page.html.contains("At most 50 tickets"));
}

#[tokio::test]
async fn the_inbox_has_pages_and_counts_to_a_thousand() {
    let gateway = Gateway::new(Users::Many);
    for number in 0..1_010 {
        gateway
            .open(Wanted {
                arguments: json!({ "number": number }),
                consequence: Some(format!("number {number}!")),
                ..Wanted::default()
            })
            .await;
    }
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let mut path = "/approvals".to_owned();
    let mut seen = 0;
    for page in 0..21 {
        let html = ben.get(&path).await.html;
        seen += html.matches("data-row>").count();
        assert!(html.contains("1,000+"));
        assert_eq!(html.contains("hx-sse:connect"), page == 0, "only the first page has news");
        let older = html.split("href=\"").find(|part| part.contains("before=") && part.contains("rel=\"next\""));
        match older {
            Some(link) => path = link.split('"').next().unwrap().replace("&#38;", "&"),
            None => break,
        }
    }
    assert_eq!(seen, 1_010);
}
