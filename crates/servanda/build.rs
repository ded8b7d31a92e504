//! Gives the linker an order of functions: those of a call side by side, then those of the start. Without it they are spread over a binary of
//! many megabytes, so that a call waits for pages of code, and an idle gateway keeps all of them in memory. `make orderfile` writes the order
//! and docs/performance.md says what it gives.
//!
//! Deliberately not here: a requirement. Each option is tried on a small program first; a linker that does not take it, or a system that
//! cannot run what it makes, does without.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

const ORDER_FILE: &str = "orderfile.txt";
const PROBE: &str = "fn main() {}";

fn main() {
    report(&format!("rerun-if-changed={ORDER_FILE}"));
    let build = Build::read();
    // Functions of a debug build have other names.
    let Some(build) = build.filter(|build| build.is_optimised) else { return };
    let order = build.manifest.join(ORDER_FILE);
    let in_order =
        [format!("-Wl,--symbol-ordering-file={}", order.display()), "-Wl,--no-warn-symbol-ordering".to_owned()];
    // Addresses that the system adjusts at each start take three megabytes otherwise, all of them read at the start.
    let packed = ["-Wl,-z,pack-relative-relocs".to_owned()];
    for options in [&in_order[..], &packed[..]] {
        if build.links_and_runs(options) {
            for option in options {
                report(&format!("rustc-link-arg-bins={option}"));
            }
        }
    }
}

/// What cargo says about this build.
struct Build {
    compiler: PathBuf,
    linker: Option<String>,
    flags: Vec<String>,
    target: String,
    is_native: bool,
    is_optimised: bool,
    manifest: PathBuf,
    folder: PathBuf,
}

impl Build {
    fn read() -> Option<Self> {
        let target = env::var("TARGET").ok()?;
        let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        Some(Self {
            compiler: env::var_os("RUSTC")?.into(),
            linker: env::var("RUSTC_LINKER").ok(),
            flags: flags.split('\u{1f}').filter(|flag| !flag.is_empty()).map(str::to_owned).collect(),
            is_native: env::var("HOST").is_ok_and(|host| host == target),
            is_optimised: env::var("OPT_LEVEL").is_ok_and(|level| level != "0"),
            manifest: env::var_os("CARGO_MANIFEST_DIR")?.into(),
            folder: env::var_os("OUT_DIR")?.into(),
            target,
        })
    }

    /// Whether a small program can be linked with these options, and runs.
    fn links_and_runs(&self, options: &[String]) -> bool {
        let (source, program) = (self.folder.join("probe.rs"), self.folder.join("probe"));
        if std::fs::write(&source, PROBE).is_err() {
            return false;
        }
        let mut arguments = vec!["--target".to_owned(), self.target.clone()];
        arguments.extend(self.linker.iter().map(|linker| format!("-Clinker={linker}")));
        arguments.extend(options.iter().map(|option| format!("-Clink-arg={option}")));
        arguments.extend(self.flags.iter().cloned());
        arguments.extend(["-o".to_owned(), program.display().to_string(), source.display().to_string()]);
        succeeds(&self.compiler, &arguments) && (!self.is_native || succeeds(&program, &[]))
    }
}

#[expect(clippy::disallowed_methods, reason = "a build script is no part of the gateway")]
fn succeeds(program: &Path, arguments: &[String]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|done| done.status.success())
}

fn report(instruction: &str) {
    println!("cargo::{instruction}");
}
