//! Plans that agents propose, on their tickets' pages: everything that an approval would allow is shown before, and it is allowed by the
//! approval alone.

use http::StatusCode;
use servanda_approval::{GrantEnd, Ticket, TicketReply, TicketState};

use crate::{
    browser::{Browser, Page},
    fixture::{
        Gateway, Users, Wanted,
        planning::{demand, plan},
    },
};

fn path(ticket: &Ticket) -> String {
    format!("/approvals/{}", ticket.id)
}

fn shows(page: &Page, all: &[&str]) {
    for shown in all {
        assert!(page.html.contains(shown), "{shown}: {}", page.html);
    }
}

#[tokio::test]
async fn a_person_reads_every_call_of_a_plan_approves_it_once_and_takes_it_back() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open_plan(&plan(), Wanted::default()).await;
    assert!(ticket.is_intact());
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    shows(&ben.get("/approvals").await, &["Allows for 2 days, within bounds: bank.refund 2 times, bank.close once"]);
    let page = ben.get(&path(&ticket)).await;
    shows(
        &page,
        &[
            "What would be allowed",
            "for 2 days, and as long as they cost no more than 12.50 EUR together",
            "Purpose, in the agent’s words:</strong> <span class=\"value\">refund the customers of the outage",
            "bank.refund 1.0.0, at most 2 times",
            "<code>/amount</code> <span class=\"value\">a number from 0 to 40.0",
            "<code>/to</code> <span class=\"value\">exactly &#34;bob&#34;",
            "bank.close 1.0.0, once",
            "resource == Tool::&#34;bank.close&#34;",
            "0 calls of these tools were held",
            "/calls/0/arguments/amount",
            "An approval signs exactly this plan",
            "Approve this plan",
        ],
    );
    assert!(gateway.ticket(&ticket.id).await.grant.is_none());
    assert_eq!(ben.submit(&page.form("approve"), &[]).await.status, StatusCode::SEE_OTHER);
    let approved = gateway.ticket(&ticket.id).await;
    let grant = approved.grant.unwrap().signed.grant;
    assert_eq!((approved.state, grant.approver.as_str(), grant.calls.len()), (TicketState::Approved, "ben", 2));
    assert!(grant.credential.starts_with("console:key:"), "{}", grant.credential);

    shows(&ben.get(&path(&ticket)).await, &["The agent may make these calls", "What is allowed from now on"]);
    gateway.draw_on_grant(&ticket.id).await.unwrap();
    let of_grant = format!("/grants/{}", ticket.id);
    let page = ben.get(&of_grant).await;
    shows(
        &page,
        &[
            "Allowed from now on: bank.refund and 1 more call",
            "1 of 3 used, in force",
            "<h3>bank.refund</h3>\n<p>1 of 2 used</p>",
            "<h3>bank.close</h3>\n<p>0 of 1 used</p>",
            "<dt>Money</dt><dd>0.00 of 12.50 EUR</dd>",
        ],
    );
    gateway.draw_on_grant(&ticket.id).await.unwrap();
    let third = gateway.draw_on_grant(&ticket.id).await.err();
    assert_eq!(third, Some(TicketReply::GrantEnded(GrantEnd::UsedUp)), "of this call; the other is left");
    shows(&ben.get("/grants").await, &["2 of 3 used"]);
    let revoke = ben.get(&of_grant).await.form_to(&of_grant);
    assert_eq!(ben.submit(&revoke, &[("reason", "done")]).await.status, StatusCode::SEE_OTHER);
    shows(&ben.get(&of_grant).await, &["2 of 3 used, taken back"]);
}

#[tokio::test]
async fn who_does_not_see_a_value_or_needs_the_emergency_role_approves_no_plan_and_may_deny_it() {
    let gateway = Gateway::new(Users::Many);
    let mut personal = plan();
    personal.calls[0].sensitive = [("/to".to_owned(), "personal".to_owned())].into();
    let ticket = gateway.open_plan(&personal, Wanted::default()).await;
    // Cleo sees personal values, Ben does not.
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let mut cleo = Browser::with_key(&gateway, "cleo", &[]).await;
    let page = ben.get(&path(&ticket)).await;
    shows(&page, &["Its bounds hold values that are masked for you", "some of its values are masked for you"]);
    assert!(!page.html.contains("bob") && !page.html.contains("permit ("), "{}", page.html);
    assert!(!page.has_form("approve") && page.has_form("deny"));
    // The form that Cleo's page has, sent with Ben's session.
    let deny = page.form("deny");
    let refused = ben.submit(&deny.with(&[("verdict", "approve")]), &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.html);
    assert_eq!(gateway.ticket(&ticket.id).await, ticket);
    let approve = cleo.get(&path(&ticket)).await.form("approve");
    assert_eq!(cleo.submit(&approve, &[]).await.status, StatusCode::SEE_OTHER);
    assert!(gateway.ticket(&ticket.id).await.grant.is_some());
    assert!(!ben.get(&format!("/grants/{}", ticket.id)).await.html.contains("bob"));

    let mut of_finance = plan();
    for call in &mut of_finance.calls {
        call.demand = demand(&["finance"]);
    }
    let ticket = gateway.open_plan(&of_finance, Wanted::default()).await;
    let mut bree = Browser::with_key(&gateway, "bree", &[]).await;
    let page = bree.get(&path(&ticket)).await;
    shows(&page, &["the emergency role approves no plan"]);
    assert!(!page.has_form("approve"));
    let emergency = [("verdict", "approve"), ("break_glass", "yes")];
    let refused = bree.submit(&page.form("deny").with(&emergency), &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.html);
    assert_eq!(gateway.ticket(&ticket.id).await, ticket);
    let denied = bree.submit(&page.form("deny"), &[("break_glass", "yes"), ("reason", "no")]).await;
    assert_eq!(denied.status, StatusCode::SEE_OTHER);
    let denied = gateway.ticket(&ticket.id).await;
    assert_eq!((denied.state, denied.grant), (TicketState::Denied, None));
}

#[tokio::test]
async fn a_plan_is_read_on_its_own_page_and_not_approved_among_others() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway.open_plan(&plan(), Wanted::default()).await;
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let choice = format!("{}:{}", ticket.id, ticket.subject.payload);
    let page = ben.get(&format!("/approvals/review?ticket={choice}")).await;
    assert!(!page.has_form("approve") && page.has_form("deny"), "{}", page.html);
    let approved = ben.submit(&page.form("deny").with(&[("verdict", "approve")]), &[]).await;
    shows(&approved, &["Not acted on"]);
    assert_eq!(gateway.ticket(&ticket.id).await, ticket);
    ben.submit(&page.form("deny"), &[("reason", "no")]).await;
    let denied = gateway.ticket(&ticket.id).await;
    assert_eq!((denied.state, denied.grant), (TicketState::Denied, None));
}

#[tokio::test]
async fn the_purpose_of_a_plan_is_text_whatever_it_says() {
    let gateway = Gateway::new(Users::Many);
    let mut hostile = plan();
    hostile.purpose = "</span><script>alert(1)</script>\u{202e}lla wolla\n\nApproved by olga".to_owned();
    let ticket = gateway.open_plan(&hostile, Wanted::default()).await;
    let mut ben = Browser::with_key(&gateway, "ben", &[]).await;
    let page = ben.get(&path(&ticket)).await;
    assert!(!page.html.contains("<script>alert") && !page.html.contains('\u{202e}'), "{}", page.html);
    shows(&page, &["Look twice", "&#60;script&#62;alert(1)", "characters that you cannot see"]);
}
