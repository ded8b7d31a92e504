//! Adds or removes one text in a list by editing the text around it. All other bytes stay as they are.

use serde_json::{Value, json};

use super::{
    JsoncError, JsoncNode, JsoncShape,
    edit::{apply, insert, lead_of_line, object},
    line_and_column,
};

/// Adds a text at the end of the list `key` in the object `container`; both are created if they are missing.
pub(crate) fn add(text: &str, [container, key]: [&str; 2], item: &str) -> Result<String, JsoncError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    if object(text, &[])?.is_some_and(|root| root.member(container).is_none()) {
        return insert(text, &[], container, |style| style.render(&json!({ key: [item] }), 2));
    }
    let Some(list) = list(text, container, key)? else {
        return insert(text, &[container], key, |style| style.render(&json!([item]), 2));
    };
    let JsoncShape::Array(items) = &list.shape else { return Err(no_list(text, &list, key)) };
    let word = Value::from(item).to_string();
    let Some(tail) = items.last() else {
        return Ok(apply(text, vec![(list.span.start + 1..list.span.end - 1, word)]));
    };
    // A comma after the last item stays one after the last item.
    let behind = text.get(tail.span.end..list.span.end).unwrap_or_default();
    let has_comma = behind.trim_start().starts_with(',');
    let is_alone = text.get(list.span.clone()).is_some_and(|inside| inside.contains('\n'));
    let lead = if is_alone {
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        format!("{line_end}{}", lead_of_line(text, tail.span.start))
    } else if text.contains(", ") || !text.contains(',') {
        " ".to_owned()
    } else {
        String::new()
    };
    let comma = tail.span.end + behind.find(',').unwrap_or_default();
    let edits = if has_comma {
        vec![(comma + 1..comma + 1, format!("{lead}{word},"))]
    } else {
        vec![(tail.span.end..tail.span.end, format!(",{lead}{word}"))]
    };
    Ok(apply(text, edits))
}

/// Removes a text from the list.
pub(crate) fn remove(text: &str, [container, key]: [&str; 2], item: &str) -> Result<String, JsoncError> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let Some(list) = list(text, container, key)? else { return Ok(text.to_owned()) };
    let JsoncShape::Array(items) = &list.shape else { return Err(no_list(text, &list, key)) };
    let is_it = |node: &JsoncNode| node.shape == JsoncShape::Scalar(Value::from(item));
    let Some(place) = items.iter().position(is_it) else { return Ok(text.to_owned()) };
    let Some(node) = items.get(place) else { return Ok(text.to_owned()) };
    let before = place.checked_sub(1).and_then(|place| items.get(place));
    let after = items.get(place + 1);
    let between = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    // Behind everything else that is removed.
    let nothing = list.span.end..list.span.end;
    let ranges = match (before, after) {
        // From the end of the item before it: the comma between them goes, and one behind it stays.
        (Some(before), _) if between(before.span.end, node.span.start).trim() == "," => {
            [before.span.end..node.span.end, nothing]
        }
        (None, Some(after)) if between(node.span.end, after.span.start).trim() == "," => {
            [node.span.start..after.span.start, nothing]
        }
        (None, None) if between(list.span.start + 1, node.span.start).trim().is_empty() => {
            [list.span.start + 1..node.span.end, nothing]
        }
        // A comment is in between, and stays.
        (Some(before), _) if between(before.span.end, node.span.start).starts_with(',') => {
            [before.span.end..before.span.end + 1, node.span.clone()]
        }
        (None, _) if between(node.span.end, list.span.end).starts_with(',') => {
            [node.span.start..node.span.end + 1, nothing]
        }
        (None, None) => [node.span.clone(), nothing],
        _ => {
            let (line, column) = line_and_column(text, node.span.start);
            return Err(JsoncError { line, column, reason: "a comment is in the way".to_owned() });
        }
    };
    Ok(apply(text, ranges.into_iter().map(|range| (range, String::new())).collect()))
}

fn list(text: &str, container: &str, key: &str) -> Result<Option<JsoncNode>, JsoncError> {
    let parent = object(text, &[container])?;
    Ok(parent.and_then(|parent| parent.member(key).map(|member| member.value.clone())))
}

fn no_list(text: &str, node: &JsoncNode, key: &str) -> JsoncError {
    let (line, column) = line_and_column(text, node.span.start);
    JsoncError { line, column, reason: format!("`{key}` should be a list, in brackets") }
}
