//! Random deletes, and which rows they leave by the rules of the specification, read row by row.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{cast, take};
use daygrain_tests::oracle;
use daygrain_tests::reference::Rng;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{FormatVersion, Literal, PrimitiveLiteral, Struct};

use super::super::tables::{Kind, pick};
use super::story::Story;
use crate::foreign::{DataFile, Delete};

impl Story {
    /// One delete of some kind, of a sequence number that may be older or newer than that of the rows.
    pub(super) fn delete(&mut self, rng: &mut Rng) {
        let sequence = match rng.below(4) {
            0 => 1 + rng.below(self.sequence as u64) as i64,
            1 => self.sequence,
            _ => {
                self.sequence += 1;
                self.sequence
            }
        };
        let file = rng.below(self.files.len() as u64) as usize;
        let kinds = if self.version == FormatVersion::V3 { 3 } else { 2 };
        let delete = match rng.below(kinds) {
            0 => self.positions(rng, file, sequence),
            1 => Some(self.equality(rng, file, sequence)),
            _ => self.vector(rng, file, sequence),
        };
        self.deletes.extend(delete);
    }

    /// Of one file or of all of its partition.
    fn positions(&self, rng: &mut Rng, chosen: usize, sequence: i64) -> Option<Delete> {
        let only = (rng.below(2) == 0).then_some(chosen);
        let DataFile { spec, tuple, .. } = &self.files[chosen];
        let of = |file: &usize| match only {
            Some(only) => *file == only,
            None => self.files[*file].spec == *spec && same_tuple(&self.files[*file].tuple, tuple),
        };
        let mut rows = Vec::new();
        for file in (0..self.files.len()).filter(of) {
            rows.extend(self.some_positions(rng, file).into_iter().map(|position| (file, position)));
        }
        let delete = Delete::Positions { spec: *spec, tuple: tuple.clone(), sequence, rows, only };
        matches!(&delete, Delete::Positions { rows, .. } if !rows.is_empty()).then_some(delete)
    }

    fn vector(&self, rng: &mut Rng, file: usize, sequence: i64) -> Option<Delete> {
        let positions = self.some_positions(rng, file);
        let has_one = |delete: &Delete| matches!(delete, Delete::Vector { file: other, .. } if *other == file);
        let free = !positions.is_empty() && !self.deletes.iter().any(has_one);
        free.then_some(Delete::Vector { file, sequence, positions })
    }

    /// None, some or all of a file's rows.
    fn some_positions(&self, rng: &mut Rng, file: usize) -> Vec<u64> {
        let tenths = pick(rng, &[2, 5, 10]);
        (0..self.files[file].rows.num_rows() as u64).filter(|_| rng.below(10) < tenths).collect()
    }

    /// Keys that rows of a file have, everywhere or in the partition of a file.
    fn equality(&mut self, rng: &mut Rng, from: usize, sequence: i64) -> Delete {
        let near = &self.files[rng.below(self.files.len() as u64) as usize];
        let (near_spec, near_tuple) = (near.spec, near.tuple.clone());
        let (spec, tuple) = match rng.below(2) {
            0 => (self.everywhere(), Struct::empty()),
            _ => (near_spec, near_tuple),
        };
        let epoch = self.now();
        let columns = &self.epochs[epoch].columns;
        let mut ids: Vec<i32> = columns.iter().map(|column| column.id).collect();
        let mut stored = Vec::new();
        for _ in 0..1 + rng.below(3) {
            stored.push(ids.remove(rng.below(ids.len() as u64) as usize));
        }
        // The last column may be there and not be compared.
        let keys = stored[..stored.len() - usize::from(stored.len() > 1 && rng.below(3) == 0)].to_vec();
        let file = &self.files[from];
        let chosen = (0..file.rows.num_rows() as u32).filter(|_| rng.below(8) == 0);
        let chosen: Vec<u32> = chosen.collect();
        let chosen = UInt32Array::from(if chosen.is_empty() { vec![0] } else { chosen });
        let schema = schema_to_arrow_schema(&self.epochs[epoch].schema).unwrap();
        let at = |id: &i32| columns.iter().position(|column| column.id == *id).unwrap();
        let arrays: Vec<ArrayRef> = stored
            .iter()
            .map(|id| {
                let values = cast(&self.values(file, *id), schema.field(at(id)).data_type()).unwrap();
                take(&values, &chosen, None).unwrap()
            })
            .collect();
        let schema = Arc::new(schema.project(&stored.iter().map(at).collect::<Vec<_>>()).unwrap());
        Delete::Equality { spec, tuple, epoch, sequence, keys, rows: RecordBatch::try_new(schema, arrays).unwrap() }
    }

    /// Which rows of each file are left.
    pub(super) fn live(&self) -> Vec<Vec<bool>> {
        (0..self.files.len()).map(|file| self.live_rows(file)).collect()
    }

    fn live_rows(&self, at: usize) -> Vec<bool> {
        let file = &self.files[at];
        let mut live = vec![true; file.rows.num_rows()];
        let vector = self.deletes.iter().find_map(|delete| match delete {
            Delete::Vector { file: of, sequence, positions } if *of == at && *sequence >= file.sequence => {
                Some(positions)
            }
            _ => None,
        });
        if let Some(positions) = vector {
            positions.iter().for_each(|position| live[*position as usize] = false);
        }
        for delete in &self.deletes {
            match delete {
                // A vector holds all that was deleted by position.
                Delete::Positions { sequence, rows, .. } if vector.is_none() && *sequence >= file.sequence => {
                    let of = rows.iter().filter(|(of, _)| *of == at);
                    of.for_each(|(_, position)| live[*position as usize] = false);
                }
                Delete::Equality { spec, tuple, sequence, keys, rows, .. } if *sequence > file.sequence => {
                    let here = file.spec == *spec && same_tuple(&file.tuple, tuple);
                    if here || self.specs[*spec].is_unpartitioned() {
                        let deleted = self.keys_of_delete(keys, rows);
                        for (key, live) in self.keys_of_file(keys, file).iter().zip(&mut live) {
                            *live &= !deleted.contains(key);
                        }
                    }
                }
                _ => {}
            }
        }
        live
    }

    /// Values as text, as which null equals null, NaN equals NaN, and the zeros differ.
    fn keys_of_file(&self, keys: &[i32], file: &DataFile) -> Vec<String> {
        texts(keys.iter().map(|id| self.values(file, *id)).collect())
    }

    fn keys_of_delete(&self, keys: &[i32], rows: &RecordBatch) -> Vec<String> {
        // A key column may have been widened since.
        let widened = |(at, id): (usize, &i32)| cast(rows.column(at), &self.last[id].kind.arrow()).unwrap();
        texts(keys.iter().enumerate().map(widened).collect())
    }

    /// Whether iceberg-datafusion as pinned can know the answer. It has no deletion vectors; it compares keys by `=`, so
    /// that rows with null go too, and floats as the engine does; it applies a position delete file to every file that it
    /// names once it applies to one; it compares partition tuples of a widened column as they were stored; a column that
    /// only the partition tuple has is null to it.
    pub(super) fn is_common(&self) -> bool {
        let widened = |file: &DataFile| {
            let sources = self.specs[file.spec].fields().iter().map(|field| field.source_id);
            let then = &self.epochs[file.epoch].columns;
            sources.into_iter().any(|id| then.iter().any(|column| column.id == id && *column != self.last[&id]))
        };
        !self.files.iter().any(|file| widened(file) || !file.absent.is_empty())
            && self.deletes.iter().all(|delete| match delete {
                Delete::Vector { .. } => false,
                Delete::Positions { sequence, rows, .. } => {
                    rows.iter().all(|(file, _)| *sequence >= self.files[*file].sequence)
                }
                Delete::Equality { keys, rows, .. } => keys.iter().enumerate().all(|(at, id)| {
                    let floats = matches!(self.last[id].kind, Kind::Float | Kind::Double);
                    let whole = |file: &DataFile| self.values(file, *id).null_count() == 0;
                    !floats && rows.column(at).null_count() == 0 && self.files.iter().all(whole)
                }),
            })
    }
}

fn texts(columns: Vec<ArrayRef>) -> Vec<String> {
    let named = (0..columns.len()).map(|at| at.to_string()).zip(columns);
    oracle::unsorted_lines(&[RecordBatch::try_from_iter_with_nullable(named.map(|(name, c)| (name, c, true))).unwrap()])
}

/// An int equals the long that it was widened to.
fn same_tuple(a: &Struct, b: &Struct) -> bool {
    let wide = |value: Option<&Literal>| match value {
        Some(Literal::Primitive(PrimitiveLiteral::Int(value))) => Some(Literal::long(i64::from(*value))),
        other => other.cloned(),
    };
    a.iter().map(wide).eq(b.iter().map(wide))
}
