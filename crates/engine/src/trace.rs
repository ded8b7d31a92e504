//! W3C trace ids: the caller's if it sent a valid one, else a new one.

use servanda_contract::unique;

/// The trace id of a W3C `traceparent`, if it is valid.
pub(crate) fn trace_id(trace_parent: &str) -> Option<&str> {
    let mut parts = trace_parent.split('-');
    let (_, trace_id) = (parts.next()?, parts.next()?);
    let hex =
        trace_id.len() == 32 && trace_id.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase());
    (hex && trace_id.bytes().any(|byte| byte != b'0')).then_some(trace_id)
}

pub(crate) fn new_trace_id() -> String {
    unique::random().simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::trace_id;

    #[test]
    fn only_a_good_trace_id_is_taken() {
        let good = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(trace_id(&format!("00-{good}-b7ad6b7169203331-01")), Some(good));
        for bad in [
            "",
            "00",
            "00-xyz-1-01",
            &format!("00-{}-b-01", good.to_uppercase()),
            &format!("00-{}-b-01", "0".repeat(32)),
        ] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }
}
