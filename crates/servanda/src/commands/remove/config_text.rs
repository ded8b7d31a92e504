//! Removes a server from the text of servanda.yaml. All other bytes stay as they are, comments and odd indentation included. The edited
//! text is read again, and must mean the same without that server; otherwise the edit is refused.

use std::ops::Range;

use serde_json::{Map, Value};
use servanda_clients::json;
use servanda_contract::document;

/// The section that holds the servers.
const SERVERS: &str = "upstreams";

/// The text without the server, or the reason why it cannot be removed.
pub(super) fn without(file: &str, text: &str, server: &str) -> Result<String, String> {
    let mut expected = meaning(file, text)?;
    let there = expected.get_mut(SERVERS).and_then(Value::as_object_mut).and_then(|servers| servers.remove(server));
    if there.is_none() {
        return Err(format!("there is no server `{server}`"));
    }
    let edited = match json::parse(text) {
        Ok(_) => json::edit::take_out(text, SERVERS, server, false).map_err(|error| error.to_string())?,
        Err(_) => without_block(text, server).ok_or("its entry is not written as a block of lines of its own")?,
    };
    if meaning(file, &edited)? == expected { Ok(edited) } else { Err("the rest would not mean the same".to_owned()) }
}

fn meaning(file: &str, text: &str) -> Result<Map<String, Value>, String> {
    document::read_members(file, text).map_err(|error| error.to_string())
}

/// The text without the lines of the server, if the YAML is in block style.
fn without_block(text: &str, server: &str) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let head = lines.iter().position(|line| is_key(line, 0, SERVERS))?;
    let servers = head + 1..block_end(&lines, head + 1, 1)?;
    let first = lines.get(servers.clone())?.iter().find(|line| says_something(line))?;
    let indent = indent_of(first);
    let entry = servers.clone().find(|number| lines.get(*number).is_some_and(|line| is_key(line, indent, server)))?;
    let entry = entry..block_end(&lines, entry + 1, indent + 1)?;
    let is_last = !servers.clone().any(|number| {
        !entry.contains(&number)
            && lines.get(number).is_some_and(|line| says_something(line) && indent_of(line) == indent)
    });
    let kept = |range: Range<usize>| lines.get(range).map(<[&str]>::concat);
    let (before, after) = (kept(0..entry.start)?, kept(entry.end..lines.len())?);
    if !is_last {
        return Some(format!("{before}{after}"));
    }
    // An empty block would be null, and not an empty list of servers.
    let heading = lines.get(head)?;
    let emptied = heading.replacen(':', ": {}", 1);
    Some(format!("{}{emptied}{}{after}", kept(0..head)?, kept(head + 1..entry.start)?))
}

/// The line after a block: the first one with content that is indented less. Blank lines and comments before it belong to what follows,
/// unless they are indented as far as the block.
fn block_end(lines: &[&str], start: usize, indent: usize) -> Option<usize> {
    let next = (start..lines.len())
        .find(|number| lines.get(*number).is_some_and(|line| says_something(line) && indent_of(line) < indent));
    let mut end = next.unwrap_or(lines.len());
    while end > start {
        let line = lines.get(end - 1)?;
        let is_comment_inside = !line.trim().is_empty() && indent_of(line) >= indent;
        if says_something(line) || is_comment_inside {
            break;
        }
        end -= 1;
    }
    Some(end)
}

fn says_something(line: &str) -> bool {
    let text = line.trim();
    !text.is_empty() && !text.starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_key(line: &str, indent: usize, key: &str) -> bool {
    let is_spelled = |spelled: &str| {
        let rest =
            line.get(indent..).and_then(|text| text.strip_prefix(spelled)).and_then(|text| text.strip_prefix(':'));
        rest.is_some_and(|rest| rest.starts_with([' ', '\n', '\r']) || rest.is_empty())
    };
    indent_of(line) == indent
        && [key.to_owned(), format!("\"{key}\""), format!("'{key}'")].iter().any(|key| is_spelled(key))
}

#[cfg(test)]
mod tests {
    use super::without;

    const CONFIG: &str = "\
# Ours.
servanda: 1

upstreams:   # two of them
  # About company.
  company:
    command: servanda   # odd   blanks
    args: [sample]
    # inside company
  # About the next one.
  'shop':
    url: https://shop.example/mcp

  last: { command: sh }
# About budgets.
budgets: []
";

    #[test]
    fn only_the_lines_of_the_server_go() {
        let company = "  company:\n    command: servanda   # odd   blanks\n    args: [sample]\n    # inside company\n";
        let shop = "  'shop':\n    url: https://shop.example/mcp\n";
        let last = "  last: { command: sh }\n";
        for (server, lines) in [("company", company), ("shop", shop), ("last", last)] {
            assert_eq!(without("servanda.yaml", CONFIG, server).unwrap(), CONFIG.replace(lines, ""), "{server}");
        }
        assert!(without("servanda.yaml", CONFIG, "nobody").unwrap_err().contains("no server `nobody`"));
    }

    #[test]
    fn the_last_server_leaves_an_empty_list() {
        let text = "servanda: 1\nupstreams: # ours\n  one:\n    command: sh\nlisten: 127.0.0.1:0\n";
        let edited = without("servanda.yaml", text, "one").unwrap();
        assert_eq!(edited, "servanda: 1\nupstreams: {} # ours\nlisten: 127.0.0.1:0\n");
    }

    #[test]
    fn other_notations_are_edited_or_left_alone() {
        let text = r#"{ "servanda": 1, "upstreams": { "a": { "command": "x" }, "b": { "command": "y" } } }"#;
        let edited = without("servanda.yaml", text, "a").unwrap();
        assert!(edited.contains(r#""b": { "command": "y" }"#) && !edited.contains(r#""a""#), "{edited}");
        let flow = "servanda: 1\nupstreams: { a: { command: x }, b: { command: y } }\n";
        assert!(without("servanda.yaml", flow, "a").unwrap_err().contains("lines of its own"));
        // An anchor that another server uses: without it the rest could not be read.
        let anchored = "upstreams:\n  a: &a\n    command: x\n  b: *a\n";
        assert!(without("servanda.yaml", anchored, "a").is_err());
    }
}
