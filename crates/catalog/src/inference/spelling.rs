//! Splits names and sentences into words, however they are joined.

/// The words of a name: `getUserById`, `get-user.by_id` and `get user` alike.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_was_lower = false;
    for character in text.chars() {
        let splits = !character.is_alphanumeric() || (character.is_uppercase() && before_was_lower);
        if splits && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
        before_was_lower = character.is_lowercase() || character.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}
