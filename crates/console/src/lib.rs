//! The console: pages on which people see what agents ask for, and decide.
//!
//! Responsible for what a browser gets and sends: pages, forms, cookies and sessions, and who the person behind a session is. A page decides
//! nothing by itself: every decision goes through the engine with an authenticated person, and the store has the last word.
//!
//! Deliberately absent: SQL, credentials and their checks (the crate `authn`), policy, and TLS.

mod assets;
mod console;
mod context;
mod cookie;
mod fault;
mod form;
mod form_token;
mod origin_check;
mod pages;
mod passkey;
mod reply;
mod routing;
mod security_headers;
mod session;
mod sign_in;
mod view;

pub use console::{Console, ConsoleParts};
pub use session::SESSIONS_PER_PERSON_MAX;
pub use sign_in::{
    AuthenticatedPerson, OneTimeLink, OneTimeLinks, PasskeyAdmission, PersonAuthenticator, PersonPasskeys,
    PersonProvider, PersonRejection, ProviderAttempt, ProviderDescription, ProviderRefusal, SignInMethod,
    SignInUnavailable,
};
