//! Checks git's cache of history, `objects/info/commit-graph`. Git trusts it: a graph that leaves
//! out a parent makes git's maintenance delete what is behind it. A new one is therefore checked
//! against the commits themselves.

use crate::history::parse_commit;
use crate::object::ObjectReader;
use crate::{ObjectId, RepositoryError};
use gix_hash::Kind;

const NO_PARENT: u32 = 0x7000_0000;
/// Marks a reference to a list of further parents, and the last entry of such a list.
const FLAG: u32 = 0x8000_0000;
const POSITION: u32 = 0x7fff_ffff;
/// Most parents of a commit that are compared.
const PARENTS: usize = 1_000;

/// The parts of a commit graph that describe the parents of commits.
struct CommitGraph<'a> {
    kind: Kind,
    ids: &'a [u8],
    commits: &'a [u8],
    edges: &'a [u8],
}

/// Returns `true` if a commit graph says the same about every commit in it as the commit itself. A
/// graph split over several files counts as inconsistent, since the other files are not examined.
pub(crate) fn is_consistent(
    bytes: &[u8],
    reader: &mut ObjectReader<'_>,
) -> Result<bool, RepositoryError> {
    let kind = reader.objects().kind;
    let Some(graph) = CommitGraph::parse(bytes, kind) else { return Ok(false) };
    for position in 0..graph.ids.len() / kind.len_in_bytes() {
        let Some((id, tree, parents)) = graph.commit(position) else { return Ok(false) };
        let commit = reader.find(&id, gix_object::Kind::Commit)?;
        let commit = commit.and_then(|data| parse_commit(&data, kind));
        if commit != Some((tree, parents)) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<'a> CommitGraph<'a> {
    fn parse(bytes: &'a [u8], kind: Kind) -> Option<Self> {
        let hash = match kind.len_in_bytes() {
            20 => 1,
            _ => 2,
        };
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [b'C', b'G', b'P', b'H', 1, version, chunks, 0] = *head else { return None };
        let table = rest.get(..(usize::from(chunks) + 1) * 12).filter(|_| version == hash)?;
        let offset = |row: &[u8]| {
            let offset = u64::from_be_bytes(row.get(4..12)?.try_into().ok()?);
            usize::try_from(offset).ok()
        };
        let rows: Vec<&[u8]> = table.chunks_exact(12).collect();
        let (mut ids, mut commits, mut edges) = (None, None, None);
        for pair in rows.windows(2) {
            let [row, next] = pair else { return None };
            let chunk = bytes.get(offset(row)?..offset(next)?)?;
            let place = match row.get(..4)? {
                b"OIDL" => &mut ids,
                b"CDAT" => &mut commits,
                b"EDGE" => &mut edges,
                _ => continue,
            };
            if place.replace(chunk).is_some() {
                return None;
            }
        }
        let (ids, commits, edges) = (ids?, commits?, edges.unwrap_or_default());
        let count = ids.len() / kind.len_in_bytes();
        let fits = ids.len() == count * kind.len_in_bytes()
            && commits.len() == count * (kind.len_in_bytes() + 16);
        fits.then_some(CommitGraph { kind, ids, commits, edges })
    }

    fn id(&self, position: u32) -> Option<ObjectId> {
        let length = self.kind.len_in_bytes();
        let start = usize::try_from(position).ok()?.checked_mul(length)?;
        ObjectId::try_from(self.ids.get(start..start.checked_add(length)?)?).ok()
    }

    /// Returns a commit's id, tree and parents.
    fn commit(&self, position: usize) -> Option<(ObjectId, ObjectId, Vec<ObjectId>)> {
        let length = self.kind.len_in_bytes();
        let row = self.commits.chunks_exact(length + 16).nth(position)?;
        let (tree, rest) = row.split_at_checked(length)?;
        let (first, second) = (number(rest, 0)?, number(rest, 1)?);
        let mut parents = Vec::new();
        if first != NO_PARENT {
            parents.push(self.id(first)?);
        }
        if second & FLAG != 0 {
            let mut edge = usize::try_from(second & POSITION).ok()?;
            loop {
                let value = number(self.edges, edge)?;
                parents.push(self.id(value & POSITION)?);
                if value & FLAG != 0 {
                    break;
                }
                if parents.len() >= PARENTS {
                    return None;
                }
                edge += 1;
            }
        } else if second != NO_PARENT {
            parents.push(self.id(second)?);
        }
        let id = self.id(u32::try_from(position).ok()?)?;
        Some((id, ObjectId::try_from(tree).ok()?, parents))
    }
}

fn number(bytes: &[u8], position: usize) -> Option<u32> {
    let start = position.checked_mul(4)?;
    Some(u32::from_be_bytes(bytes.get(start..start.checked_add(4)?)?.try_into().ok()?))
}
