//! What a person sees of a text, and what a text that was made to be seen stands for: an opinion of its own about the gateway's output, made
//! from the properties of Unicode (`Cc`, `Cf`, `Zl`, `Zp`, `Co`, `Default_Ignorable_Code_Point`, `Bidi_Control`) and from the one rule that
//! people are told: `<U+202E>` is that character. Deliberately without any code of the gateway.

/// The first character that does not show, or that changes how others show; line feeds show. Joiners and selectors show where they belong to a
/// pictograph or to the spelling of a word.
#[must_use]
pub fn unseen(text: &str) -> Option<char> {
    let characters: Vec<char> = text.chars().collect();
    let at = |place: Option<usize>| place.and_then(|place| characters.get(place)).copied();
    characters.iter().enumerate().find_map(|(place, character)| {
        let before = [at(place.checked_sub(1)), at(place.checked_sub(2))];
        (!shows(*character, before, at(Some(place + 1)))).then_some(*character)
    })
}

/// The text that a shown text stands for.
#[must_use]
pub fn meant_by(shown: &str) -> String {
    let mut text = String::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find("<U+") {
        let (before, code) = rest.split_at(at);
        text.push_str(before);
        let spelled = code.split_once('>').and_then(|(code, after)| {
            let number = u32::from_str_radix(code.strip_prefix("<U+")?, 16).ok()?;
            Some((char::from_u32(number)?, after))
        });
        if let Some((character, after)) = spelled {
            text.push(character);
            rest = after;
        } else {
            text.push('<');
            rest = code.strip_prefix('<').unwrap_or_default();
        }
    }
    text + rest
}

fn shows(character: char, before: [Option<char>; 2], after: Option<char>) -> bool {
    let picture = |neighbour: Option<char>| neighbour.is_some_and(is_picture);
    match u32::from(character) {
        0x0A => true,
        // A joiner joins two pictures, or two letters of scripts that are spelled with joiners.
        0x200C | 0x200D => {
            let joined = if before[0] == Some('\u{fe0f}') { before[1] } else { before[0] };
            let letters = before[0].is_some_and(is_joining) && after.is_some_and(is_joining);
            letters || (character == '\u{200d}' && picture(joined) && picture(after))
        }
        // A selector says how the picture, or the key cap, before it is drawn.
        0xFE0E | 0xFE0F => {
            picture(before[0])
                || (after == Some('\u{20e3}') && before[0].is_some_and(|key| "0123456789#*".contains(key)))
        }
        0x00..=0x1F
        | 0x7F..=0x9F
        | 0xAD
        | 0x034F
        | 0x061C
        | 0x115F..=0x1160
        | 0x17B4..=0x17B5
        | 0x180B..=0x180F
        | 0x200B
        | 0x200E..=0x200F
        | 0x2028..=0x202E
        | 0x2060..=0x206F
        | 0x3164
        | 0xE000..=0xF8FF
        | 0xFDD0..=0xFDEF
        | 0xFE00..=0xFE0D
        | 0xFEFF
        | 0xFFA0
        | 0xFFF0..=0xFFFB
        | 0x1_3430..=0x1_343F
        | 0x1_BCA0..=0x1_BCA3
        | 0x1_D173..=0x1_D17A
        | 0xE_0000..=0x10_FFFF => false,
        code => code & 0xFFFE != 0xFFFE,
    }
}

fn is_picture(character: char) -> bool {
    matches!(
        u32::from(character),
        0xA9 | 0xAE | 0x203C | 0x2049 | 0x2122 | 0x2139 | 0x2190..=0x2BFF | 0x3030 | 0x303D | 0x3297 | 0x3299 | 0x1_F000..=0x1_FAFF
    )
}

/// Arabic and Syriac, the scripts of India, Khmer, Myanmar and Mongolian.
fn is_joining(character: char) -> bool {
    matches!(u32::from(character), 0x0600..=0x07FF | 0x08A0..=0x0DFF | 0x1000..=0x109F | 0x1780..=0x18AF)
}

#[cfg(test)]
mod tests {
    use super::{meant_by, unseen};

    #[test]
    fn what_does_not_show_is_found() {
        for text in ["", "Zürich\n東京 😀", "👩\u{200d}👧", "⚠\u{fe0f}", "می\u{200c}خواهم", "1\u{fe0f}\u{20e3}"]
        {
            assert_eq!(unseen(text), None, "{text:?}");
        }
        for (text, hidden) in
            [("a\u{202e}", '\u{202e}'), ("a\tb", '\t'), ("a\u{200d}b", '\u{200d}'), ("\u{10ffff}", '\u{10ffff}')]
        {
            assert_eq!(unseen(text), Some(hidden), "{text:?}");
        }
    }

    #[test]
    fn what_is_spelled_out_is_read() {
        let table = [
            ("a<U+202E>b", "a\u{202e}b"),
            ("<U+003C>U+202E>", "<U+202E>"),
            ("<U+G> <", "<U+G> <"),
            ("<U+110000>", "<U+110000>"),
        ];
        for (shown, text) in table {
            assert_eq!(meant_by(shown), text);
        }
    }
}
