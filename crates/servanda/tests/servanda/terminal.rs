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
    /// Runs a command on a terminal at which a person types this. Its questions are in `stderr`.
    pub(crate) fn run_on_terminal(&self, args: &[&str], typed: &str) -> Ran {
        self.run_at(args, typed, (false, false))
    }

    /// The same, with stdout on the terminal too: all output is in `stderr`.
    pub(crate) fn run_on_screen(&self, args: &[&str]) -> Ran {
        self.run_at(args, "", (true, false))
    }

    /// The same on a terminal that shows colour.
    pub(crate) fn run_in_colour(&self, args: &[&str]) -> Ran {
        self.run_at(args, "", (true, true))
    }

    fn run_at(&self, args: &[&str], typed: &str, (data_too, colour): (bool, bool)) -> Ran {
        let keyboard: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut keyboard = File::from(keyboard);
        let mut command = self.command(args);
        if colour {
            command.env("TERM", "xterm-256color");
        } else {
            command.env("NO_COLOR", "1");
        }
        let mut child = command
            .stdin(Stdio::from(terminal.try_clone().unwrap()))
            .stdout(if data_too { Stdio::from(terminal.try_clone().unwrap()) } else { Stdio::piped() })
            .stderr(Stdio::from(terminal))
            .spawn()
            .unwrap();
        // The command holds its side of the terminal until it is dropped.
        drop(command);
        let stdout = child.stdout.take().map(read_aside);
        keyboard.write_all(typed.as_bytes()).unwrap();
        let mut screen = keyboard.try_clone().unwrap();
        let shown = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // Reading a terminal whose other side is closed ends with an error, not with an end of file.
            let _ = screen.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
        });
        let code = wait_for(&mut child);
        Ran {
            code,
            stdout: stdout.map(|reader| reader.join().unwrap()).unwrap_or_default(),
            stderr: shown.join().unwrap(),
        }
    }
}
