"""Answers queries over one Iceberg table with DuckDB: a line of SQL in, a line `milliseconds rows` out.

Arguments: the table's metadata file, the name that queries call it by, threads.
"""

import sys
import time

import duckdb
from duckdb_extensions import import_extension

metadata, name, threads = sys.argv[1:]
import_extension("avro")
import_extension("iceberg")
connection = duckdb.connect()
connection.execute("LOAD avro")
connection.execute("LOAD iceberg")
connection.execute(f"SET threads = {int(threads)}")
connection.execute("SET TimeZone = 'UTC'")
connection.execute(f"CREATE VIEW {name} AS SELECT * FROM iceberg_scan('{metadata}')")
print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    rows = connection.execute(line).fetchall()
    print((time.perf_counter() - start) * 1e3, len(rows), flush=True)
