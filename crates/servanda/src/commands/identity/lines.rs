//! Reads lines of JSON and writes one line of JSON for each, in the same order and one at a time, whatever a line contains.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read as _},
    path::Path,
};

use serde_json::Value;

use crate::{
    failure::CommandFailure,
    screen::{Screen, count},
};

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The answer to a line.
pub(super) struct LineAnswer {
    pub(super) line: Value,
    /// Why the line could not be read, if it could not.
    pub(super) fault: Option<String>,
}

/// Answers every line of a file, or of stdin for `-`. Fails at the end if some lines could not be read.
pub(super) fn answer_each(
    file: &Path,
    screen: Screen,
    answer: impl Fn(&[u8]) -> LineAnswer,
) -> Result<(), CommandFailure> {
    let mut input: BufReader<Box<dyn io::Read>> = BufReader::new(open(file)?);
    let mut output = BufWriter::new(io::stdout().lock());
    match transcribe(&mut input, &mut output, screen, answer) {
        Ok(0) => Ok(()),
        Ok(faults) => Err(unread(faults)),
        // The reader of the output is gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Passes every line of a file, or of stdin for `-`, to a function. Returns how many could not be read.
pub(super) fn take_each(
    file: &Path,
    screen: Screen,
    take: impl FnMut(&[u8]) -> Option<String>,
) -> Result<usize, CommandFailure> {
    let mut input: BufReader<Box<dyn io::Read>> = BufReader::new(open(file)?);
    let mut take = take;
    let answer = |line: &[u8]| LineAnswer { fault: take(line), line: Value::Null };
    Ok(transcribe(&mut input, &mut io::sink(), screen, answer)?)
}

/// The failure of a command that could not read some lines.
pub(super) fn unread(faults: usize) -> CommandFailure {
    CommandFailure::bad_input(format!("{} could not be read", count(faults, "line")))
        .hint("each line is one JSON object, as `servanda identity --help` says")
}

/// Why a line is invalid, with its column only, because the caller counts the lines.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let whole = error.to_string();
    let (what, _) = whole.split_once(" at line ").unwrap_or((&whole, ""));
    format!("{what} (column {})", error.column())
}

fn open(file: &Path) -> Result<Box<dyn io::Read>, CommandFailure> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let opened = File::open(file).map_err(|error| CommandFailure::bad_input(format!("{}: {error}", file.display())))?;
    Ok(Box::new(opened))
}

/// Returns how many lines could not be read.
fn transcribe(
    input: &mut BufReader<Box<dyn io::Read>>,
    output: &mut impl io::Write,
    screen: Screen,
    mut answer: impl FnMut(&[u8]) -> LineAnswer,
) -> io::Result<usize> {
    let (mut line, mut faults) = (Vec::new(), 0);
    for number in 1_u64.. {
        // Flushes before it waits for the next line.
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
        if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let whole = line.ends_with(b"\n") || (line.len() as u64) < LINE_BYTES_MAX;
        if !whole {
            skip_line(input)?;
            line.clear();
        }
        let LineAnswer { line: answered, fault } = answer(&line);
        let fault = if whole { fault } else { Some(format!("it is longer than {LINE_BYTES_MAX} bytes")) };
        if let Some(fault) = fault {
            faults += 1;
            screen.say(format_args!("line {number}: {fault}"));
        }
        serde_json::to_writer(&mut *output, &answered)?;
        output.write_all(b"\n")?;
    }
    output.flush()?;
    Ok(faults)
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        input.consume(length);
        if end.is_some() {
            return Ok(());
        }
    }
}
