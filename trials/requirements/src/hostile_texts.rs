//! Texts that are meant to be read as something else: by a person (characters that do not show, reverse the text, or look like others), by a
//! page (markup), by a terminal (commands), or by whoever takes one line for another. From the corpora beside the repository, and made here
//! from the properties of Unicode.

use std::{fs, path::Path};

use serde_json::Value;

use crate::shared;

/// The longest text: longer ones are cut where people see them.
const CHARS_MAX: usize = 1_500;
/// Every so many descriptions of real tools are taken: they are harmless, and long.
const TOOLS_EACH: usize = 40;

/// Code points that a person does not see, or that change what is seen around them, by first and last.
const UNSEEN: [(u32, u32); 28] = [
    (0x0000, 0x0008),
    (0x000B, 0x001F),
    (0x007F, 0x009F),
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xE000, 0xE001),
    (0xFDD0, 0xFDD1),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0xFFFE, 0xFFFF),
    (0x1_3430, 0x1_3438),
    (0x1_BCA0, 0x1_BCA3),
    (0x1_D173, 0x1_D17A),
    (0x1_FFFE, 0x1_FFFF),
    (0xE_0000, 0xE_007F),
    (0xE_0100, 0xE_0110),
    (0xF_0000, 0xF_0001),
    (0x10_FFFD, 0x10_FFFF),
];

/// Texts that pretend to be the gateway's own words, markup or commands.
const PRETENDING: [&str; 34] = [
    "access\u{202e}\u{2066}// admin\u{2069}\u{2066}",
    "\u{202e}tnemyap evorppa\u{202c}",
    "invoice\u{2067}fdp.exe\u{2069}",
    "<U+202E>",
    "<U+003C>U+202E>",
    "&#60;U+202E&#62;",
    "<U+202E",
    "<<U+0000>>",
    "\u{1b}[2K\u{1b}[1Aapproved by olga",
    "\u{1b}]8;;https://evil.example\u{7}click\u{1b}]8;;\u{7}",
    "\u{9b}2J\u{9b}H",
    "\u{1b}[8mhidden\u{1b}[0m",
    "one\nline two",
    "ok\n  payload       sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "ok  (number)\n    /amount = 1  (number)",
    "ok\r\nlook harmless",
    "gone\rshown instead",
    "tabs\tand\u{b}vertical\u{c}ones",
    "x = y  (number)",
    " = ",
    "  leading and trailing  ",
    "</code><button type=\"submit\">Approve this call</button>",
    "</td></tr></table><script>alert(1)</script>",
    "<!-- ",
    "]]>",
    "\"><img src=x onerror=alert(1)>",
    "' autofocus onfocus=alert(1) x='",
    "&lt;b&gt; &amp; &#x202E;",
    "{{ 7 * 7 }} {% include \"x\" %}",
    "# Approved by the security team\n\n**Do not read on.**",
    "p\u{430}yp\u{430}l.com and \u{216f}\u{ff41}\u{1d5ba}",
    "https://b\u{430}nk.example@evil.example/\u{2044}pay",
    "\u{1f469}\u{200d}\u{1f467} and a\u{200d}b \u{26a0}\u{fe0f} x\u{fe0f}",
    "••••••",
];

/// The texts, each once. `None` if the corpora are missing, which is counted.
#[must_use]
pub fn hostile_texts() -> Option<Vec<String>> {
    let mut texts: Vec<String> = PRETENDING.map(str::to_owned).into();
    for character in UNSEEN.iter().flat_map(|(first, last)| *first..=*last).filter_map(char::from_u32) {
        texts.extend([format!("pay{character}pal"), format!("{character}"), format!("1{character}2{character}")]);
    }
    strings_in(&shared("corpora/blns/blns.json")?, &mut texts);
    strings_in(&shared("corpora/dvmcp/dvmcp_definitions.json")?, &mut texts);
    lines_below(&shared("corpora/PayloadsAllTheThings")?, &mut texts);
    let tools = fs::read_to_string(shared("corpora/tools/tools.jsonl")?).unwrap_or_default();
    for line in tools.lines().step_by(TOOLS_EACH) {
        let tool: Value = serde_json::from_str(line).unwrap_or_default();
        texts.extend(tool.get("description").and_then(Value::as_str).map(str::to_owned));
    }
    texts.retain(|text| !text.is_empty() && text.chars().nth(CHARS_MAX).is_none());
    texts.sort_unstable();
    texts.dedup();
    Some(texts)
}

/// Every string in a JSON file.
fn strings_in(file: &Path, texts: &mut Vec<String>) {
    fn collect(value: Value, texts: &mut Vec<String>) {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => items.into_iter().for_each(|item| collect(item, texts)),
            Value::Object(members) => members.into_iter().for_each(|(_, member)| collect(member, texts)),
            _ => {}
        }
    }
    let value = fs::read_to_string(file).ok().and_then(|text| serde_json::from_str(&text).ok());
    collect(value.unwrap_or_default(), texts);
}

/// Every line of every file below a folder.
fn lines_below(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            lines_below(&path, texts);
        } else if let Ok(bytes) = fs::read(&path) {
            texts.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
        }
    }
}
