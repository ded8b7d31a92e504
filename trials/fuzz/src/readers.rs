//! The readers, each with the parts of its texts. A reader's answer is discarded after a check of what must hold for every
//! answer.

mod arguments;
mod policies;
mod programs;
mod schemas;
mod server_texts;

use crate::Grammar;

/// Reads one text.
pub type Read = Box<dyn Fn(&[u8]) + Send + Sync>;

/// A reader of texts.
pub struct Reader {
    /// Its name in the report.
    pub name: &'static str,
    /// Its share of all texts: slow readers get fewer.
    pub share: u64,
    /// The parts of its texts.
    pub grammar: Grammar,
    /// Reads one text.
    pub read: Read,
}

/// Why a reader cannot be set up: a contract, schema or policy of ours that it needs is broken.
pub type NotReady = Box<dyn std::error::Error + Send + Sync>;

/// All readers.
pub fn all() -> Result<Vec<Reader>, NotReady> {
    let mut all = programs::readers();
    all.extend(arguments::readers()?);
    all.extend(schemas::readers()?);
    all.extend(policies::readers()?);
    all.extend(server_texts::readers()?);
    Ok(all)
}

/// The reader of that name.
pub fn named(name: &str) -> Result<Reader, NotReady> {
    all()?.into_iter().find(|reader| reader.name == name).ok_or_else(|| format!("there is no reader `{name}`").into())
}

impl Reader {
    fn new(name: &'static str, share: u64, grammar: Grammar, read: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self { name, share, grammar, read: Box::new(read) }
    }

    /// The same for a reader of text.
    fn of_text(name: &'static str, share: u64, grammar: Grammar, read: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::new(name, share, grammar, move |bytes| read(&String::from_utf8_lossy(bytes)))
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reader").field("name", &self.name).finish_non_exhaustive()
    }
}
