//! Tracks: who goes first, without a circle.

use std::collections::BTreeMap;

use super::Checker;

impl Checker<'_> {
    /// How many tracks go before each. With a circle nothing is returned for its tracks.
    pub(super) fn tracks(&mut self) -> BTreeMap<String, u32> {
        let declared = self.declared;
        for (name, track) in &declared.tracks {
            let path = format!("tracks.{name}");
            if let Some(serial) = &track.serial {
                self.name(&format!("{path}.serial"), serial);
            }
            for (place, before) in track.after.iter().enumerate() {
                let path = format!("{path}.after.{place}");
                if !self.known(&path, "track", before, &declared.tracks) {
                    continue;
                }
                let shared =
                    track.serial.is_some() && declared.tracks[before].serial == track.serial;
                let message = format!(
                    "`{before}` has another `serial` key than `{name}`, so neither waits for the other"
                );
                self.require(shared, path, message);
            }
        }
        self.ranked()
    }

    /// Removes tracks that wait for none of the rest, again and again. What is left waits in a circle.
    fn ranked(&mut self) -> BTreeMap<String, u32> {
        let declared = self.declared;
        let mut ranks: BTreeMap<String, u32> = BTreeMap::new();
        for rank in 0..=declared.tracks.len() {
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            let free = declared.tracks.iter().filter(|(name, track)| {
                let known = |it: &&String| declared.tracks.contains_key(*it);
                !ranks.contains_key(*name)
                    && track.after.iter().filter(known).all(|it| ranks.contains_key(it))
            });
            let free: Vec<String> = free.map(|(name, _)| name.clone()).collect();
            ranks.extend(free.into_iter().map(|name| (name, rank)));
        }
        let circle: Vec<&str> = declared
            .tracks
            .keys()
            .filter(|it| !ranks.contains_key(*it))
            .map(String::as_str)
            .collect();
        if let Some(first) = circle.first() {
            let message =
                format!("these tracks wait for each other in a circle: {}", circle.join(", "));
            self.find(format!("tracks.{first}.after"), message);
        }
        ranks
    }
}
