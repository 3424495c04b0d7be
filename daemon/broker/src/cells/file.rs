//! File tools that only read: each is one exchange on a file channel of the cell. Runs in the
//! broker.

pub(in crate::cells) mod exchange;
mod read;
mod search;
mod sieve;

use crate::{
    base::{
        error::CallError,
        outcome::Outcome,
        task::{LookReport, Task},
    },
    cells::{
        context::{Context, Deadline},
        files::Lease,
    },
};
use exchange::{ask, done, unexpected};
use palisade_plan::{
    Path,
    cell::{
        Contents, Entry, EntryDetails, EntryKind, FileError, FileErrorKind, FileReply, FileRequest,
    },
};
use palisade_protocol::{RawPath, ToolSpec};
use palisade_text::escape_bytes;
use read::ReadRequest;
use serde_json::json;
use sieve::Sieve;

/// Carries out a read-only file task. Stops waiting at the deadline or when cancelled.
pub(crate) async fn run(
    task: Task,
    spec: &ToolSpec,
    mut context: Context,
    deadline: Deadline,
) -> Outcome {
    let cancel = context.cancel.clone();
    let work = async {
        let Some(mut lease) = context.session.cell.files.lease().await else {
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
            let wanted = ReadRequest { path: absolute(&path), part, encoding, numbering };
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
        Task::Look { path, link, report } => {
            let (path, contents) = (absolute(&path), Contents::Closed);
            let request = FileRequest::Look { path: path.clone(), link, contents };
            match (ask(request, lease, context).await?, report) {
                (FileReply::Looked { real, found }, LookReport::Entry) => {
                    stated(&path, real, found)
                }
                (FileReply::Looked { real, found }, LookReport::RealPath) => {
                    resolved(&path, real, found)
                }
                (reply, _) => Err(unexpected(reply)),
            }
        }
        Task::Glob(glob) => search::glob(glob, spec, lease, context).await,
        Task::Grep(grep) => search::grep(*grep, spec, lease, context).await,
        Task::Run(_)
        | Task::Change(_)
        | Task::Job(_)
        | Task::Errand(_)
        | Task::Fetch(_)
        | Task::Provided { .. }
        | Task::Check { .. } => Err(CallError::Cell("this is not a file task".to_owned())),
    }
}

const fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Other => "other",
    }
}

/// Reports what is at a path; nothing there is the kernel's error.
fn stated(path: &Path, real: Path, found: Option<Box<EntryDetails>>) -> Result<Outcome, CallError> {
    let Some(found) = found else {
        let message = format!("can not look at {}: it does not exist", escape_bytes(&path.0));
        let errno = rustix::io::Errno::NOENT.raw_os_error();
        let kind = FileErrorKind::NotFound;
        return Err(CallError::File(FileError { kind, errno, message, about: None, diff: None }));
    };
    let time = |(seconds, nanoseconds): (i64, u32)| json!({"seconds": seconds, "nanoseconds": nanoseconds});
    let EntryDetails { kind, dev, ino, mode, links, owner, target, size, mtime, ctime, .. } =
        *found;
    let kind = kind_name(kind);
    let shown = target.as_ref().map(|target| format!(" -> {}", escape_bytes(&target.0)));
    let output = format!(
        "{}{}: {kind}, {size} bytes, mode {mode:04o}, uid {}, gid {}\n",
        escape_bytes(&real.0),
        shown.unwrap_or_default(),
        owner.0,
        owner.1
    );
    let data = json!({
        "path": RawPath(path.0.clone()), "real": RawPath(real.0), "kind": kind, "size": size,
        "mode": mode, "uid": owner.0, "gid": owner.1, "links": links, "dev": dev, "ino": ino,
        "mtime": time(mtime), "ctime": time(ctime),
        "target": target.map(|target| RawPath(target.0)),
    });
    Ok(Outcome { output, ..done(data)? })
}

/// Reports where a path leads.
fn resolved(
    path: &Path,
    real: Path,
    found: Option<Box<EntryDetails>>,
) -> Result<Outcome, CallError> {
    let kind = found.as_ref().map(|found| kind_name(found.kind));
    let output = format!("{}\n", escape_bytes(&real.0));
    let data = json!({
        "path": RawPath(path.0.clone()), "real": RawPath(real.0), "exists": kind.is_some(),
        "kind": kind,
    });
    Ok(Outcome { output, ..done(data)? })
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
        output.push_str(&escape_bytes(&entry.path.0));
        output.push_str(match entry.kind {
            EntryKind::File => "",
            EntryKind::Directory => "/",
            EntryKind::Symlink => "@",
            EntryKind::Other => "?",
        });
        if let Some(target) = &entry.target {
            output.push_str(" -> ");
            output.push_str(&escape_bytes(&target.0));
        }
        output.push('\n');
    }
    let entries: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let kind = kind_name(entry.kind);
            let mut told = json!({"path": RawPath(entry.path.0), "kind": kind, "size": entry.size});
            if let Some(target) = entry.target {
                told["target"] = json!(RawPath(target.0));
            }
            told
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
        let entry = |path: &[u8], kind, size| {
            let target = (kind == EntryKind::Symlink).then(|| Path(b"to\xff".to_vec()));
            Entry { path: Path(path.to_vec()), kind, size, target }
        };
        let entries = vec![
            entry(b"a\n", EntryKind::File, 3),
            entry(b"d", EntryKind::Directory, 0),
            entry(b"l", EntryKind::Symlink, 0),
            entry(b"\xff", EntryKind::Other, 0),
        ];
        let outcome = listed(Path(b"/w".to_vec()), entries, 9, true, 0).unwrap();
        assert_eq!(outcome.output, "a\\n\nd/\nl@ -> to\\xff\n\\xff?\n");
        let data: serde_json::Value = serde_json::from_str(outcome.data.unwrap().as_str()).unwrap();
        assert_eq!(data["entries"][0], json!({"path": "a\n", "kind": "file", "size": 3}));
        assert_eq!(data["entries"][2]["target"], json!({"base64": "dG//"}));
        assert_eq!(data["entries"][3]["path"], json!({"base64": "/w=="}));
        assert_eq!((&data["total"], &data["more"]), (&json!(9), &json!(true)));
    }
}
