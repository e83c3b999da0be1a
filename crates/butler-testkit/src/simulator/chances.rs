//! How rough a simulated world is.

use rand::{RngExt, rngs::SmallRng};

/// How likely it is, at every step, that something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chances {
    /// A controller's process dies and starts anew, with empty caches and no memory.
    pub crash: f64,
    /// No more than this many times between one rest and the next: a world that always crashes never comes to rest.
    pub crashes: u32,
    /// A request fails, before or after it took effect.
    pub unavailable: f64,
    /// A watch is lost and begins anew with a full list.
    pub relist: f64,
    /// A pass is cut off by its deadline: the process lives on, not knowing whether its request took effect.
    pub cut_off: f64,
    /// Time passes although there is work to do.
    pub delay: f64,
}

impl Default for Chances {
    fn default() -> Self {
        Self {
            crash: 0.02,
            crashes: 6,
            unavailable: 0.02,
            relist: 0.01,
            cut_off: 0.01,
            delay: 0.03,
        }
    }
}

impl Chances {
    /// Nothing goes wrong; only the order of things is open.
    pub fn calm() -> Self {
        Self {
            crash: 0.0,
            crashes: 0,
            unavailable: 0.0,
            relist: 0.0,
            cut_off: 0.0,
            delay: 0.0,
        }
    }
}

/// How eager a world is for each kind of step, drawn once for each seed: in some worlds watches lag far behind, in others
/// requests do, in others users are quick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Temper {
    pub(super) deliver: u32,
    pub(super) handle: u32,
    pub(super) begin: u32,
    pub(super) resume: u32,
    pub(super) act: u32,
}

impl Temper {
    pub(super) fn draw(random: &mut SmallRng) -> Self {
        let mut weight = || 1 << random.random_range(0..6_u32);
        Self {
            deliver: weight(),
            handle: weight(),
            begin: weight(),
            resume: weight(),
            act: weight(),
        }
    }
}
