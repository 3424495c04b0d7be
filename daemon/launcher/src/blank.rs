//! Processes that wait for a session, made ahead.

use crate::{
    cgroup::SessionCgroups,
    spawn::{Process, Spawner},
};

/// Processes that wait for a session, made ahead: starting them and putting them into cgroups is
/// most of what a session costs.
#[derive(Debug)]
pub(crate) struct Blank {
    pub(crate) files: Process,
    pub(crate) runner: Process,
    pub(crate) cgroups: Option<SessionCgroups>,
}

impl Blank {
    pub(crate) fn make(spawner: &Spawner, cgroups: Option<SessionCgroups>) -> Result<Self, String> {
        let mut started = Vec::with_capacity(2);
        match Self::start_in(spawner, cgroups.as_ref(), &mut started) {
            Ok(()) => match <[Process; 2]>::try_from(started) {
                Ok([files, runner]) => Ok(Self { files, runner, cgroups }),
                Err(_) => Err("a blank is two processes".into()),
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

    pub(crate) fn end(self) {
        end(&[self.files, self.runner], self.cgroups);
    }
}

/// Ends processes that belong to no session, and removes their cgroups.
fn end(processes: &[Process], cgroups: Option<SessionCgroups>) {
    for process in processes {
        process.kill();
        process.collect();
    }
    if let Some(cgroups) = cgroups {
        cgroups.remove();
    }
}
