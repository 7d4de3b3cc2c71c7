//! Reads the configured faults from the environment and executes them. Only test builds contain this module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use rustix::process::{Signal, getpid, kill_process};

/// The environment variable that selects the faults.
pub const VARIABLE: &str = "TENURE_LAB";

#[derive(Debug, Default)]
struct LabConfig {
    /// Each signal with its fault point and the visit at which it is sent.
    faults: Vec<(String, u64, Signal)>,
    mutants: Numbers,
    skew_ms: i64,
    /// A file with the offset, for a clock that jumps while the process runs.
    skew_in: Option<PathBuf>,
}

fn config() -> &'static LabConfig {
    static CONFIG: OnceLock<LabConfig> = OnceLock::new();
    CONFIG.get_or_init(|| parse(&std::env::var(VARIABLE).unwrap_or_default()))
}

/// Panics on a misspelt spec: it must not look like a build that survived the fault.
fn parse(text: &str) -> LabConfig {
    let mut config = LabConfig::default();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let (what, of) = word.split_once('@').unwrap_or_else(|| invalid(word));
        match what {
            "kill" => config.faults.push(parse_fault(of, Signal::KILL)),
            "stop" => config.faults.push(parse_fault(of, Signal::STOP)),
            "mutant" => config.mutants.insert(of.parse().unwrap_or_else(|_| invalid(word))),
            "skew" => config.skew_ms = of.parse().unwrap_or_else(|_| invalid(word)),
            "skew-in" => config.skew_in = Some(PathBuf::from(of)),
            _ => invalid(word),
        }
    }
    config
}

fn parse_fault(of: &str, signal: Signal) -> (String, u64, Signal) {
    let (name, time) = of.split_once('#').unwrap_or((of, "1"));
    let is_known = crate::POINTS.iter().any(|point| point.name == name);
    let time = time.parse().ok().filter(|_| is_known).unwrap_or_else(|| invalid(of));
    (name.to_owned(), time, signal)
}

fn invalid<T>(word: &str) -> T {
    panic!("{VARIABLE}: `{word}` chooses nothing that exists")
}

/// Called when a fault point is reached.
pub fn reach(name: &'static str) {
    let config = config();
    if !config.faults.iter().any(|(at, ..)| at == name) {
        return;
    }
    static TIMES: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());
    let time = {
        let mut times = TIMES.lock().expect("nothing panics with the count in hand");
        let time = times.entry(name).or_default();
        *time += 1;
        *time
    };
    for (_, _, signal) in config.faults.iter().filter(|(at, when, _)| at == name && *when == time) {
        kill_process(getpid(), *signal).expect("a process may signal itself");
    }
}

/// Whether a bug of the museum is active. Every decision of a rule asks, and the model makes millions of them, so
/// this looks up one bit.
pub fn mutant(number: u8) -> bool {
    const WITH_A_ROW: Numbers = Numbers::of(crate::MUTANTS);
    debug_assert!(WITH_A_ROW.contains(number), "mutant {number} has no row");
    config().mutants.contains(number)
}

/// A set of mutants' numbers.
#[derive(Debug, Default)]
struct Numbers([u64; 4]);

impl Numbers {
    const fn of(numbers: &[u8]) -> Self {
        let mut set = Numbers([0; 4]);
        let mut next = 0;
        while next < numbers.len() {
            set.insert(numbers[next]);
            next += 1;
        }
        set
    }

    const fn insert(&mut self, number: u8) {
        self.0[(number / 64) as usize] |= 1 << (number % 64);
    }

    const fn contains(&self, number: u8) -> bool {
        self.0[(number / 64) as usize] & (1 << (number % 64)) != 0
    }
}

/// The next number of a stream shared by all callers.
pub fn draw() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
}

/// How far the wall clock is ahead.
pub fn skew_ms() -> i64 {
    let config = config();
    let Some(file) = &config.skew_in else { return config.skew_ms };
    let said = std::fs::read_to_string(file).unwrap_or_else(|_| invalid("skew-in"));
    said.trim().parse().unwrap_or_else(|_| invalid(&said))
}
