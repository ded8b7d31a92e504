//! A terminal, for the commands that ask a person.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::Stdio,
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::world::{Ran, World, read_aside, wait_for};

impl World {
    /// Runs a command on a terminal at which a person types that. What it asks is in `stderr`.
    pub(crate) fn run_on_terminal(&self, args: &[&str], typed: &str) -> Ran {
        let keyboard: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut keyboard = File::from(keyboard);
        let mut command = self.command(args);
        command.env("NO_COLOR", "1");
        let mut child = command
            .stdin(Stdio::from(terminal.try_clone().unwrap()))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(terminal))
            .spawn()
            .unwrap();
        // The command holds the terminal's side as long as it is not dropped.
        drop(command);
        let stdout = read_aside(child.stdout.take().unwrap());
        keyboard.write_all(typed.as_bytes()).unwrap();
        let mut screen = keyboard.try_clone().unwrap();
        let shown = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A terminal whose other side is closed ends in an error, not in an end.
            let _ = screen.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
        });
        let code = wait_for(&mut child);
        Ran { code, stdout: stdout.join().unwrap(), stderr: shown.join().unwrap() }
    }
}
