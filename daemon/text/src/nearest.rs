//! The nearest of several names to one that was mistyped. Pure: no I/O.

/// Returns the candidate nearest to a word, if any is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).clamp(1, 3);
    let scored =
        candidates.into_iter().map(|candidate| (edit_distance(word, candidate), candidate));
    scored.filter(|(far, _)| *far <= most).min().map(|(_, candidate)| candidate)
}

/// Returns the edit distance of two words: insertions, deletions, replacements and swaps of
/// neighbouring characters. Only the first 64 characters of each count.
#[must_use]
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best =
                (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_one_edit() {
        for (typed, meant, edits) in
            [("bsh", "bash", 1), ("baash", "bash", 1), ("bosh", "bash", 1), ("bahs", "bash", 1)]
        {
            assert_eq!(edit_distance(typed, meant), edits, "{typed}");
        }
        assert_eq!(edit_distance("", "bash"), 4);
        assert_eq!(edit_distance("ü", "u"), 1);
    }

    #[test]
    fn only_what_is_near_is_meant() {
        let words = ["memory", "processes", "file"];
        assert_eq!(nearest("memry", words), Some("memory"));
        assert_eq!(nearest("flie", words), Some("file"));
        assert_eq!(nearest("weather", words), None);
        assert_eq!(nearest("memory", []), None);
    }
}
