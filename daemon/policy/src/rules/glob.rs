//! Path globs: `*` and `?` match within one name, `**` matches any number of names. Pure: no I/O.

/// Returns `true` if a glob matches a whole path.
pub(crate) fn matches(glob: &[u8], path: &[u8]) -> bool {
    let glob: Vec<&[u8]> = glob.split(|byte| *byte == b'/').collect();
    let path: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    names(&glob, &path)
}

/// Returns `true` if a glob could match a path below a directory.
pub(crate) fn may_be_below(glob: &[u8], directory: &[u8]) -> bool {
    let parts: Vec<&[u8]> = glob.split(|byte| *byte == b'/').collect();
    let depth = directory.split(|byte| *byte == b'/').count();
    // Only the part of the glob at the directory's depth, or before its first `**`, can rule that
    // out.
    let open = parts.iter().position(|part| *part == b"**").unwrap_or(parts.len());
    if open <= depth && open < parts.len() {
        let names: Vec<&[u8]> = directory.split(|byte| *byte == b'/').take(open).collect();
        return self::names(&parts[..open], &names);
    }
    let names: Vec<&[u8]> = directory.split(|byte| *byte == b'/').collect();
    depth < parts.len() && self::names(&parts[..depth], &names)
}

/// Returns `true` if the parts of a glob match the names of a whole path. It goes back
/// to the last `**` only: the time is at most the product of the two lengths.
pub(crate) fn names(glob: &[impl AsRef<[u8]>], path: &[&[u8]]) -> bool {
    let (mut g, mut p, mut back) = (0, 0, None);
    while p < path.len() {
        if glob.get(g).is_some_and(|part| part.as_ref() == b"**") {
            back = Some((g, p));
            g += 1;
        } else if glob.get(g).is_some_and(|part| name(part.as_ref(), path[p])) {
            (g, p) = (g + 1, p + 1);
        } else if let Some((star, from)) = back {
            back = Some((star, from + 1));
            (g, p) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    glob.get(g..).unwrap_or_default().iter().all(|part| part.as_ref() == b"**")
}

fn name(glob: &[u8], text: &[u8]) -> bool {
    let (mut g, mut t, mut back) = (0, 0, None);
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                back = Some((g, t));
                g += 1;
            }
            Some(b'?') => (g, t) = (g + 1, t + 1),
            Some(byte) if *byte == text[t] => (g, t) = (g + 1, t + 1),
            Some(_) | None => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    (g, t) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    glob.get(g..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_know_their_place() {
        for (glob, path, expected) in [
            ("/w/*.txt", "/w/a.txt", true),
            ("/w/*.txt", "/w/d/a.txt", false),
            ("/w/**/*.txt", "/w/d/e/a.txt", true),
            ("/w/**/*.txt", "/w/a.txt", true),
            ("/w/**", "/w", true),
            ("/w/**", "/w/a/b", true),
            ("/w/**", "/wx/a", false),
            ("/w/?", "/w/a", true),
            ("/w/?", "/w/ab", false),
            ("/w/.env*", "/w/.env.local", true),
            ("/w/a*b*c", "/w/aXbYbZc", true),
            ("/w/a*b*c", "/w/aXbYbZ", false),
            ("/w/a", "/w/a", true),
            ("/w/a", "/w/a/b", false),
            ("/**/x/**", "/a/b/x/c", true),
        ] {
            assert_eq!(matches(glob.as_bytes(), path.as_bytes()), expected, "{glob} {path}");
        }
    }

    #[test]
    fn a_hostile_glob_is_no_harm() {
        let glob = "*a".repeat(2000) + "b";
        assert!(!matches(glob.as_bytes(), "a".repeat(4000).as_bytes()));
        let glob = "**/a/".repeat(500) + "b";
        assert!(!matches(glob.as_bytes(), "a/".repeat(2000).as_bytes()));
    }
}
