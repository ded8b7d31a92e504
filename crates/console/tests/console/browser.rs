//! A browser without scripts: it keeps a cookie, fills in forms that pages have, and follows redirections. On every answer it checks the headers
//! that every answer must have.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use serde_json::Value;
use servanda_console::Console;
use servanda_doors::http::{PageBody, PageRequest, Pages as _};

use crate::fixture::Gateway;

pub(crate) const HOST: &str = "127.0.0.1:7332";
/// Another name of the same place, at which browsers offer passkeys.
pub(crate) const OWN_NAME: &str = "servanda.localhost:7332";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; font-src 'none'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[derive(Debug, Clone)]
pub(crate) struct Browser {
    pub(crate) console: Console,
    pub(crate) cookie: Option<String>,
    /// The cookie of an attempt to sign in through the identity provider.
    pub(crate) attempt: Option<String>,
    /// The address at which it reaches the console.
    pub(crate) host: &'static str,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) html: String,
    pub(crate) wrong_credential: Option<String>,
}

/// A form of a page: where it posts to, and its hidden fields.
#[derive(Debug, Clone)]
pub(crate) struct FoundForm {
    pub(crate) action: String,
    pub(crate) fields: Vec<(String, String)>,
    /// What the page's script asks passkeys, by the field that the answer goes into.
    pub(crate) asked: BTreeMap<String, Value>,
}

impl FoundForm {
    /// The same with other values in some of its fields.
    pub(crate) fn with(&self, values: &[(&str, &str)]) -> Self {
        let mut form = self.clone();
        for (name, value) in values {
            form.fields.retain(|(own, _)| own != name);
            form.fields.push(((*name).to_owned(), (*value).to_owned()));
        }
        form
    }

    /// The same for another address.
    pub(crate) fn at(mut self, action: &str) -> Self {
        action.clone_into(&mut self.action);
        self
    }

    /// The value of a field.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.fields.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }
}

impl Browser {
    pub(crate) fn new(gateway: &Gateway) -> Self {
        Self { console: gateway.console.clone(), cookie: None, attempt: None, host: HOST }
    }

    /// A browser that opens the console under the name at which browsers offer passkeys.
    pub(crate) fn at_own_name(gateway: &Gateway) -> Self {
        Self { host: OWN_NAME, ..Self::new(gateway) }
    }

    /// The browser of the one person, signed in with a one-time link.
    pub(crate) async fn single_user(gateway: &Gateway) -> Self {
        let mut browser = Self::new(gateway);
        let page = browser.post(&gateway.links.issue().unwrap().path(), &[]).await;
        assert_eq!((page.status, page.location()), (StatusCode::SEE_OTHER, "/approvals"));
        browser
    }

    /// The browser of a person, signed in with a key.
    pub(crate) async fn with_key(gateway: &Gateway, principal: &str, groups: &[&str]) -> Self {
        let (_, key) = gateway.key(principal, groups, &["servanda:console"]).await;
        let mut browser = Self::new(gateway);
        let page = browser.post("/sign-in", &[("key", &key)]).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.html);
        browser
    }

    pub(crate) async fn get(&mut self, path: &str) -> Page {
        self.send(
            Method::GET,
            path,
            &[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate")],
            String::new(),
        )
        .await
    }

    /// Comes to an address from another site, as browsers do that keep strict cookies back.
    pub(crate) async fn arrive(&mut self, path: &str) -> Page {
        let (cookie, attempt) = (self.cookie.take(), self.attempt.take());
        let headers = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        let page = self.send(Method::GET, path, &headers, String::new()).await;
        self.cookie = self.cookie.take().or(cookie);
        self.attempt = self.attempt.take().or(attempt);
        page
    }

    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = format!("http://{}", self.host);
        self.post_with(path, fields, &[("sec-fetch-site", "same-origin"), ("origin", &origin)]).await
    }

    pub(crate) async fn post_with(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&'static str, &str)],
    ) -> Page {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        self.send(Method::POST, path, &[headers, &kind].concat(), body).await
    }

    /// Posts a form as the page has it, with further fields.
    pub(crate) async fn submit(&mut self, form: &FoundForm, more: &[(&str, &str)]) -> Page {
        let own = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<_> = own.chain(more.iter().copied()).collect();
        self.post(&form.action, &fields).await
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: String,
    ) -> Page {
        let mut map = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(self.host))]);
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        for cookie in self.cookie.iter().chain(&self.attempt) {
            map.append(header::COOKIE, HeaderValue::from_str(cookie).unwrap());
        }
        let request = PageRequest {
            method,
            uri: path.parse::<Uri>().unwrap(),
            headers: map,
            body: Bytes::from(body),
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let response = self.console.answer(request).await;
        let html = match response.body {
            PageBody::Whole(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            PageBody::Events(mut events) => {
                let first = tokio::time::timeout(Duration::from_millis(100), events.next()).await;
                first.ok().flatten().map(|frame| String::from_utf8_lossy(&frame).into_owned()).unwrap_or_default()
            }
        };
        let page = Page {
            status: response.status,
            headers: response.headers,
            html,
            wrong_credential: response.wrong_credential,
        };
        page.check(path);
        for set in page.headers.get_all(header::SET_COOKIE) {
            let set = set.to_str().unwrap();
            assert!(
                set.ends_with("; Path=/; Secure; HttpOnly; SameSite=Strict") || set.contains("; Max-Age=0"),
                "{set}"
            );
            let pair = set.split(';').next().unwrap_or_default();
            let kept = (!pair.ends_with('=')).then(|| pair.to_owned());
            if pair.starts_with("__Host-servanda-sign-in=") { self.attempt = kept } else { self.cookie = kept }
        }
        page
    }
}

impl Page {
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn location(&self) -> &str {
        self.header(header::LOCATION).unwrap_or_default()
    }

    /// The address to which the page leads by itself.
    pub(crate) fn refresh(&self) -> String {
        let tag =
            self.html.split("http-equiv=\"refresh\"").nth(1).unwrap_or_else(|| panic!("no refresh: {}", self.html));
        attribute(tag, "content").trim_start_matches("0;url=").to_owned()
    }

    /// The form that posts to an address.
    pub(crate) fn form_to(&self, action: &str) -> FoundForm {
        self.forms()
            .into_iter()
            .find(|form| form.action == action)
            .unwrap_or_else(|| panic!("no form to {action}: {}", self.html))
    }

    /// The form that posts this verdict.
    pub(crate) fn form(&self, verdict: &str) -> FoundForm {
        let wanted = ("verdict".to_owned(), verdict.to_owned());
        self.forms()
            .into_iter()
            .find(|form| form.fields.contains(&wanted))
            .unwrap_or_else(|| panic!("no form to {verdict}"))
    }

    pub(crate) fn has_form(&self, verdict: &str) -> bool {
        self.forms().iter().any(|form| form.fields.contains(&("verdict".to_owned(), verdict.to_owned())))
    }

    /// The forms that post, with their hidden fields.
    pub(crate) fn forms(&self) -> Vec<FoundForm> {
        let forms = self.html.split("<form ").skip(1).filter(|form| form.contains("method=\"post\""));
        forms
            .map(|form| {
                let form = form.split("</form>").next().unwrap_or_default();
                let fields = form.split("<input type=\"hidden\" ").skip(1);
                let fields = fields.map(|field| (attribute(field, "name"), attribute(field, "value"))).collect();
                let asked = form.split("<input type=\"hidden\" ").skip(1).filter_map(|field| {
                    let text =
                        [attribute(field, "data-get"), attribute(field, "data-create")].concat().replace("&#34;", "\"");
                    Some((attribute(field, "name"), serde_json::from_str(&text).ok()?))
                });
                FoundForm { action: attribute(form, "action"), asked: asked.collect(), fields }
            })
            .collect()
    }

    /// What every answer must have, whatever was asked.
    fn check(&self, path: &str) {
        assert_eq!(self.header(header::CONTENT_SECURITY_POLICY), Some(POLICY), "{path}");
        assert_eq!(self.header(header::X_CONTENT_TYPE_OPTIONS), Some("nosniff"), "{path}");
        assert_eq!(self.header(header::REFERRER_POLICY), Some("no-referrer"), "{path}");
        for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
            assert_eq!(self.header(HeaderName::from_static(name)), Some("same-origin"), "{path}");
        }
        let cache = self.header(header::CACHE_CONTROL).unwrap();
        assert!(cache == "no-store" || path.starts_with("/assets/"), "{path}: {cache}");
        if self.header(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html")) {
            self.check_html(path);
        }
    }

    /// A page has no script, style or handler in it, and names no other site.
    fn check_html(&self, path: &str) {
        let tags = self.html.split('<').skip(1).map(|tag| tag.split('>').next().unwrap_or_default());
        for tag in tags {
            let name = tag.split_ascii_whitespace().next().unwrap_or_default();
            assert!(name != "style", "{path}: {tag}");
            assert!(name != "script" || tag.contains("src=\"/assets/"), "{path}: {tag}");
            for attribute in tag.split('"').step_by(2) {
                let attribute = attribute.trim().to_ascii_lowercase();
                let wrong = ["on", "style=", "hx-on", "js:"].iter().any(|start| attribute.starts_with(start));
                assert!(!wrong, "{path}: {tag}");
            }
            for name in ["href", "src", "action", "formaction", "srcset", "content"] {
                let value = attribute(tag, &format!(" {name}"));
                // The one page that leads elsewhere: to the provider, which is on this machine in tests.
                if path == "/sign-in/oidc" && value.contains("://") {
                    assert!(value.trim_start_matches("0;url=").starts_with("http://127.0.0.1:"), "{path}: {tag}");
                    continue;
                }
                assert!(!value.contains("//") && !value.contains("javascript:"), "{path}: {tag}");
            }
        }
    }
}

fn attribute(tag: &str, name: &str) -> String {
    let value =
        tag.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest.split('"').next().unwrap_or_default());
    value.replace("&#38;", "&").replace("&#39;", "'").replace("&amp;", "&")
}
