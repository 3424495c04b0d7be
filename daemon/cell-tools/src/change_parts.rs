//! Joins a change whose list came in several messages. Runs in the cell.

use crate::tools::Stop;
use palisade_plan::{cell::FileRequest, change::Act, parts::ActPart};

/// The maximum number of parts of one change.
const MOST_PARTS: usize = 256;

/// The parts received so far of a change.
#[derive(Debug, Default)]
pub(crate) struct ChangeParts(Vec<ActPart>);

impl ChangeParts {
    /// Stores a part, or completes a change with the stored parts. Passes other requests through.
    pub(crate) fn take(&mut self, request: FileRequest) -> Result<Option<FileRequest>, Stop> {
        if let FileRequest::Part(part) = request {
            self.0.push(part);
            if self.0.len() > MOST_PARTS {
                return Err(Stop::OutOfOrder("a change has too many parts"));
            }
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.0);
        if let FileRequest::Change(mut change) = request {
            whole(&mut change.act, parts)?;
            return Ok(Some(FileRequest::Change(change)));
        }
        if parts.is_empty() || request == FileRequest::Abandon {
            return Ok(Some(request));
        }
        Err(Stop::OutOfOrder("parts came, and no change"))
    }
}

/// Joins the list of an act. Its last part came with the act itself.
fn whole(act: &mut Act, parts: Vec<ActPart>) -> Result<(), Stop> {
    let (mut paths, mut restorations) = (Vec::new(), Vec::new());
    for part in parts {
        match (part, &act) {
            (ActPart::Leave(part), Act::Settle { .. }) => paths.extend(part),
            (ActPart::Entries(part), Act::Restore { .. }) => restorations.extend(part),
            (ActPart::Leave(_) | ActPart::Entries(_), _) => {
                return Err(Stop::OutOfOrder("parts came for another change"));
            }
        }
    }
    if let Act::Settle { leave, .. } = act {
        paths.append(leave);
        *leave = paths;
    } else if let Act::Restore { entries, .. } = act {
        restorations.append(entries);
        *entries = restorations;
    }
    Ok(())
}
