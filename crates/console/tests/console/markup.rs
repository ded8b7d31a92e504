//! Pages as a browser takes them apart: tags, and the texts between them with character references resolved. Small and strict, and without
//! any code of the console: what it cannot read is a fault of the page.

/// A page, in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A tag: its name (with `/` if it closes), and its attributes in order.
    Tag { name: String, attributes: Vec<(String, String)> },
    /// A text between two tags.
    Text(String),
}

/// One line of a table of values: where the value stands, the value, and whether the page warns of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShownLeaf {
    pub(crate) pointer: String,
    pub(crate) value: String,
    pub(crate) is_suspicious: bool,
}

/// The pieces of a page.
pub(crate) fn pieces(html: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = html;
    while let Some((text, tag)) = rest.split_once('<') {
        if !text.is_empty() {
            pieces.push(Piece::Text(resolved(text)));
        }
        let end = end_of_tag(tag);
        pieces.push(tag_of(&tag[..end]));
        rest = &tag[end + 1..];
    }
    assert!(rest.trim().is_empty(), "the page ends in a text: {rest}");
    pieces
}

/// What a browser builds of a page, apart from texts and values: tags with the names of their attributes, and the classes. Without what the
/// page says about suspicious values, because that is what may differ.
pub(crate) fn structure(pieces: &[Piece]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut left_out: Option<&'static str> = None;
    for piece in pieces {
        let Piece::Tag { name, attributes } = piece else { continue };
        let class = attribute(piece, "class").unwrap_or_default();
        if let Some(end) = left_out {
            if name == end {
                left_out = None;
            }
            continue;
        }
        left_out = match (name.as_str(), class) {
            ("p", "leaf-warning") => Some("/p"),
            ("section", "warnings") => Some("/section"),
            _ => None,
        };
        if left_out.is_some() {
            continue;
        }
        let names: Vec<&str> =
            attributes.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "class").collect();
        let class = if class == "suspicious" { "" } else { class };
        shown.push(format!("{name} {} .{class}", names.join(" ")));
    }
    shown
}

/// The tables of values on a page, in order.
pub(crate) fn leaves(pieces: &[Piece]) -> Vec<Vec<ShownLeaf>> {
    let is = |piece: &Piece, wanted: &str, class: &str| {
        matches!(piece, Piece::Tag { name, .. } if name == wanted)
            && attribute(piece, "class").unwrap_or_default() == class
    };
    let mut tables = Vec::new();
    let mut place = 0;
    while let Some(start) = (place..pieces.len()).find(|at| is(&pieces[*at], "table", "leaves")) {
        let end = (start..pieces.len()).find(|at| is(&pieces[*at], "/table", "")).expect("the table ends");
        let rows = pieces[start..end].split(|piece| matches!(piece, Piece::Tag { name, .. } if name == "tr")).skip(2);
        let suspicious: Vec<bool> = pieces[start..end]
            .iter()
            .filter(|piece| matches!(piece, Piece::Tag { name, .. } if name == "tr"))
            .map(|row| attribute(row, "class") == Some("suspicious"))
            .collect();
        // The first row has the headings.
        let read = |(row, is_suspicious): (&[Piece], &bool)| ShownLeaf {
            pointer: text_after(row, |piece| is(piece, "code", "")),
            value: text_after(row, |piece| is(piece, "code", "value")),
            is_suspicious: *is_suspicious,
        };
        tables.push(rows.zip(&suspicious[1..]).map(read).collect());
        place = end;
    }
    tables
}

/// The text of the first element that is meant.
pub(crate) fn text_after(pieces: &[Piece], is_meant: impl Fn(&Piece) -> bool) -> String {
    let at = pieces.iter().position(is_meant).expect("the element is there");
    match pieces.get(at + 1) {
        Some(Piece::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

pub(crate) fn attribute<'a>(piece: &'a Piece, wanted: &str) -> Option<&'a str> {
    let Piece::Tag { attributes, .. } = piece else { return None };
    attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
}

/// Where a tag ends: at the first `>` outside of quotes.
fn end_of_tag(tag: &str) -> usize {
    let mut quote = None;
    let end = tag.bytes().position(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (None, b'>') => return true,
            _ => {}
        }
        false
    });
    end.unwrap_or_else(|| panic!("a tag does not end: {}", &tag[..tag.len().min(80)]))
}

fn tag_of(tag: &str) -> Piece {
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    assert!(name.chars().all(|character| character.is_ascii_alphanumeric() || "/!".contains(character)), "{tag}");
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest == "/" {
            return Piece::Tag { name: name.to_owned(), attributes };
        }
        let end = rest.find(|character: char| character == '=' || character.is_whitespace()).unwrap_or(rest.len());
        let (attribute, after) = rest.split_at(end);
        let Some(value) = after.strip_prefix('=') else {
            attributes.push((attribute.to_owned(), String::new()));
            rest = after;
            continue;
        };
        let quote = value.chars().next().filter(|quote| "\"'".contains(*quote)).expect("a value is in quotes");
        let (value, after) = value[1..].split_once(quote).expect("a value ends");
        attributes.push((attribute.to_owned(), resolved(value)));
        rest = after;
    }
}

/// A text with its character references resolved. Every `&` must begin one.
fn resolved(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split('&');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (reference, after) = part.split_once(';').unwrap_or_else(|| panic!("`&{part}` is no reference"));
        let code = match reference {
            "amp" => u32::from('&'),
            "lt" => u32::from('<'),
            "gt" => u32::from('>'),
            "quot" => u32::from('"'),
            "nbsp" => 0xA0,
            _ => reference.strip_prefix('#').and_then(|code| code.parse().ok()).expect("a number"),
        };
        plain.push(char::from_u32(code).expect("a character"));
        plain.push_str(after);
    }
    // A browser does not tell these apart.
    plain.replace("\r\n", "\n").replace('\r', "\n")
}
