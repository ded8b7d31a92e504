//! Which page an address means.

use http::Method;

use crate::{assets, fault::PageFault};

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConsoleRoute {
    /// The first page: the overview.
    Home,
    /// The calls.
    Calls,
    /// News about the calls.
    CallEvents,
    /// One call.
    Call(String),
    /// A file.
    Asset(String),
    /// The ways to sign in.
    SignInPage,
    /// Signing in with a credential.
    SignIn,
    /// The page of a one-time link.
    LinkPage(String),
    /// Using a one-time link.
    UseLink(String),
    /// Signing in with a passkey.
    SignInWithPasskey,
    /// Being sent to the identity provider.
    SignInWithProvider,
    /// Coming back from there.
    ProviderAnswer,
    /// Signing out.
    SignOut,
    /// The person's passkeys.
    Passkeys,
    /// Registering a passkey.
    RegisterPasskey,
    /// Removing a passkey.
    RemovePasskey,
    /// The tickets.
    Inbox,
    /// News about the tickets.
    InboxEvents,
    /// Some tickets, to be decided together.
    Review,
    /// Deciding about some tickets.
    DecideTogether,
    /// One ticket.
    Ticket(String),
    /// Deciding about one ticket.
    Decide(String),
    /// The grants.
    Grants,
    /// One grant, or the form that makes one.
    Grant(String),
    /// Making or taking back one grant.
    ChangeGrant(String),
    /// The effects.
    Effects,
    /// One effect.
    Effect(String),
    /// Settling one effect.
    SettleEffect(String),
    /// The tools.
    Tools,
    /// One tool.
    Tool(String),
    /// Holding back or releasing one tool.
    ChangeHold(String),
    /// The policies.
    Policies,
    /// The budgets.
    Budgets,
}

/// The address of the first page.
pub(crate) const HOME: &str = "/";
/// The address of the calls.
pub(crate) const CALLS: &str = "/calls";
/// The address of news about the calls.
pub(crate) const CALL_EVENTS: &str = "/calls/events";
/// The address of the tickets.
pub(crate) const INBOX: &str = "/approvals";
/// The address of news about the tickets.
pub(crate) const INBOX_EVENTS: &str = "/approvals/events";
/// The address of the page on which some tickets are reviewed.
pub(crate) const REVIEW: &str = "/approvals/review";
/// The address of the grants.
pub(crate) const GRANTS: &str = "/grants";
/// The address of the effects.
pub(crate) const EFFECTS: &str = "/effects";
/// The address of the tools.
pub(crate) const TOOLS: &str = "/tools";
/// The address of the policies.
pub(crate) const POLICIES: &str = "/policies";
/// The address of the budgets.
pub(crate) const BUDGETS: &str = "/budgets";
/// The pages to which a person may be sent after signing in, with what is below them.
const SECTIONS: [&str; 7] = [INBOX, GRANTS, CALLS, EFFECTS, TOOLS, POLICIES, BUDGETS];
/// The address of the page of ways to sign in.
pub(crate) const SIGN_IN: &str = "/sign-in";
/// The address at which a passkey signs in.
pub(crate) const SIGN_IN_PASSKEY: &str = "/sign-in/passkey";
/// The address at which a person is sent to the identity provider.
pub(crate) const SIGN_IN_PROVIDER: &str = "/sign-in/oidc";
/// The address to which the person comes back from there. Operators register it with the provider.
pub(crate) const PROVIDER_ANSWER: &str = "/sign-in/oidc/answer";
/// The address of a person's passkeys.
pub(crate) const PASSKEYS: &str = "/passkeys";
/// The address at which a passkey is removed.
pub(crate) const REMOVE_PASSKEY: &str = "/passkeys/remove";

/// The longest part of an address that names something.
const NAME_BYTES_MAX: usize = 128;
/// The longest address to which a person is sent after signing in.
const TARGET_BYTES_MAX: usize = 1_024;

impl ConsoleRoute {
    /// What a method and a path mean.
    pub(crate) fn read(method: &Method, path: &str) -> Result<Self, PageFault> {
        let reads = *method == Method::GET || *method == Method::HEAD;
        let posts = *method == Method::POST;
        let pick = |page: Option<Self>, form: Option<Self>| match (page, form) {
            (Some(page), _) if reads => Ok(page),
            (_, Some(form)) if posts => Ok(form),
            (Some(_), Some(_)) => Err(PageFault::Method("GET, POST")),
            (Some(_), None) => Err(PageFault::Method("GET")),
            (None, _) => Err(PageFault::Method("POST")),
        };
        match path {
            HOME => return pick(Some(Self::Home), None),
            CALLS => return pick(Some(Self::Calls), None),
            CALL_EVENTS => return pick(Some(Self::CallEvents), None),
            INBOX => return pick(Some(Self::Inbox), None),
            INBOX_EVENTS => return pick(Some(Self::InboxEvents), None),
            REVIEW => return pick(Some(Self::Review), Some(Self::DecideTogether)),
            GRANTS => return pick(Some(Self::Grants), None),
            EFFECTS => return pick(Some(Self::Effects), None),
            TOOLS => return pick(Some(Self::Tools), None),
            POLICIES => return pick(Some(Self::Policies), None),
            BUDGETS => return pick(Some(Self::Budgets), None),
            SIGN_IN => return pick(Some(Self::SignInPage), Some(Self::SignIn)),
            SIGN_IN_PASSKEY => return pick(None, Some(Self::SignInWithPasskey)),
            SIGN_IN_PROVIDER => return pick(None, Some(Self::SignInWithProvider)),
            PROVIDER_ANSWER => return pick(Some(Self::ProviderAnswer), None),
            PASSKEYS => return pick(Some(Self::Passkeys), Some(Self::RegisterPasskey)),
            REMOVE_PASSKEY => return pick(None, Some(Self::RemovePasskey)),
            "/sign-out" => return pick(None, Some(Self::SignOut)),
            _ => {}
        }
        if assets::find(path).is_some() {
            return pick(Some(Self::Asset(path.to_owned())), None);
        }
        if let Some(token) = path.strip_prefix("/sign-in/").filter(|token| is_name(token)) {
            return pick(Some(Self::LinkPage(token.to_owned())), Some(Self::UseLink(token.to_owned())));
        }
        if let Some(id) = path.strip_prefix("/grants/").filter(|id| is_name(id)) {
            return pick(Some(Self::Grant(id.to_owned())), Some(Self::ChangeGrant(id.to_owned())));
        }
        if let Some(id) = path.strip_prefix("/effects/").filter(|id| is_name(id)) {
            return pick(Some(Self::Effect(id.to_owned())), Some(Self::SettleEffect(id.to_owned())));
        }
        if let Some(name) = path.strip_prefix("/tools/").filter(|name| is_name(name)) {
            return pick(Some(Self::Tool(name.to_owned())), Some(Self::ChangeHold(name.to_owned())));
        }
        if let Some(id) = path.strip_prefix("/calls/").filter(|id| is_name(id)) {
            return pick(Some(Self::Call(id.to_owned())), None);
        }
        match path.strip_prefix("/approvals/").filter(|id| is_name(id)) {
            Some(id) => pick(Some(Self::Ticket(id.to_owned())), Some(Self::Decide(id.to_owned()))),
            None => Err(PageFault::NotFound),
        }
    }
}

/// The address of a ticket.
pub(crate) fn ticket_path(id: &str) -> String {
    format!("{INBOX}/{id}")
}

/// The address of a call.
pub(crate) fn call_path(id: &str) -> String {
    format!("{CALLS}/{id}")
}

/// The address of a ticket's grant.
pub(crate) fn grant_path(id: &str) -> String {
    format!("{GRANTS}/{id}")
}

/// The address of an effect.
pub(crate) fn effect_path(id: &str) -> String {
    format!("{EFFECTS}/{id}")
}

/// The address of a tool.
pub(crate) fn tool_path(name: &str) -> String {
    format!("{TOOLS}/{name}")
}

/// An address of this console to which a person may be sent after signing in; the first page for everything else.
pub(crate) fn safe_target(target: Option<&str>) -> &str {
    let is_ours = |target: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/?&=_-.%+*".contains(&byte);
        let below = |section: &str| {
            let rest = target.strip_prefix(section);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        };
        // Below the page of passkeys there are only forms.
        target == PASSKEYS
            || (target.len() <= TARGET_BYTES_MAX && target.bytes().all(plain) && SECTIONS.into_iter().any(below))
    };
    target.filter(|target| is_ours(target)).unwrap_or(INBOX)
}

/// Whether a part of a path can be an id or a token.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The id that a text from an address or a form names. None if no id looks like that: such a text does not reach a store.
pub(crate) fn read_id<T: From<String>>(text: &str) -> Option<T> {
    is_name(text).then(|| T::from(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_can_be_ids_are_read() {
        assert_eq!(read_id::<String>("apr_0190-x").as_deref(), Some("apr_0190-x"));
        for text in ["", "a\0b", "\0", "a b", "a/b", "é", "a%00", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(read_id::<String>(text), None, "{text:?}");
        }
    }

    #[test]
    fn addresses() {
        let read = |method: Method, path: &str| ConsoleRoute::read(&method, path).ok();
        let style = &assets::links().style;
        for (method, path, expected) in [
            (Method::GET, "/", Some(ConsoleRoute::Home)),
            (Method::HEAD, "/approvals", Some(ConsoleRoute::Inbox)),
            (Method::POST, "/approvals", None),
            (Method::GET, "/approvals/apr_1", Some(ConsoleRoute::Ticket("apr_1".to_owned()))),
            (Method::POST, "/approvals/apr_1", Some(ConsoleRoute::Decide("apr_1".to_owned()))),
            (Method::DELETE, "/approvals/apr_1", None),
            (Method::GET, "/approvals/", None),
            (Method::GET, "/approvals/a/b", None),
            (Method::GET, "/approvals/..", None),
            (Method::GET, "/approvals/%2e%2e", None),
            (Method::GET, "/approvals/review", Some(ConsoleRoute::Review)),
            (Method::GET, "/sign-out", None),
            (Method::POST, "/sign-in", Some(ConsoleRoute::SignIn)),
            (Method::POST, "/sign-in/passkey", Some(ConsoleRoute::SignInWithPasskey)),
            (Method::GET, "/sign-in/passkey", None),
            (Method::POST, "/sign-in/oidc", Some(ConsoleRoute::SignInWithProvider)),
            (Method::GET, "/sign-in/oidc", None),
            (Method::GET, "/sign-in/oidc/answer", Some(ConsoleRoute::ProviderAnswer)),
            (Method::POST, "/sign-in/oidc/answer", None),
            (Method::POST, "/passkeys", Some(ConsoleRoute::RegisterPasskey)),
            (Method::GET, "/passkeys/remove", None),
            (Method::GET, "/sign-in/x", Some(ConsoleRoute::LinkPage("x".to_owned()))),
            (Method::GET, style, Some(ConsoleRoute::Asset(style.clone()))),
            (Method::GET, "/assets/console.css", None),
            (Method::GET, "/grants", Some(ConsoleRoute::Grants)),
            (Method::POST, "/grants", None),
            (Method::GET, "/grants/apr_1", Some(ConsoleRoute::Grant("apr_1".to_owned()))),
            (Method::POST, "/grants/apr_1", Some(ConsoleRoute::ChangeGrant("apr_1".to_owned()))),
            (Method::GET, "/grants/a/b", None),
            (Method::GET, "/effects", Some(ConsoleRoute::Effects)),
            (Method::POST, "/effects", None),
            (Method::GET, "/effects/eff_1", Some(ConsoleRoute::Effect("eff_1".to_owned()))),
            (Method::POST, "/effects/eff_1", Some(ConsoleRoute::SettleEffect("eff_1".to_owned()))),
            (Method::GET, "/effects/..", None),
            (Method::GET, "/tools", Some(ConsoleRoute::Tools)),
            (Method::POST, "/tools/company__pay", Some(ConsoleRoute::ChangeHold("company__pay".to_owned()))),
            (Method::GET, "/policies", Some(ConsoleRoute::Policies)),
            (Method::POST, "/policies", None),
            (Method::GET, "/budgets", Some(ConsoleRoute::Budgets)),
            (Method::GET, "/calls", Some(ConsoleRoute::Calls)),
            (Method::GET, "/calls/events", Some(ConsoleRoute::CallEvents)),
            (Method::GET, "/calls/call_1", Some(ConsoleRoute::Call("call_1".to_owned()))),
            (Method::POST, "/calls/call_1", None),
            (Method::GET, "/calls/..", None),
            (Method::GET, "/nothing", None),
            (Method::GET, "//approvals", None),
        ] {
            assert_eq!(read(method.clone(), path), expected, "{method} {path}");
        }
    }

    #[test]
    fn people_are_sent_only_to_pages_of_this_console() {
        for (target, expected) in [
            (Some("/approvals/apr_1"), "/approvals/apr_1"),
            (Some("/approvals?state=all&before=apr_1"), "/approvals?state=all&before=apr_1"),
            (Some("/grants/apr_1"), "/grants/apr_1"),
            (Some("/grantsx"), INBOX),
            (Some("/effects"), "/effects"),
            (Some("/effects?state=all"), "/effects?state=all"),
            (Some("/tools/company__pay"), "/tools/company__pay"),
            (Some("/toolsx"), INBOX),
            (Some("/calls?tool=a%20b&before=1.call_1"), "/calls?tool=a%20b&before=1.call_1"),
            (Some("/calls/call_1"), "/calls/call_1"),
            (Some("/callsx"), INBOX),
            (Some("//evil.example"), INBOX),
            (Some("https://evil.example"), INBOX),
            (Some("/approvals/\r\nx: y"), INBOX),
            (Some("/\\evil.example"), INBOX),
            (Some("/approvalsx"), INBOX),
            (Some("/passkeys"), "/passkeys"),
            (Some("/passkeys/remove"), INBOX),
            (Some("/sign-out"), INBOX),
            (Some("/sign-in/oidc/answer?code=x"), INBOX),
            (None, INBOX),
        ] {
            assert_eq!(safe_target(target), expected, "{target:?}");
        }
    }
}
