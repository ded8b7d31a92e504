//! Finds the processes that descend from this one, and signals each without hitting another process that got its id meanwhile.

use rustix::process::Signal;

/// Signals every descendant that still runs.
#[cfg(target_os = "linux")]
pub(super) fn signal_all(signal: Signal) {
    for process in linux::descendants(std::process::id()) {
        process.signal(signal);
    }
}

/// On other systems only the process group is known, and this process is a member of it.
#[cfg(not(target_os = "linux"))]
pub(super) fn signal_all(signal: Signal) {
    // A group without members needs no signal.
    let _ = rustix::process::kill_current_process_group(signal);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

    /// A process as `/proc` shows it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct DescendantProcess {
        pub(super) id: u32,
        pub(super) parent: u32,
        /// The process has ended but has not been waited for yet.
        ended: bool,
        /// When it was started: no two processes with the same id have the same start time.
        started: u64,
    }

    /// All descendants of that process, at any depth.
    pub(super) fn descendants(of: u32) -> Vec<DescendantProcess> {
        let mut others: Vec<DescendantProcess> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| DescendantProcess::read(entry.ok()?.file_name().to_str()?.parse().ok()?))
            .collect();
        let (mut found, mut parents) = (Vec::new(), vec![of]);
        while let Some(parent) = parents.pop() {
            let (children, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|process| process.parent == parent);
            parents.extend(children.iter().map(|child| child.id));
            found.extend(children);
            others = rest;
        }
        found
    }

    impl DescendantProcess {
        pub(super) fn read(id: u32) -> Option<Self> {
            Self::parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
        }

        pub(super) fn parse(id: u32, stat: &str) -> Option<Self> {
            // The name may contain anything, even a closing parenthesis.
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
            Some(Self { id, parent, ended: matches!(state, "Z" | "X"), started: fields.nth(17)?.parse().ok()? })
        }

        /// Signals the process if it is still the one that was found. If it cannot be signalled, the caller looks again.
        pub(super) fn signal(&self, signal: Signal) {
            let Some(pid) = i32::try_from(self.id).ok().and_then(Pid::from_raw) else { return };
            if self.ended {
                return;
            }
            let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
                // A kernel without such handles: another process may have the id by now, which is unlikely within a moment.
                let _ = kill_process(pid, signal);
                return;
            };
            // The handle refers to one process. If that one has the start time of ours, it is ours.
            if Self::read(self.id).is_some_and(|now| now.started == self.started) {
                let _ = pidfd_send_signal(handle, signal);
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::linux::{DescendantProcess, descendants};

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9911 1 1 1\n";
        let process = DescendantProcess::parse(42, stat).unwrap();
        assert_eq!((process.id, process.parent), (42, 7));
        assert_ne!(
            process,
            DescendantProcess::parse(42, &stat.replace("9911", "9912")).unwrap(),
            "another start, another process"
        );
        assert_eq!(DescendantProcess::parse(42, "42 (cut"), None);
    }

    #[test]
    fn this_process_descends_from_its_parent() {
        let own = std::process::id();
        let parent = DescendantProcess::read(own).unwrap().parent;
        assert!(descendants(parent).iter().any(|process| process.id == own));
    }
}
