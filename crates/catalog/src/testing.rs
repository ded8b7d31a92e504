//! What the tests of this crate share: the public corpora, read in place.

pub(crate) use servanda_requirements::shared;
