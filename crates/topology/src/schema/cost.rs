//! What testing a value with a schema costs at most, computed from the schema alone.
//!
//! A schema is a graph: its subschemas are applied to the same value (`$ref`, `allOf`, `if`, …) or to a child of it (`properties`,
//! `items`, …). The bound is how many steps all subschemas together take on one value, the worst of all values that can stand
//! at each depth. A child is one member or one item, so subschemas for different names do not add up, also where they come from
//! different branches. A value of `n` units therefore costs at most `n` times this bound, however deep it is.
//!
//! Definitions that double their references, and recursion that multiplies, make this bound grow without end: they are refused.
//! Recursion that applies one schema to each child is not, so trees are fine.
//!
//! The library decides in one pass and explains in another, which tries branches again at each level: both are counted.
//! References that this module would resolve differently from the library are refused, because then it would count another
//! schema than the one that is applied.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::work::size_of;

/// The most steps for each unit of a value. The shipped topologies have below 50.
pub(crate) const UNIT_STEPS_MAX: u64 = 10_000;

/// The most subschemas of one schema.
const SUBSCHEMAS_MAX: usize = 2_000;

/// The deepest value that is parsed: `serde_json` refuses deeper ones.
const DEPTH_MAX: usize = 128;

/// What computing the bound may cost itself, in additions.
const ANALYSIS_MAX: u64 = 5_000_000;

/// Steps of a pattern on one unit of text: the engine needs several for each byte where its cache is of no use.
const PATTERN_STEPS: u64 = 64;

/// Steps of `uniqueItems` on one item, which is hashed again by each list around it.
const UNIQUE_STEPS: u64 = 16;

/// Entries of `enum`, `required` and `properties` that cost one step: each is one comparison or look-up.
const ENTRIES_PER_STEP: u64 = 8;

/// Steps for each unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Whether the value fits.
    pub(crate) verdict: u64,
    /// Why it does not.
    pub(crate) errors: u64,
}

/// `Err` says why the schema has no bound, or one that is too large.
pub(crate) fn of(schema: &Value) -> Result<Cost, String> {
    let states = states(&Graph::read(schema)?);
    let order = children_first(&states)?;
    let mut analysis = ANALYSIS_MAX;
    let mut steps = same_value(&states, &order);
    let mut cost = Cost { verdict: steps[0], errors: steps[1] };
    for _ in 0..DEPTH_MAX {
        check(cost)?;
        let deeper = one_deeper(&states, &order, &steps, &mut analysis)?;
        if deeper == steps {
            break;
        }
        steps = deeper;
        cost.verdict = cost.verdict.max(steps[0]);
        cost.errors = cost.errors.max(steps[1]);
    }
    check(cost)?;
    Ok(cost)
}

fn check(cost: Cost) -> Result<(), String> {
    if cost.verdict <= UNIT_STEPS_MAX {
        return Ok(());
    }
    Err(format!(
        "testing a value would take more than {UNIT_STEPS_MAX} steps for each member or item; definitions that refer to each other several times multiply: refer to each one once, or give the branches members with different names"
    ))
}

/// Whether a subschema is applied once, or tried: then the explanation asks it once more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applied {
    Always,
    Tried,
}

/// Which child a subschema is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Child<'s> {
    Member(&'s str),
    Item(usize),
}

/// One subschema, by the places of those that it applies.
#[derive(Default)]
struct Subschema<'s> {
    steps: u64,
    /// To the same value.
    here: Vec<(usize, Applied)>,
    /// To one child.
    named: Vec<(Child<'s>, usize)>,
    /// To each member, and to each one without a name of its own.
    every_member: Vec<(usize, Applied)>,
    other_members: Vec<(usize, Applied)>,
    every_item: Vec<(usize, Applied)>,
    other_items: Vec<(usize, Applied)>,
    /// Whether it asks its subschemas again, to learn what they have looked at.
    asks_again: bool,
}

/// The subschemas that can be reached from the root, which is the first.
struct Graph<'s> {
    root: &'s Value,
    places: BTreeMap<*const Value, usize>,
    waiting: Vec<&'s Value>,
    anchors: BTreeMap<&'s str, Vec<&'s Value>>,
}

impl<'s> Graph<'s> {
    fn read(root: &'s Value) -> Result<Vec<Subschema<'s>>, String> {
        let mut graph =
            Self { root, places: BTreeMap::new(), waiting: Vec::new(), anchors: anchors(root)? };
        graph.place(root)?;
        let mut read = Vec::new();
        while let Some(schema) = graph.waiting.get(read.len()).copied() {
            let subschema = match schema {
                Value::Object(keywords) => graph.subschema(keywords)?,
                _ => Subschema { steps: 1, ..Subschema::default() },
            };
            read.push(subschema);
        }
        Ok(read)
    }

    fn place(&mut self, schema: &'s Value) -> Result<usize, String> {
        let next = self.waiting.len();
        let place = *self.places.entry(std::ptr::from_ref(schema)).or_insert(next);
        if place == next {
            if next == SUBSCHEMAS_MAX {
                return Err(format!("a schema has at most {SUBSCHEMAS_MAX} parts"));
            }
            self.waiting.push(schema);
        }
        Ok(place)
    }

    fn subschema(&mut self, keywords: &'s Map<String, Value>) -> Result<Subschema<'s>, String> {
        let mut it = Subschema { steps: 1 + keywords.len() as u64, ..Subschema::default() };
        for (keyword, value) in keywords {
            it.steps += own_steps(keyword, value);
            match keyword.as_str() {
                "$ref" => {
                    let target = self.resolve(value)?;
                    it.here.push((self.place(target)?, Applied::Always));
                }
                "$dynamicRef" | "$recursiveRef" => {
                    return Err(format!("`{keyword}` has no bound; use `$ref`"));
                }
                "then" | "else" => it.here.push((self.place(value)?, Applied::Always)),
                "not" | "if" => it.here.push((self.place(value)?, Applied::Tried)),
                "allOf" => self.each(&mut it.here, value, Applied::Always)?,
                "anyOf" | "oneOf" => self.each(&mut it.here, value, Applied::Tried)?,
                "dependentSchemas" | "dependencies" => {
                    for (_, part) in members(value).filter(|(_, part)| !part.is_array()) {
                        it.here.push((self.place(part)?, Applied::Always));
                    }
                }
                "properties" => {
                    for (name, part) in members(value) {
                        it.named.push((Child::Member(name), self.place(part)?));
                    }
                }
                "patternProperties" => {
                    for (_, part) in members(value) {
                        it.every_member.push((self.place(part)?, Applied::Always));
                    }
                }
                "propertyNames" => it.every_member.push((self.place(value)?, Applied::Always)),
                "additionalProperties" => {
                    it.other_members.push((self.place(value)?, Applied::Always));
                }
                "unevaluatedProperties" => {
                    it.asks_again = true;
                    it.every_member.push((self.place(value)?, Applied::Tried));
                }
                "prefixItems" | "items" if value.is_array() => {
                    for (place, part) in value.as_array().into_iter().flatten().enumerate() {
                        it.named.push((Child::Item(place), self.place(part)?));
                    }
                }
                "items" | "additionalItems" => {
                    it.other_items.push((self.place(value)?, Applied::Always));
                }
                "contains" => it.every_item.push((self.place(value)?, Applied::Tried)),
                "unevaluatedItems" => {
                    it.asks_again = true;
                    it.every_item.push((self.place(value)?, Applied::Tried));
                }
                _ => {}
            }
        }
        Ok(it)
    }

    fn each(
        &mut self,
        places: &mut Vec<(usize, Applied)>,
        list: &'s Value,
        applied: Applied,
    ) -> Result<(), String> {
        for part in list.as_array().into_iter().flatten() {
            places.push((self.place(part)?, applied));
        }
        Ok(())
    }

    fn resolve(&self, reference: &'s Value) -> Result<&'s Value, String> {
        let named = reference.as_str().unwrap_or_default();
        let unknown = || {
            format!("`$ref: {named}` leads nowhere; refer to a part of this schema, as `#/$defs/…`")
        };
        let fragment =
            named.strip_prefix('#').filter(|it| !it.contains('%')).ok_or_else(unknown)?;
        let found = match fragment.starts_with('/') || fragment.is_empty() {
            true => self.root.pointer(fragment),
            false => match self.anchors.get(fragment).map(Vec::as_slice) {
                Some([only]) => Some(*only),
                _ => None,
            },
        };
        found.ok_or_else(unknown)
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// All values that an anchor names, wherever they stand. `Err` if references are relative to something else than the root.
fn anchors(root: &Value) -> Result<BTreeMap<&str, Vec<&Value>>, String> {
    let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    if draft.contains("draft-04") {
        return Err("use a newer draft of JSON Schema than 04".to_owned());
    }
    let mut found: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut waiting = vec![root];
    while let Some(value) = waiting.pop() {
        if !std::ptr::eq(value, root) && value.get("$id").is_some_and(Value::is_string) {
            return Err("`$id` stands only at the top of a schema".to_owned());
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = value.get(keyword).and_then(Value::as_str) {
                found.entry(name).or_default().push(value);
            }
        }
        match value {
            Value::Object(members) => waiting.extend(members.values()),
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    Ok(found)
}

/// What a keyword costs beside the subschemas that it applies.
fn own_steps(keyword: &str, value: &Value) -> u64 {
    let entries = |value: &Value| match value {
        Value::Object(members) => members.len() as u64,
        Value::Array(items) => items.len() as u64,
        _ => 0,
    };
    match keyword {
        "const" | "enum" => size_of(value) / ENTRIES_PER_STEP,
        "required" | "properties" | "dependentRequired" | "dependentSchemas" | "dependencies" => {
            entries(value) / ENTRIES_PER_STEP
        }
        "pattern" => PATTERN_STEPS,
        "patternProperties" => entries(value).saturating_mul(PATTERN_STEPS),
        "uniqueItems" => UNIQUE_STEPS,
        _ => 0,
    }
}

/// A subschema that decides (even places) or explains (odd places), by the places of what it applies.
#[derive(Default)]
struct State<'s> {
    steps: u64,
    here: Vec<usize>,
    named: BTreeMap<Child<'s>, Vec<usize>>,
    other_members: Vec<usize>,
    other_items: Vec<usize>,
}

fn states<'s>(graph: &[Subschema<'s>]) -> Vec<State<'s>> {
    let both = graph.iter().flat_map(|subschema| [(subschema, false), (subschema, true)]);
    both.map(|(subschema, explains)| state(subschema, explains)).collect()
}

fn state<'s>(subschema: &Subschema<'s>, explains: bool) -> State<'s> {
    let asked = |&(place, applied): &(usize, Applied), again: bool| {
        let (decides, says) = (2 * place, 2 * place + 1);
        let mut places = match (explains, applied) {
            (false, _) => vec![decides],
            (true, Applied::Always) => vec![says],
            (true, Applied::Tried) => vec![decides, says],
        };
        if again {
            // It tries branches at each level, as an explanation does.
            places.extend([decides, says]);
        }
        places
    };
    let children = |them: &[(usize, Applied)]| -> Vec<usize> {
        them.iter().flat_map(|it| asked(it, false)).collect()
    };
    let (every_member, every_item) =
        (children(&subschema.every_member), children(&subschema.every_item));
    let mut named: BTreeMap<Child<'s>, Vec<usize>> = BTreeMap::new();
    for (child, place) in &subschema.named {
        let of_child = named.entry(*child).or_insert_with(|| match child {
            Child::Member(_) => every_member.clone(),
            Child::Item(_) => every_item.clone(),
        });
        of_child.extend(asked(&(*place, Applied::Always), false));
    }
    State {
        steps: subschema.steps,
        here: subschema.here.iter().flat_map(|it| asked(it, subschema.asks_again)).collect(),
        named,
        other_members: [children(&subschema.other_members), every_member].concat(),
        other_items: [children(&subschema.other_items), every_item].concat(),
    }
}

/// All states, each after those that it applies to the same value.
fn children_first(states: &[State<'_>]) -> Result<Vec<usize>, String> {
    let mut users = vec![Vec::new(); states.len()];
    let mut missing: Vec<usize> = states.iter().map(|state| state.here.len()).collect();
    for (place, state) in states.iter().enumerate() {
        state.here.iter().for_each(|used| users[*used].push(place));
    }
    let mut order: Vec<usize> = (0..states.len()).filter(|it| missing[*it] == 0).collect();
    let mut next = 0;
    while let Some(place) = order.get(next).copied() {
        next += 1;
        for user in &users[place] {
            missing[*user] -= 1;
            if missing[*user] == 0 {
                order.push(*user);
            }
        }
    }
    if order.len() == states.len() {
        return Ok(order);
    }
    Err("a definition refers to itself for the same value, without a member or item in between"
        .to_owned())
}

/// The steps of each state on the value that it is applied to.
fn same_value(states: &[State<'_>], order: &[usize]) -> Vec<u64> {
    let mut steps = vec![0_u64; states.len()];
    for &place in order {
        let state = &states[place];
        steps[place] = sum(&steps, &state.here).saturating_add(state.steps);
    }
    steps
}

fn sum(steps: &[u64], places: &[usize]) -> u64 {
    places.iter().fold(0, |sum, place| sum.saturating_add(steps[*place]))
}

/// The steps that one state causes on each child of its value.
#[derive(Clone, Default)]
struct OnChildren<'s> {
    named: BTreeMap<Child<'s>, u64>,
    other_members: u64,
    other_items: u64,
}

impl<'s> OnChildren<'s> {
    fn on(&self, child: Child<'s>) -> u64 {
        let other = match child {
            Child::Member(_) => self.other_members,
            Child::Item(_) => self.other_items,
        };
        self.named.get(&child).copied().unwrap_or(other)
    }

    fn most(&self) -> u64 {
        let named = self.named.values().copied().max().unwrap_or(0);
        named.max(self.other_members).max(self.other_items)
    }
}

/// The steps of each state on one value that stands one level deeper than those of `steps`.
fn one_deeper(
    states: &[State<'_>],
    order: &[usize],
    steps: &[u64],
    analysis: &mut u64,
) -> Result<Vec<u64>, String> {
    let mut on_children: Vec<OnChildren<'_>> = vec![OnChildren::default(); states.len()];
    for &place in order {
        let state = &states[place];
        let parts: Vec<&OnChildren<'_>> = state.here.iter().map(|it| &on_children[*it]).collect();
        let children: BTreeSet<Child<'_>> = parts
            .iter()
            .flat_map(|part| part.named.keys())
            .chain(state.named.keys())
            .copied()
            .collect();
        let additions = (children.len() as u64 + 1).saturating_mul(parts.len() as u64 + 1);
        *analysis = analysis
            .checked_sub(additions)
            .ok_or("it is too involved: its parts refer to each other too often")?;
        let all = |mine: u64, of: &dyn Fn(&OnChildren<'_>) -> u64| {
            parts.iter().fold(mine, |sum, part| sum.saturating_add(of(part)))
        };
        let named = children.iter().map(|&child| {
            let other = match child {
                Child::Member(_) => &state.other_members,
                Child::Item(_) => &state.other_items,
            };
            let mine = sum(steps, state.named.get(&child).unwrap_or(other));
            (child, parts.iter().fold(mine, |sum, part| sum.saturating_add(part.on(child))))
        });
        let merged = OnChildren {
            named: named.collect(),
            other_members: all(sum(steps, &state.other_members), &|part| part.other_members),
            other_items: all(sum(steps, &state.other_items), &|part| part.other_items),
        };
        on_children[place] = merged;
    }
    Ok(on_children.iter().map(OnChildren::most).collect())
}

#[cfg(test)]
mod tests;
