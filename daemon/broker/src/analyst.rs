//! The analyst as the broker has it: a process beside it that parses hostile shell text. No answer is
//! an answer: what runs is then hidden. Broker.

use palisade_analyst::Supervisor;
use palisade_policy::analysis::{Analysed, Found, Kind};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Its file name.
const NAME: &str = "palisade-analyst";
/// Where packages put it.
const INSTALLED: &str = "/usr/libexec/palisade";
/// How many there are, so that one hostile text does not hold up everybody.
const COUNT: usize = 2;

/// A few analysts.
#[derive(Debug)]
pub(crate) struct Analyst {
    supervisors: Vec<Arc<Supervisor>>,
    next: AtomicUsize,
}

/// There is no program to analyse with.
#[derive(Debug, thiserror::Error)]
#[error("no {NAME} in {}; build or install the whole of Palisade", .0.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" or "))]
pub struct NoAnalyst(Vec<PathBuf>);

impl Analyst {
    /// The analyst that lies beside this program, or the installed one.
    pub(crate) fn find() -> Result<Self, NoAnalyst> {
        let exe = std::env::current_exe().ok();
        let beside = exe.and_then(|exe| exe.parent().map(Path::to_path_buf));
        let places: Vec<_> = beside.into_iter().chain([PathBuf::from(INSTALLED)]).collect();
        let found = places.iter().map(|place| place.join(NAME)).find(|path| path.is_file());
        Ok(Self::at(&found.ok_or(NoAnalyst(places))?))
    }

    /// The analyst at a path.
    pub(crate) fn at(program: &Path) -> Self {
        let supervisor = |_| Arc::new(Supervisor::new(program.to_owned()));
        Self { supervisors: (0..COUNT).map(supervisor).collect(), next: AtomicUsize::new(0) }
    }

    /// Starts them, so that the first call need not wait. One that does not start is tried again
    /// when it is asked.
    pub(crate) fn start(&self) {
        for supervisor in &self.supervisors {
            if let Err(error) = supervisor.start() {
                tracing::warn!(%error, "shell commands can not be analysed, so they are asked about");
            }
        }
    }

    /// What a text would do.
    pub(crate) async fn ask(&self, text: String) -> Analysed {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let lost = |why: &str| Analysed {
            found: vec![Found::whole(Kind::Hidden, "", why)],
            commands: Vec::new(),
        };
        let Some(supervisor) = self.supervisors.get(turn % COUNT) else {
            return lost("there is nobody to analyse it");
        };
        let supervisor = Arc::clone(supervisor);
        match tokio::task::spawn_blocking(move || supervisor.ask(&text)).await {
            Ok(analysis) => {
                if let Some(failure) = &analysis.failure {
                    tracing::warn!(failure, "a command could not be analysed");
                }
                analysis.made
            }
            Err(_) => lost("the analysis was broken off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_analyst_is_an_answer() {
        let analyst = Analyst::at(Path::new("/nonexistent/palisade-analyst"));
        analyst.start();
        let made = analyst.ask("true".to_owned()).await;
        assert_eq!(made.found.iter().map(|found| found.kind).collect::<Vec<_>>(), [Kind::Hidden]);
        assert_eq!(made.commands(), palisade_policy::Commands::Unknown);
    }
}
