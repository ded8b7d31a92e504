//! A person's own passkeys: registering, seeing and removing them.
//!
//! A passkey signs decisions in its person's name, so a session alone makes none and removes none (T31): the sign-in has to be fresh, and a
//! person who has a passkey agrees with it. Without authentication a passkey is registered only in a session that a one-time link opened.

use askama::Template;
use http::StatusCode;
use servanda_authority::{
    CredentialId,
    passkey::{PASSKEY_NAME_CHARS_MAX, RelyingParty, StoredPasskey, passkey_handle},
};
use servanda_contract::{legibility, tool::Presence};
use servanda_doors::http::PageRequest;

use super::{decide::check_token, fault::sign_in_path};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form::Form,
    form_token,
    passkey::{
        PasskeyPurpose, PasskeyRejection, check_assertion, check_registration, creation_options, relying_party,
        request_options,
    },
    reply::ConsoleReply,
    routing::{PASSKEYS, REMOVE_PASSKEY},
    sign_in::PasskeyAdmission,
    view::{Moment, PageFrame, PageNotice},
};

#[derive(Template)]
#[template(path = "passkeys.html")]
struct PasskeysPage {
    frame: PageFrame,
    notice: Option<PageNotice>,
    passkeys: Vec<OwnPasskey>,
    registration: Result<PasskeyForm, PageNotice>,
    name_chars_max: usize,
}

/// A passkey of the person, with the form that removes it.
struct OwnPasskey {
    name: String,
    id: String,
    site: String,
    public_key: String,
    created: Moment,
    removal: Option<PasskeyForm>,
}

/// A form that a passkey answers.
struct PasskeyForm {
    action: &'static str,
    token: String,
    /// The challenge of the new passkey, or of the removal.
    challenge: String,
    /// What the browser is asked: to make a passkey, or to sign with one.
    options: String,
    /// To agree to another passkey: challenge, and what the browser is asked.
    agreement: Option<(String, String)>,
}

/// Shows the person's passkeys.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    shown(context, &viewer, request, StatusCode::OK, None).await
}

/// Registers a passkey.
pub(crate) async fn register(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let form = Form::read(&request.headers, &request.body)?;
    check_token(&viewer, &form, request)?;
    match registered(context, &viewer, request, &form).await {
        Ok(stored) => {
            // Loud, because from now on it decides in the person's name.
            tracing::warn!(
                person = stored.principal,
                tenant = stored.tenant,
                passkey = %stored.credential(),
                name = legibility::one_line(&stored.name),
                site = stored.passkey.rp_id,
                method = viewer.signed_in.record.method.recorded(),
                "a person registered a passkey, which signs decisions in their name from now on; if they did not, revoke it with \
                 `servanda passkeys revoke`"
            );
            Ok(ConsoleReply::redirect(PASSKEYS))
        }
        Err(fault) => refused(context, &viewer, request, "The passkey was not registered", fault).await,
    }
}

/// Removes a passkey.
pub(crate) async fn remove(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let form = Form::read(&request.headers, &request.body)?;
    check_token(&viewer, &form, request)?;
    match removed(context, &viewer, request, &form).await {
        Ok(stored) => {
            tracing::warn!(
                person = stored.principal,
                tenant = stored.tenant,
                passkey = %stored.credential(),
                "a person removed a passkey"
            );
            Ok(ConsoleReply::redirect(PASSKEYS))
        }
        Err(fault) => refused(context, &viewer, request, "The passkey was not removed", fault).await,
    }
}

/// Why a person's passkeys are not changed.
enum PasskeyChangeFault {
    /// The person has to do something else first.
    Closed(PageNotice),
    /// The passkey's answer is not accepted.
    Rejected(PasskeyRejection),
    /// The name is empty or too long.
    Name,
    /// The store did not keep it.
    NotKept(PasskeyAdmission),
}

async fn registered(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    form: &Form<'_>,
) -> Result<StoredPasskey, PasskeyChangeFault> {
    let (record, session) = (&viewer.signed_in.record, &viewer.signed_in.token);
    let own = own_passkeys(context, viewer).await?;
    let (party, key) = may_register(context, viewer, request, &own)?;
    let name = form.field("name").map(str::trim).unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().count() <= PASSKEY_NAME_CHARS_MAX;
    if !is_name || name.chars().any(char::is_control) {
        return Err(PasskeyChangeFault::Name);
    }
    let (challenges, now) = (&context.challenges, context.now());
    let asked = challenges.read(PasskeyPurpose::Registration(session), form.field("challenge"), now).await?;
    let passkey = check_registration(form.field("registration"), (&party, &asked.challenge))?;
    let (tenant, principal) = (record.tenant.clone(), record.principal.clone());
    if !own.is_empty() {
        let purpose = PasskeyPurpose::AnotherPasskey(session);
        let agreement = challenges.read(purpose, form.field("agreement_challenge"), now).await?;
        let handle = passkey_handle(&tenant, &principal);
        let asked = (&party, &agreement.challenge);
        check_assertion(context.authenticator.as_ref(), &handle, form.field("agreement"), asked).await?;
        challenges.use_up(&agreement).await?;
    }
    challenges.use_up(&asked).await?;
    let (version, name) = (StoredPasskey::VERSION, name.to_owned());
    let stored = StoredPasskey { version, tenant, principal, name, key, created_at: now, passkey };
    match context.authenticator.register_passkey(&stored).await.map_err(PasskeyRejection::from)? {
        PasskeyAdmission::Kept => Ok(stored),
        admission => Err(PasskeyChangeFault::NotKept(admission)),
    }
}

async fn removed(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    form: &Form<'_>,
) -> Result<StoredPasskey, PasskeyChangeFault> {
    require_fresh(viewer)?;
    let party = party(context, request)?;
    let wanted = form.field("passkey").unwrap_or_default();
    let own = own_passkeys(context, viewer).await?;
    let stored = own.into_iter().find(|stored| stored.credential().as_str() == wanted);
    let stored = stored.ok_or(PasskeyRejection::Unknown)?;
    let purpose = PasskeyPurpose::Removal(&viewer.signed_in.token, wanted);
    let asked = context.challenges.read(purpose, form.field("challenge"), context.now()).await?;
    let asked_of = (&party, &asked.challenge);
    // Without this, a session that was stolen would remove the passkey and register its own as the first one.
    check_assertion(context.authenticator.as_ref(), &stored.handle(), form.field("assertion"), asked_of).await?;
    context.challenges.use_up(&asked).await?;
    let by = format!("{}/{}", stored.tenant, stored.principal);
    context.authenticator.remove_passkey(&stored, &by).await.map_err(PasskeyRejection::from)?;
    Ok(stored)
}

async fn own_passkeys(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
) -> Result<Vec<StoredPasskey>, PasskeyRejection> {
    let record = &viewer.signed_in.record;
    Ok(context.authenticator.passkeys_of(&record.tenant, &record.principal).await?)
}

fn party(context: &ConsoleContext, request: &PageRequest) -> Result<RelyingParty, PasskeyChangeFault> {
    let authorities = context.engine.authorities();
    let party = relying_party(authorities.approvals().console_url.as_deref(), &request.headers);
    party.ok_or_else(|| PasskeyChangeFault::Closed(no_party()))
}

/// What is said where browsers offer no passkeys.
fn no_party() -> PageNotice {
    PageNotice {
        title: "There are no passkeys at this address".to_owned(),
        text: "Browsers offer passkeys on this machine under a name like servanda.localhost, and elsewhere with https. Open the console at the \
               address that the gateway names when it starts, or at its `approvals.console_url`."
            .to_owned(),
        link: None,
    }
}

fn require_fresh(viewer: &ConsoleViewer) -> Result<(), PasskeyChangeFault> {
    if viewer.signed_in.person.presence >= Presence::Fresh {
        return Ok(());
    }
    Err(PasskeyChangeFault::Closed(PageNotice {
        title: "Sign in again to change your passkeys".to_owned(),
        text: "That needs a sign-in of the last five minutes, and yours is older. You come back to this page."
            .to_owned(),
        link: Some((sign_in_path(Some(PASSKEYS)), "Sign in again")),
    }))
}

/// Whether a passkey may be registered in this session: where, and under which key.
fn may_register(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    own: &[StoredPasskey],
) -> Result<(RelyingParty, Option<CredentialId>), PasskeyChangeFault> {
    let closed = |title: &str, text: String| {
        PasskeyChangeFault::Closed(PageNotice { title: title.to_owned(), text, link: None })
    };
    let party = party(context, request)?;
    let key = viewer.signed_in.record.method.key_of_new_passkey().map_err(|_| {
        if context.authenticator.is_single_user() {
            let text = format!("Sign in with a link from the gateway's terminal first. {}", context.link_hint);
            return closed("A passkey is registered in a session of a one-time link", text);
        }
        let text = "A passkey ends with the key under which it was registered, and your identity provider's sign-in has none. Ask an operator \
                    for a key for people and sign in with it once to register a passkey; it signs decisions in every session of yours.";
        closed("A passkey is registered in a session that a key opened", text.to_owned())
    })?;
    require_fresh(viewer)?;
    if let Some(elsewhere) = own.first()
        && own.iter().all(|stored| stored.passkey.rp_id != party.id())
    {
        let text = format!(
            "Another passkey needs the agreement of one that you have, and yours belong to {}. Open the console there, or ask an operator to \
             revoke them with `servanda passkeys revoke`.",
            elsewhere.passkey.rp_id
        );
        return Err(closed("Your passkeys belong to another address", text));
    }
    Ok((party, key))
}

async fn refused(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    title: &str,
    fault: PasskeyChangeFault,
) -> Result<ConsoleReply, PageFault> {
    let person = &viewer.signed_in.person;
    let notice = |text: String| PageNotice { title: title.to_owned(), text, link: None };
    let (status, notice) = match fault {
        PasskeyChangeFault::Closed(notice) => (StatusCode::FORBIDDEN, notice),
        PasskeyChangeFault::Rejected(PasskeyRejection::Unavailable(unavailable)) => {
            return Err(PageFault::StoreAway(unavailable.to_string()));
        }
        PasskeyChangeFault::Rejected(rejection) => {
            tracing::warn!(person = person.principal, tenant = person.tenant, why = rejection.logged(), title);
            (StatusCode::FORBIDDEN, notice(rejection.words()))
        }
        PasskeyChangeFault::Name => {
            let text = format!("Give it a name of at most {PASSKEY_NAME_CHARS_MAX} characters, on one line.");
            (StatusCode::BAD_REQUEST, notice(text))
        }
        PasskeyChangeFault::NotKept(PasskeyAdmission::TooMany(most)) => {
            (StatusCode::CONFLICT, notice(format!("A person has at most {most} passkeys. Remove one first.")))
        }
        PasskeyChangeFault::NotKept(_) => {
            (StatusCode::CONFLICT, notice("It is registered already, or was revoked: make a new one.".to_owned()))
        }
    };
    shown(context, viewer, request, status, Some(notice)).await
}

async fn shown(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    status: StatusCode,
    notice: Option<PageNotice>,
) -> Result<ConsoleReply, PageFault> {
    let own = own_passkeys(context, viewer).await.map_err(PageFault::from)?;
    let registration = match may_register(context, viewer, request, &own) {
        Ok((party, _)) => Ok(registration_form(context, viewer, &party, &own).await.map_err(PageFault::from)?),
        Err(PasskeyChangeFault::Closed(notice)) => Err(notice),
        Err(_) => Err(no_party()),
    };
    let removes_at = party(context, request).ok().filter(|_| require_fresh(viewer).is_ok());
    let mut passkeys = Vec::with_capacity(own.len());
    for stored in &own {
        let at = removes_at.as_ref().filter(|party| own.iter().any(|own| own.passkey.rp_id == party.id()));
        let removal = match at {
            Some(party) => Some(removal_form(context, viewer, party, stored, &own).await.map_err(PageFault::from)?),
            None => None,
        };
        passkeys.push(OwnPasskey {
            name: legibility::one_line(&stored.name),
            id: stored.credential().to_string(),
            site: stored.passkey.rp_id.clone(),
            public_key: stored.passkey.public_key.clone().into(),
            created: Moment::new(stored.created_at.unix_ms(), context.now()),
            removal,
        });
    }
    let frame = PageFrame::of("Passkeys", &viewer.signed_in);
    let page = PasskeysPage { frame, notice, passkeys, registration, name_chars_max: PASSKEY_NAME_CHARS_MAX };
    Ok(ConsoleReply::page(status, &page))
}

async fn registration_form(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    party: &RelyingParty,
    own: &[StoredPasskey],
) -> Result<PasskeyForm, PasskeyRejection> {
    let (signed_in, now) = (&viewer.signed_in, context.now());
    let minted = context.challenges.mint(PasskeyPurpose::Registration(&signed_in.token), now).await?;
    let agreement = if own.is_empty() {
        None
    } else {
        let agreement = context.challenges.mint(PasskeyPurpose::AnotherPasskey(&signed_in.token), now).await?;
        Some((agreement.text, request_options(party, &agreement.challenge, own)))
    };
    let (tenant, principal) = (&signed_in.record.tenant, &signed_in.record.principal);
    let person = (passkey_handle(tenant, principal), format!("{tenant}/{principal}"));
    Ok(PasskeyForm {
        action: PASSKEYS,
        token: form_token::make(&signed_in.token, PASSKEYS),
        challenge: minted.text,
        options: creation_options(party, (&person.0, &person.1), &minted.challenge, own),
        agreement,
    })
}

async fn removal_form(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    party: &RelyingParty,
    stored: &StoredPasskey,
    own: &[StoredPasskey],
) -> Result<PasskeyForm, PasskeyRejection> {
    let (session, id) = (&viewer.signed_in.token, stored.credential());
    let minted = context.challenges.mint(PasskeyPurpose::Removal(session, id.as_str()), context.now()).await?;
    Ok(PasskeyForm {
        action: REMOVE_PASSKEY,
        token: form_token::make(session, REMOVE_PASSKEY),
        challenge: minted.text,
        options: request_options(party, &minted.challenge, own),
        agreement: None,
    })
}

impl From<PasskeyRejection> for PasskeyChangeFault {
    fn from(rejection: PasskeyRejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<PasskeyRejection> for PageFault {
    /// The fault of showing a page; whatever a passkey answered is said on the page itself.
    fn from(rejection: PasskeyRejection) -> Self {
        Self::StoreAway(rejection.logged())
    }
}
