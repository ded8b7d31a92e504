//! The token in a form: proof that this session's own page made the form. It is computed from the session's secret, so that every gateway that
//! knows the session accepts it and nothing is stored.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::session::SessionToken;

const DOMAIN: &[u8] = b"servanda/console-form/v1\0";

/// The token of a form that posts to `action`.
pub(crate) fn make(session: &SessionToken, action: &str) -> String {
    code(session, action).map(|code| URL_SAFE_NO_PAD.encode(code.finalize().into_bytes())).unwrap_or_default()
}

/// Whether a form that was posted to `action` has the session's token.
pub(crate) fn is_valid(session: &SessionToken, action: &str, token: &str) -> bool {
    let Ok(presented) = URL_SAFE_NO_PAD.decode(token) else { return false };
    code(session, action).is_some_and(|code| code.verify_slice(&presented).is_ok())
}

fn code(session: &SessionToken, action: &str) -> Option<Hmac<Sha256>> {
    // A MAC takes keys of every length.
    let mut code = Hmac::<Sha256>::new_from_slice(session.secret()).ok()?;
    code.update(DOMAIN);
    code.update(action.as_bytes());
    Some(code)
}
