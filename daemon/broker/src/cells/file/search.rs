//! `glob` and `grep`: what the cell found, as text and as data. Runs in the broker.

use super::{
    exchange::{ask, done, unexpected},
    sieve::Sieve,
};
use crate::{
    base::{error::CallError, outcome::Outcome},
    cells::{context::Context, files::Lease},
};
use palisade_plan::{
    Path,
    cell::{FileReply, FileRequest},
    search::{Glob, GlobResult, Grep, GrepResult, Hits, Line, SearchReport},
};
use palisade_protocol::{RawPath, ToolSpec};
use palisade_text::escape_bytes;
use serde_json::{Value, json};

pub(super) async fn glob(
    glob: Glob,
    spec: &ToolSpec,
    lease: &mut Lease,
    context: &Context,
) -> Result<Outcome, CallError> {
    let named = glob.path.clone();
    let path = Path(context.session.absolute(&named.0));
    let request = FileRequest::Glob(Box::new(Glob { path: path.clone(), ..glob }));
    let reply = ask(request, lease, context).await?;
    let FileReply::Globbed(found) = reply else { return Err(unexpected(reply)) };
    let GlobResult { real, files, total, more } = *found;
    let mut sieve = Sieve::new(&context.session, spec, real);
    let truncated = total > files.len() as u64;
    let files = sieve.keep(files, |file| &file.path);
    let mut output = String::new();
    let mut listed = Vec::with_capacity(files.len());
    for file in files {
        let shown = joined(&named, &file.path);
        output.push_str(&escape_bytes(&shown));
        output.push('\n');
        let (seconds, nanoseconds) = file.mtime;
        listed.push(json!({
            "path": RawPath(shown), "size": file.size,
            "modified": {"seconds": seconds, "nanoseconds": nanoseconds},
        }));
    }
    if truncated {
        output.push_str(&format!("[the newest of {total} files; narrow the pattern]\n"));
    }
    let data = json!({
        "path": directory(path), "files": listed, "total": total, "truncated": truncated,
        "more": more, "withheld": sieve.withheld,
    });
    Ok(Outcome { output, ..done(data)? })
}

pub(super) async fn grep(
    grep: Grep,
    spec: &ToolSpec,
    lease: &mut Lease,
    context: &Context,
) -> Result<Outcome, CallError> {
    let (named, wanted) = (grep.path.clone(), grep.wanted);
    let path = Path(context.session.absolute(&named.0));
    let most = context.session.profile.file_bytes();
    let request = FileRequest::Grep(Box::new(Grep { path: path.clone(), most, ..grep }));
    let reply = ask(request, lease, context).await?;
    let FileReply::Grepped(found) = reply else { return Err(unexpected(reply)) };
    let GrepResult { real, files, total_files, total_lines, searched, skipped, more } = *found;
    let mut sieve = Sieve::new(&context.session, spec, real);
    let (shown, total, what) = match wanted {
        SearchReport::Lines { .. } => {
            (files.iter().map(matching).sum(), total_lines, "matching lines")
        }
        SearchReport::Files | SearchReport::Counts => (files.len() as u64, total_files, "files"),
    };
    let files = sieve.keep(files, |hits| &hits.path);
    let mut output = text(&named, &files, wanted);
    if shown < total {
        output.push_str(&format!("[the first {shown} of {total} {what}; narrow the search]\n"));
    }
    let mut data = json!({
        "path": directory(path), "total_files": total_files, "searched": searched,
        "skipped": {
            "binary": skipped.binary, "large": skipped.large, "unreadable": skipped.unreadable,
        },
        "truncated": shown < total, "more": more, "withheld": sieve.withheld,
    });
    match wanted {
        SearchReport::Lines { .. } => {
            let lines = files.iter().flat_map(|hits| {
                let path = RawPath(joined(&named, &hits.path));
                hits.lines.iter().map(move |line| line_data(&path, line))
            });
            data["matches"] = lines.collect();
            data["total_lines"] = json!(total_lines);
        }
        SearchReport::Files => {
            data["files"] = files.iter().map(|hits| file(&named, hits)).collect()
        }
        SearchReport::Counts => {
            let counted = files.iter().map(
                |hits| json!({"path": RawPath(joined(&named, &hits.path)), "count": hits.count}),
            );
            data["files"] = counted.collect();
            data["total_lines"] = json!(total_lines);
        }
    }
    Ok(Outcome { output, ..done(data)? })
}

fn file(named: &Path, hits: &Hits) -> Value {
    json!({"path": RawPath(joined(named, &hits.path))})
}

fn line_data(path: &RawPath, line: &Line) -> Value {
    let mut data = json!({
        "path": path, "line": line.number, "text": String::from_utf8_lossy(&line.text),
    });
    if !line.matches {
        data["context"] = json!(true);
    }
    if let Some(column) = line.column {
        data["column"] = json!(column);
    }
    if line.before + line.after > 0 {
        data["left_out"] = json!({"before": line.before, "after": line.after});
    }
    data
}

fn matching(hits: &Hits) -> u64 {
    hits.lines.iter().filter(|line| line.matches).count() as u64
}

/// Prints matches as ripgrep does.
fn text(named: &Path, files: &[Hits], wanted: SearchReport) -> String {
    let mut text = String::new();
    let around = matches!(wanted, SearchReport::Lines { before, after } if before + after > 0);
    for hits in files {
        let path = escape_bytes(&joined(named, &hits.path));
        match wanted {
            SearchReport::Files => text.push_str(&format!("{path}\n")),
            SearchReport::Counts => text.push_str(&format!("{path}:{}\n", hits.count)),
            SearchReport::Lines { .. } => {
                let mut last = None;
                for line in &hits.lines {
                    let follows = last.is_some_and(|last| last + 1 == line.number);
                    if around && !follows && !text.is_empty() {
                        text.push_str("--\n");
                    }
                    last = Some(line.number);
                    text.push_str(&printed(&path, line));
                }
            }
        }
    }
    text
}

fn printed(path: &str, line: &Line) -> String {
    let mark = if line.matches { ':' } else { '-' };
    let cut = |bytes: u64| if bytes > 0 { "…" } else { "" };
    let text = String::from_utf8_lossy(&line.text);
    format!("{path}{mark}{}{mark}{}{text}{}\n", line.number, cut(line.before), cut(line.after))
}

/// Returns the path of a searched directory without a `.` at its end, which means the same.
fn directory(path: Path) -> RawPath {
    let mut path = path.0;
    while path.len() > 2 && path.ends_with(b"/.") {
        path.truncate(path.len() - 2);
    }
    RawPath(path)
}

/// Prefixes a path with the one that this call named, so that the next call can use it.
fn joined(named: &Path, below: &Path) -> Vec<u8> {
    let above = named.0.strip_suffix(b"/").unwrap_or(&named.0);
    match (named.0.as_slice(), below.0.as_slice()) {
        (_, b"") => named.0.clone(),
        (b"." | b"./", below) => below.to_vec(),
        (_, below) => [above, b"/", below].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_named_without_a_dot_at_its_end() {
        for (given, shown) in
            [("/w/.", "/w"), ("/w/d/./.", "/w/d"), ("/.", "/."), ("/w/.d", "/w/.d")]
        {
            assert_eq!(directory(Path(given.into())), RawPath(shown.into()), "{given}");
        }
    }

    fn line(number: u64, matches: bool, text: &str) -> Line {
        let (column, text) = (matches.then_some(1), text.as_bytes().to_vec());
        Line { number, matches, column, before: 0, text, after: 0 }
    }

    #[test]
    fn paths_are_below_what_was_named() {
        for (named, below, expected) in [
            (".", "a/b", "a/b"),
            ("./", "a", "a"),
            ("src", "a", "src/a"),
            ("src/", "a", "src/a"),
            ("/", "a", "/a"),
            ("/w", "", "/w"),
        ] {
            let joined = joined(&Path::from(named), &Path::from(below));
            assert_eq!(String::from_utf8(joined).unwrap(), expected);
        }
    }

    #[test]
    fn lines_are_printed_as_ripgrep_does() {
        let lines = vec![line(1, false, "b"), line(2, true, "x"), line(9, true, "\u{fffd}")];
        let hits = [
            Hits { path: Path::from("a\nb"), count: 2, lines },
            Hits { path: Path::from("c"), count: 1, lines: vec![line(10, true, "z")] },
        ];
        let named = Path::from("d");
        let around = text(&named, &hits, SearchReport::Lines { before: 1, after: 0 });
        assert_eq!(around, "d/a\\nb-1-b\nd/a\\nb:2:x\n--\nd/a\\nb:9:\u{fffd}\n--\nd/c:10:z\n");
        let plain = text(&named, &hits[1..], SearchReport::Lines { before: 0, after: 0 });
        assert_eq!(plain, "d/c:10:z\n");
        assert_eq!(text(&named, &hits, SearchReport::Counts), "d/a\\nb:2\nd/c:1\n");
        assert_eq!(text(&named, &hits, SearchReport::Files), "d/a\\nb\nd/c\n");
        let mut cut = line(3, true, "mid");
        (cut.before, cut.after) = (5, 6);
        assert_eq!(printed("f", &cut), "f:3:…mid…\n");
        let data = line_data(&RawPath(b"f".to_vec()), &cut);
        assert_eq!(data["left_out"], json!({"before": 5, "after": 6}));
    }
}
