//! The amount of work a test does, its randomness, and its measurements: short in CI, long with
//! `tests/endure`.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Returns `long` if `PALISADE_LONG` is set to 1, otherwise `short`.
#[must_use]
pub fn effort<T>(short: T, long: T) -> T {
    if std::env::var_os("PALISADE_LONG").is_some_and(|set| set == "1") { long } else { short }
}

/// Returns the number of random cases to try: `PALISADE_CASES`, if it is set, or else what
/// [`effort`] returns.
///
/// # Panics
/// If it is set to something else than a number.
#[must_use]
pub fn cases(short: usize, long: usize) -> usize {
    let wanted = setting("PALISADE_CASES").map(usize::try_from);
    wanted.map_or_else(|| effort(short, long), |wanted| wanted.expect("a number of cases"))
}

/// Returns a number from the environment, if it is set.
///
/// # Panics
/// If it is set to something else.
#[must_use]
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Prints a measured number in the form that `tests/endure` collects.
pub fn report(what: &str, value: impl std::fmt::Display) {
    println!("\nmeasured\t{what}\t{value}");
}

/// Returns the resident memory of a process, in bytes.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let pid = i32::try_from(pid).expect("a pid");
    let kibibytes = crate::rooms::status(pid, "VmRSS");
    kibibytes.trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

/// Returns the 50th and the 99th percentile.
#[must_use]
pub fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

/// Returns a seed that is always the same for a name.
fn seed_of(what: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or(1)
}

/// A small random generator, so that a failure can be repeated from its seed.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from `PALISADE_SEED`, which is printed. Without one, the short form
    /// always uses the same seed, so that CI gets the same result for one commit each time. The
    /// long form uses the time, and finds other cases.
    #[must_use]
    pub fn new(what: &str) -> Self {
        let seed = setting("PALISADE_SEED").unwrap_or_else(|| effort(seed_of(what), seed_of_now()));
        println!("{what}: PALISADE_SEED={seed}");
        Self(seed | 1)
    }

    /// Creates a generator from a seed that a test has printed itself.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns a seed for another generator.
    pub fn seed(&mut self) -> u64 {
        self.next() | 1
    }

    /// Creates another generator, for use at the same time.
    #[must_use]
    pub fn beside(&mut self) -> Self {
        Self(self.seed())
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a random number from 0 to below `below`; 0 if `below` is 0.
    pub fn roll(&mut self, below: usize) -> usize {
        let below = u64::try_from(below.max(1)).unwrap_or(1);
        usize::try_from(self.next() % below).unwrap_or(0)
    }
}
