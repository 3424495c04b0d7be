//! Measures the analyst: sends each line of standard input many times, and prints the median time.
//! `cargo run --release -p palisade-analyst --example analysis_cost < commands.txt`

use palisade_analyst::{Supervisor, analyse_here};
use std::{io::BufRead as _, path::PathBuf, time::Instant};

const ROUNDS: usize = 200;

fn median(mut one: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            one();
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let beside = std::env::current_exe()?;
    let directory = beside.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
    let analyst = Supervisor::new(directory.join("palisade-analyst"));
    analyst.start()?;
    let (mut asked, mut here, mut lines) = (0.0, 0.0, 0.0);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        drop(analyst.ask(&line));
        let by_asking = median(|| drop(analyst.ask(&line)));
        let by_itself = median(|| drop(analyse_here(&line)));
        println!("{by_asking:8.1} µs asked, {by_itself:8.1} µs without the process: {line}");
        (asked, here, lines) = (asked + by_asking, here + by_itself, lines + 1.0);
    }
    println!("mean: {:.1} µs asked, {:.1} µs without the process", asked / lines, here / lines);
    Ok(())
}
