//! Bounds the bytes that planning a commit reads. A layer holds a bounded number of bytes, but the
//! holes of its files take no room in it, and they are read as zeros. Runs in the cell.

use crate::tools::failure;
use palisade_plan::cell::{FileError, FileErrorKind};

/// The sizes of the files that a program left, holes included.
pub(super) struct FileSizes {
    sum: u64,
    most: u64,
}

impl FileSizes {
    pub(super) const fn new(most: u64) -> Self {
        Self { sum: 0, most }
    }

    /// Counts a file, and refuses the transaction if all files together are too large.
    pub(super) fn add(&mut self, size: u64) -> Result<(), FileError> {
        self.sum = self.sum.saturating_add(size);
        if self.sum <= self.most {
            return Ok(());
        }
        let message = format!(
            "the program left files with more than {} bytes, counting their holes: nothing was \
             changed. Make fewer or smaller files, or change the profile (limits.transaction)",
            self.most
        );
        Err(failure(FileErrorKind::TooLarge, None, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_together_are_bounded() {
        let mut sizes = FileSizes::new(100);
        for size in [60, 0, 40] {
            assert_eq!(sizes.add(size), Ok(()), "{size}");
        }
        assert_eq!(sizes.add(1).unwrap_err().kind, FileErrorKind::TooLarge);
        assert_eq!(sizes.add(u64::MAX).unwrap_err().kind, FileErrorKind::TooLarge);
    }
}
