//! The numbers that stand for names in stored records. A number is never reused for another name. A name that
//! is added to the contract needs a number here, else this does not compile.

use servanda_contract::{
    GateName, TaxonomyClass,
    record::{Decision, Outcome},
    tool::EffectClass,
};

use super::bytes::{Decoder, MalformedBytes};

/// A name that is stored as a number.
pub(super) trait StoredAsNumber: Sized {
    fn stored_number(self) -> u8;
    fn from_stored(number: u8) -> Option<Self>;
}

/// The name that the next byte stands for.
pub(super) fn named<T: StoredAsNumber>(from: &mut Decoder<'_>) -> Result<T, MalformedBytes> {
    T::from_stored(from.byte()?).ok_or(MalformedBytes("it has an unknown name"))
}

macro_rules! numbered {
    ($type:ident { $($name:ident = $number:literal,)+ }) => {
        impl StoredAsNumber for $type {
            fn stored_number(self) -> u8 {
                match self { $(Self::$name => $number,)+ }
            }

            fn from_stored(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)+ _ => None }
            }
        }
    };
}

numbered!(GateName {
    Resolve = 0,
    Parse = 1,
    Structure = 2,
    Types = 3,
    Bounds = 4,
    Semantics = 5,
    Behaviour = 6,
    Scope = 7,
    Policy = 8,
    State = 9,
    Confirmation = 10,
    Budget = 11,
    Fence = 12,
    Perform = 13,
    Observe = 14,
});

numbered!(Decision {
    Passed = 0,
    Refused = 1,
    Skipped = 2,
});

numbered!(Outcome {
    Refused = 0,
    Dispatching = 1,
    Completed = 2,
    ToolError = 3,
    NotExecuted = 4,
    Quarantined = 5,
    Unknown = 6,
    InputRequired = 7,
    TaskCreated = 8,
    Replayed = 9,
    Previewed = 10,
});

numbered!(EffectClass {
    R = 0,
    K = 1,
    Q = 2,
    N = 3,
});

numbered!(TaxonomyClass {
    Success = 0,
    PartialSuccess = 1,
    SyntacticParseFail = 2,
    StructuralViolation = 3,
    TypeMismatch = 4,
    OutOfBounds = 5,
    SemanticInvalidity = 6,
    PermissionDenied = 7,
    PolicyViolation = 8,
    StaleState = 9,
    ConfirmationMissing = 10,
    BudgetExhausted = 11,
    RateLimited = 12,
    Timeout = 13,
    IdempotencyConflict = 14,
    SignatureMismatch = 15,
    DependencyUnavailable = 16,
    ObservationNormalizationFail = 17,
    CompensationRequired = 18,
    CompensationFailed = 19,
    UnknownError = 20,
});
