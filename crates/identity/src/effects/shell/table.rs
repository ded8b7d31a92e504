//! The commands that only read, with the options under which they do: GNU's and util-linux's, as Debian has them. An option is listed
//! when neither it nor its value can write a file, start a program or change the system. Every other command and option is `unknown`.

/// What may stand beside the options of a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operands {
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
pub(super) struct Listed {
    pub(super) names: &'static str,
    /// Options of one letter without a value.
    pub(super) flags: &'static str,
    /// Options of one letter with a value, in the same word or the next.
    pub(super) valued: &'static str,
    /// Long options in full; `=` at the end where they have a value, `?` where they may have one.
    pub(super) long: &'static str,
    pub(super) operands: Operands,
    /// Whether no option of the command changes anything, listed or not. Then a word may begin with a glob, although a file's name could
    /// become an option there.
    pub(super) harmless: bool,
    /// Whether `-5` is a number of lines.
    pub(super) counts: bool,
    pub(super) values: Values,
}

/// How the value of an option of one letter is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// In the same word or the next.
    Anywhere,
    /// As a word of its own, because the command reads the letters after such an option as further options.
    Apart,
    /// In the same word or the next, and it must be a number, because in the old syntax letters there are options.
    Number,
}

const READS: Listed = Listed {
    names: "",
    flags: "",
    valued: "",
    long: "",
    operands: Operands::Any,
    harmless: true,
    counts: false,
    values: Values::Anywhere,
};

/// The entry of a command.
pub(super) fn listed(name: &str) -> Option<&'static Listed> {
    LISTED.iter().find(|listed| listed.names.split(' ').any(|known| known == name))
}

const LISTED: &[Listed] = &[
    Listed {
        names: "ls dir vdir",
        flags: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxX1Z",
        valued: "IwT",
        long: "all almost-all author color? directory dereference file-type full-time group-directories-first human-readable \
               ignore= hide= indicator-style= inode literal no-group numeric-uid-gid recursive reverse si size sort= time= \
               time-style= width= format= classify?",
        ..READS
    },
    Listed {
        names: "cat",
        flags: "AbeEnstTuv",
        long: "number number-nonblank show-all show-ends show-tabs squeeze-blank show-nonprinting",
        ..READS
    },
    Listed {
        names: "tac",
        flags: "br",
        valued: "s",
        long: "before regex separator=",
        operands: Operands::SomeFiles,
        ..READS
    },
    Listed { names: "rev", ..READS },
    Listed {
        names: "head",
        flags: "qvz",
        valued: "nc",
        long: "lines= bytes= quiet silent verbose",
        counts: true,
        values: Values::Number,
        ..READS
    },
    Listed {
        names: "tail",
        flags: "qvz",
        valued: "nc",
        long: "lines= bytes= quiet silent verbose",
        counts: true,
        values: Values::Number,
        ..READS
    },
    Listed { names: "wc", flags: "clmLw", long: "bytes chars lines words max-line-length total=", ..READS },
    Listed { names: "nl", flags: "p", valued: "bdfhilnsvw", ..READS },
    Listed {
        names: "cut",
        flags: "snz",
        valued: "bcdf",
        long: "bytes= characters= delimiter= fields= complement only-delimited output-delimiter=",
        ..READS
    },
    Listed { names: "tr", flags: "cCdst", long: "complement delete squeeze-repeats truncate-set1", ..READS },
    Listed { names: "fold", flags: "bs", valued: "w", long: "bytes spaces width=", ..READS },
    Listed { names: "fmt", flags: "cstu", valued: "wpg", long: "width= split-only", ..READS },
    Listed { names: "expand unexpand", flags: "ai", valued: "t", long: "all tabs= initial first-only", ..READS },
    Listed { names: "paste", flags: "sz", valued: "d", long: "serial delimiters=", ..READS },
    Listed {
        names: "join",
        flags: "iz",
        valued: "a12eojtv",
        long: "header ignore-case check-order nocheck-order",
        ..READS
    },
    Listed { names: "comm", flags: "123z", long: "total output-delimiter= check-order nocheck-order", ..READS },
    Listed { names: "cmp", flags: "bls", valued: "in", long: "print-bytes verbose quiet silent bytes=", ..READS },
    Listed {
        names: "diff",
        flags: "abBcdeEinNpqrstTuwyZ",
        valued: "xUCWIF",
        long: "brief unified? context? side-by-side recursive ignore-case ignore-all-space ignore-space-change ignore-blank-lines \
               exclude= suppress-common-lines width= color? new-file text minimal label= report-identical-files",
        harmless: false,
        operands: Operands::FilesBelow,
        ..READS
    },
    Listed {
        names: "sort",
        flags: "bcCdfghiMmnrRsuVz",
        valued: "kt",
        long: "key= field-separator= numeric-sort reverse unique human-numeric-sort version-sort ignore-case general-numeric-sort \
               month-sort stable check? sort= zero-terminated ignore-leading-blanks dictionary-order",
        harmless: false,
        ..READS
    },
    Listed {
        names: "uniq",
        flags: "cdDiuz",
        valued: "fsw",
        long: "count repeated unique ignore-case skip-fields= skip-chars= check-chars= zero-terminated",
        operands: Operands::One,
        harmless: false,
        ..READS
    },
    Listed {
        names: "grep egrep fgrep",
        flags: "abcEFGhHiIlLnoPqrRsTUvwxyzZ",
        valued: "ABCdefm",
        long: "after-context= before-context= context= color? colour? count exclude= exclude-dir= exclude-from= include= regexp= file= \
               extended-regexp fixed-strings basic-regexp perl-regexp files-with-matches files-without-match ignore-case invert-match \
               line-number line-regexp word-regexp max-count= no-filename with-filename no-messages null only-matching quiet silent \
               recursive dereference-recursive text binary-files= label= line-buffered byte-offset null-data no-ignore-case",
        counts: true,
        operands: Operands::FilesBelow,
        ..READS
    },
    Listed { names: "stat", flags: "fLt", valued: "c", long: "format= printf= dereference file-system terse", ..READS },
    Listed {
        names: "readlink",
        flags: "efmnqsvz",
        long: "canonicalize canonicalize-existing canonicalize-missing no-newline zero",
        ..READS
    },
    Listed {
        names: "realpath",
        flags: "eLmPqsz",
        long: "relative-to= relative-base= canonicalize-existing canonicalize-missing no-symlinks strip",
        ..READS
    },
    Listed { names: "basename", flags: "az", valued: "s", long: "multiple suffix= zero", ..READS },
    Listed { names: "dirname", flags: "z", long: "zero", ..READS },
    Listed {
        names: "du",
        flags: "abcDhHklLmPsSx0",
        valued: "dBt",
        long: "all apparent-size block-size= bytes dereference exclude= human-readable inodes max-depth= one-file-system separate-dirs \
               si summarize threshold= time? total count-links",
        ..READS
    },
    Listed {
        names: "df",
        flags: "ahHiklmPT",
        valued: "Btx",
        long: "all block-size= exclude-type= human-readable inodes local output? portability print-type si total type=",
        harmless: false,
        ..READS
    },
    Listed {
        names: "file",
        flags: "bhikLNr",
        long: "brief mime mime-type mime-encoding dereference no-dereference",
        harmless: false,
        ..READS
    },
    Listed {
        names: "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum",
        flags: "btz",
        long: "binary text tag zero",
        ..READS
    },
    Listed { names: "cksum sum", flags: "", ..READS },
    Listed { names: "od", flags: "abcdfhilosvx", valued: "AjNtSw", ..READS },
    Listed { names: "hexdump hd", flags: "bcCdovx", valued: "ens", ..READS },
    Listed { names: "strings", flags: "af", valued: "net", long: "all bytes= radix=", harmless: false, ..READS },
    Listed { names: "base64 base32", flags: "di", valued: "w", long: "decode ignore-garbage wrap=", ..READS },
    Listed { names: "column", flags: "tx", valued: "csoNR", long: "table separator= output-separator=", ..READS },
    Listed {
        names: "tree",
        flags: "aCdDfFghilnNpqrsStuvx",
        valued: "LIP",
        long: "dirsfirst noreport du si prune gitignore filelimit=",
        harmless: false,
        values: Values::Apart,
        ..READS
    },
    Listed {
        names: "jq",
        flags: "acCeMnrsSj",
        long: "raw-output compact-output slurp null-input exit-status sort-keys raw-input join-output tab indent=",
        operands: Operands::Script(super::scripts::is_jq_read),
        harmless: false,
        ..READS
    },
    Listed { names: "seq", flags: "w", operands: Operands::Numbers, ..READS },
    Listed { names: "sleep", operands: Operands::Numbers, ..READS },
    Listed { names: "echo", flags: "neE", ..READS },
    Listed { names: "true false", ..READS },
    Listed { names: "pwd", flags: "LP", operands: Operands::None, ..READS },
    Listed { names: "cd", flags: "LP", operands: Operands::Folder, harmless: false, ..READS },
    Listed {
        names: "date",
        flags: "uR",
        valued: "dr",
        long: "date= utc universal reference= rfc-email rfc-3339= iso-8601?",
        operands: Operands::Format,
        harmless: false,
        ..READS
    },
    Listed { names: "whoami users tty arch logname hostid", operands: Operands::None, ..READS },
    Listed { names: "nproc", long: "all", operands: Operands::None, ..READS },
    Listed { names: "groups", ..READS },
    Listed { names: "id", flags: "gGnruz", long: "user group groups name real", ..READS },
    Listed {
        names: "uname",
        flags: "aimnoprsv",
        long: "all kernel-name nodename kernel-release kernel-version machine operating-system",
        operands: Operands::None,
        ..READS
    },
    Listed {
        names: "hostname",
        flags: "AdfiIsy",
        long: "fqdn short ip-address all-ip-addresses",
        operands: Operands::None,
        harmless: false,
        ..READS
    },
    Listed { names: "uptime", flags: "ps", long: "pretty since", operands: Operands::None, ..READS },
    Listed { names: "who", flags: "abdHlmpqrstTu", long: "all boot count heading", operands: Operands::None, ..READS },
    Listed { names: "w", flags: "fhis", operands: Operands::None, ..READS },
    Listed {
        names: "free",
        flags: "bghklmtw",
        long: "human mega giga kibi mebi gibi total wide",
        operands: Operands::None,
        ..READS
    },
    Listed { names: "lscpu", flags: "aJ", operands: Operands::None, ..READS },
    Listed { names: "lsblk", flags: "abdfilmnpJ", valued: "o", operands: Operands::None, ..READS },
    Listed {
        names: "ps",
        flags: "AaefFjlLHTwxy",
        valued: "oOpPuUCGgt",
        long: "sort= no-headers forest pid= ppid= user= format=",
        operands: Operands::Processes,
        harmless: false,
        values: Values::Apart,
        ..READS
    },
    Listed { names: "pgrep", flags: "acflnovx", valued: "PuUg", harmless: false, ..READS },
    Listed { names: "netstat", flags: "aelnoprstuwx", operands: Operands::None, harmless: false, ..READS },
    Listed { names: "ss", flags: "aeilmnoprstuwx4", operands: Operands::None, harmless: false, ..READS },
    Listed { names: "dmesg", flags: "Tkutx", operands: Operands::None, harmless: false, ..READS },
    Listed { names: "printenv", flags: "0", ..READS },
    Listed { names: "env", operands: Operands::None, harmless: false, ..READS },
    Listed { names: "which", flags: "a", ..READS },
    Listed { names: "type", flags: "apPt", harmless: true, ..READS },
    Listed {
        names: "sed",
        flags: "nErsz",
        long: "quiet silent regexp-extended",
        operands: Operands::Script(super::scripts::is_sed_read),
        harmless: false,
        ..READS
    },
    Listed {
        names: "awk gawk mawk",
        valued: "F",
        operands: Operands::Script(super::scripts::is_awk_read),
        harmless: false,
        ..READS
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LISTED, Operands};

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
                !listed.harmless || !matches!(listed.operands, Operands::One | Operands::Script(_)),
                "{}",
                listed.names
            );
        }
    }
}
