//! Finds the file of a program by its name, as a shell looks it up and remembers it. Runs in the
//! cell.

use rustix::fs::{Access, access};

/// The maximum number of remembered names. A session starts its programs through one or two shells.
const MOST: usize = 4;

/// The names looked up before.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    known: Vec<ResolvedProgram>,
}

#[derive(Debug)]
struct ResolvedProgram {
    program: Vec<u8>,
    path: Vec<u8>,
    at: Vec<u8>,
}

impl Lookup {
    /// Returns the files to try for a program's name, in order: the one found before, then one for
    /// each directory of the search path.
    pub(crate) fn candidates(&mut self, program: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
        if program.contains(&b'/') {
            return vec![program.to_vec()];
        }
        let mut candidates: Vec<Vec<u8>> = path
            .split(|byte| *byte == b':')
            .filter(|directory| directory.starts_with(b"/"))
            .map(|directory| [directory, b"/", program].concat())
            .collect();
        if let Some(first) = self.found(program, path, &candidates) {
            candidates.retain(|candidate| *candidate != first);
            candidates.insert(0, first);
        }
        candidates
    }

    fn found(&mut self, program: &[u8], path: &[u8], candidates: &[Vec<u8>]) -> Option<Vec<u8>> {
        let known = self.known.iter().find(|one| one.program == program && one.path == path);
        if let Some(known) = known {
            return Some(known.at.clone());
        }
        let at = candidates.iter().find(|file| access(file.as_slice(), Access::EXEC_OK).is_ok())?;
        if self.known.len() < MOST {
            let known =
                ResolvedProgram { program: program.to_vec(), path: path.to_vec(), at: at.clone() };
            self.known.push(known);
        }
        Some(at.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_looked_up_in_the_path_given_and_only_there() {
        let candidates = Lookup::default().candidates(b"ls", b"/a:relative:/b");
        assert_eq!(candidates, [b"/a/ls".to_vec(), b"/b/ls".to_vec()]);
    }

    #[test]
    fn a_name_with_a_slash_is_itself() {
        assert_eq!(Lookup::default().candidates(b"./x", b""), [b"./x".to_vec()]);
    }

    #[test]
    fn what_was_found_is_tried_first_and_the_rest_after_it() {
        let mut lookup = Lookup::default();
        for _ in 0..2 {
            let candidates = lookup.candidates(b"sh", b"/none:/bin:/usr/bin");
            let expected = ["/bin/sh", "/none/sh", "/usr/bin/sh"];
            assert_eq!(candidates, expected.map(|path| path.as_bytes().to_vec()));
        }
        assert_eq!(lookup.known.len(), 1);
        // A lookup with another search path is not answered from memory.
        assert_eq!(lookup.candidates(b"sh", b"/none"), [b"/none/sh".to_vec()]);
    }

    #[test]
    fn it_remembers_no_more_than_it_may() {
        let mut lookup = Lookup::default();
        for program in ["sh", "ls", "cat", "env", "true", "false"] {
            lookup.candidates(program.as_bytes(), b"/bin:/usr/bin");
        }
        assert_eq!(lookup.known.len(), MOST);
    }
}
