//! Whose rows are about what: the different pairs of a unit and a key, and which rows of a unit count.
//!
//! Nothing is drawn here: coins are arguments. Units and keys are places in a list, negative where a row has none, and each result
//! is an integer that one definition determines; the plain ones are in the tests of Python.

use crate::error::Error;
use crate::machine::memory::{filled, push, room};

/// The most rows of a table, so that places fit into 32 bits.
const MAX_ROWS: usize = 1 << 31;

/// A place of a unit or key: an integer of a column, negative for none.
pub trait Place: Copy {
    /// Returns the place, if there is one.
    fn place(self) -> Option<usize>;
}

impl Place for i32 {
    #[inline(always)]
    fn place(self) -> Option<usize> {
        usize::try_from(self).ok()
    }
}

impl Place for i64 {
    #[inline(always)]
    fn place(self) -> Option<usize> {
        usize::try_from(self).ok()
    }
}

/// The different pairs of a unit and a key, in the order of their first rows.
pub struct Pairs {
    /// For each row the number of its pair; −1 for a row without a unit or without a key.
    pub of_rows: Vec<i64>,
    /// The first row of each pair.
    pub firsts: Vec<i64>,
}

/// Returns the different pairs of a unit and a key.
///
/// A unit's rows are looked at one after another. Each key keeps the unit that had it last, and where: a row is the first one of its
/// pair if that is another unit. So no pairs are sorted. Rows that stand by unit are taken as they are, others in the order of a
/// counting sort.
///
/// # Errors
/// [`Error::Length`] unless there are as many units as keys; [`Error::Capacity`] for more than 2³¹ rows or units; [`Error::OutOfMemory`].
pub fn pairs<U: Place, K: Place>(units: &[U], keys: &[K]) -> Result<Pairs, Error> {
    check(units, keys.len(), "keys")?;
    let is_whole = |row: usize| units[row].place().is_some() && keys[row].place().is_some();
    let number = keys.iter().filter_map(|key| key.place()).max().map_or(0, |last| last + 1);
    let mut last: Vec<(u32, u32)> = filled((u32::MAX, 0), number)?;
    let mut of_rows: Vec<i64> = filled(-1, units.len())?;
    let mut firsts = Vec::new();
    if ascends(units) {
        for row in 0..units.len() {
            if let (Some(unit), Some(key)) = (units[row].place(), keys[row].place()) {
                let (seen, pair) = &mut last[key];
                // mutant: pair-of-a-key-is-that-of-another-unit
                if *seen != unit as u32 {
                    (*seen, *pair) = (unit as u32, firsts.len() as u32);
                    push(&mut firsts, row as i64)?;
                }
                of_rows[row] = i64::from(*pair);
            }
        }
        return Ok(Pairs { of_rows, firsts });
    }
    for row in by_unit(units, is_whole)? {
        let row = row as usize;
        if let (Some(unit), Some(key)) = (units[row].place(), keys[row].place()) {
            let (seen, first) = &mut last[key];
            if *seen != unit as u32 {
                (*seen, *first) = (unit as u32, row as u32);
            }
            of_rows[row] = i64::from(*first);
        }
    }
    // A pair's first row has its number before the others ask for it.
    for row in 0..of_rows.len() {
        if of_rows[row] == row as i64 {
            of_rows[row] = firsts.len() as i64;
            push(&mut firsts, row as i64)?;
        } else if of_rows[row] >= 0 {
            // mutant: pair-has-the-number-of-a-row
            of_rows[row] = of_rows[of_rows[row] as usize];
        }
    }
    Ok(Pairs { of_rows, firsts })
}

/// Returns which rows count: of each unit `most`, those with the least coins, of equal ones the first; without coins its first rows.
///
/// # Errors
/// [`Error::Length`] unless there is a coin for each row; [`Error::Capacity`] for more than 2³¹ rows or units; [`Error::OutOfMemory`].
pub fn counting<U: Place>(units: &[U], most: usize, coins: Option<&[u32]>) -> Result<Vec<bool>, Error> {
    check(units, coins.map_or(units.len(), <[u32]>::len), "coins")?;
    let mut rows: Vec<u32> = filled(0, number_of(units))?;
    let mut counts: Vec<bool> = filled(false, units.len())?;
    let Some(coins) = coins else {
        for (unit, counts) in units.iter().zip(&mut counts) {
            if let Some(unit) = unit.place() {
                *counts = (rows[unit] as usize) < most;
                rows[unit] += 1;
            }
        }
        return Ok(counts);
    };
    for unit in units.iter().filter_map(|unit| unit.place()) {
        rows[unit] += 1;
    }
    // mutant: unit-with-one-row-too-many-is-not-decided
    let is_crowded = |unit: usize| rows[unit] as usize > most;
    for (unit, counts) in units.iter().zip(&mut counts) {
        *counts = unit.place().is_some_and(|unit| !is_crowded(unit));
    }
    let mut order = by_unit(units, |row| units[row].place().is_some_and(is_crowded))?;
    let mut left = order.as_mut_slice();
    while let Some(&first) = left.first() {
        let unit = units[first as usize].place().expect("a row in order has a unit");
        let (own, others) = left.split_at_mut(rows[unit] as usize);
        if most > 0 {
            // mutant: equal-coins-left-to-the-selection
            own.select_nth_unstable_by_key(most - 1, |&row| (coins[row as usize], row));
        }
        for &row in &own[..most] {
            counts[row as usize] = true;
        }
        left = others;
    }
    Ok(counts)
}

/// Refuses columns that do not belong together, or whose places need more than 32 bits.
fn check<U: Place>(units: &[U], others: usize, name: &'static str) -> Result<(), Error> {
    if units.len() != others {
        return Err(Error::Length { name, given: others, needed: units.len() });
    }
    let largest = units.len().max(number_of(units));
    if largest > MAX_ROWS {
        return Err(Error::Capacity { rows: largest as u64, limit: MAX_ROWS as u64 });
    }
    Ok(())
}

/// Returns one more than the largest place, 0 where there is none.
fn number_of<U: Place>(units: &[U]) -> usize {
    units.iter().filter_map(|unit| unit.place()).max().map_or(0, |last| last + 1)
}

/// Returns whether units never descend, rows without one left out: the rows of each are next to each other.
fn ascends<U: Place>(units: &[U]) -> bool {
    let mut last = 0;
    units.iter().filter_map(|unit| unit.place()).all(|unit| {
        let ascends = last <= unit;
        last = unit;
        ascends
    })
}

/// Returns the rows that are wanted, each with a unit, by unit and in their order: a counting sort.
fn by_unit<U: Place>(units: &[U], is_wanted: impl Fn(usize) -> bool) -> Result<Vec<u32>, Error> {
    let mut starts: Vec<u32> = filled(0, number_of(units) + 1)?;
    for (row, unit) in units.iter().enumerate() {
        if let Some(unit) = unit.place() {
            starts[unit + 1] += u32::from(is_wanted(row));
        }
    }
    for unit in 1..starts.len() {
        starts[unit] += starts[unit - 1];
    }
    let wanted = starts.last().map_or(0, |&rows| rows as usize);
    let mut order: Vec<u32> = room(wanted)?;
    order.resize(wanted, 0);
    for (row, unit) in units.iter().enumerate() {
        if let Some(unit) = unit.place()
            && is_wanted(row)
        {
            order[starts[unit] as usize] = row as u32;
            starts[unit] += 1;
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All columns of so many rows, of −1 and two places.
    fn columns(rows: u32) -> impl Iterator<Item = Vec<i64>> {
        (0..3_i64.pow(rows)).map(move |code| (0..rows).map(|row| code / 3_i64.pow(row) % 3 - 1).collect())
    }

    #[test]
    fn pairs_are_numbered_by_their_first_rows() {
        for units in columns(5) {
            for keys in columns(5) {
                let found = pairs(&units, &keys).expect("five rows");
                let mut known = Vec::new();
                for row in 0..5 {
                    let pair = (units[row], keys[row]);
                    if pair.0 < 0 || pair.1 < 0 {
                        assert_eq!(found.of_rows[row], -1);
                        continue;
                    }
                    let number = known.iter().position(|&other| other == pair).unwrap_or_else(|| {
                        known.push(pair);
                        assert_eq!(found.firsts[known.len() - 1], row as i64);
                        known.len() - 1
                    });
                    assert_eq!(found.of_rows[row], number as i64, "{units:?} {keys:?}");
                }
                assert_eq!(found.firsts.len(), known.len());
            }
        }
    }

    #[test]
    fn the_rows_with_the_least_coins_count_of_equal_ones_the_first() {
        for units in columns(5) {
            for coins in columns(5) {
                let coins: Vec<u32> = coins.iter().map(|&coin| (coin + 1) as u32).collect();
                for most in 1..4 {
                    for given in [Some(coins.as_slice()), None] {
                        let found = counting(&units, most, given).expect("five rows");
                        for row in 0..5 {
                            let coin = |row: usize| (given.map_or(0, |coins| coins[row]), row);
                            let before = (0..5).filter(|&other| units[other] == units[row] && coin(other) < coin(row));
                            assert_eq!(found[row], units[row] >= 0 && before.count() < most, "{units:?} {coins:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn columns_of_two_lengths_are_refused() {
        assert!(pairs(&[0_i64, 1], &[0_i64]).is_err());
        assert!(counting(&[0_i32, 1], 1, Some(&[1])).is_err());
    }
}
