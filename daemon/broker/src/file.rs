//! File tools that look: one exchange on a file channel of the cell each. Broker.

mod exchange;
mod media;
mod read;
mod search;
mod sieve;

use crate::{
    context::{Context, Deadline},
    error::CallError,
    escaped::escaped,
    files::Lease,
    outcome::Outcome,
    task::Task,
};
use exchange::{ask, done, unexpected};
use palisade_plan::{
    Path,
    cell::{Entry, EntryKind, FileReply, FileRequest},
};
use palisade_protocol::{RawPath, ToolSpec};
use read::Reading;
use serde_json::json;
use sieve::Sieve;

/// Does a file task; stops waiting at the deadline or when cancelled.
pub(crate) async fn run(
    task: Task,
    spec: &ToolSpec,
    mut context: Context,
    deadline: Deadline,
) -> Outcome {
    let cancel = context.cancel.clone();
    let work = async {
        let Some(mut lease) = context.session.files.lease().await else {
            return Err(context.session.channel_error("all its file channels are broken"));
        };
        perform(task, spec, &mut lease, &mut context).await
    };
    tokio::select! {
        biased;
        done = work => done.unwrap_or_else(Outcome::from),
        stop = Context::stopped(&cancel, deadline) => stop.into(),
    }
}

async fn perform(
    task: Task,
    spec: &ToolSpec,
    lease: &mut Lease,
    context: &mut Context,
) -> Result<Outcome, CallError> {
    let absolute = |path: &[u8]| Path(context.session.absolute(path));
    match task {
        Task::Read { path, part, encoding, numbering } => {
            let wanted = Reading { path: absolute(&path), part, encoding, numbering };
            read::read(wanted, lease, context).await
        }
        Task::List { path, recursive, skip, limit, choice } => {
            let path = absolute(&path);
            let request = FileRequest::List { path: path.clone(), recursive, skip, limit, choice };
            let reply = ask(request, lease, context).await?;
            let FileReply::Listed { real, entries, total, more } = reply else {
                return Err(unexpected(reply));
            };
            let mut sieve = Sieve::new(&context.session, spec, real);
            let entries = sieve.keep(entries, |entry| &entry.path);
            listed(path, entries, total, more, sieve.withheld)
        }
        Task::Glob(glob) => search::glob(glob, spec, lease, context).await,
        Task::Grep(grep) => search::grep(*grep, spec, lease, context).await,
        Task::Run(_)
        | Task::Change(_)
        | Task::Job(_)
        | Task::Errand(_)
        | Task::Provided { .. }
        | Task::Check { .. } => Err(CallError::Cell("this is not a file task".to_owned())),
    }
}

fn listed(
    path: Path,
    entries: Vec<Entry>,
    total: u64,
    more: bool,
    withheld: u64,
) -> Result<Outcome, CallError> {
    let mut output = String::new();
    for entry in &entries {
        output.push_str(&escaped(&entry.path.0));
        output.push_str(match entry.kind {
            EntryKind::File => "\n",
            EntryKind::Directory => "/\n",
            EntryKind::Symlink => "@\n",
            EntryKind::Other => "?\n",
        });
    }
    let entries: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let kind = match entry.kind {
                EntryKind::File => "file",
                EntryKind::Directory => "directory",
                EntryKind::Symlink => "symlink",
                EntryKind::Other => "other",
            };
            json!({"path": RawPath(entry.path.0), "kind": kind, "size": entry.size})
        })
        .collect();
    let data = json!({
        "path": RawPath(path.0), "entries": entries, "total": total, "more": more,
        "withheld": withheld,
    });
    Ok(Outcome { output, ..done(data)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_marks_kinds_and_keeps_every_name() {
        let entry = |path: &[u8], kind, size| Entry { path: Path(path.to_vec()), kind, size };
        let entries = vec![
            entry(b"a\n", EntryKind::File, 3),
            entry(b"d", EntryKind::Directory, 0),
            entry(b"l", EntryKind::Symlink, 0),
            entry(b"\xff", EntryKind::Other, 0),
        ];
        let outcome = listed(Path(b"/w".to_vec()), entries, 9, true, 0).unwrap();
        assert_eq!(outcome.output, "a\\n\nd/\nl@\n\\xff?\n");
        let data: serde_json::Value = serde_json::from_str(outcome.data.unwrap().as_str()).unwrap();
        assert_eq!(data["entries"][0], json!({"path": "a\n", "kind": "file", "size": 3}));
        assert_eq!(data["entries"][3]["path"], json!({"base64": "/w=="}));
        assert_eq!((&data["total"], &data["more"]), (&json!(9), &json!(true)));
    }
}
