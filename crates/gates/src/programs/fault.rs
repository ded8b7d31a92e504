//! What is wrong with one argument, in words: what was expected, and what is there instead.

use servanda_contract::FieldError;

/// What is wrong with one argument.
pub(super) struct ProgramFault {
    pub(super) expected: String,
    pub(super) actual: String,
    pub(super) message: String,
}

impl ProgramFault {
    pub(super) fn another_request() -> Self {
        Self {
            expected: "arguments of one HTTP request".to_owned(),
            actual: "a text with line ends or other control characters outside the body, or with another protocol"
                .to_owned(),
            message: "a text among the arguments would end the request or send it by another protocol".to_owned(),
        }
    }

    pub(super) fn overridden() -> Self {
        Self {
            expected: "a request without a method override".to_owned(),
            actual: "a header or a parameter that asks for another method".to_owned(),
            message: "the arguments ask the server to treat the request as another method, and this tool only reads"
                .to_owned(),
        }
    }

    pub(super) fn not_a_text() -> Self {
        Self {
            expected: "a text".to_owned(),
            actual: "something else".to_owned(),
            message: "this must be a text: the gateway cannot tell what another value would do".to_owned(),
        }
    }

    pub(super) fn at(self, pointer: &str) -> FieldError {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        let message = format!("`{field}`: {}", self.message);
        let (expected, actual, pointer) = (self.expected, self.actual, pointer.to_owned());
        FieldError { field, pointer, expected, actual, message, did_you_mean: None }
    }
}
