//! Whatever request of an export fails, in whatever way: afterwards each committed row is there once.
//!
//! ```text
//! for each request n of an export ─ for each way to fail ─▶ export ─▶ faults off ─▶ what is there? ─▶ the same batch again
//! ```
// @spec C4 W7 W9

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use daygrain::catalog::Ident;
use daygrain::session::{Export, Exported};
use daygrain::sink::Outcome;
use daygrain::{Kind, Result, Session};
use daygrain_tests::reference::Rng;
use daygrain_tests::stores::{Fault, Request, Verb};
use futures::stream::{StreamExt, iter};

use crate::lab::{self, Lab};

const DAY_US: i64 = 86_400_000_000;
const WAYS: [Fault; 3] = [Fault::Before, Fault::After, Fault::Repeated];
/// Exports at the same time: most of their time is spent waiting before they ask again.
const AT_ONCE: usize = 24;

/// Ten rows over two days, ids from `first` on; those of the second day have a text of `length` bytes that does not
/// compress.
fn rows(first: i64, length: usize) -> RecordBatch {
    let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("at", zone, true),
        Field::new("session", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, true),
    ]);
    let ids = first..first + 10;
    let at = TimestampMicrosecondArray::from_iter_values(ids.clone().map(|id| 1_775_779_200_000_000 + id % 2 * DAY_US));
    let session = StringArray::from_iter_values(ids.clone().map(|id| format!("s-{}", id % 3)));
    let text = StringArray::from_iter_values(ids.clone().map(|id| noise(id as u64, length * (id as usize % 2))));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids)),
        Arc::new(at.with_timezone("+00:00")),
        Arc::new(session),
        Arc::new(text),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn noise(seed: u64, length: usize) -> String {
    let mut rng = Rng::new(seed, 0);
    let mut text = String::with_capacity(length + 9);
    while text.len() < length {
        text.extend(rng.next().to_le_bytes().map(|byte| char::from(b' ' + byte % 95)));
    }
    text
}

async fn export(session: &Session, batch_id: &str, batch: RecordBatch) -> Result<Exported> {
    let request = Export {
        primary_timestamp: Some("at".to_owned()),
        lookup: Some(vec!["session".to_owned()]),
        batch_id: Some(batch_id.to_owned()),
        ..lab::rows_of("events")
    };
    lab::export(session, request, vec![batch]).await
}

fn ident() -> Ident {
    Ident::new("main", "events")
}

/// The table's ids by a session that knows nothing, in order. No table has none.
async fn ids(lab: &Lab) -> Vec<i64> {
    let session = lab.session();
    if session.warehouse().committer().catalog.load(&ident()).await.unwrap().is_none() {
        return Vec::new();
    }
    let answer = lab::query(&session, "SELECT id FROM events ORDER BY id").await;
    let column = |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
    answer.batches.iter().flat_map(column).collect()
}

/// Stored data files and manifests that the table's newest snapshot does not name.
async fn orphans(lab: &Lab) -> BTreeSet<String> {
    let mut stored: BTreeSet<String> = lab.objects(".parquet").await.into_iter().collect();
    stored.extend(lab.objects(".avro").await);
    let mut named = |location: &str| {
        stored.remove(location.trim_start_matches("memory://lab/"));
    };
    let session = lab.session();
    let committer = session.warehouse().committer();
    if let Some(base) = committer.catalog.load(&ident()).await.unwrap() {
        for snapshot in base.metadata.snapshots() {
            named(snapshot.manifest_list());
            let manifests = committer.manifests.list(&base.metadata, Some(snapshot.snapshot_id())).await.unwrap();
            for manifest in manifests.iter() {
                named(&manifest.manifest_path);
                for entry in committer.manifests.entries(&base.metadata, manifest).await.unwrap().iter() {
                    named(entry.file.file_path());
                }
            }
        }
    }
    stored
}

/// A warehouse in which the export under test is the next thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// There is nothing yet.
    First,
    /// The table holds ids 100 to 109.
    Append,
    /// There is nothing yet, and what is exported is uploaded in parts.
    Large,
}

impl Scene {
    async fn set(self) -> (Lab, Session) {
        let lab = Lab::remote();
        let session = lab.session();
        if self == Scene::Append {
            export(&session, "before", rows(100, 1)).await.unwrap();
        }
        lab.probe.clear();
        (lab, session)
    }

    fn rows(self) -> RecordBatch {
        static LARGE: LazyLock<RecordBatch> = LazyLock::new(|| rows(0, 2_400_000));
        // 10 MB compressed: more than a part.
        if self == Scene::Large { LARGE.clone() } else { rows(0, 1) }
    }

    fn before(self) -> Vec<i64> {
        if self == Scene::Append { (100..110).collect() } else { Vec::new() }
    }

    fn with_new(self) -> Vec<i64> {
        (0..10).chain(self.before()).collect()
    }

    /// The requests of an export that meets no fault.
    async fn requests(self) -> Vec<Request> {
        let (lab, session) = self.set().await;
        export(&session, "b", self.rows()).await.unwrap();
        lab.probe.requests()
    }
}

/// How long requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    One,
    /// Until the export has given up.
    AllAfter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Committed,
    Failed,
    Unknown,
}

/// Lets request `nth` fail and checks what is left. Which request it was, and how the export ended.
async fn strike(scene: Scene, nth: usize, fault: Fault, span: Span) -> (Request, End) {
    let (lab, session) = scene.set().await;
    match span {
        Span::One => lab.probe.fail(nth, fault),
        Span::AllAfter => lab.probe.fail_from(nth, fault),
    }
    let outcome = export(&session, "b", scene.rows()).await;
    assert!(lab.probe.has_failed(), "{scene:?}: there is no request {nth}");
    let struck = lab.probe.requests()[nth].clone();
    lab.probe.clear();
    let story = format!("{scene:?}, request {nth} {struck:?} {fault:?} {span:?}: {outcome:?}");

    let there = ids(&lab).await;
    let left = orphans(&lab).await;
    let end = match &outcome {
        Ok(exported) => {
            assert_eq!(exported.report.outcome, Outcome::Committed, "{story}");
            assert_eq!(there, scene.with_new(), "{story}");
            assert!(left.is_empty(), "{story}\nleft behind: {left:?}");
            End::Committed
        }
        Err(e) if e.kind() == Kind::Unknown => {
            assert!(there == scene.with_new() || there == scene.before(), "{story}\n{there:?}");
            for file in &left {
                assert!(story.contains(file), "{story}\nleft behind and not said: {file}");
            }
            End::Unknown
        }
        Err(_) => {
            assert_eq!(there, scene.before(), "{story}");
            // A store that answers nothing deletes nothing.
            assert!(left.is_empty() || span == Span::AllAfter, "{story}\nleft behind: {left:?}");
            End::Failed
        }
    };

    // Who is told of an error sends the batch again, whatever became of it.
    let landed = there == scene.with_new();
    let again = export(&session, "b", rows(0, 1)).await.unwrap_or_else(|e| panic!("{story}\nagain: {e}"));
    let expected = if landed { Outcome::Skipped } else { Outcome::Committed };
    assert_eq!(again.report.outcome, expected, "{story}");
    assert_eq!(ids(&lab).await, scene.with_new(), "{story}, then again");
    (struck, end)
}

/// Strikes each request that `which` accepts in each way. How the exports ended, by what was struck.
async fn strike_all(
    scene: Scene,
    span: Span,
    which: impl Fn(&Request) -> bool,
) -> BTreeMap<(Verb, &'static str), BTreeSet<End>> {
    let requests = scene.requests().await;
    let struck = requests.iter().enumerate().filter(|(_, request)| which(request)).map(|(nth, _)| nth);
    let cases: Vec<_> = struck.flat_map(|nth| WAYS.map(|fault| (nth, fault))).collect();
    let mut ends: BTreeMap<_, BTreeSet<End>> = BTreeMap::new();
    let mut running =
        iter(cases).map(|(nth, fault)| tokio::spawn(strike(scene, nth, fault, span))).buffer_unordered(AT_ONCE);
    while let Some(done) = running.next().await {
        let (request, end) = done.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()));
        ends.entry((request.verb, kind(&request.path))).or_default().insert(end);
    }
    ends
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('/').next().unwrap_or_default() {
        name if name.ends_with(".parquet") => "data",
        name if name.starts_with("snap-") => "manifest list",
        name if name.ends_with(".avro") => "manifest",
        name if name.ends_with(".metadata.json") => "metadata",
        "version-hint.text" => "hint",
        _ => "other",
    }
}

fn only(end: End) -> BTreeSet<End> {
    BTreeSet::from([end])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_fault_in_a_first_export() {
    let ends = strike_all(Scene::First, Span::One, |_| true).await;
    assert_eq!(ends[&(Verb::Put, "data")], only(End::Failed));
    assert_eq!(ends[&(Verb::Put, "metadata")], only(End::Committed), "the same bytes are sent again");
    assert_eq!(ends[&(Verb::Put, "hint")], only(End::Committed), "the hint is not what counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_fault_in_an_append() {
    let ends = strike_all(Scene::Append, Span::One, |_| true).await;
    assert_eq!(ends[&(Verb::Put, "manifest list")], only(End::Failed));
    assert_eq!(ends[&(Verb::Put, "metadata")], only(End::Committed));
    assert_eq!(ends[&(Verb::Get, "hint")], only(End::Committed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_fault_in_an_upload_in_parts() {
    let ends = strike_all(Scene::Large, Span::One, |r| matches!(r.verb, Verb::Part | Verb::Complete)).await;
    // Parts are sent at the same time: the nth request of a run may be another one's.
    assert!([Verb::Part, Verb::Complete].into_iter().all(|verb| ends.contains_key(&(verb, "data"))), "{ends:?}");
}

/// A store that goes away in the middle of an export, and comes back later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_in_a_first_export() {
    let ends = strike_all(Scene::First, Span::AllAfter, |_| true).await;
    assert_eq!(ends[&(Verb::Put, "data")], only(End::Failed));
    assert_eq!(ends[&(Verb::Put, "metadata")], only(End::Unknown), "nobody can say");
    assert_eq!(ends[&(Verb::Put, "hint")], only(End::Committed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_in_an_append() {
    let ends = strike_all(Scene::Append, Span::AllAfter, |_| true).await;
    assert_eq!(ends[&(Verb::Put, "metadata")], only(End::Unknown));
    assert_eq!(ends[&(Verb::Put, "hint")], only(End::Committed));
}
