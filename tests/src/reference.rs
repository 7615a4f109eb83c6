//! The reference dataset: `ai_gateway_messages`, made from a seed.
//!
//! 518,000 rows of 3,800 sessions over 58 days, about 1.8 kB a row: few sessions hold most rows, recent days hold more than
//! old ones, sessions run past midnight, and some have no conversation. A row is a function of the seed, its session and
//! its place in it, so that any order of rows can be made without holding them.
// @spec L9

mod columns;
mod text;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use daygrain::dataset::Dataset;

pub use columns::schema;

/// 2026-04-10T00:00:00Z in µs: the first of the 58 days.
pub const FIRST_DAY_US: i64 = 1_775_779_200_000_000;
const DAY_US: i64 = 86_400_000_000;
const MINUTE_US: i64 = 60_000_000;

/// How many rows, sessions and days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub rows: usize,
    pub sessions: usize,
    pub days: usize,
}

impl Size {
    /// The reference size.
    pub const FULL: Size = Size { rows: 518_000, sessions: 3_800, days: 58 };

    /// A hundredth of the rows over as many days.
    pub const SMALL: Size = Size { rows: 5_180, sessions: 120, days: 58 };
}

/// In which order rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they were said.
    Time,
    /// Any.
    Shuffled,
}

/// One row, before its columns are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub session: u32,
    /// Place in the session, from 0.
    pub index: u32,
    pub created_at_us: i64,
}

/// The dataset of one size and seed.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    size: Size,
    seed: u64,
}

impl Reference {
    /// A dataset; the same arguments make the same rows.
    pub fn new(size: Size, seed: u64) -> Self {
        Reference { size, seed }
    }

    /// How the dataset is registered.
    pub fn dataset() -> Dataset {
        Dataset::builder("ai_gateway_messages")
            .primary_timestamp("message_created_at")
            .lookup(["session_id", "conversation_id", "cwd", "date"])
            .build()
            .expect("the reference declaration is valid")
    }

    /// All rows in `order`, without their columns: 16 bytes each.
    pub fn rows(&self, order: Order) -> Vec<Row> {
        let mut rows = self.timeline();
        match order {
            Order::Time => rows.sort_by_key(|row| (row.created_at_us, row.session, row.index)),
            Order::Shuffled => shuffle(&mut rows, &mut Rng::new(self.seed, 1)),
        }
        rows
    }

    /// The rows as batches.
    pub fn batches(self, order: Order, batch_size: usize) -> impl Iterator<Item = RecordBatch> {
        let rows = self.rows(order);
        let starts = (0..rows.len()).step_by(batch_size.max(1));
        starts.map(move |start| {
            let end = rows.len().min(start + batch_size.max(1));
            self.batch(&rows[start..end])
        })
    }

    /// The columns of some rows.
    pub fn batch(&self, rows: &[Row]) -> RecordBatch {
        columns::batch(self.seed, rows)
    }

    /// The schema of every batch.
    pub fn schema() -> SchemaRef {
        Arc::clone(&schema())
    }

    /// The session that most tests look up: neither the largest nor a tiny one.
    pub fn some_session(&self) -> String {
        columns::session_id(self.seed, (self.size.sessions / 20) as u32)
    }

    /// Every session's start and length. Lengths follow a power law; starts lean to the recent days.
    fn timeline(&self) -> Vec<Row> {
        let Size { rows, sessions, days } = self.size;
        let weights: Vec<f64> = (0..sessions).map(|i| 1.0 / (i as f64 + 12.0).powf(0.62)).collect();
        let total: f64 = weights.iter().sum();
        let mut out = Vec::with_capacity(rows);
        let span = days as i64 * DAY_US;
        for (session, weight) in weights.iter().enumerate() {
            let mut rng = Rng::new(self.seed, 1_000 + session as u64);
            let wanted = ((weight / total) * rows as f64).round().max(1.0) as usize;
            let left = rows - out.len();
            let count = if session + 1 == sessions { left } else { wanted.min(left) };
            // The first sessions start on a day each, so that no day is empty.
            let day = if session < days { session as i64 } else { recent_day(&mut rng, days as i64) };
            let mut at = day * DAY_US + rng.below(DAY_US as u64) as i64;
            for index in 0..count {
                out.push(Row {
                    session: session as u32,
                    index: index as u32,
                    created_at_us: FIRST_DAY_US + at.min(span - 1),
                });
                // Pauses: mostly under a minute, sometimes hours, so that sessions cross midnight.
                let pause = if rng.below(60) == 0 {
                    rng.below(300) as i64 * MINUTE_US
                } else {
                    rng.below(90) as i64 * 1_000_000
                };
                at += pause + rng.below(1_000_000) as i64;
            }
        }
        out
    }
}

/// A day index: the density grows with the square of time.
fn recent_day(rng: &mut Rng, days: i64) -> i64 {
    let u = rng.unit();
    ((u.powf(0.34) * days as f64) as i64).clamp(0, days - 1)
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for i in (1..items.len()).rev() {
        items.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// SplitMix64: small, and the same on every machine and for ever.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A stream of its own for each `(seed, stream)`.
    ///
    /// Streams begin at places that have nothing to do with each other: with neighbours a step apart, each would repeat
    /// the numbers of the one before.
    pub fn new(seed: u64, stream: u64) -> Self {
        Rng(mix(seed ^ mix(stream)))
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Spreads 64 bits over 64 bits.
fn mix(bits: u64) -> u64 {
    let z = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn the_reference_has_the_shape_it_claims() {
        let reference = Reference::new(Size::FULL, 7);
        let rows = reference.rows(Order::Time);
        assert_eq!(rows.len(), Size::FULL.rows);
        let mut per_day = vec![0usize; Size::FULL.days];
        let mut sessions = BTreeSet::new();
        let mut spans: std::collections::BTreeMap<u32, BTreeSet<i64>> = std::collections::BTreeMap::new();
        for row in &rows {
            let day = (row.created_at_us - FIRST_DAY_US).div_euclid(DAY_US);
            per_day[day as usize] += 1;
            sessions.insert(row.session);
            spans.entry(row.session).or_default().insert(day);
        }
        assert_eq!(sessions.len(), Size::FULL.sessions);
        assert!(per_day.iter().all(|n| *n > 0), "{per_day:?}");
        assert!((20_000..45_000).contains(per_day.iter().max().unwrap()), "{per_day:?}");
        assert!(spans.values().filter(|days| days.len() > 1).count() > 100);
    }

    #[test]
    fn every_message_has_an_id_of_its_own() {
        let reference = Reference::new(Size::SMALL, 7);
        let mut seen = BTreeSet::new();
        for batch in reference.batches(Order::Time, 1000) {
            let ids = batch.column_by_name("message_id").unwrap().as_string::<i32>().clone();
            seen.extend(ids.iter().flatten().map(str::to_owned));
        }
        assert_eq!(seen.len(), Size::SMALL.rows);
    }

    #[test]
    fn rows_are_about_as_long_as_the_reference_says_and_the_same_every_time() {
        let reference = Reference::new(Size::SMALL, 7);
        let shuffled: Vec<RecordBatch> = reference.batches(Order::Shuffled, 1000).collect();
        let bytes: usize = shuffled.iter().map(RecordBatch::get_array_memory_size).sum();
        let per_row = bytes / Size::SMALL.rows;
        assert!((1_500..3_000).contains(&per_row), "{per_row} bytes a row");
        let again: Vec<RecordBatch> = reference.batches(Order::Shuffled, 1000).collect();
        assert_eq!(shuffled, again);
        let conversation = shuffled[0].column_by_name("conversation_id").unwrap();
        assert!(conversation.null_count() > 0 && conversation.null_count() < conversation.len());
    }
}
