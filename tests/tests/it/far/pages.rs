//! Files whose footers are in hand have the pages that decoding begins with asked for before their turn.

use super::*;

/// So far away that round trips are told from the time that decoding takes.
const FAR: Duration = Duration::from_millis(200);
/// Round trips of a session that knows the table: whether there is a later version of it.
const CATALOG: usize = 1;
/// What it takes to ask for all files, with the one whose turn has come and some time to decode.
const ROUNDS: usize = 2 * FILES.div_ceil(AHEAD);

/// Runs a query in a session that ran it before; what `cold` gives.
async fn warm(lab: &Lab, session: &Session, sql: &str) -> (Vec<String>, Ledger) {
    lab.probe.move_away(Duration::ZERO);
    lab::query(session, sql).await;
    again(lab, session, sql).await
}

/// Runs a query and counts its round trips.
async fn again(lab: &Lab, session: &Session, sql: &str) -> (Vec<String>, Ledger) {
    lab.probe.move_away(FAR);
    lab.probe.clear();
    let answer = lab::query(session, sql).await;
    let (in_turn, at_once, files) = (lab.probe.in_turn(), lab.probe.at_once(), asked_for(lab).len());
    println!("{in_turn} round trips, {at_once} reads at once, of {files} files: {sql}");
    let ledger = answer.scans.into_iter().next().unwrap().ledger;
    is_what_the_store_counted(&ledger, lab);
    (oracle::lines(&answer.batches), ledger)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remembered_files_take_a_few_round_trips() {
    let (lab, oracle) = stage(Lab::remote()).await;
    for (threads, sql) in [
        (1, everywhere("count(*), sum(input_tokens)")),
        (2, everywhere("count(*), sum(input_tokens)")),
        (2, format!("SELECT * FROM {TABLE}")),
    ] {
        let session = lab.session_of(threads);
        let (rows, ledger) = warm(&lab, &session, &sql).await;
        assert_eq!(rows, oracle::answer(&oracle, &sql).await);
        let data = lab.probe.count(is_data);
        assert_eq!((ledger.requests, data.0), (FILES as u64, FILES as u64), "{sql}: one request a file");
        assert!(lab.probe.in_turn() <= CATALOG + ROUNDS, "{threads} threads, {sql}: {}", lab.probe.in_turn());
        assert!(lab.probe.at_once() <= AHEAD + threads * IN_TURN, "{threads}: {}", lab.probe.at_once());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_files_take_a_few_round_trips() {
    let days = 6;
    let reference = Reference::new(Size { rows: 4_500 * days, sessions: 60, days }, 7);
    let lab = Lab::remote();
    let batches: Vec<_> = reference.batches(Order::Shuffled, 1000).collect();
    lab::export(&lab.session().with_dataset(Reference::dataset()), lab::rows_of(TABLE), batches.clone()).await.unwrap();
    let oracle = oracle::memory(TABLE, batches);
    let sql = format!("SELECT role, count(*), max(length(content_text)) FROM {TABLE} GROUP BY role");
    let session = lab.session_of(1);
    let expected = oracle::answer(&oracle, &sql).await;
    let (rows, cold) = again(&lab, &session, &sql).await;
    assert_eq!(rows, expected);
    // The hint and two versions; manifest list and manifest; footers; pages.
    let known = 2 + 2;
    assert!((known + 2..=known + 4).contains(&lab.probe.in_turn()), "{}", lab.probe.in_turn());
    let (rows, warm) = again(&lab, &session, &sql).await;
    assert_eq!(rows, expected);
    assert!((CATALOG + 1..=CATALOG + 2).contains(&lab.probe.in_turn()), "{}", lab.probe.in_turn());
    // Pages that lie near the footer came with it.
    assert!(cold.requests > 2 + days as u64 && cold.requests <= 2 + days as u64 + warm.requests, "{}", cold.requests);
    assert_eq!((cold.pages, cold.rows), (warm.pages, warm.rows));
}

/// Files that bloom filters rule out take no place among those that are begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_up_takes_a_few_round_trips() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let days = format!("SELECT min(session_id) FROM {TABLE} WHERE message_index >= 0 GROUP BY date ORDER BY date");
    let every_day = oracle::answer(&oracle, &days).await;
    // Of a few days, and of two.
    for step in [12, every_day.len() - 1] {
        let some: Vec<String> = every_day.iter().step_by(step).map(|session| format!("'{session}'")).collect();
        let some = some.join(", ");
        let sql = format!("SELECT count(*), sum(input_tokens) FROM {TABLE} WHERE session_id IN ({some})");
        let (rows, ledger) = warm(&lab, &lab.session_of(1), &sql).await;
        assert_eq!(rows, oracle::answer(&oracle, &sql).await);
        let read = ledger.row_groups.kept();
        assert!((2..=AHEAD as u64).contains(&read), "{}", ledger.row_groups);
        assert_eq!(ledger.requests, read, "a request for each file that holds one of them");
        assert_eq!(lab.probe.in_turn(), CATALOG + 1, "all at once");
    }
}

/// What may not be wanted is asked for as before: the first files one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_wanted_is_not_begun() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let newest = format!("SELECT message_id FROM {TABLE} ORDER BY message_created_at DESC, message_id LIMIT 10");
    let any = format!("{} LIMIT 10", everywhere("message_id"));
    for sql in [newest.clone(), any, format!("SELECT message_id FROM {TABLE} LIMIT 10")] {
        let (rows, ledger) = warm(&lab, &lab.session_of(1), &sql).await;
        assert_eq!(rows.len(), 10);
        assert!(sql != newest || rows == oracle::answer(&oracle, &sql).await);
        assert!(asked_for(&lab).len() <= IN_TURN, "{sql}: {:?}", asked_for(&lab));
        assert!(ledger.requests <= IN_TURN as u64, "{sql}: {}", ledger.requests);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_moves_is_asked_again() {
    let (lab, oracle) = stage(Lab::remote()).await;
    for sql in [
        format!("SELECT message_id FROM {TABLE} ORDER BY input_tokens DESC, message_id LIMIT 5"),
        format!("SELECT message_id, content_text FROM {TABLE} ORDER BY session_id, message_id LIMIT 20"),
    ] {
        let (rows, ledger) = warm(&lab, &lab.session_of(1), &sql).await;
        assert_eq!(rows, oracle::answer(&oracle, &sql).await);
        assert!(ledger.requests <= FILES as u64, "{sql}: {}", ledger.requests);
        assert!(asked_for(&lab).len() as u64 <= ledger.files.kept(), "{sql}: {}", ledger.files);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_a_join_excludes_are_not_asked_for() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let some = Reference::new(Size::SMALL, 7).some_session();
    let wanted = format!("SELECT * FROM (VALUES ('{some}'), ('nobody')) AS w(session_id)");
    let sql = format!("SELECT count(*) FROM {TABLE} m JOIN ({wanted}) w ON m.session_id = w.session_id");
    let session = lab.session_of(1);
    let (rows, ledger) = warm(&lab, &session, &sql).await;
    assert_eq!(rows, oracle::answer(&oracle, &sql).await);
    assert!(ledger.files.kept() < FILES as u64 / 2, "{}", ledger.files);
    assert_eq!(ledger.requests, ledger.row_groups.kept(), "{}", ledger.row_groups);
}

/// Room for all, for some, and for none of the pages: the same requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_wait_for_room() {
    let (lab, oracle) = stage(Lab::remote()).await;
    let sql = format!("SELECT message_id, content_text FROM {TABLE}");
    let expected = oracle::answer(&oracle, &sql).await;
    let mut bytes = Vec::new();
    for (megabytes, most) in [(1024, AHEAD + 2 * IN_TURN), (16, AHEAD), (1, 2 * IN_TURN)] {
        let options = Options { threads: Some(2), memory_limit: Some(megabytes << 20), ..Options::at(&lab.warehouse) };
        let (rows, ledger) = warm(&lab, &lab.session_with(options), &sql).await;
        assert_eq!(rows, expected);
        assert_eq!(ledger.requests, FILES as u64);
        assert!(lab.probe.at_once() <= most, "{megabytes} MiB: {}", lab.probe.at_once());
        assert!(megabytes == 1 || lab.probe.at_once() > 2 * IN_TURN, "{megabytes} MiB: {}", lab.probe.at_once());
        bytes.push(ledger.bytes);
    }
    assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "{bytes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_local_files_wait_for_their_turn() {
    let (lab, oracle) = stage(Lab::local()).await;
    let sql = everywhere("count(*)");
    lab::query(&lab.session_of(2), &sql).await;
    let (rows, _) = cold(&lab, &lab.session_of(2), &sql).await;
    assert_eq!(rows, oracle::answer(&oracle, &sql).await);
    assert!(lab.probe.at_once() <= 2 * IN_TURN, "{}", lab.probe.at_once());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_takes_back_its_pages() {
    let (lab, _) = stage(Lab::remote()).await;
    let session = lab.session_of(2);
    lab.probe.move_away(Duration::ZERO);
    lab::query(&session, &everywhere("message_id")).await;
    let far = 5 * FAR;
    lab.probe.move_away(far);
    lab.probe.clear();
    let running = session.run(&Statement { text: everywhere("message_id"), line: 1 }).await.unwrap();
    let (mut stream, plan) = (running.stream, running.plan.unwrap());
    assert!(tokio::time::timeout(far / 4, stream.next()).await.is_err());
    assert!(lab.probe.on_their_way() >= AHEAD / 2, "{}", lab.probe.on_their_way());
    drop(stream);
    tokio::time::sleep(far / 6).await;
    assert_eq!(lab.probe.on_their_way(), 0, "what was on its way is given up");
    let asked = lab.probe.count(is_data).0;
    assert!(asked < FILES as u64, "{asked}");
    tokio::time::sleep(2 * far).await;
    assert_eq!(lab.probe.count(is_data).0, asked);
    let ledger = daygrain::exec::reports(&plan).pop().unwrap().ledger;
    assert_eq!(ledger.requests, asked, "what was given up was asked for");
    assert!((asked..=(AHEAD + 2 * IN_TURN) as u64).contains(&ledger.files.kept()), "{}", ledger.files);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_pages_cannot_be_read_is_named() {
    let (lab, _) = stage(Lab::remote()).await;
    let (sql, session) = (everywhere("count(*)"), lab.session_of(1));
    warm(&lab, &session, &sql).await;
    let first = lab.probe.requests().iter().position(is_data).unwrap();
    lab.probe.move_away(Duration::ZERO);
    for nth in [first, first + 5, first + 40] {
        lab.probe.clear();
        lab.probe.fail(nth, Fault::Before);
        let error = session.query(&sql).await.unwrap_err().to_string();
        let lost = &lab.probe.requests()[nth].path;
        assert!(error.contains(lost.as_str()), "{lost}: {error}");
    }
}
