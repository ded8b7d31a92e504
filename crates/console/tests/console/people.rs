//! Keys of people and keys of agents: neither opens the other's door.

use http::{HeaderValue, StatusCode};
use servanda_doors::http::{AuthRejection, Authenticator as _};

use crate::{
    browser::Browser,
    fixture::{Gateway, Users},
};

#[tokio::test]
async fn only_a_key_for_people_signs_in() {
    let gateway = Gateway::new(Users::Many);
    let mut browser = Browser::new(&gateway);
    let (_, agents) = gateway.key("ada", &[], &["company:read"]).await;
    let (_, nothing) = gateway.key("ada", &[], &[]).await;
    let (_, peoples) = gateway.key("ada", &[], &["servanda:console"]).await;
    let garbled = format!("{}x", &peoples[..peoples.len() - 1]);
    for (wrong, said) in [
        (agents.as_str(), "This credential is for agents."),
        (nothing.as_str(), "This credential is for agents."),
        (garbled.as_str(), "No key for people reads like this."),
        ("svk_", "No key for people reads like this."),
        ("sva1.abc", "No key for people reads like this."),
        ("a.b.c", "No key for people reads like this."),
        ("", "No key was entered"),
    ] {
        let page = browser.post("/sign-in", &[("key", wrong)]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{wrong}");
        assert!(page.html.contains(said), "{wrong}: {}", page.html);
        assert!(wrong.len() < 5 || !page.html.contains(wrong), "the page does not repeat it");
        assert!(browser.cookie.is_none());
        if !wrong.is_empty() {
            let logged = page.wrong_credential.unwrap();
            assert!(wrong.len() < 5 || !logged.contains(wrong), "{logged}");
        }
    }
    let page = browser.post("/sign-in", &[("key", &format!("  {peoples}\n"))]).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_key_for_people_is_refused_at_the_door_for_agents() {
    let gateway = Gateway::new(Users::Many);
    let (_, agents) = gateway.key("ada", &[], &["company:read"]).await;
    let (_, peoples) = gateway.key("ada", &[], &["servanda:console", "company:read"]).await;
    let admit = async |key: &str| {
        let header = HeaderValue::from_str(&format!("Bearer {key}")).unwrap();
        gateway.authenticator.admit(Some(&header)).await
    };
    assert!(admit(&agents).await.is_ok());
    match admit(&peoples).await {
        Err(AuthRejection::Challenged { challenge, message, wrong, .. }) => {
            assert_eq!(challenge.status, 401);
            assert_eq!(
                message,
                "this credential is for people who sign in to the console; agents need one of their own"
            );
            assert!(wrong.unwrap().starts_with("the credential `key:"));
        }
        other => panic!("{other:?}"),
    }
    let form = format!(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={peoples}\
         &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&scope=company%3Aread\
         &servanda_terms=%7B%22agent%22%3A%22planner%22%7D"
    );
    let exchanged = gateway.authenticator.exchange(form.into()).await.unwrap();
    assert_ne!(exchanged.status, 200, "nor can an agent's credential be made of it");
    assert!(exchanged.wrong_credential.is_some());
    let form = format!(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={agents}\
         &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&scope=company%3Aread\
         &servanda_terms=%7B%22agent%22%3A%22planner%22%7D"
    );
    let exchanged = gateway.authenticator.exchange(form.into()).await.unwrap();
    assert_eq!(exchanged.status, 200, "the same with a key for agents: {:?}", exchanged.body);
}
