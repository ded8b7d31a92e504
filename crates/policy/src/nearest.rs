//! The name that the writer of an unknown name probably meant.

/// The name that was probably meant.
pub(crate) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = wanted.chars().count();
    // A comparison takes time proportional to the product of both lengths, and a policy may contain any name. Each extra
    // character is one difference, so most names need no comparison.
    let alike = known.into_iter().filter(|name| name.chars().count().abs_diff(length) <= name.len() / 3);
    let near = alike.map(|name| (strsim::damerau_levenshtein(wanted, name), name)).min();
    near.filter(|(distance, name)| *distance <= name.len() / 3).map(|(_, name)| name)
}
