"""What another engine says of an Iceberg table that lies in a directory, as JSON on standard output.

    python ask.py duckdb|pyiceberg TABLE_DIRECTORY < question.json

The question names the timestamp, numeric and text columns to sum up, a session and a range of time; or it is "rows", and
all rows are the answer; or it is a list of conditions in SQL, and the answer says how many rows each has. Engines answer
in the same words: counts and sums as numbers, timestamps as microseconds since 1970, decimals as text, bytes as
hexadecimal digits.
"""

import datetime
import decimal
import json
import math
import sys

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def plain(value):
    """A value of any type as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, datetime.datetime):
        return microseconds(value)
    if isinstance(value, (datetime.date, datetime.time, decimal.Decimal)):
        return str(value)
    return value


def microseconds(value):
    """A timestamp as a number; anything else as it is."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.timezone.utc)
        return (value - EPOCH) // datetime.timedelta(microseconds=1)
    return value


class DuckDb:
    def __init__(self, table):
        import duckdb
        from duckdb_extensions import import_extension

        self.duckdb = duckdb.connect()
        for extension in ("avro", "iceberg"):
            import_extension(extension)
            self.duckdb.execute(f"LOAD {extension}")
        self.duckdb.execute("SET TimeZone = 'UTC'")
        self.table = f"iceberg_scan('{table}')"

    def query(self, sql):
        found = self.duckdb.execute(sql.replace("$t", self.table)).fetchall()
        return [[microseconds(value) for value in row] for row in found]

    def rows(self):
        names = self.columns()
        found = self.duckdb.execute(f"SELECT * FROM {self.table}").fetchall()
        return [plain(dict(zip(names, row))) for row in found]

    def counts(self, conditions):
        return [self.query(f"SELECT count(*) FROM $t WHERE {condition}")[0][0] for condition in conditions]

    def columns(self):
        return [row[0] for row in self.query("DESCRIBE SELECT * FROM $t")]

    def column(self, name, total):
        total = f'sum("{name}")' if total else "NULL"
        sql = f'SELECT count(*) - count("{name}"), min("{name}"), max("{name}"), {total} FROM $t'
        nulls, least, most, total = self.query(sql)[0]
        return {"nulls": nulls, "min": least, "max": most, "sum": None if total is None else int(total)}

    def answer(self, question):
        time, session, order = question["time"], question["session"], question["order"]
        start, end = question["range"]
        between = f"\"{time}\" >= TIMESTAMPTZ '{start}' AND \"{time}\" < TIMESTAMPTZ '{end}'"
        one = f"\"{session['column']}\" = '{session['value']}'"
        shown = ", ".join(f'"{name}"' for name in [order, time, *question["added"]])
        return {
            "columns": self.columns(),
            "rows": self.query("SELECT count(*) FROM $t")[0][0],
            "sums": {name: self.column(name, total) for name, total in question["sums"].items()},
            "days": dict(self.query(f'SELECT strftime("{time}", \'%Y-%m-%d\') d, count(*) FROM $t GROUP BY d')),
            "range": self.query(f"SELECT count(*) FROM $t WHERE {between}")[0][0],
            "session": self.query(f'SELECT {shown} FROM $t WHERE {one} ORDER BY "{order}"'),
        }


class PyIceberg:
    def __init__(self, table):
        from pyiceberg.table import StaticTable

        self.table = StaticTable.from_metadata(table)

    def rows(self):
        return [plain(row) for row in self.table.scan().to_arrow().to_pylist()]

    def answer(self, question):
        import pyarrow.compute as pc
        from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan

        time, session, order = question["time"], question["session"], question["order"]
        start, end = question["range"]
        everything = self.table.scan().to_arrow()
        between = self.table.scan(row_filter=And(GreaterThanOrEqual(time, start), LessThan(time, end)))
        one = self.table.scan(row_filter=EqualTo(session["column"], session["value"]))
        days = {}
        for value in everything[time].to_pylist():
            day = value.strftime("%Y-%m-%d")
            days[day] = days.get(day, 0) + 1
        sums = {}
        for name, total in question["sums"].items():
            column = everything[name]
            ends = pc.min_max(column).as_py()
            sums[name] = {
                "nulls": column.null_count,
                "min": microseconds(ends["min"]),
                "max": microseconds(ends["max"]),
                "sum": pc.sum(column).as_py() if total else None,
            }
        rows = one.to_arrow().sort_by(order).select([order, time, *question["added"]]).to_pylist()
        return {
            "columns": everything.column_names,
            "rows": everything.num_rows,
            "sums": sums,
            "days": days,
            "range": between.to_arrow().num_rows,
            "session": [[microseconds(value) for value in row.values()] for row in rows],
            # What our metadata lets it skip.
            "files": {
                "all": len(list(self.table.scan().plan_files())),
                "range": len(list(between.plan_files())),
                "session": len(list(one.plan_files())),
            },
        }


if __name__ == "__main__":
    engine = {"duckdb": DuckDb, "pyiceberg": PyIceberg}[sys.argv[1]](sys.argv[2])
    question = json.load(sys.stdin)
    if question == "rows":
        answer = engine.rows()
    elif isinstance(question, list):
        answer = engine.counts(question)
    else:
        answer = engine.answer(question)
    json.dump(answer, sys.stdout)
