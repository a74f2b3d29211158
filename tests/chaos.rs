//! Sends signals to pipeprof, its workers and its QEMU at random moments, and looks at what is left: `make chaos`.
//!
//! Each attempt starts a command, waits for a random part of the time that it took when nobody disturbed it, and sends a
//! signal. Then no process, BPF program, tracefs instance or probe may be left, what was stored must be complete, and
//! the same command must succeed, clean up, say so, and give the same result. A failed attempt prints its seed.

mod attempt;
mod scenarios;

use attempt::{Arena, Deed};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngCore as _, SeedableRng as _};
use scenarios::{GUESTS, HOST, Scenario};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Set to go on for so many seconds.
const SECONDS: &str = "PIPEPROF_CHAOS_SECONDS";

/// Set to repeat the attempts of one seed.
const SEED: &str = "PIPEPROF_CHAOS_SEED";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// Attempts at random `scenarios` for the time that is asked for; if none is, one attempt at each of the first `few`.
fn session(scenarios: &[Scenario], few: usize) {
    let limit = number(SECONDS).map(Duration::from_secs);
    let mut seeds = SmallRng::seed_from_u64(number(SEED).unwrap_or(1));
    let wanted = if limit.is_some() { scenarios.len() } else { few };
    let arenas: Vec<Arena> = scenarios[..wanted].iter().map(Arena::new).collect();
    let begun = Instant::now();
    let mut done: BTreeMap<(&str, Deed), usize> = BTreeMap::new();
    let (mut attempts, mut failed) = (0, 0);
    while limit.map_or(attempts < few, |limit| begun.elapsed() < limit) {
        let seed = number(SEED).filter(|_| limit.is_none()).unwrap_or_else(|| seeds.next_u64());
        let mut random = SmallRng::seed_from_u64(seed);
        // Each in turn, so that a short session has all.
        let arena =
            if limit.is_none() { &arenas[attempts % arenas.len()] } else { arenas.choose(&mut random).unwrap() };
        attempts += 1;
        // A failed one prints why. The others are of interest all the same.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| arena.attempt(seed, &mut random))) {
            Ok(deed) => *done.entry((arena.scenario.name, deed)).or_default() += 1,
            Err(_) => failed += 1,
        }
    }
    println!("{attempts} attempts in {:.0} s", begun.elapsed().as_secs_f64());
    for ((scenario, deed), count) in done {
        println!("{scenario}\t{deed}\t{count}");
    }
    assert_eq!(failed, 0, "of {attempts} attempts");
}

#[test]
#[ignore = "needs root and takes over 5 seconds: make test"]
fn what_a_signal_leaves_on_this_machine() {
    session(HOST, 4);
}

#[test]
#[ignore = "boots guests: make test"]
fn what_a_signal_leaves_of_guests() {
    session(GUESTS, 2);
}
