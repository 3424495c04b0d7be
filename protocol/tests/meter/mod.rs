//! A counting allocator, per thread, so that a test can limit how much memory an input may claim.

#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Meter;

#[global_allocator]
static METER: Meter = Meter;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    NOW.set(NOW.get() + change);
    PEAK.set(PEAK.get().max(NOW.get()));
}

// SAFETY: every method hands its arguments on to `System` unchanged and returns what it returns;
// counting touches two thread-local cells that need neither allocation nor a destructor.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps `alloc`'s contract, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is `System`'s.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may exist for a moment, so the old one is subtracted after the new one is
        // counted.
        count(size.cast_signed());
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps `realloc`'s contract, which is `System`'s.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps `dealloc`'s contract, which is `System`'s.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the peak memory that this thread allocated while `act` ran, beyond what it had before.
pub(crate) fn peak<T>(act: impl FnOnce() -> T) -> (isize, T) {
    let before = NOW.get();
    PEAK.set(before);
    let value = act();
    (PEAK.get() - before, value)
}
