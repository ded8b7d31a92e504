//! Reads the answer that comes back through the user's browser. Anyone can send such a request to the gateway's port, so nothing in it is
//! acted on or shown before its state is ours and its issuer is the one the user was sent to (RFC 9207).

use servanda_authority::Secret;

use crate::token_response::is_error_code;

/// Most bytes of such an answer.
pub const QUERY_BYTES_MAX: usize = 16 << 10;
const PARAMETERS_MAX: usize = 32;

/// What an answer is checked against.
#[derive(Debug, Clone)]
pub struct ExpectedCallback {
    /// The state that was sent.
    pub state: Secret,
    /// The issuer that the user was sent to, as published.
    pub issuer: String,
    /// Whether that server declares that its answers name it.
    pub names_itself: bool,
}

/// Why an answer gives no consent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsentError {
    /// It does not belong to this login: it has another state, or none.
    #[error("the answer does not belong to this login")]
    State,
    /// It is from another server.
    #[error("the answer does not come from the authorization server that was asked")]
    Issuer,
    /// The user or the server refused.
    #[error("consent was refused: {word}")]
    Denied {
        /// The error code, for example `access_denied`.
        word: String,
    },
    /// It is not a valid answer.
    #[error("the answer is not of the expected form")]
    Form,
}

/// The authorization code in an answer.
pub fn read(query: &str, expected: &ExpectedCallback) -> Result<Secret, ConsentError> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(ConsentError::Form);
    }
    let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).take(PARAMETERS_MAX).collect();
    let one = |wanted: &str| {
        let mut found = parameters.iter().filter(|(name, _)| name == wanted);
        match (found.next(), found.next()) {
            (found, None) => Ok(found.map(|(_, value)| value.as_ref())),
            _ => Err(ConsentError::Form),
        }
    };
    let state = one("state")?.ok_or(ConsentError::State)?;
    if aws_lc_rs::constant_time::verify_slices_are_equal(state.as_bytes(), expected.state.expose()).is_err() {
        return Err(ConsentError::State);
    }
    match one("iss")? {
        Some(issuer) if issuer == expected.issuer => {}
        None if !expected.names_itself => {}
        _ => return Err(ConsentError::Issuer),
    }
    if let Some(word) = one("error")? {
        let word = if is_error_code(word) { word } else { "without a reason" };
        return Err(ConsentError::Denied { word: word.to_owned() });
    }
    let code = one("code")?.filter(|code| !code.is_empty()).ok_or(ConsentError::Form)?;
    Ok(Secret::from(code.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(query: &str, names_itself: bool) -> Result<String, ConsentError> {
        let issuer = "https://as.test".to_owned();
        let expected = ExpectedCallback { state: Secret::from("st".to_owned()), issuer, names_itself };
        read(query, &expected).map(|code| code.as_text().unwrap().to_owned())
    }

    #[test]
    fn the_issuer_is_held_against_the_one_that_was_asked() {
        let (good, bad) = ("https%3A%2F%2Fas.test", "https%3A%2F%2Fevil.test");
        // whether the server declares that it names itself, what it names, whether that is accepted: the table of the specification
        let table = [
            (true, Some(good), true),
            (true, Some(bad), false),
            (true, None, false),
            (false, Some(good), true),
            (false, Some(bad), false),
            (false, None, true),
            (true, Some("https%3A%2F%2Fas.test%2F"), false),
            (true, Some("https%3A%2F%2FAS.test"), false),
            (true, Some("https%3A%2F%2Fas.test%3A443"), false),
            (true, Some(""), false),
        ];
        for (names_itself, named, taken) in table {
            let iss = named.map_or_else(String::new, |named| format!("&iss={named}"));
            let expected = if taken { Ok("c".to_owned()) } else { Err(ConsentError::Issuer) };
            assert_eq!(answer(&format!("code=c&state=st{iss}"), names_itself), expected, "{names_itself} {named:?}");
            // On a mismatch not even the refusal is shown.
            let denied = answer(&format!("error=access_denied&state=st{iss}"), names_itself);
            let expected =
                if taken { ConsentError::Denied { word: "access_denied".to_owned() } } else { ConsentError::Issuer };
            assert_eq!(denied, Err(expected));
        }
    }

    #[test]
    fn an_answer_that_is_not_ours_is_not_acted_on() {
        let table = [
            ("code=c", ConsentError::State),
            ("code=c&state=other", ConsentError::State),
            ("code=c&state=", ConsentError::State),
            ("error=access_denied&state=other", ConsentError::State),
            ("code=c&state=st&state=st", ConsentError::Form),
            ("code=c&code=d&state=st", ConsentError::Form),
            ("state=st", ConsentError::Form),
            ("code=&state=st", ConsentError::Form),
            ("error=%3Cscript%3E&state=st", ConsentError::Denied { word: "without a reason".to_owned() }),
        ];
        for (query, expected) in table {
            assert_eq!(answer(query, false), Err(expected), "{query}");
        }
        assert_eq!(
            answer(&format!("code=c&state=st&x={}", "x".repeat(QUERY_BYTES_MAX)), false),
            Err(ConsentError::Form)
        );
    }
}
