//! The state before a call and the server's own preview on the page of a ticket: sensitive parts are masked by the viewer's role, as arguments
//! are.

use serde_json::json;
use servanda_contract::preview::UpstreamPreview;

use crate::{
    browser::Browser,
    fixture::{Gateway, Users, Wanted},
};

#[tokio::test]
async fn sensitive_parts_of_what_tools_say_are_masked_by_role() {
    let gateway = Gateway::new(Users::Many);
    let ticket = gateway
        .open(Wanted {
            before: Some(Ok(json!({ "iban": "CH9300762011623852957", "name": "Lindgren", "pin": "pin 4711" }))),
            sensitive_in_state: &[("/iban", "personal"), ("/pin", "secret")],
            preview: Some(UpstreamPreview::Said(json!({ "balance_after": 918_273, "fee": 12 }))),
            sensitive_in_preview: &[("/balance_after", "personal")],
            ..Wanted::default()
        })
        .await;
    // Cleo sees personal values, Ben does not; nobody sees secrets.
    for (name, sees_personal) in [("ben", false), ("cleo", true)] {
        let mut browser = Browser::with_key(&gateway, name, &[]).await;
        let page = browser.get(&format!("/approvals/{}", ticket.id)).await.html;
        assert!(page.contains("Lindgren") && page.contains("masked for you"), "{name}: {page}");
        for value in ["CH9300762011623852957", "918273"] {
            assert_eq!(page.contains(value), sees_personal, "{name} {value}: {page}");
        }
        assert!(!page.contains("4711"), "{name}: {page}");
    }
}
