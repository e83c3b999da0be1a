//! People who use a Service and do not stop: each comes, is answered, and comes again over a new connection. Every visit that was
//! in vain is on record.
//!
//! An address is on one machine at a time. Connections that are under way when it moves to another are cut off, since only the
//! old one knows them: whoever is cut off tries once more at once, and must be answered then.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::workload::{Answer, ask, fetch};

/// How many there are.
pub(super) const VISITORS: usize = 2;
/// How long one of them stays away.
const ABSENCE: Duration = Duration::from_millis(50);

/// What the visitors have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Visits that were answered.
    pub(super) answered: u64,
    /// The longest that one of them took.
    pub(super) longest: Duration,
    /// How many of them were cut off, and answered when they tried again.
    pub(super) again: usize,
    /// When, after the beginning, a visit was in vain, and why.
    pub(super) in_vain: Vec<String>,
}

/// Visitors on their way.
pub(super) struct Visitors {
    stop: Arc<AtomicBool>,
    record: Arc<Mutex<Record>>,
    people: Vec<JoinHandle<()>>,
}

impl Visitors {
    /// Lets them begin at an address that answers.
    pub(super) fn begin(address: IpAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let record = Arc::new(Mutex::new(Record::default()));
        let began = Instant::now();
        let person = |_| {
            let (stop, record) = (Arc::clone(&stop), Arc::clone(&record));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    visit(address, began, &record);
                    std::thread::sleep(ABSENCE);
                }
            })
        };
        let people = (0..VISITORS).map(person).collect();
        Self {
            stop,
            record,
            people,
        }
    }

    /// How many visits were answered so far.
    pub(super) fn answered(&self) -> u64 {
        lock(&self.record).answered
    }

    /// Lets all of them go home, and gives what they have seen.
    pub(super) fn end(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        for person in self.people.drain(..) {
            person.join().unwrap();
        }
        lock(&self.record).clone()
    }
}

impl Drop for Visitors {
    fn drop(&mut self) {
        // A chapter that failed does not wait for them.
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn visit(address: IpAddr, began: Instant, record: &Mutex<Record>) {
    let came = Instant::now();
    let (answer, again) = match ask(address) {
        Answer::Given(answer) => (Ok(answer), 0),
        Answer::CutOff(_) => (fetch(address), 1),
        Answer::Refused(words) => (Err(words), 0),
    };
    let took = came.elapsed();
    let mut record = lock(record);
    match answer {
        Ok(_) => {
            record.answered += 1;
            record.again += again;
            record.longest = record.longest.max(took);
        }
        Err(words) => {
            let at = came.duration_since(began).as_secs_f32();
            let took = took.as_secs_f32();
            let line = format!("after {at:.1}s, for {took:.1}s: {words}");
            record.in_vain.push(line);
        }
    }
}

fn lock(record: &Mutex<Record>) -> std::sync::MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}
