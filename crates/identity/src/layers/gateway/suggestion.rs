//! Names that were probably meant. Only spelling mistakes are forgiven: `read_file` never suggests `write_file`.

/// How similar a name must be to be suggested.
const LIKENESS_MIN: f64 = 0.6;
/// The longest name for which suggestions are searched: a comparison costs the product of both lengths.
const SAID_CHARS_MAX: usize = 256;
/// How similar each word must be.
const WORD_LIKENESS_MIN: f64 = 0.6;

/// The known names that are most similar to the given one, the most similar first. A name may be given with its upstream or, as
/// models do, without; so each is compared as a whole and by the tool's own name.
pub fn near_names<'a>(
    said: &str,
    known: impl IntoIterator<Item = (&'a str, &'a str)>,
    names_max: usize,
) -> Vec<&'a str> {
    if said.len() > SAID_CHARS_MAX {
        return Vec::new();
    }
    let alike = |one: &str, other: &str| strsim::normalized_damerau_levenshtein(one, other);
    let mut found: Vec<(f64, &str)> = known
        .into_iter()
        .map(|(whole, own)| (alike(said, whole).max(alike(said, own)), whole))
        .filter(|(likeness, whole)| *likeness >= LIKENESS_MIN && only_misspelt(said, whole))
        .collect();
    found.sort_by(|(one, one_name), (other, other_name)| other.total_cmp(one).then(one_name.cmp(other_name)));
    found.into_iter().take(names_max).map(|(_, name)| name).collect()
}

/// Whether every given word is a misspelling of a word of the name, and not another word.
fn only_misspelt(said: &str, name: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let plain = text.split(|character: char| !character.is_alphanumeric());
        plain.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let known = words(name);
    let misspelt = |word: &String| {
        known.iter().any(|known| strsim::normalized_damerau_levenshtein(word, known) >= WORD_LIKENESS_MIN)
    };
    words(said).iter().all(misspelt)
}
