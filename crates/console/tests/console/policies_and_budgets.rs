//! The pages of policies and budgets: read only, and each tenant by itself.

use http::{Method, StatusCode};
use servanda_effects::budget::{Account, BudgetDimension, BudgetScope, Period};

use crate::{
    browser::Browser,
    fixture::{Gateway, Users},
};

#[tokio::test]
async fn policies_are_shown_as_text_to_people_with_a_role() {
    let gateway = Gateway::new(Users::Many);
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let html = vera.get("/policies").await.html;
    for shown in [
        "1 policy of the operator and",
        "Environment “staging”",
        "acme.no-voids-at-night",
        "rules.cedar:1",
        "the &#60;b&#62;books&#60;/b&#62; are closed",
        "context.tenant == &#34;acme&#34;",
        "forbids",
        "always.own-tenant",
        "Policies are on trial",
        "trial.nothing",
        "1 policy names another tenant",
        "CRITICAL_MUTATION",
        "2 approvers",
        "acme/vera",
        "group:acme/finance",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    assert!(!html.contains("globex"), "{html}");
    assert!(!html.contains("<b>books"));
}

#[tokio::test]
async fn policies_of_another_tenant_are_not_shown() {
    let gateway = Gateway::new(Users::Many);
    let mut gil = Browser::with_key(&gateway, "globex/gil", &[]).await;
    let html = gil.get("/policies").await.html;
    assert!(html.contains("globex.freeze") && html.contains("globex/gus"), "{html}");
    assert!(!html.contains("acme"), "{html}");
    let mut otto = Browser::with_key(&gateway, "otto", &[]).await;
    let page = otto.get("/policies").await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.html.contains("Your role does not include this page") && !page.html.contains("always."));
}

#[tokio::test]
async fn one_person_reads_the_built_in_policies() {
    let gateway = Gateway::new(Users::One);
    let mut browser = Browser::single_user(&gateway).await;
    let html = browser.get("/policies").await.html;
    assert!(html.contains("The operator has written none") && html.contains("No policies are on trial"), "{html}");
    assert!(html.contains("the user or an approver, signed in just now"), "{html}");
    let html = browser.get("/budgets").await.html;
    assert!(html.contains("No budget has been used yet") && html.contains("critical changes are refused"), "{html}");
}

#[tokio::test]
async fn budgets_are_shown_by_tenant_with_a_bar_and_figures() {
    let gateway = Gateway::new(Users::Many);
    gateway.use_budgets("acme").await;
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let html = vera.get("/budgets").await.html;
    for shown in [
        "caller “ada”, critical, per day",
        "aria-label=\"4 spent and 1 reserved of 10\"",
        "<rect class=\"meter-spent\" width=\"80\" height=\"12\"/>",
        "<rect class=\"meter-reserved\" x=\"80\" width=\"20\" height=\"12\"/>",
        "tenant “acme”, financial in EUR, per day",
        "50.00 spent and 0.00 reserved of 50.00",
        "Begins anew",
        "30 calls in 60 s",
        "company__void_invoice",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    assert!(!html.contains("globex") && !html.contains("77") && !html.contains("foreign__"), "{html}");
    let html = Browser::with_key(&gateway, "globex/gil", &[]).await.get("/budgets").await.html;
    assert!(html.contains("caller “gus”") && html.contains("3 spent and 0 reserved of 77"), "{html}");
    assert!(!html.contains("ada") && !html.contains("acme"), "{html}");
}

#[tokio::test]
async fn a_person_without_a_role_sees_the_accounts_of_their_own_calls() {
    let gateway = Gateway::new(Users::Many);
    gateway.use_budgets("acme").await;
    let scope = BudgetScope::Run {
        tenant: "acme".to_owned(),
        principal: "otto".to_owned(),
        run: "run \u{202e}<i>1</i>".to_owned(),
    };
    let account = Account {
        scope,
        dimension: BudgetDimension::Critical,
        currency: None,
        period: Period::Hour,
        tool: None,
        principal: None,
    };
    gateway.draw(account, 5, 5, true).await;
    let html = Browser::with_key(&gateway, "otto", &[]).await.get("/budgets").await.html;
    assert!(html.contains("run “run &#60;U+202E&#62;&#60;i&#62;1&#60;/i&#62;”"), "{html}");
    assert!(!html.contains("ada") && !html.contains("financial") && !html.contains("Rates"), "{html}");
}

#[tokio::test]
async fn nothing_is_posted_to_these_pages_and_sessions_are_needed() {
    let gateway = Gateway::new(Users::Many);
    let mut vera = Browser::with_key(&gateway, "vera", &[]).await;
    let mut nobody = Browser::new(&gateway);
    for path in ["/policies", "/budgets", "/effects", "/tools"] {
        let page = vera.send(Method::POST, path, &[("sec-fetch-site", "same-origin")], String::new()).await;
        assert_eq!(page.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let page = nobody.get(path).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(page.location(), format!("/sign-in?next=%2F{}", &path[1..]), "the person comes back");
    }
}
