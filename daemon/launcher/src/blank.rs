//! Processes that are started ahead for the next session.

use crate::{
    cgroup::{Cgroups, SessionCgroups},
    spawn::{Process, Spawner},
};
use std::io;

/// Processes that are started ahead and wait for a session. Starting them and putting them into
/// cgroups is most of the cost of a session.
#[derive(Debug)]
pub(crate) struct PrestartedSession {
    pub(crate) files: Process,
    pub(crate) runner: Process,
    pub(crate) cgroups: Option<SessionCgroups>,
}

impl PrestartedSession {
    pub(crate) fn make(spawner: &Spawner, cgroups: Option<SessionCgroups>) -> Result<Self, String> {
        let mut started = Vec::with_capacity(2);
        match Self::start_in(spawner, cgroups.as_ref(), &mut started) {
            Ok(()) => match <[Process; 2]>::try_from(started) {
                Ok([files, runner]) => Ok(Self { files, runner, cgroups }),
                Err(_) => Err("a prepared cell must have two processes".into()),
            },
            Err(why) => {
                end(&started, cgroups);
                Err(why)
            }
        }
    }

    fn start_in(
        spawner: &Spawner,
        cgroups: Option<&SessionCgroups>,
        started: &mut Vec<Process>,
    ) -> Result<(), String> {
        for _ in 0..2 {
            let process = spawner.start().map_err(|error| error.to_string())?;
            let pid = process.pid();
            started.push(process);
            if let Some(cgroups) = cgroups {
                cgroups.add(pid).map_err(|error| format!("cgroup: {error}"))?;
            }
        }
        Ok(())
    }

    /// Puts the processes into cgroups of the user that the session is for.
    pub(crate) fn assign(&mut self, all: &mut Cgroups, uid: u32) -> io::Result<()> {
        let processes = [self.files.pid(), self.runner.pid()];
        match &mut self.cgroups {
            Some(cgroups) => all.assign(cgroups, uid, processes),
            None => Ok(()),
        }
    }

    pub(crate) fn end(self) {
        end(&[self.files, self.runner], self.cgroups);
    }
}

/// Ends processes that belong to no session, and deletes their cgroups.
fn end(processes: &[Process], cgroups: Option<SessionCgroups>) {
    processes.iter().for_each(Process::kill);
    processes.iter().for_each(Process::collect);
    if let Some(cgroups) = cgroups {
        cgroups.remove();
    }
}
