//! The output that people see, kept in `snapshots/`. After an intended change: `INSTA_UPDATE=always cargo nextest run -p servanda --test
//! servanda`, then read the difference.

use crate::world::{Ran, World};

/// Text that differs from run to run, and its replacement.
const FILTERS: [(&str, &str); 19] = [
    (r"--as [0-9a-f]{8}\b", "--as [KEY ID]"),
    (r"svk_[0-9a-f]{20}_[A-Za-z0-9_-]{43}", "[KEY]"),
    (r"sva1\.[A-Za-z0-9_.-]+", "[CREDENTIAL]"),
    (r"(key:|agent:)[0-9a-f]{20,32}", "$1[ID]"),
    (r"\b[0-9a-f]{20}\b", "[KEY ID]            "),
    (r"…[A-Za-z0-9_-]{4}", "…[END]"),
    (r"call_[0-9a-f]{32}", "[CALL]"),
    (r"eff_[0-9a-f]{32}", "[EFFECT]"),
    (r"call_[0-9a-f]{6,31}", "[CALL PREFIX]"),
    (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "[TIME]"),
    (r"\bapr_[0-9a-f]{32}\b", "[TICKET]"),
    (r"servanda-backup-\d{8}T\d{6}\.\d{3}Z", "servanda-backup-[TIME]"),
    (r"· \d+ ms", "· [TOOK]"),
    (r"\(\d+ (µs|ms)\)", "([TOOK])"),
    (r"(trace )[0-9a-f]{32}", "$1[TRACE]"),
    (r"(\(|arguments digest )(sha256:)?[0-9a-f]{8,64}\b", "$1[DIGEST]"),
    (r"(\S+ \(uid \d+\)|uid \d+)", "[WHO]"),
    (r"\[CALL\] {2,}", "[CALL]  "),
    (r"  \d{4}-\d{2}-\d{2}  ", "  [DAY]       "),
];

/// A page of commands and their output.
pub(crate) struct Page<'a> {
    world: &'a World,
    text: String,
}

impl<'a> Page<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self { world, text: String::new() }
    }

    /// Runs a command and puts it on the page.
    #[track_caller]
    pub(crate) fn run(&mut self, args: &[&str]) -> Ran {
        let ran = self.world.run(args);
        self.show(&args.join(" "), &ran);
        ran
    }

    /// Puts the output of a command on the page.
    pub(crate) fn show(&mut self, typed: &str, ran: &Ran) {
        let code = ran.code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
        let (stdout, stderr) = (self.world.steady(&ran.stdout), self.world.steady(&ran.stderr));
        let stderr: String = stderr.lines().flat_map(|line| ["! ", line, "\n"]).collect();
        self.text.extend(["$ servanda ", typed, "\n", &stdout, &stderr, "exit ", &code, "\n\n"]);
    }

    /// Puts a heading on the page.
    pub(crate) fn head(&mut self, heading: &str) {
        self.text.extend(["# ", heading, "\n"]);
    }

    /// Compares the page with the stored one.
    #[track_caller]
    pub(crate) fn compare(self, name: &str) {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        for (from, to) in FILTERS {
            settings.add_filter(from, to);
        }
        settings.bind(|| insta::assert_snapshot!(name, self.text));
    }
}
