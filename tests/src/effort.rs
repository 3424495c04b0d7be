//! How much a test does, at random or not, and what it measured: short in CI, long by `tests/endure`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `short`, or `long` where `PALISADE_LONG` is set to 1.
#[must_use]
pub fn effort<T>(short: T, long: T) -> T {
    if std::env::var_os("PALISADE_LONG").is_some_and(|set| set == "1") { long } else { short }
}

/// A number of the environment, if it is set.
///
/// # Panics
/// If it is set to something else.
#[must_use]
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Prints a measured number as `tests/endure` gathers it.
pub fn report(what: &str, value: impl std::fmt::Display) {
    println!("\nmeasured\t{what}\t{value}");
}

/// Resident memory of a process, in bytes.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let pid = i32::try_from(pid).expect("a pid");
    let kibibytes = crate::rooms::status(pid, "VmRSS");
    kibibytes.trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

/// Half and all but a hundredth of these took at most so long.
#[must_use]
pub fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

/// A small generator, so that a failure can be repeated from its seed.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// From `PALISADE_SEED`, or from the time; either is printed.
    #[must_use]
    pub fn new(what: &str) -> Self {
        let seed = setting("PALISADE_SEED").unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or(1)
        });
        println!("{what}: PALISADE_SEED={seed}");
        Self(seed | 1)
    }

    /// Another one, for somebody who throws at the same time.
    #[must_use]
    pub fn beside(&mut self) -> Self {
        Self(self.next() | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below another, which is not 0.
    pub fn roll(&mut self, below: usize) -> usize {
        let below = u64::try_from(below.max(1)).unwrap_or(1);
        usize::try_from(self.next() % below).unwrap_or(0)
    }
}
