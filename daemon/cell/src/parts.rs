//! A change whose list came in several messages, put together. Room: the cell.

use crate::tools::Stop;
use palisade_plan::{cell::FileRequest, change::Act, parts::ActPart};

/// The most parts of a change's list.
const MOST_PARTS: usize = 256;

/// Parts of a change that is to come.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<ActPart>);

impl Parts {
    /// Keeps a part; makes a change whole of those that were kept.
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

/// Puts the list of an act together, of which the last part came with it.
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
