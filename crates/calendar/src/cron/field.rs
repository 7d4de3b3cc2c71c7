//! The five fields, and the numbers a field allows.

/// Numbers from 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(u64);

/// A field of an expression: its range, and the names its numbers have.
pub(super) struct Field {
    pub name: &'static str,
    pub min: u32,
    pub max: u32,
    /// The name of `min`, then of the next number, and so on.
    pub names: &'static [&'static str],
}

pub(super) const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
pub(super) const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
pub(super) const DAY: Field = Field { name: "day of month", min: 1, max: 31, names: &[] };
pub(super) const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const WEEKDAY: Field = Field {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

pub(super) const FIELDS: [&Field; 5] = [&MINUTE, &HOUR, &DAY, &MONTH, &WEEKDAY];

impl Set {
    pub(super) fn stepped(first: u32, last: u32, step: u32) -> Self {
        let numbers = (first..=last).step_by(step as usize);
        Self(numbers.fold(0, |bits, number| bits | 1 << number))
    }

    pub(super) fn union(self, other: Set) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, number: u32) -> bool {
        self.0 & (1 << number) != 0
    }

    /// The smallest number that is at least `least`.
    pub(super) fn at_least(self, least: u32) -> Option<u32> {
        let bits = self.0.checked_shr(least)?.checked_shl(least)?;
        (bits != 0).then(|| bits.trailing_zeros())
    }

    /// Both names of Sunday become 0.
    pub(super) fn sunday_is_zero(self) -> Self {
        let sunday = self.0 >> 7 & 1;
        Self(self.0 & 0x7f | sunday)
    }
}
