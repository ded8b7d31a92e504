//! The commands that only read, with the options under which they do: GNU's and util-linux's, as Debian has them. An option is listed
//! when neither it nor its value can write a file, start a program or change the system. Every other command and option is `unknown`.

/// What may stand beside the options of a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandOperands {
    /// Any number: files or texts that are read.
    Any,
    /// Any number. If an operand is a folder, the command opens the files below it.
    FilesBelow,
    /// One file or more. From a pipe the command would keep what it reads in a file.
    SomeFiles,
    /// None.
    None,
    /// One at the most, because the command writes to a second one. No glob, because it could become two operands.
    One,
    /// One folder, which is neither the root nor above the working folder.
    Folder,
    /// A format that begins with `+`: other operands set the clock.
    Format,
    /// Numbers of a few digits.
    Numbers,
    /// A script of `sed` or a program of `awk` or `jq`, then files.
    Script(fn(&str) -> bool),
    /// Option letters in BSD syntax, or process ids.
    Processes,
}

/// A command that only reads.
#[derive(Debug)]
pub(super) struct ReadOnlyCommand {
    pub(super) names: &'static str,
    /// Options of one letter without a value.
    pub(super) flags: &'static str,
    /// Options of one letter with a value, in the same word or the next.
    pub(super) valued: &'static str,
    /// Long options in full; `=` at the end where they have a value, `?` where they may have one.
    pub(super) long: &'static str,
    pub(super) operands: CommandOperands,
    /// Whether no option of the command changes anything, listed or not. Then a word may begin with a glob, although a file's name could
    /// become an option there.
    pub(super) harmless: bool,
    /// Whether `-5` is a number of lines.
    pub(super) counts: bool,
    pub(super) values: OptionValueStyle,
}

/// How the value of an option of one letter is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionValueStyle {
    /// In the same word or the next.
    Anywhere,
    /// As a word of its own, because the command reads the letters after such an option as further options.
    Apart,
    /// In the same word or the next, and it must be a number, because in the old syntax letters there are options.
    Number,
}

const READS: ReadOnlyCommand = ReadOnlyCommand {
    names: "",
    flags: "",
    valued: "",
    long: "",
    operands: CommandOperands::Any,
    harmless: true,
    counts: false,
    values: OptionValueStyle::Anywhere,
};

/// The entry of a command.
pub(super) fn read_only_command(name: &str) -> Option<&'static ReadOnlyCommand> {
    LISTED.iter().find(|listed| listed.names.split(' ').any(|known| known == name))
}

const LISTED: &[ReadOnlyCommand] = &[
    ReadOnlyCommand {
        names: "ls dir vdir",
        flags: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxX1Z",
        valued: "IwT",
        long: "all almost-all author color? directory dereference file-type full-time group-directories-first human-readable \
               ignore= hide= indicator-style= inode literal no-group numeric-uid-gid recursive reverse si size sort= time= \
               time-style= width= format= classify?",
        ..READS
    },
    ReadOnlyCommand {
        names: "cat",
        flags: "AbeEnstTuv",
        long: "number number-nonblank show-all show-ends show-tabs squeeze-blank show-nonprinting",
        ..READS
    },
    ReadOnlyCommand {
        names: "tac",
        flags: "br",
        valued: "s",
        long: "before regex separator=",
        operands: CommandOperands::SomeFiles,
        ..READS
    },
    ReadOnlyCommand { names: "rev", ..READS },
    ReadOnlyCommand {
        names: "head",
        flags: "qvz",
        valued: "nc",
        long: "lines= bytes= quiet silent verbose",
        counts: true,
        values: OptionValueStyle::Number,
        ..READS
    },
    ReadOnlyCommand {
        names: "tail",
        flags: "qvz",
        valued: "nc",
        long: "lines= bytes= quiet silent verbose",
        counts: true,
        values: OptionValueStyle::Number,
        ..READS
    },
    ReadOnlyCommand { names: "wc", flags: "clmLw", long: "bytes chars lines words max-line-length total=", ..READS },
    ReadOnlyCommand { names: "nl", flags: "p", valued: "bdfhilnsvw", ..READS },
    ReadOnlyCommand {
        names: "cut",
        flags: "snz",
        valued: "bcdf",
        long: "bytes= characters= delimiter= fields= complement only-delimited output-delimiter=",
        ..READS
    },
    ReadOnlyCommand { names: "tr", flags: "cCdst", long: "complement delete squeeze-repeats truncate-set1", ..READS },
    ReadOnlyCommand { names: "fold", flags: "bs", valued: "w", long: "bytes spaces width=", ..READS },
    ReadOnlyCommand { names: "fmt", flags: "cstu", valued: "wpg", long: "width= split-only", ..READS },
    ReadOnlyCommand {
        names: "expand unexpand",
        flags: "ai",
        valued: "t",
        long: "all tabs= initial first-only",
        ..READS
    },
    ReadOnlyCommand { names: "paste", flags: "sz", valued: "d", long: "serial delimiters=", ..READS },
    ReadOnlyCommand {
        names: "join",
        flags: "iz",
        valued: "a12eojtv",
        long: "header ignore-case check-order nocheck-order",
        ..READS
    },
    ReadOnlyCommand {
        names: "comm",
        flags: "123z",
        long: "total output-delimiter= check-order nocheck-order",
        ..READS
    },
    ReadOnlyCommand {
        names: "cmp",
        flags: "bls",
        valued: "in",
        long: "print-bytes verbose quiet silent bytes=",
        ..READS
    },
    ReadOnlyCommand {
        names: "diff",
        flags: "abBcdeEinNpqrstTuwyZ",
        valued: "xUCWIF",
        long: "brief unified? context? side-by-side recursive ignore-case ignore-all-space ignore-space-change ignore-blank-lines \
               exclude= suppress-common-lines width= color? new-file text minimal label= report-identical-files",
        harmless: false,
        operands: CommandOperands::FilesBelow,
        ..READS
    },
    ReadOnlyCommand {
        names: "sort",
        flags: "bcCdfghiMmnrRsuVz",
        valued: "kt",
        long: "key= field-separator= numeric-sort reverse unique human-numeric-sort version-sort ignore-case general-numeric-sort \
               month-sort stable check? sort= zero-terminated ignore-leading-blanks dictionary-order",
        harmless: false,
        ..READS
    },
    ReadOnlyCommand {
        names: "uniq",
        flags: "cdDiuz",
        valued: "fsw",
        long: "count repeated unique ignore-case skip-fields= skip-chars= check-chars= zero-terminated",
        operands: CommandOperands::One,
        harmless: false,
        ..READS
    },
    ReadOnlyCommand {
        names: "grep egrep fgrep",
        flags: "abcEFGhHiIlLnoPqrRsTUvwxyzZ",
        valued: "ABCdefm",
        long: "after-context= before-context= context= color? colour? count exclude= exclude-dir= exclude-from= include= regexp= file= \
               extended-regexp fixed-strings basic-regexp perl-regexp files-with-matches files-without-match ignore-case invert-match \
               line-number line-regexp word-regexp max-count= no-filename with-filename no-messages null only-matching quiet silent \
               recursive dereference-recursive text binary-files= label= line-buffered byte-offset null-data no-ignore-case",
        counts: true,
        operands: CommandOperands::FilesBelow,
        ..READS
    },
    ReadOnlyCommand {
        names: "stat",
        flags: "fLt",
        valued: "c",
        long: "format= printf= dereference file-system terse",
        ..READS
    },
    ReadOnlyCommand {
        names: "readlink",
        flags: "efmnqsvz",
        long: "canonicalize canonicalize-existing canonicalize-missing no-newline zero",
        ..READS
    },
    ReadOnlyCommand {
        names: "realpath",
        flags: "eLmPqsz",
        long: "relative-to= relative-base= canonicalize-existing canonicalize-missing no-symlinks strip",
        ..READS
    },
    ReadOnlyCommand { names: "basename", flags: "az", valued: "s", long: "multiple suffix= zero", ..READS },
    ReadOnlyCommand { names: "dirname", flags: "z", long: "zero", ..READS },
    ReadOnlyCommand {
        names: "du",
        flags: "abcDhHklLmPsSx0",
        valued: "dBt",
        long: "all apparent-size block-size= bytes dereference exclude= human-readable inodes max-depth= one-file-system separate-dirs \
               si summarize threshold= time? total count-links",
        ..READS
    },
    ReadOnlyCommand {
        names: "df",
        flags: "ahHiklmPT",
        valued: "Btx",
        long: "all block-size= exclude-type= human-readable inodes local output? portability print-type si total type=",
        harmless: false,
        ..READS
    },
    ReadOnlyCommand {
        names: "file",
        flags: "bhikLNr",
        long: "brief mime mime-type mime-encoding dereference no-dereference",
        harmless: false,
        ..READS
    },
    ReadOnlyCommand {
        names: "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum",
        flags: "btz",
        long: "binary text tag zero",
        ..READS
    },
    ReadOnlyCommand { names: "cksum sum", flags: "", ..READS },
    ReadOnlyCommand { names: "od", flags: "abcdfhilosvx", valued: "AjNtSw", ..READS },
    ReadOnlyCommand { names: "hexdump hd", flags: "bcCdovx", valued: "ens", ..READS },
    ReadOnlyCommand {
        names: "strings",
        flags: "af",
        valued: "net",
        long: "all bytes= radix=",
        harmless: false,
        ..READS
    },
    ReadOnlyCommand { names: "base64 base32", flags: "di", valued: "w", long: "decode ignore-garbage wrap=", ..READS },
    ReadOnlyCommand {
        names: "column",
        flags: "tx",
        valued: "csoNR",
        long: "table separator= output-separator=",
        ..READS
    },
    ReadOnlyCommand {
        names: "tree",
        flags: "aCdDfFghilnNpqrsStuvx",
        valued: "LIP",
        long: "dirsfirst noreport du si prune gitignore filelimit=",
        harmless: false,
        values: OptionValueStyle::Apart,
        ..READS
    },
    ReadOnlyCommand {
        names: "jq",
        flags: "acCeMnrsSj",
        long: "raw-output compact-output slurp null-input exit-status sort-keys raw-input join-output tab indent=",
        operands: CommandOperands::Script(super::scripts::is_jq_read),
        harmless: false,
        ..READS
    },
    ReadOnlyCommand { names: "seq", flags: "w", operands: CommandOperands::Numbers, ..READS },
    ReadOnlyCommand { names: "sleep", operands: CommandOperands::Numbers, ..READS },
    ReadOnlyCommand { names: "echo", flags: "neE", ..READS },
    ReadOnlyCommand { names: "true false", ..READS },
    ReadOnlyCommand { names: "pwd", flags: "LP", operands: CommandOperands::None, ..READS },
    ReadOnlyCommand { names: "cd", flags: "LP", operands: CommandOperands::Folder, harmless: false, ..READS },
    ReadOnlyCommand {
        names: "date",
        flags: "uR",
        valued: "dr",
        long: "date= utc universal reference= rfc-email rfc-3339= iso-8601?",
        operands: CommandOperands::Format,
        harmless: false,
        ..READS
    },
    ReadOnlyCommand { names: "whoami users tty arch logname hostid", operands: CommandOperands::None, ..READS },
    ReadOnlyCommand { names: "nproc", long: "all", operands: CommandOperands::None, ..READS },
    ReadOnlyCommand { names: "groups", ..READS },
    ReadOnlyCommand { names: "id", flags: "gGnruz", long: "user group groups name real", ..READS },
    ReadOnlyCommand {
        names: "uname",
        flags: "aimnoprsv",
        long: "all kernel-name nodename kernel-release kernel-version machine operating-system",
        operands: CommandOperands::None,
        ..READS
    },
    ReadOnlyCommand {
        names: "hostname",
        flags: "AdfiIsy",
        long: "fqdn short ip-address all-ip-addresses",
        operands: CommandOperands::None,
        harmless: false,
        ..READS
    },
    ReadOnlyCommand { names: "uptime", flags: "ps", long: "pretty since", operands: CommandOperands::None, ..READS },
    ReadOnlyCommand {
        names: "who",
        flags: "abdHlmpqrstTu",
        long: "all boot count heading",
        operands: CommandOperands::None,
        ..READS
    },
    ReadOnlyCommand { names: "w", flags: "fhis", operands: CommandOperands::None, ..READS },
    ReadOnlyCommand {
        names: "free",
        flags: "bghklmtw",
        long: "human mega giga kibi mebi gibi total wide",
        operands: CommandOperands::None,
        ..READS
    },
    ReadOnlyCommand { names: "lscpu", flags: "aJ", operands: CommandOperands::None, ..READS },
    ReadOnlyCommand { names: "lsblk", flags: "abdfilmnpJ", valued: "o", operands: CommandOperands::None, ..READS },
    ReadOnlyCommand {
        names: "ps",
        flags: "AaefFjlLHTwxy",
        valued: "oOpPuUCGgt",
        long: "sort= no-headers forest pid= ppid= user= format=",
        operands: CommandOperands::Processes,
        harmless: false,
        values: OptionValueStyle::Apart,
        ..READS
    },
    ReadOnlyCommand { names: "pgrep", flags: "acflnovx", valued: "PuUg", harmless: false, ..READS },
    ReadOnlyCommand {
        names: "netstat",
        flags: "aelnoprstuwx",
        operands: CommandOperands::None,
        harmless: false,
        ..READS
    },
    ReadOnlyCommand {
        names: "ss",
        flags: "aeilmnoprstuwx4",
        operands: CommandOperands::None,
        harmless: false,
        ..READS
    },
    ReadOnlyCommand { names: "dmesg", flags: "Tkutx", operands: CommandOperands::None, harmless: false, ..READS },
    ReadOnlyCommand { names: "printenv", flags: "0", ..READS },
    ReadOnlyCommand { names: "env", operands: CommandOperands::None, harmless: false, ..READS },
    ReadOnlyCommand { names: "which", flags: "a", ..READS },
    ReadOnlyCommand { names: "type", flags: "apPt", harmless: true, ..READS },
    ReadOnlyCommand {
        names: "sed",
        flags: "nErsz",
        long: "quiet silent regexp-extended",
        operands: CommandOperands::Script(super::scripts::is_sed_read),
        harmless: false,
        ..READS
    },
    ReadOnlyCommand {
        names: "awk gawk mawk",
        valued: "F",
        operands: CommandOperands::Script(super::scripts::is_awk_read),
        harmless: false,
        ..READS
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CommandOperands, LISTED};

    #[test]
    fn every_command_is_listed_once_and_no_option_both_ways() {
        let mut names = BTreeSet::new();
        for listed in LISTED {
            for name in listed.names.split(' ') {
                assert!(names.insert(name), "{name} twice");
            }
            let both = listed.flags.chars().find(|letter| listed.valued.contains(*letter));
            assert_eq!(both, None, "{}", listed.names);
            // A glob at the beginning could become an option or a second operand.
            assert!(
                !listed.harmless || !matches!(listed.operands, CommandOperands::One | CommandOperands::Script(_)),
                "{}",
                listed.names
            );
        }
    }
}
