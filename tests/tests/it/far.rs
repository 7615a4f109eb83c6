//! A store that takes its time is asked for several files at once: not for more than that, nor for files that nobody wants.
// @spec P5

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use daygrain::scan::Ledger;
use daygrain::session::Statement;
use daygrain::table::IcebergTable;
use daygrain::{Options, Session};
use daygrain_tests::oracle;
use daygrain_tests::reference::{Order, Reference, Size};
use daygrain_tests::stores::{Fault, Request};
use futures::StreamExt;

use crate::lab::{self, Lab};

mod pages;

const TABLE: &str = "ai_gateway_messages";
const FILES: usize = 58;
const LATENCY: Duration = Duration::from_millis(30);
/// Files begun ahead by all partitions of a scan.
const AHEAD: usize = 16;
/// Of a partition: the file whose turn has come, and the one that is read meanwhile.
const IN_TURN: usize = 2;

/// The reference rows, a file a day, each small enough to come with its footer, in a store that is far away.
async fn stage(lab: Lab) -> (Lab, datafusion::prelude::SessionContext) {
    let reference = Reference::new(Size::SMALL, 7);
    let session = lab.session().with_dataset(Reference::dataset());
    let batches: Vec<_> = reference.batches(Order::Shuffled, 1000).collect();
    lab::export(&session, lab::rows_of(TABLE), batches.clone()).await.unwrap();
    lab.probe.move_away(LATENCY);
    lab.probe.clear();
    (lab, oracle::memory(TABLE, batches))
}

/// Every file has to be read: no bounds and no bloom filter tell.
fn everywhere(what: &str) -> String {
    format!("SELECT {what} FROM {TABLE} WHERE session_id LIKE '%a%'")
}

fn is_data(request: &Request) -> bool {
    request.path.ends_with(".parquet")
}

/// The data files that the store was asked for.
fn asked_for(lab: &Lab) -> BTreeSet<String> {
    lab.probe.requests().into_iter().filter(is_data).map(|request| request.path).collect()
}

fn is_what_the_store_counted(ledger: &Ledger, lab: &Lab) {
    let counted = lab.probe.count(|request| is_data(request) || request.path.ends_with(".avro"));
    assert_eq!((ledger.requests, ledger.bytes), counted);
}

/// Runs a query that nothing is remembered for; the ledger of its only scan.
async fn cold(lab: &Lab, session: &Session, sql: &str) -> (Vec<String>, Ledger) {
    lab.probe.move_away(LATENCY);
    lab.probe.clear();
    let started = Instant::now();
    let answer = lab::query(session, sql).await;
    let (in_turn, at_once) = (lab.probe.in_turn(), lab.probe.at_once());
    println!("{:?}, {in_turn} round trips, {at_once} reads at once: {sql}", started.elapsed());
    let ledger = answer.scans.into_iter().next().unwrap().ledger;
    is_what_the_store_counted(&ledger, lab);
    (oracle::lines(&answer.batches), ledger)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_files_are_on_their_way_at_once() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let sql = everywhere("count(*), sum(input_tokens)");
    let expected = oracle::answer(&oracle, &sql).await;
    for threads in [1, 2, 4] {
        let session = lab.session_of(threads);
        let (rows, ledger) = cold(&lab, &session, &sql).await;
        assert_eq!(rows, expected);
        assert_eq!(ledger.requests, 2 + FILES as u64, "manifest list, manifest, and each small file whole");
        let at_once = lab.probe.at_once();
        assert!((AHEAD / 2..=AHEAD + threads * IN_TURN).contains(&at_once), "{threads} threads: {at_once}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_files_wait_for_their_turn() {
    let (lab, oracle) = stage(Lab::local()).await;
    let sql = everywhere("count(*)");
    let (rows, _) = cold(&lab, &lab.session_of(2), &sql).await;
    assert_eq!(rows, oracle::answer(&oracle, &sql).await);
    assert!(lab.probe.at_once() <= 2 * IN_TURN, "{}", lab.probe.at_once());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_memory_is_short_files_wait_for_their_turn() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let sql = everywhere("count(*)");
    let options = Options { threads: Some(2), memory_limit: Some(2 << 20), ..Options::at(&lab.warehouse) };
    let (rows, _) = cold(&lab, &lab.session_with(options), &sql).await;
    assert_eq!(rows, oracle::answer(&oracle, &sql).await);
    assert!(lab.probe.at_once() <= 2 * IN_TURN, "{}", lab.probe.at_once());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_soon_reached_asks_for_a_few_files() {
    let (lab, _) = stage(Lab::remote()).await;
    for sql in [format!("SELECT message_id FROM {TABLE} LIMIT 1"), format!("{} LIMIT 1", everywhere("message_id"))] {
        let (rows, ledger) = cold(&lab, &lab.session_of(1), &sql).await;
        assert_eq!(rows.len(), 1);
        assert!(asked_for(&lab).len() <= IN_TURN, "{sql}: {:?}", asked_for(&lab));
        assert_eq!(ledger.files.kept(), asked_for(&lab).len() as u64, "{sql}: {}", ledger.files);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_not_reached_asks_for_more_and_more() {
    let (lab, _) = stage(Lab::remote()).await;
    let sql = format!("SELECT message_id FROM {TABLE} WHERE session_id LIKE '%nobody%' LIMIT 1");
    let (rows, ledger) = cold(&lab, &lab.session_of(1), &sql).await;
    assert!(rows.is_empty());
    assert_eq!((ledger.files.kept(), asked_for(&lab).len()), (FILES as u64, FILES));
    assert!(lab.probe.at_once() >= AHEAD / 2, "{}", lab.probe.at_once());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_rows_need_no_other_files() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let select = |order: &str| format!("SELECT message_id FROM {TABLE} ORDER BY {order}, message_id LIMIT 5");
    for (order, most) in [("message_created_at DESC", IN_TURN), ("input_tokens DESC", FILES)] {
        let (rows, ledger) = cold(&lab, &lab.session_of(1), &select(order)).await;
        assert_eq!(rows, oracle::answer(&oracle, &select(order)).await);
        assert!(asked_for(&lab).len() <= most, "{order}: {:?}", asked_for(&lab));
        assert_eq!(ledger.files.kept(), asked_for(&lab).len() as u64, "{order}: {}", ledger.files);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_join_excludes_is_not_begun() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let some = Reference::new(Size::SMALL, 7).some_session();
    let wanted = format!("SELECT * FROM (VALUES ('{some}'), ('nobody')) AS w(session_id)");
    let sql = format!("SELECT count(*) FROM {TABLE} m JOIN ({wanted}) w ON m.session_id = w.session_id");
    let (rows, ledger) = cold(&lab, &lab.session_of(1), &sql).await;
    assert_eq!(rows, oracle::answer(&oracle, &sql).await);
    assert_eq!(ledger.files.kept(), asked_for(&lab).len() as u64, "{}", ledger.files);
    assert!(ledger.files.kept() < FILES as u64 / 2 && lab.probe.at_once() > IN_TURN, "{}", ledger.files);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_asks_for_nothing_more() {
    let (lab, _) = stage(Lab::remote()).await;
    let session = lab.session_of(2);
    let far = 10 * LATENCY;
    lab.probe.move_away(far);
    let running = session.run(&Statement { text: everywhere("message_id"), line: 1 }).await.unwrap();
    let mut stream = running.stream;
    // Long enough for the first requests to be sent, and too short for their answers.
    assert!(tokio::time::timeout(far / 3, stream.next()).await.is_err());
    assert!(lab.probe.on_their_way() >= AHEAD / 2, "{}", lab.probe.on_their_way());
    drop(stream);
    tokio::time::sleep(far / 6).await;
    assert_eq!(lab.probe.on_their_way(), 0, "what was on its way is given up");
    let asked = lab.probe.requests().len();
    assert!(asked < FILES, "{asked}");
    tokio::time::sleep(2 * far).await;
    assert_eq!(lab.probe.requests().len(), asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_and_not_wanted_is_counted() {
    let (lab, _) = stage(Lab::remote()).await;
    let session = lab.session_of(1);
    let running = session.run(&Statement { text: everywhere("message_id"), line: 1 }).await.unwrap();
    let (mut stream, plan) = (running.stream, running.plan.unwrap());
    assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    tokio::time::sleep(3 * LATENCY).await;
    drop(stream);
    let ledger = daygrain::exec::reports(&plan).pop().unwrap().ledger;
    is_what_the_store_counted(&ledger, &lab);
    assert_eq!(ledger.files.kept(), asked_for(&lab).len() as u64, "{}", ledger.files);
    assert!((3..=AHEAD as u64 + 2).contains(&ledger.files.kept()), "{}", ledger.files);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_begun_is_named() {
    let (lab, _) = stage(Lab::remote()).await;
    let sql = everywhere("count(*)");
    cold(&lab, &lab.session_of(1), &sql).await;
    let first = lab.probe.requests().iter().position(is_data).unwrap();
    for nth in [first, first + 5, first + 40] {
        lab.probe.clear();
        lab.probe.fail(nth, Fault::Before);
        let error = lab.session_of(1).query(&sql).await.unwrap_err().to_string();
        let lost = &lab.probe.requests()[nth].path;
        assert!(error.contains(lost.as_str()), "{lost}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_table_is_found_in_two_round_trips() {
    let (lab, _) = stage(Lab::remote()).await;
    let session = lab.session();
    let table = session.warehouse().table("main", TABLE).await.unwrap().unwrap();
    let location = table.as_any().downcast_ref::<IcebergTable>().unwrap().view().metadata.location().to_owned();
    lab::query(&session, &format!("CREATE EXTERNAL TABLE e STORED AS ICEBERG LOCATION '{location}'")).await;
    lab.probe.move_away(LATENCY);
    lab.probe.clear();
    assert_eq!(lab::lines(&session, "SELECT count(*) > 0 FROM e").await, ["true"]);
    let (asked, _) = lab.probe.count(|request| request.path.contains("/metadata/") && !request.path.ends_with(".avro"));
    // The hint; then the version it names and the one after it, in each of three spellings.
    assert_eq!((asked, lab.probe.at_once()), (7, 6), "{:?}", lab.probe.requests());
}
