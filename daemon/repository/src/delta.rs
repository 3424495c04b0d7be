//! Deltas in packs: instructions that build an object from another one.

use crate::inflate::buffer;

/// A parsed delta: the sizes at its beginning, and the instructions after them.
#[derive(Debug)]
pub(crate) struct Delta<'a> {
    base_size: u64,
    pub(crate) result_size: u64,
    instructions: &'a [u8],
}

impl<'a> Delta<'a> {
    pub(crate) fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let base_size = size(&mut bytes)?;
        let result_size = size(&mut bytes)?;
        Some(Delta { base_size, result_size, instructions: bytes })
    }

    /// Builds the result. The caller has checked that its size may be allocated.
    pub(crate) fn apply(&self, base: &[u8]) -> Option<Vec<u8>> {
        if base.len() as u64 != self.base_size {
            return None;
        }
        let mut result = buffer(usize::try_from(self.result_size).ok()?)?;
        let mut written = 0;
        let mut rest = self.instructions;
        while let Some(instruction) = take(&mut rest) {
            let source = if instruction & 0x80 != 0 {
                let (offset, length) = copy_range(instruction, &mut rest)?;
                base.get(offset..offset.checked_add(length)?)?
            } else if instruction != 0 {
                let (literal, after) = rest.split_at_checked(usize::from(instruction))?;
                rest = after;
                literal
            } else {
                return None;
            };
            let end = source.len().checked_add(written)?;
            result.get_mut(written..end)?.copy_from_slice(source);
            written = end;
        }
        (written == result.len()).then_some(result)
    }
}

fn take(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn size(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = take(bytes)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn copy_range(instruction: u8, rest: &mut &[u8]) -> Option<(usize, usize)> {
    let mut field = |bits: std::ops::Range<u8>| {
        let mut value = 0usize;
        for (position, bit) in bits.enumerate() {
            if instruction & (1 << bit) != 0 {
                value |= usize::from(take(rest)?) << (8 * position);
            }
        }
        Some(value)
    };
    let offset = field(0..4)?;
    let length = field(4..7)?;
    Some((offset, if length == 0 { 0x1_0000 } else { length }))
}
