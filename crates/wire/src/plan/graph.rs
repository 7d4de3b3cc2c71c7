//! The order of steps: which can start when, which wait for each other for ever, and how long the longest path is.
//!
//! Iterative throughout: a plan has ten thousand steps, and a hostile one must not exhaust a stack.

use std::collections::VecDeque;

/// Steps and their upstreams, by place. Every upstream exists, none is the step itself.
pub(super) struct Graph<'a> {
    upstreams: &'a [Vec<usize>],
}

/// An order in which every step comes after its upstreams.
pub(super) struct Order {
    pub(super) places: Vec<usize>,
    /// For each step, the length of the longest path that ends with it, from 1.
    pub(super) depths: Vec<usize>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(upstreams: &'a [Vec<usize>]) -> Self {
        Self { upstreams }
    }

    fn downstreams(&self) -> Vec<Vec<usize>> {
        let mut downstreams = vec![Vec::new(); self.upstreams.len()];
        for (place, upstreams) in self.upstreams.iter().enumerate() {
            upstreams.iter().for_each(|upstream| downstreams[*upstream].push(place));
        }
        downstreams
    }

    /// The steps that can run, in order. Steps of cycles, and those after them, are missing.
    pub(super) fn order(&self) -> Order {
        let downstreams = self.downstreams();
        let mut missing: Vec<usize> = self.upstreams.iter().map(Vec::len).collect();
        let mut depths = vec![1; missing.len()];
        let mut ready: VecDeque<usize> =
            (0..missing.len()).filter(|place| missing[*place] == 0).collect();
        let mut places = Vec::with_capacity(missing.len());
        while let Some(place) = ready.pop_front() {
            places.push(place);
            for downstream in &downstreams[place] {
                depths[*downstream] = depths[*downstream].max(depths[place] + 1);
                missing[*downstream] -= 1;
                if missing[*downstream] == 0 {
                    ready.push_back(*downstream);
                }
            }
        }
        Order { places, depths }
    }

    /// Cycles that have no step in common, each as a path in which every step depends on the next, at most `max`.
    pub(super) fn cycles(&self, max: usize) -> Vec<Vec<usize>> {
        let mut is_left = vec![true; self.upstreams.len()];
        self.order().places.iter().for_each(|place| is_left[*place] = false);
        let mut cycles = Vec::new();
        for start in 0..is_left.len() {
            if cycles.len() >= max {
                break;
            }
            cycles.extend(self.cycle_from(start, &mut is_left));
        }
        cycles
    }

    /// Walks upstream from a step until it meets its own path. What the walk has seen is not walked again.
    fn cycle_from(&self, start: usize, is_left: &mut [bool]) -> Option<Vec<usize>> {
        let mut path: Vec<usize> = Vec::new();
        let mut at = Some(start).filter(|place| is_left[*place])?;
        loop {
            if let Some(begin) = path.iter().position(|place| *place == at) {
                path.iter().for_each(|place| is_left[*place] = false);
                return Some(path.split_off(begin));
            }
            path.push(at);
            let next = self.upstreams[at].iter().copied().find(|upstream| is_left[*upstream]);
            match next {
                Some(next) => at = next,
                // All its upstreams belong to cycles that were found before.
                None => {
                    path.iter().for_each(|place| is_left[*place] = false);
                    return None;
                }
            }
        }
    }

    /// Whether the step in one place has ended before that in another starts.
    pub(super) fn is_upstream(&self, of: usize, wanted: usize) -> bool {
        let mut seen = vec![false; self.upstreams.len()];
        let mut next = self.upstreams[of].clone();
        while let Some(place) = next.pop() {
            if place == wanted {
                return true;
            }
            if !std::mem::replace(&mut seen[place], true) {
                next.extend(&self.upstreams[place]);
            }
        }
        false
    }
}
