//! From text to sets of numbers, with errors that name the place.

use std::ops::Range;

use super::Cron;
use super::error::CronError;
use super::field::{DAY, FIELDS, Field, HOUR, MINUTE, MONTH, Set, WEEKDAY};

/// Longer expressions are mistakes; the longest sensible list of sixty minutes fits.
const EXPRESSION_BYTES_MAX: usize = 256;

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The days of each month in a leap year.
const LONGEST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// A part of the expression, with the place where it stands.
#[derive(Clone, Copy)]
struct Part<'e> {
    expression: &'e str,
    start: usize,
    text: &'e str,
}

impl std::str::FromStr for Cron {
    type Err = CronError;

    fn from_str(expression: &str) -> Result<Cron, CronError> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            let message = format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes");
            return Err(CronError::new("", 0..0, message));
        }
        let parts = split(expression);
        if let [only] = parts[..]
            && only.text.starts_with('@')
        {
            return nickname(only);
        }
        five_fields(expression, &parts)
    }
}

fn nickname(part: Part<'_>) -> Result<Cron, CronError> {
    let meant = NICKNAMES.iter().find(|(name, _)| part.text.eq_ignore_ascii_case(name));
    match meant {
        Some((_, expression)) => expression.parse(),
        None => {
            let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
            Err(part.error(format!("there is no such nickname; there are {}", names.join(", "))))
        }
    }
}

fn five_fields(expression: &str, parts: &[Part<'_>]) -> Result<Cron, CronError> {
    let [minute, hour, day, month, weekday] = parts else {
        return Err(wrong_count(expression, parts));
    };
    let cron = Cron {
        minutes: list(*minute, &MINUTE)?,
        hours: list(*hour, &HOUR)?,
        days: list(*day, &DAY)?,
        months: list(*month, &MONTH)?,
        weekdays: list(*weekday, &WEEKDAY)?.sunday_is_zero(),
        either_day: !day.text.starts_with('*') && !weekday.text.starts_with('*'),
        rhythm: minute.text.starts_with('*') || hour.text.starts_with('*'),
    };
    if cron.either_day || (1..=12).any(|month| cron.has_day_in(month)) {
        return Ok(cron);
    }
    let days = day.start..month.end();
    Err(CronError::new(expression, days, "no month of these has such a day: this would never come"))
}

impl Cron {
    fn has_day_in(&self, month: u32) -> bool {
        self.months.has(month)
            && self.days.at_least(1).is_some_and(|day| day <= LONGEST[month as usize - 1])
    }
}

fn wrong_count(expression: &str, parts: &[Part<'_>]) -> CronError {
    match parts.get(FIELDS.len()) {
        Some(sixth) => sixth.error(
            "an expression has five fields (minute, hour, day of month, month, day of week); there are no seconds or years"
                .to_owned(),
        ),
        None => {
            let missing = FIELDS[parts.len()].name;
            let end = expression.trim_end().len();
            CronError::new(
                expression,
                end..end,
                format!("an expression has five fields, and the {missing} is missing"),
            )
        }
    }
}

fn split(expression: &str) -> Vec<Part<'_>> {
    pieces(expression, expression, 0, |c| c.is_ascii_whitespace())
        .filter(|part| !part.text.is_empty())
        .collect()
}

/// The pieces of a text between separators, each with its place in the expression.
fn pieces<'e>(
    expression: &'e str,
    text: &'e str,
    start: usize,
    separates: impl Fn(char) -> bool,
) -> impl Iterator<Item = Part<'e>> {
    let mut next = start;
    text.split(separates).map(move |text| {
        let part = Part { expression, start: next, text };
        next += text.len() + 1;
        part
    })
}

fn list(part: Part<'_>, field: &Field) -> Result<Set, CronError> {
    let mut numbers = Set::default();
    for item in pieces(part.expression, part.text, part.start, |c| c == ',') {
        numbers = numbers.union(range(item, field)?);
    }
    Ok(numbers)
}

fn range(item: Part<'_>, field: &Field) -> Result<Set, CronError> {
    let (span, step) = match item.text.split_once('/') {
        Some((span, _)) => {
            (item.cut(0..span.len()), Some(item.cut(span.len() + 1..item.text.len())))
        }
        None => (item, None),
    };
    let (first, last) = bounds(span, field, step.is_some())?;
    let step = step.map_or(Ok(1), |step| read_step(step, field))?;
    Ok(Set::stepped(first, last, step))
}

/// The first and the last number of a range. A single number with a step counts up to the maximum, as `5/15` does.
fn bounds(span: Part<'_>, field: &Field, stepped: bool) -> Result<(u32, u32), CronError> {
    if span.text == "*" {
        // Sunday once: a step through the week counts seven days.
        return Ok((field.min, if field.max == WEEKDAY.max { 6 } else { field.max }));
    }
    let Some(dash) = span.text.find('-') else {
        let number = read(span, field)?;
        return Ok((number, if stepped { field.max } else { number }));
    };
    let first = read(span.cut(0..dash), field)?;
    let last = read(span.cut(dash + 1..span.text.len()), field)?;
    if first > last {
        return Err(span.error(format!("a range of the {} goes up; write it as two", field.name)));
    }
    Ok((first, last))
}

fn read_step(part: Part<'_>, field: &Field) -> Result<u32, CronError> {
    match part.number() {
        Some(step) if step >= 1 && step <= field.max => Ok(step),
        _ => Err(part.error(format!("the step of the {} is 1 to {}", field.name, field.max))),
    }
}

fn read(part: Part<'_>, field: &Field) -> Result<u32, CronError> {
    let named = field.names.iter().position(|name| part.text.eq_ignore_ascii_case(name));
    let number = match named {
        Some(place) => Some(field.min + place as u32),
        None => part.number(),
    };
    number.filter(|number| (field.min..=field.max).contains(number)).ok_or_else(|| {
        let names = match (field.names.first(), field.names.last()) {
            (Some(first), Some(last)) => {
                format!(" or {} to {}", first.to_uppercase(), last.to_uppercase())
            }
            _ => String::new(),
        };
        part.error(format!("the {} is {} to {}{names}", field.name, field.min, field.max))
    })
}

impl<'e> Part<'e> {
    fn end(self) -> usize {
        self.start + self.text.len()
    }

    fn cut(self, place: Range<usize>) -> Self {
        let start = self.start + place.start;
        Part { start, text: self.text.get(place).unwrap_or_default(), ..self }
    }

    /// Up to three digits: no field has larger numbers, and signs are not numbers.
    fn number(self) -> Option<u32> {
        let digits = !self.text.is_empty() && self.text.len() <= 3;
        let digits = digits && self.text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| self.text.parse().ok()).flatten()
    }

    fn error(self, message: String) -> CronError {
        CronError::new(self.expression, self.start..self.end(), message)
    }
}
