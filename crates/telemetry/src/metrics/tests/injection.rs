//! T34: a name cannot add a line to the page, end a label, or control the terminal of whoever reads it.

use std::sync::Arc;

use servanda_contract::{
    Caller,
    cost::{Cost, Price},
    record::PolicyRecord,
    tool::EffectClass,
};

use super::{PendingApprovals, Surroundings, completed, metrics};
use crate::metrics::{LABEL_CHARS_MAX, PageFormat};

/// Reads the labels of a line as a monitor does, and its value, which nothing else follows than an exemplar. None if the line is not
/// well-formed.
fn sample(line: &str) -> Option<(Vec<(String, String)>, f64)> {
    let mut found = Vec::new();
    let mut rest = line.get(line.find('{')? + 1..)?;
    while !rest.starts_with('}') {
        let (name, after) = rest.split_once("=\"")?;
        if !name.chars().all(|part| part.is_ascii_lowercase() || part == '_') {
            return None;
        }
        let (mut value, mut characters) = (String::new(), after.char_indices());
        let end = loop {
            match characters.next()? {
                (_, '\\') => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    _ => return None,
                }),
                (end, '"') => break end,
                (_, shown) => value.push(shown),
            }
        };
        found.push((name.to_owned(), value));
        rest = after.get(end + 1..)?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    let (value, more) = rest.strip_prefix("} ")?.split_once(" # {").unwrap_or((rest.strip_prefix("} ")?, "trace_id"));
    more.starts_with("trace_id").then_some((found, value.parse().ok()?))
}

#[test]
fn no_name_injects_a_line() {
    let names = [
        "x\"} 1\nfake 2".to_owned(),
        "\\".to_owned(),
        "ends with a backslash\\".to_owned(),
        "\\\"} 1".to_owned(),
        "\\n\nfake_total 7".to_owned(),
        "\r\nfake_total 7\r\n# EOF".to_owned(),
        "\u{1b}[2J\u{7}\0".to_owned(),
        "\u{202e}reversed\u{2028}fake_total 7\u{85}fake_total 8".to_owned(),
        "x".repeat(1_000_000),
        "é\u{301}\u{1f600}".repeat(10_000),
        // As long as a trace id.
        format!("{:x<32}", "\"} 1\nfake_total 7\n"),
        String::new(),
    ];
    let metrics = metrics(1_000);
    for name in &names {
        let mut record = completed(name, EffectClass::K);
        record.tool.clone_from(name);
        record.price =
            Some(Box::new(Price { currency: name.clone(), cost: Cost { compute_micros: 1, ..Cost::default() } }));
        record.trace_id.clone_from(name);
        record.caller = Arc::new(Caller::named(name, name));
        record.policy = Some(PolicyRecord { task: Some(name.clone()), ..PolicyRecord::default() });
        metrics.call_ended(&record);
        metrics.approval_requested(name);
        metrics.approval_resolved(name, "denied", 1);
    }
    let pending = names.iter().map(|name| PendingApprovals { tool: name.clone(), group: name.clone(), count: 1 });
    let around = Surroundings {
        pending_approvals: Some(pending.collect()),
        upstreams: names.iter().map(|name| (name.clone(), true)).collect(),
        ..Surroundings::default()
    };
    for format in [PageFormat::Text, PageFormat::OpenMetrics] {
        let page = metrics.page(&around, format);
        assert!(page.len() < 4 << 20, "{} bytes", page.len());
        for line in page.split('\n').filter(|line| !line.is_empty()) {
            let is_known =
                ["# HELP ", "# TYPE ", "# EOF", "servanda_", "mcp_"].iter().any(|begin| line.starts_with(begin));
            assert!(is_known, "{format:?}: {line}");
            assert!(
                !line.chars().any(|shown| shown.is_control() || ('\u{200b}'..='\u{202e}').contains(&shown)),
                "{line:?}"
            );
            if !line.starts_with('#') && line.contains('{') {
                let (labels, _) = sample(line).unwrap_or_else(|| panic!("{format:?}: {line}"));
                assert!(labels.iter().all(|(_, value)| value.chars().count() <= LABEL_CHARS_MAX), "{line}");
            }
        }
        assert!(!page.contains("# {trace_id"), "what is no trace id is no example");
        let ends = page.lines().filter(|line| line.starts_with("# EOF")).count();
        assert_eq!(ends, usize::from(format == PageFormat::OpenMetrics));
    }
}
