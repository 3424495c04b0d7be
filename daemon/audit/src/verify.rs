//! Checks every chain of a directory for consistency, with its archives, against its head file and
//! against heads noted elsewhere.

mod check;
mod report;

pub use report::{ArchiveFault, ChainReport, Verification, VerifyOptions};

use crate::{
    archive::{Archive, ArchiveDefect, SignedManifest},
    chain::Chain,
    error::ReadError,
    files::{Directory, Head, unread},
    lines::next_line,
    read::{LISTINGS, LogPosition},
    record::ArchiveEvent,
    source::{LogSource, is_gone, sources},
};
use check::Check;
use std::path::Path;

/// Verifies all chains of a directory, with the archives beside it. `anchors` are heads that were
/// noted elsewhere.
///
/// # Errors
/// If a file can not be read.
pub fn verify(directory: &Path, anchors: &[Head]) -> Result<Verification, ReadError> {
    let options = VerifyOptions { expect: anchors.to_vec(), ..VerifyOptions::default() };
    verify_with(directory, &options)
}

/// Verifies all chains of a directory with their archives.
///
/// # Errors
/// If a file can not be read.
pub fn verify_with(directory: &Path, options: &VerifyOptions) -> Result<Verification, ReadError> {
    let directory = Directory(directory.to_owned());
    let mut listings = 0;
    loop {
        listings += 1;
        match verify_listed(&directory, options) {
            // A file was archived meanwhile.
            Err(error) if is_gone(&error) && listings < LISTINGS => {}
            done => return done,
        }
    }
}

fn verify_listed(
    directory: &Directory,
    options: &VerifyOptions,
) -> Result<Verification, ReadError> {
    let mut missing: Vec<Head> = options.expect.iter().chain(&options.from).copied().collect();
    let (mut chains, mut deleted) = (Vec::new(), Vec::new());
    // A writer may be active meanwhile, so the heads are read first: what they name must then be in
    // the files.
    let mut before = Vec::new();
    for chain in directory.chains()?.into_keys() {
        before.push((chain, directory.writer(chain), directory.head(chain)?));
    }
    for (chain, sources) in sources(directory, &options.archives)? {
        let known = before.iter().find(|(known, ..)| *known == chain);
        let check = match known {
            Some((_, writer, stored)) => Check::new(chain, *stored, Some(*writer), options.key),
            None => Check::new(chain, directory.head(chain)?, None, options.key),
        };
        let (report, gone) = verify_chain(chain, &sources, check, options, &mut missing)?;
        chains.push(report);
        deleted.extend(gone);
    }
    for report in &mut chains {
        excuse(report, options.from, &deleted);
    }
    let no_signature = |report: &&ChainReport| options.key.is_some() && report.signed.is_none();
    let unsigned = chains.iter().filter(no_signature).map(|report| report.chain).collect();
    Ok(Verification { chains, missing, unsigned })
}

fn verify_chain(
    chain: Chain,
    sources: &[LogSource],
    mut check: Check,
    options: &VerifyOptions,
    missing: &mut Vec<Head>,
) -> Result<(ChainReport, Vec<ArchiveEvent>), ReadError> {
    let sources = after(sources, options.from)?;
    let is_file = |source: &&LogSource| matches!(source, LogSource::File { .. });
    let files = sources.iter().filter(is_file).count();
    let mut faults = Vec::new();
    let mut previous: Option<&LogSource> = None;
    for (number, source) in sources.iter().enumerate() {
        let is_last = number + 1 == sources.len();
        join(&mut check, previous, source, &mut faults)?;
        missing.retain(|anchor| *anchor != check.good);
        previous = Some(source);
        let defect = match source {
            LogSource::File { .. } => {
                read(&mut check, source, is_last, missing)?;
                None
            }
            LogSource::Archive(archive) => verify_archive(&mut check, archive, options, missing)?,
        };
        if let Some(defect) = defect {
            faults.push(ArchiveFault::Defect { file: source.name(), defect });
            check.distrust();
        }
    }
    if check.begin.seq > 0 {
        faults.insert(0, ArchiveFault::Missing { first: 1, last: check.begin });
    }
    let end = || LogPosition {
        file: sources.last().map_or_else(|| chain.segment(1), LogSource::name),
        line: check.previous.as_ref().map_or(1, |mark| mark.place.line + 1),
    };
    let bad = check.conclude(end());
    let report = ChainReport {
        chain,
        files,
        archives: sources.len() - files,
        begin: check.begin,
        head: check.good,
        signed: check.signed,
        torn: check.torn,
        losses: check.losses,
        faults,
        bad,
        unfinished: check.calls.into_iter().collect(),
    };
    Ok((report, check.deleted))
}

/// Removes the faults that are none: the records before `from`, and archives that the daemon has
/// deleted by its retention. Any chain may have recorded that.
fn excuse(report: &mut ChainReport, from: Option<Head>, deleted: &[ArchiveEvent]) {
    let chain = report.chain;
    let is_deleted = |name: &str| deleted.iter().any(|gone| gone.file == name);
    let ends_with = |head: Head| {
        let segment =
            |gone: &ArchiveEvent| gone.file.strip_suffix(".gz").and_then(Chain::of_segment);
        deleted
            .iter()
            .any(|gone| gone.last == head && segment(gone).is_some_and(|(known, _)| known == chain))
    };
    report.faults.retain(|fault| match fault {
        ArchiveFault::Missing { first: 1, last } => from != Some(*last) && !ends_with(*last),
        ArchiveFault::Defect { file, defect: ArchiveDefect::FileMissing } => !is_deleted(file),
        ArchiveFault::Missing { .. } | ArchiveFault::Defect { .. } => true,
    });
}

/// Leaves out the sources before the one that continues a given head.
fn after(sources: &[LogSource], from: Option<Head>) -> Result<&[LogSource], ReadError> {
    let Some(from) = from else { return Ok(sources) };
    for (number, source) in sources.iter().enumerate() {
        if source.first() == from.seq + 1 && source.follows()? == Some(from) {
            return Ok(sources.get(number..).unwrap_or_default());
        }
    }
    Ok(sources)
}

/// Goes on with the next source. Where an archive is missing or can not be trusted, the chain
/// continues with what the source says it follows.
fn join(
    check: &mut Check,
    previous: Option<&LogSource>,
    source: &LogSource,
    faults: &mut Vec<ArchiveFault>,
) -> Result<(), ReadError> {
    let is_archive = |source: &LogSource| matches!(source, LogSource::Archive(_));
    let gap = source.first() > check.good.seq + 1;
    match previous {
        None if source.first() > 1 => {
            // Records are missing before it, in archives that are elsewhere.
            if let Some(head) = source.follows()? {
                check.begin_after(head);
            }
        }
        Some(_) if check.is_distrusted() => {
            if let Some(head) = source.follows()? {
                check.continue_after(head);
            }
        }
        Some(previous) if gap && (is_archive(previous) || is_archive(source)) => {
            if let Some(head) = source.follows()? {
                faults.push(ArchiveFault::Missing { first: check.good.seq + 1, last: head });
                check.continue_after(head);
            }
        }
        Some(_) | None => {}
    }
    Ok(())
}

/// Checks an archive and the records in it.
fn verify_archive(
    check: &mut Check,
    archive: &Archive,
    options: &VerifyOptions,
    missing: &mut Vec<Head>,
) -> Result<Option<ArchiveDefect>, ReadError> {
    let SignedManifest { manifest, .. } = match archive.check(options.key.as_ref())? {
        Ok(signed) => signed,
        Err(defect) => return Ok(Some(defect)),
    };
    if (manifest.first, manifest.prev) != (check.good.seq + 1, check.good.hash) {
        return Ok(Some(ArchiveDefect::Foreign));
    }
    let was_bad = check.is_bad();
    match read(check, &LogSource::Archive(Box::new(archive.clone())), false, missing) {
        Ok(()) => {}
        // The compressed file has the right hash, and can still not be decompressed.
        Err(ReadError::Io { source, .. }) if source.kind() != std::io::ErrorKind::NotFound => {
            return Ok(Some(ArchiveDefect::Altered));
        }
        Err(error) => return Err(error),
    }
    let whole =
        check.good == manifest.last && manifest.records == manifest.last.seq + 1 - manifest.first;
    Ok((!whole && !was_bad).then_some(ArchiveDefect::Altered))
}

/// Passes the records of a source to the check.
fn read(
    check: &mut Check,
    source: &LogSource,
    is_last: bool,
    missing: &mut Vec<Head>,
) -> Result<(), ReadError> {
    let (name, failed) = (source.name(), unread("read", source.path()));
    let mut file = source.open(0)?;
    let mut line = 0;
    while let Some(bytes) = next_line(&mut file).map_err(&failed)? {
        line += 1;
        let place = LogPosition { file: name.clone(), line };
        if is_last && bytes.last() != Some(&b'\n') {
            check.torn = bytes.len() as u64;
            continue;
        }
        if let Some(head) = check.feed(place, &bytes) {
            missing.retain(|anchor| *anchor != head);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
