//! What an upstream does with one call: a list of steps, written as `effect,reset`. Several calls of one business id follow
//! several scripts, separated by `|`; after the last one, the upstream behaves correctly.

/// The correct behaviour.
pub const HONEST: &str = "effect,answer";

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Performs the call's effect.
    Effect,
    /// Waits until the trial releases it.
    Hold,
    /// Waits.
    Delay(u64),
    /// Answers correctly.
    Answer,
    /// Answers twice in one stream, with two different answers.
    Twice,
    /// Answers with so many thousandths of an answer and closes.
    Cut(u64),
    /// Answers with an error of the protocol.
    RpcError,
    /// Answers with a status of HTTP.
    Status(u16),
    /// Answers with a result that its schema forbids.
    BadSchema,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Never answers, and keeps the connection.
    Never,
}

/// The steps of the call with this number, counted from zero.
pub fn steps(scripts: &str, number: u64) -> Result<Vec<Step>, String> {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let script = scripts.split('|').nth(number).filter(|script| !script.is_empty()).unwrap_or(HONEST);
    script.split(',').map(step).collect()
}

fn step(word: &str) -> Result<Step, String> {
    let (name, number) = word.split_once(':').unwrap_or((word, "0"));
    let number: u64 = number.parse().map_err(|_| format!("`{word}` has no number"))?;
    Ok(match name {
        "effect" => Step::Effect,
        "hold" => Step::Hold,
        "delay" => Step::Delay(number),
        "answer" => Step::Answer,
        "twice" => Step::Twice,
        "cut" => Step::Cut(number.min(1000)),
        "rpc_error" => Step::RpcError,
        "status" => Step::Status(u16::try_from(number).unwrap_or(500)),
        "bad_schema" => Step::BadSchema,
        "close" => Step::Close,
        "reset" => Step::Reset,
        "never" => Step::Never,
        _ => return Err(format!("there is no step `{word}`")),
    })
}
