//! Is every live file there exactly once, whatever was done?

use super::*;

#[derive(Clone, Debug)]
struct Step {
    rows: Vec<u64>,
    conflict: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (prop::collection::vec(0u64..50, 1..4), any::<bool>());
    prop::collection::vec(step.prop_map(|(rows, conflict)| Step { rows, conflict }), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is appended and merged, each file is there once, as it was when it was added, and each snapshot reads
    /// as it did when it was new.
    #[test]
    fn every_live_file_exactly_once(steps in steps(), min_count in 2usize..5, target in 1000u64..6000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (min_count, target) = (min_count.to_string(), target.to_string());
            let properties =
                [("commit.manifest.min-count-to-merge", min_count.as_str()), ("commit.manifest.target-size-bytes", target.as_str())];
            let world = World::new(FormatVersion::V3, &properties);
            let mut expected: Vec<(String, i64, i64, i64)> = Vec::new();
            let mut history = Vec::new();
            let mut next_row = 0i64;
            for (n, step) in steps.iter().enumerate() {
                if step.conflict && n > 0 {
                    world.catalog.fates.lock().push_back(Fate::Overtaken(Box::new(TableMetadata::clone)));
                }
                let files: Vec<_> = step.rows.iter().enumerate().map(|(day, rows)| world.file(day as i32, *rows)).collect();
                let (base, id) = committed(world.publish(world.change(files.clone())).await);
                let id = id.unwrap();
                for file in files {
                    expected.push((file.file_path().to_owned(), next_row, n as i64 + 1, id));
                    next_row += file.record_count() as i64;
                }
                assert_eq!(base.metadata.next_row_id() as i64, next_row);
                history.push((id, expected.clone()));
            }
            let metadata = world.catalog.current().metadata;
            for (id, mut expected) in history {
                let live = world.live(&metadata, Some(id)).await;
                let mut found: Vec<_> = live
                    .into_iter()
                    .map(|e| (e.file.file_path().to_owned(), e.first_row_id.unwrap(), e.sequence_number, e.snapshot_id))
                    .collect();
                found.sort();
                expected.sort();
                assert_eq!(found, expected);
            }
            assert_eq!(summary(&metadata)["total-data-files"], expected.len().to_string());
            assert_eq!(summary(&metadata)["total-records"], next_row.to_string());
        });
    }
}
