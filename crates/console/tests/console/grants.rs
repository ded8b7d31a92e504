//! What people allow from now on: the form with its policy, the grant with its uses, and who may do what.

use http::StatusCode;
use serde_json::json;
use servanda_approval::{ApprovalVerdict, GrantEnd, Ticket, TicketReply};
use servanda_contract::tool::{ApprovalPattern, SideEffectClass};

use crate::{
    browser::{Browser, FoundForm, Page},
    fixture::{Gateway, Users, Wanted},
};

fn refund() -> Wanted {
    Wanted {
        tool: "bank.refund",
        arguments: json!({"amount": 40, "to": "bob", "file": "/srv/bills/a.pdf"}),
        class: SideEffectClass::HighRiskExternal,
        ..Wanted::default()
    }
}

/// Ben approves a call.
async fn approved(gateway: &Gateway, wanted: Wanted) -> (Ticket, Browser) {
    let ticket = gateway.open(wanted).await;
    let mut ben = Browser::with_key(gateway, "ben", &[]).await;
    let page = ben.get(&format!("/approvals/{}", ticket.id)).await;
    assert!(!page.html.contains("From now on"), "not before it is approved: {}", page.html);
    assert_eq!(ben.submit(&page.form("approve"), &[]).await.status, StatusCode::SEE_OTHER);
    (ticket, ben)
}

fn path(ticket: &Ticket) -> String {
    format!("/grants/{}", ticket.id)
}

/// The form of a page that makes a grant, with the fields that a person leaves as they are.
fn make(page: &Page, ticket: &Ticket) -> FoundForm {
    page.form_to(&path(ticket)).with(&[("uses", "20"), ("days", "7")])
}

fn revoke(page: &Page, ticket: &Ticket) -> FoundForm {
    page.form_to(&path(ticket)).with(&[("reason", "not needed any more")])
}

#[tokio::test]
async fn a_person_reads_a_policy_allows_calls_sees_their_uses_and_takes_it_back() {
    let gateway = Gateway::new(Users::Many);
    let (ticket, mut ben) = approved(&gateway, refund()).await;
    let page = ben.get(&format!("/approvals/{}", ticket.id)).await;
    assert!(page.html.contains(&format!("<a class=\"button\" href=\"{}\">Allow calls like this", path(&ticket))));
    assert!(ben.get("/grants").await.html.contains("Nothing is allowed from now on"));

    let page = ben.get(&path(&ticket)).await;
    for shown in [
        "Allow calls of bank.refund from now on",
        "acme/ada, through billing-agent",
        "a number from 0 to 40.0",
        "a path below /srv/bills/",
        "exactly &#34;bob&#34;",
        "context.arguments[&#34;/amount&#34;].number.lessThanOrEqual(decimal(&#34;40.0&#34;))",
        "In the last 30 days, 1 call of this tool was held. 1 of them would have passed.",
        "People denied 0 of them",
    ] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    let form = make(&page, &ticket);
    assert_eq!(ben.submit(&form, &[]).await.location(), path(&ticket));
    let standing = gateway.ticket(&ticket.id).await.grant.unwrap();
    let grant = &standing.signed.grant;
    assert_eq!((grant.approver.as_str(), grant.uses_max(), standing.draws.len()), ("ben", 20, 0));
    assert!(grant.credential.starts_with("console:key:"), "{}", grant.credential);

    let call = gateway.draw_on_grant(&ticket.id).await.unwrap();
    let page = ben.get(&path(&ticket)).await;
    for shown in ["1 of 20 used, in force", &format!("<a href=\"/calls/{}\">", call.call_id), "Allowed by</dt><dd>ben"]
    {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    let of_call = ben.get(&format!("/calls/{}", call.call_id)).await;
    for shown in ["use 1 of 20, allowed by ben", &format!("href=\"{}\"", path(&ticket)), "made from the ticket"] {
        assert!(of_call.html.contains(shown), "{shown}: {}", of_call.html);
    }
    let list = ben.get("/grants").await;
    assert!(list.html.contains("1 of 20 used") && list.html.contains(&path(&ticket)), "{}", list.html);

    let form = page.form_to(&path(&ticket));
    let refused = ben.submit(&form, &[("reason", " ")]).await;
    assert!(refused.status == StatusCode::BAD_REQUEST && refused.html.contains("Say why"), "{}", refused.html);
    assert_eq!(ben.submit(&form, &[("reason", "not <b>needed</b>")]).await.location(), path(&ticket));
    let page = ben.get(&path(&ticket)).await;
    assert!(page.html.contains("1 of 20 used, taken back"), "{}", page.html);
    assert!(page.html.contains("not &#60;b&#62;needed&#60;/b&#62;"), "{}", page.html);
    assert_eq!(page.forms().iter().filter(|form| form.action == path(&ticket)).count(), 0);
    assert_eq!(gateway.draw_on_grant(&ticket.id).await.err(), Some(TicketReply::GrantEnded(GrantEnd::Revoked)));
    let late = ben.submit(&form, &[("reason", "again")]).await;
    assert!(late.status == StatusCode::CONFLICT && late.html.contains("Something changed since you looked"));
}

#[tokio::test]
async fn what_a_person_changed_is_shown_before_it_holds() {
    let gateway = Gateway::new(Users::Many);
    let (ticket, mut ben) = approved(&gateway, refund()).await;
    let form = make(&ben.get(&path(&ticket)).await, &ticket);
    let changed = [("bound:/amount", "25"), ("bound:/file", "/srv/bills/2026/"), ("uses", "3")];
    let page = ben.submit(&form.with(&changed), &[]).await;
    assert_eq!(page.status, StatusCode::OK);
    for shown in ["Read what you would allow now", "decimal(&#34;25.0&#34;)", "like &#34;/srv/bills/2026/*&#34;"] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    assert!(page.html.contains("0 of them would have passed"), "the approved path is outside now: {}", page.html);
    assert!(gateway.ticket(&ticket.id).await.grant.is_none());
    let again = page.form_to(&path(&ticket)).with(&[("days", "7")]).with(&changed);
    assert_eq!(ben.submit(&again, &[]).await.status, StatusCode::SEE_OTHER);
    let grant = gateway.ticket(&ticket.id).await.grant.unwrap().signed.grant;
    assert_eq!((grant.uses_max(), grant.calls[0].bounds[0].describe()), (3, "a number from 0 to 25.0".to_owned()));
}

#[tokio::test]
async fn wrong_forms_allow_nothing_and_say_why() {
    let gateway = Gateway::new(Users::Many);
    let (ticket, mut ben) = approved(&gateway, refund()).await;
    let form = make(&ben.get(&path(&ticket)).await, &ticket);
    for (changed, status, shown) in [
        (("bound:/amount", "41"), StatusCode::BAD_REQUEST, "narrower than proposed, and never wider"),
        (("bound:/amount", "all"), StatusCode::BAD_REQUEST, "A bound is a number"),
        (("bound:/file", "/srv/"), StatusCode::BAD_REQUEST, "never wider"),
        (("uses", "0"), StatusCode::BAD_REQUEST, "1 to 100 calls"),
        (("uses", "101"), StatusCode::BAD_REQUEST, "1 to 100 calls"),
        (("uses", "many"), StatusCode::BAD_REQUEST, "how many calls and days"),
        (("days", "8"), StatusCode::BAD_REQUEST, "1 to 7 days"),
        (("payload", "x"), StatusCode::BAD_REQUEST, "what you were shown"),
        (("change", "widen"), StatusCode::BAD_REQUEST, "what to do"),
        (("form_token", "x"), StatusCode::FORBIDDEN, "form"),
    ] {
        let page = ben.submit(&form.with(&[changed]), &[]).await;
        assert_eq!(page.status, status, "{changed:?}: {}", page.html);
        let lower = page.html.to_lowercase();
        assert!(lower.contains(&shown.to_lowercase()), "{changed:?} {shown}: {}", page.html);
        assert!(gateway.ticket(&ticket.id).await.grant.is_none(), "{changed:?}");
    }
    let other = format!("sha256:{}", "0".repeat(64));
    let page = ben.submit(&form.with(&[("payload", other.as_str())]), &[]).await;
    assert_eq!(page.status, StatusCode::CONFLICT, "{}", page.html);
}

#[tokio::test]
async fn only_who_may_approve_allows_calls_and_others_see_what_concerns_them() {
    let gateway = Gateway::new(Users::Many);
    let (ticket, mut ben) = approved(&gateway, refund()).await;
    for (name, shown) in [("vera", "You may look and not decide"), ("ada", "This is your own request")] {
        let mut browser = Browser::with_key(&gateway, name, &[]).await;
        let page = browser.get(&path(&ticket)).await;
        assert!(page.html.contains(shown), "{name}: {}", page.html);
        assert!(page.forms().iter().all(|form| form.action != path(&ticket)), "{name}");
        let ticket_page = browser.get(&format!("/approvals/{}", ticket.id)).await;
        assert!(!ticket_page.html.contains("Allow calls like this"), "{name}");
    }
    let form = make(&ben.get(&path(&ticket)).await, &ticket);
    ben.submit(&form, &[]).await;
    // Another tenant's person and one without a part in it.
    for name in ["globex/gus", "otto"] {
        let mut browser = Browser::with_key(&gateway, name, &[]).await;
        assert_eq!(browser.get(&path(&ticket)).await.status, StatusCode::NOT_FOUND, "{name}");
        assert!(!browser.get("/grants").await.html.contains("bank.refund"), "{name}");
        let stolen = revoke(&ben.get(&path(&ticket)).await, &ticket);
        assert!(browser.submit(&stolen, &[]).await.status.is_client_error(), "{name}");
    }
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let page = vera.get(&path(&ticket)).await;
    assert!(page.html.contains("0 of 20 used, in force") && !page.html.contains("Take this grant back"));
    // The user whose agent it is for takes it back.
    let mut ada = Browser::with_key(&gateway, "ada", &[]).await;
    let form = revoke(&ada.get(&path(&ticket)).await, &ticket);
    assert_eq!(ada.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(gateway.ticket(&ticket.id).await.grant.unwrap().revoked.unwrap().by, "ada");
}

#[tokio::test]
async fn no_grant_where_people_decide_about_each_call_or_values_are_masked() {
    let gateway = Gateway::new(Users::Many);
    // Other arguments each time: the same call would find its approved ticket.
    let of = |amount: u32| Wanted { arguments: json!({"amount": amount, "to": "bob"}), ..refund() };
    let critical = Wanted { class: SideEffectClass::CriticalMutation, ..of(1) };
    let secret = Wanted { sensitive: &[("/to", "secret")], ..of(2) };
    let compliance = Wanted { pattern: ApprovalPattern::Compliance, ..of(3) };
    for (wanted, shown) in
        [(critical, "it is a critical change"), (compliance, "asks people about each call"), (secret, "masked for you")]
    {
        let (ticket, mut ben) = approved(&gateway, wanted).await;
        let page = ben.get(&path(&ticket)).await;
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
        assert!(page.forms().iter().all(|form| form.action != path(&ticket)), "{shown}");
    }
    // Cleo sees personal values, Ben does not.
    let personal = Wanted { sensitive: &[("/to", "personal")], ..of(4) };
    let (ticket, mut ben) = approved(&gateway, personal).await;
    assert!(ben.get(&path(&ticket)).await.html.contains("masked for you"));
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let form = make(&cleo.get(&path(&ticket)).await, &ticket);
    // A form that a person without the right to see it sends all the same.
    let token = ben.get("/grants").await;
    assert!(!token.html.contains("bob"));
    assert_eq!(cleo.submit(&form, &[]).await.status, StatusCode::SEE_OTHER);
    let page = ben.get(&path(&ticket)).await;
    assert!(page.html.contains("They hold values that are masked for you") && !page.html.contains("permit ("));
    let denied = gateway.open(of(5)).await;
    let deny = ben.get(&format!("/approvals/{}", denied.id)).await.form(ApprovalVerdict::Deny.word());
    ben.submit(&deny, &[("reason", "no")]).await;
    assert!(ben.get(&path(&denied)).await.html.contains("a call that people approved"));
}

fn closing() -> Wanted {
    Wanted { tool: "bank.close", arguments: json!({"account": 7}), ..refund() }
}

#[tokio::test]
async fn calls_of_several_tickets_are_allowed_together_and_taken_back_together() {
    let gateway = Gateway::new(Users::Many);
    let (ticket, mut ben) = approved(&gateway, refund()).await;
    assert!(!ben.get(&path(&ticket)).await.html.contains("other approved calls"), "there are none");
    let (other, _) = approved(&gateway, closing()).await;
    let waiting = gateway.open(Wanted { arguments: json!({"account": 8}), ..closing() }).await;
    let (of_other_agent, _) = approved(&gateway, Wanted { agent: Some(("mailer", true)), ..closing() }).await;
    let page = ben.get(&path(&ticket)).await;
    let named = format!("{} {}", other.id, other.subject.payload);
    for shown in ["Also calls of bank.close", "<code>/account</code> <span class=\"value\">exactly 7</span>", &named] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    for hidden in [&waiting, &of_other_agent] {
        assert!(!page.html.contains(hidden.id.as_str()), "{}", page.html);
    }
    // What was chosen is shown first: its policy, and what both together would have done.
    let uses = format!("uses:{}", other.id);
    let fields = [("further", named.as_str()), (uses.as_str(), "3"), ("cost_max", "12.50 EUR")];
    let chosen = make(&page, &ticket).with(&fields);
    let wrong = ben.submit(&chosen.with(&[("cost_max", "much")]), &[]).await;
    assert!(wrong.status == StatusCode::BAD_REQUEST && wrong.html.contains("sum of money"), "{}", wrong.html);
    let wrong = ben.submit(&chosen.with(&[(uses.as_str(), "101")]), &[]).await;
    assert!(wrong.status == StatusCode::CONFLICT && wrong.html.contains("1 to 100 calls"), "{}", wrong.html);
    let page = ben.submit(&chosen, &[]).await;
    for shown in [
        "Read what you would allow now",
        "resource == Tool::&#34;bank.close&#34;",
        "resource == Tool::&#34;bank.refund&#34;",
        "calls of these tools were held",
        &format!("value=\"{named}\" checked"),
    ] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    assert!(gateway.ticket(&ticket.id).await.grant.is_none());
    // Another number of times, or other money, is shown first too.
    let again = make(&page, &ticket).with(&fields);
    for other in [(uses.as_str(), "4"), ("cost_max", "13 EUR")] {
        let page = ben.submit(&again.with(&[other]), &[]).await;
        assert!(page.html.contains("Read what you would allow now"), "{other:?}: {}", page.html);
    }
    assert_eq!(ben.submit(&again, &[]).await.location(), path(&ticket));
    let grant = gateway.ticket(&ticket.id).await.grant.unwrap().signed.grant;
    assert_eq!((grant.calls.len(), grant.calls[1].tool_name.as_str(), grant.calls[1].uses_max), (2, "bank.close", 3));

    let page = ben.get(&path(&ticket)).await;
    let heading = format!("<h3><a href=\"/approvals/{}\">bank.close</a></h3>", other.id);
    for shown in [
        "Allowed from now on: bank.refund and 1 more call",
        "0 of 23 used, in force",
        "0 of 3 used",
        "0.00 of 12.50 EUR",
        &heading,
    ] {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
    assert!(ben.get("/grants").await.html.contains("bank.refund and 1 more call"));
    assert_eq!(ben.submit(&revoke(&page, &ticket), &[]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(gateway.draw_on_grant(&ticket.id).await.err(), Some(TicketReply::GrantEnded(GrantEnd::Revoked)));
}

#[tokio::test]
async fn a_form_that_names_what_cannot_be_part_of_a_plan_allows_nothing() {
    let gateway = Gateway::new(Users::Many);
    let (ticket, mut ben) = approved(&gateway, refund()).await;
    let waiting = gateway.open(closing()).await;
    // Cleo sees personal values, Ben does not.
    let personal = Wanted { arguments: json!({"account": 9}), sensitive: &[("/account", "personal")], ..closing() };
    let (masked, _) = approved(&gateway, personal).await;
    let page = ben.get(&path(&ticket)).await;
    assert!(!page.html.contains(masked.id.as_str()), "{}", page.html);
    let form = make(&page, &ticket);
    let of = |ticket: &Ticket| format!("{} {}", ticket.id, ticket.subject.payload);
    for (named, status, shown) in [
        (of(&waiting), StatusCode::CONFLICT, "a grant is made from a call that people approved"),
        (of(&ticket), StatusCode::CONFLICT, "it is named twice"),
        (format!("{} {}", waiting.id, ticket.subject.payload), StatusCode::CONFLICT, "not the one that you were shown"),
        (of(&masked), StatusCode::FORBIDDEN, "Some arguments are masked for you"),
        (format!("apr_none {}", ticket.subject.payload), StatusCode::FORBIDDEN, "Some arguments are masked for you"),
        (waiting.id.to_string(), StatusCode::BAD_REQUEST, "what you were shown"),
    ] {
        let page = ben.submit(&form.with(&[("further", named.as_str())]), &[]).await;
        assert_eq!(page.status, status, "{named}: {}", page.html);
        assert!(page.html.contains(shown), "{named} {shown}: {}", page.html);
        assert!(gateway.ticket(&ticket.id).await.grant.is_none(), "{named}");
    }
    // Ben sees that a plan is there, and not what Cleo allowed in it.
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let named = of(&masked);
    let form = make(&cleo.get(&path(&ticket)).await, &ticket).with(&[("further", named.as_str())]);
    let page = cleo.submit(&form, &[]).await;
    let again = make(&page, &ticket).with(&[("further", named.as_str())]);
    assert_eq!(cleo.submit(&again, &[]).await.status, StatusCode::SEE_OTHER);
    assert!(cleo.get(&path(&ticket)).await.html.contains("permit ("));
    let page = ben.get(&path(&ticket)).await;
    assert!(page.html.contains("They hold values that are masked for you") && !page.html.contains("permit ("));
}
