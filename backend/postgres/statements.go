package postgres

import (
	"fmt"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
)

// Every numeric argument of a statement is cast, so that it has the same type in exec modes that do not describe the
// statement.
const (
	beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED"

	// columns are the columns of a row, in the order that scanner.row expects. If the value is requested, it follows,
	// with what verifies it.
	columns = "key, " + rest
	rest    = "resource_version, ordinal, deleted, create_revision, version, lease, previous_version"
	// rowColumns are the same columns when the row itself is read, not only its entry in the key index: long keys are
	// complete.
	rowColumns = "COALESCE(long_key, key) AS key, " + rest
	// rowColumnsOfV are the same of v.
	rowColumnsOfV = "COALESCE(v.long_key, v.key), v.resource_version, v.ordinal, v.deleted, v.create_revision, " +
		"v.version, v.lease, v.previous_version"
	// entryColumns are the same columns of v, an entry in the key index: the table is read for long keys only.
	entryColumns = "CASE WHEN octet_length(v.key) > 2600 THEN (SELECT f.long_key FROM object_versions AS f " +
		"WHERE f.resource_version = v.resource_version AND f.ordinal = v.ordinal) ELSE v.key END AS key, " +
		"v.resource_version, v.ordinal, v.deleted, v.create_revision, v.version, v.lease, v.previous_version"
	// verified is the value with the columns that verify it.
	verified = "value, checksum, written_at"
	// ofV are the same columns of v, which has them from such a query.
	ofV = "v.value, v.checksum, v.written_at"
	// newestFirst is the order in which a key's newest row comes first.
	newestFirst = "resource_version DESC, ordinal DESC"

	clockColumns = "c.revision, c.compacted, c.incarnation"
	// newestClock reads the clock's row. The order finds it without visiting the old versions that an open snapshot
	// keeps.
	newestClock = "SELECT * " + ofNewestClock
	fromClock   = " FROM (" + newestClock + ") AS c"
	// ofNewestClock is fromClock for a statement that reads nothing else.
	ofNewestClock = "FROM clock AS c WHERE c.id = 1 ORDER BY c.turn DESC LIMIT 1"
	readClock     = "SELECT " + clockColumns + fromClock

	readAlarms = "SELECT member, kind FROM alarms ORDER BY member, kind"

	// loadKeys reads the newest rows of keys. What is a tombstone is decided after the row is verified.
	loadKeys = "SELECT v.* FROM unnest($1::bytea[]) AS k(key) CROSS JOIN LATERAL (SELECT " + rowColumns + ", " +
		verified + " FROM object_versions AS o " +
		"WHERE o.key = k.key ORDER BY o.resource_version DESC, o.ordinal DESC LIMIT 1) AS v"
	// loadLeaseKeys reads the newest rows of the keys that are attached to leases, out of all keys that ever were.
	loadLeaseKeys = "SELECT " + entryColumns + " FROM (SELECT DISTINCT key FROM object_versions " +
		"WHERE lease = ANY ($1::bigint[]) AND lease <> 0) AS k " +
		"CROSS JOIN LATERAL (SELECT " + columns + " FROM object_versions AS o " +
		"WHERE o.key = k.key ORDER BY o.resource_version DESC, o.ordinal DESC LIMIT 1) AS v " +
		"WHERE NOT v.deleted AND v.lease = ANY ($1::bigint[]) LIMIT $2::bigint"

	// toBeExtended is true for a lease that an extension in progress has not reached yet.
	toBeExtended = "id >= (SELECT x.next_lease FROM lease_extension AS x WHERE x.id = 1)"
	leaseColumns = "id, ttl, CASE WHEN " + toBeExtended + " THEN ttl * 1000000 ELSE (extract(epoch " +
		"FROM expires_at - clock_timestamp()) * 1000000)::bigint END"
	// lockLeases keeps leases from being renewed. All statements lock leases in the order of their ids, so that no two
	// of them deadlock.
	lockLeases = "SELECT " + leaseColumns + " FROM leases WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE"

	insertRows = "INSERT INTO object_versions (" + columns + ", batch, value, checksum, written_at) SELECT r.key, " +
		"r.resource_version, r.ordinal, r.value IS NULL, r.create_revision, r.version, r.lease, r.previous_version, " +
		"$8::bigint, r.value, r.checksum, $11::bigint " +
		"FROM unnest($1::bytea[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], " +
		"$7::bigint[], $9::bytea[], $10::bigint[]) " +
		"AS r(key, resource_version, ordinal, create_revision, version, lease, previous_version, value, checksum)"
	// insertLongRows is insertRows for rows of which some have long keys.
	insertLongRows = "INSERT INTO object_versions (" + columns + ", batch, value, checksum, written_at, long_key) " +
		"SELECT r.key, r.resource_version, r.ordinal, r.value IS NULL, r.create_revision, r.version, r.lease, " +
		"r.previous_version, $8::bigint, r.value, r.checksum, $11::bigint, r.long_key " +
		"FROM unnest($1::bytea[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], " +
		"$7::bigint[], $9::bytea[], $10::bigint[], $12::bytea[]) " +
		"AS r(key, resource_version, ordinal, create_revision, version, lease, previous_version, value, checksum, " +
		"long_key)"
	// insertDatedRows is insertLongRows for rows that have their own times.
	insertDatedRows = "INSERT INTO object_versions (" + columns + ", batch, value, checksum, written_at, long_key) " +
		"SELECT r.key, r.resource_version, r.ordinal, r.value IS NULL, r.create_revision, r.version, r.lease, " +
		"r.previous_version, $8::bigint, r.value, r.checksum, r.written_at, r.long_key " +
		"FROM unnest($1::bytea[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], " +
		"$7::bigint[], $9::bytea[], $10::bigint[], $11::bigint[], $12::bytea[]) " +
		"AS r(key, resource_version, ordinal, create_revision, version, lease, previous_version, value, checksum, " +
		"written_at, long_key)"
	insertLeases = "INSERT INTO leases (id, ttl, expires_at, due_at) SELECT l.id, l.ttl, e.at, e.at " +
		"FROM unnest($1::bigint[], $2::bigint[]) AS l(id, ttl) CROSS JOIN LATERAL (SELECT " + fullTTL + ") AS e(at)"
	// endLeases marks leases whose revocation has begun with a negative TTL: no renewal or extension revives them.
	endLeases = "UPDATE leases SET ttl = -abs(ttl), expires_at = LEAST(expires_at, clock_timestamp()), " +
		"due_at = '-infinity' WHERE id = ANY ($1::bigint[])"
	deleteLeases = "DELETE FROM leases WHERE id = ANY ($1::bigint[])"
	insertAlarms = "INSERT INTO alarms (member, kind) SELECT a.member, a.kind FROM unnest($1::bigint[], " +
		"$2::integer[]) AS a(member, kind) " +
		"ON CONFLICT DO NOTHING"
	deleteAlarms = "DELETE FROM alarms WHERE (member, kind) IN (SELECT a.member, a.kind FROM unnest($1::bigint[], " +
		"$2::integer[]) AS a(member, kind))"
	// commitTime is the time of a commit in milliseconds since 1970, from the locked row c of the clock: never before
	// that of the last one, whatever the server's clock says.
	commitTime = "GREATEST((date_part('epoch', clock_timestamp()) * 1000)::bigint, c.written_at) AS commit_time"
)

// moveClock specifies the turn that was locked, for the same reason that newestClock has its order.
var moveClock = exactlyOne("UPDATE clock SET revision = $1::bigint, compacted = CASE WHEN $2::bigint = 0 " +
	"THEN compacted WHEN compacted <= 0 THEN $2::bigint ELSE GREATEST(compacted, $2::bigint) END, " +
	"alarms = alarms + $3::bigint, bytes = bytes + $4::bigint, " +
	"batch = CASE WHEN revision < $1::bigint THEN $5::bigint ELSE batch END, " +
	"written_at = CASE WHEN revision < $1::bigint THEN $6::bigint ELSE written_at END " +
	"WHERE id = 1 AND turn = $7::bigint >> 6")

// one begins a statement of exactlyOne.
const one = "WITH one AS ("

// exactlyOne makes an UPDATE fail unless it changes exactly one row, so that the COMMIT which was sent along with it
// commits nothing. Nothing else here divides by zero: see errNotOne.
func exactlyOne(update string) string {
	return one + update + " RETURNING 1) SELECT 1 / (count(*) = 1)::integer FROM one"
}

var (
	rowsByID    = withClock(rowsOfIDs(verified))
	rowsSparing = withClock(rowsOfIDs(sparing))
	rowsWithin  = withClock(within(rowsOfIDs(verified), 3))
)

func rowsOfIDs(value string) string {
	return "SELECT n.place, v.* FROM unnest($1::bigint[], $2::integer[]) WITH ORDINALITY AS n(resource_version, " +
		"ordinal, place) " +
		"CROSS JOIN LATERAL (SELECT " + rowColumns + ", " + value + " FROM object_versions AS o " +
		"WHERE o.resource_version = n.resource_version AND o.ordinal = n.ordinal LIMIT 1) AS v"
}

// withClock turns a query into one that puts the clock of the same snapshot in front of each row. If there are no rows,
// it returns only the clock.
func withClock(query string) string {
	return "SELECT " + clockColumns + ", r.*" + fromClock + " LEFT JOIN LATERAL (" + query + ") AS r ON true"
}

// sparing is like verified, but has NULL for a large value and its checksum. This limits how much a statement with many
// rows sends for nothing if they turn out to be large, and it costs no more than a statement that sends all values. If
// a value was left out, and for few rows, the statement with within is used instead.
const sparing = "CASE WHEN octet_length(value) > 65536 THEN NULL ELSE value END AS value, " +
	"CASE WHEN octet_length(value) > 65536 THEN NULL ELSE checksum END AS checksum, written_at"

// within ends a query's rows, in the order in which they arrive, with the row at which the total size of keys and
// values reaches the n-th argument, so that the server does not send rows that nobody reads. It reads the lengths of
// the remaining values, not the values. A page of 500 takes an eighth longer. The rows arrive in the requested order:
// the key walk and the list of ids are each processed in turn, with a LATERAL for each entry, an order that no plan
// reverses.
func within(query string, n int) string {
	return fmt.Sprintf("SELECT w.* FROM (SELECT q.*, sum(octet_length(q.key) + COALESCE(octet_length(q.value), 0)) "+
		"OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (%s) AS q) AS w "+
		"WHERE COALESCE(w.before, 0) < $%d::bigint", query, n)
}

// The forms of a span of keys in SQL, with arguments from the n-th on.
const (
	single    = iota // key = $n
	bounded          // key >= $n AND key < $n+1
	unbounded        // key >= $n
	spanForms
)

// shape turns a span into its form and arguments.
func shape(s backend.Span) (form int, args []any) {
	switch {
	case s.End == nil:
		return single, []any{notNil(s.Start)}
	case len(s.End) == 0:
		return unbounded, []any{notNil(s.Start)}
	}
	return bounded, []any{notNil(s.Start), s.End}
}

// notNil returns an empty slice for a nil key, so that it is sent as an empty bytea and not as NULL.
func notNil(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

// newest returns the query for the newest row of each key of a span at revision $1, in key order, up to $2 rows,
// without keys whose newest row is a tombstone. It walks from key to key, each time to the first index entry after the
// last key. So it costs the same for keys with many versions, and whatever the planner assumes about the table.
// DISTINCT ON is three times as fast on keys with one version, but reads and sorts the whole table before its first
// vacuum.
func newest(form int) string {
	step := func(after, until string) string {
		return "(SELECT " + columns + " FROM object_versions AS o WHERE " + after + until +
			" AND o.resource_version <= $1::bigint ORDER BY o.key, o.resource_version DESC, o.ordinal DESC LIMIT 1)"
	}
	until := ""
	if form == bounded {
		until = " AND o.key < $4::bytea"
	}
	return "WITH RECURSIVE k AS (" + step("o.key >= $3::bytea", until) + " UNION ALL SELECT v.* FROM k " +
		"CROSS JOIN LATERAL " +
		step("o.key > k.key", until) + " AS v) SELECT " + entryColumns + " FROM k AS v WHERE NOT v.deleted " +
		"LIMIT $2::bigint"
}

// counted returns the query for the newest row of each key of a span, for a count. $1 is the revision; the span's
// arguments follow. DISTINCT ON reads the whole span once; a walk from key to key is faster only if keys have many
// versions.
func counted(form int) string {
	const from, at = "FROM object_versions WHERE ", " AND resource_version <= $1::bigint ORDER BY "
	switch form {
	case single:
		return "SELECT deleted " + from + "key = $2::bytea" + at + newestFirst + " LIMIT 1"
	case bounded:
		return "SELECT DISTINCT ON (key) key, deleted " + from + "key >= $2::bytea AND key < $3::bytea" + at +
			"key, " + newestFirst
	}
	return "SELECT DISTINCT ON (key) key, deleted " + from + "key >= $2::bytea" + at + "key, " + newestFirst
}

// The statements, by the form of the span.
var (
	countSQL    [spanForms]string
	listSQL     [spanForms][2]string // [1]: keys only
	loadSpanSQL [spanForms]string
	historySQL  [historyForms][2][2]string // with previous rows, keys only

	listSparingSQL [spanForms]string // without large values
	listWithinSQL  [spanForms]string // with a byte limit after the span

	// The statements for a group of long keys, up to $7 rows; see part.args. [0]: with values, up to $8 bytes; [1]:
	// keys only.
	groupSQL      [2]string
	groupCountSQL string
)

func init() {
	for form := range spanForms {
		var keys, values string
		if form == single {
			get := "SELECT %s FROM (SELECT %s FROM object_versions WHERE key = $3::bytea " +
				"AND resource_version <= $1::bigint ORDER BY " +
				newestFirst + " LIMIT 1) AS v WHERE %s LIMIT $2::bigint"
			keys = fmt.Sprintf(get, entryColumns, columns, "NOT v.deleted")
			values = fmt.Sprintf(get, "v.*", rowColumns+", "+verified, "true") // as in loadKeys
		} else {
			keys = newest(form)
			join := "SELECT n.*, " + ofV + " FROM (" + keys + ") AS n CROSS JOIN LATERAL (SELECT %s " +
				"FROM object_versions AS o " +
				"WHERE o.resource_version = n.resource_version AND o.ordinal = n.ordinal LIMIT 1) AS v"
			values = strings.Replace(join, "%s", verified, 1)
			behind := 4
			if form == bounded {
				behind++
			}
			listSparingSQL[form] = withClock(strings.Replace(join, "%s", sparing, 1))
			listWithinSQL[form] = withClock(within(values, behind))
		}
		listSQL[form] = [2]string{withClock(values), withClock(keys)}
		loadSpanSQL[form] = values
		countSQL[form] = withClock("SELECT count(*) FROM (" + counted(form) + ") AS n WHERE NOT n.deleted")
	}
	const ofGroup = " WHERE n.key >= $5::bytea AND ($6::bytea IS NULL OR n.key < $6::bytea)"
	sorted := ofGroup + " ORDER BY n.key LIMIT $7::bigint"
	keys := "SELECT n.* FROM (" + newest(bounded) + ") AS n"
	values := "SELECT n.*, " + ofV + " FROM (" + newest(bounded) + ") AS n CROSS JOIN LATERAL (SELECT " + verified +
		" FROM object_versions AS o " +
		"WHERE o.resource_version = n.resource_version AND o.ordinal = n.ordinal LIMIT 1) AS v"
	groupSQL = [2]string{withClock(within(values+sorted, 8)), withClock(keys + sorted)}
	groupCountSQL = withClock("SELECT count(*) FROM (" + newest(bounded) + ") AS n" + ofGroup)
	for form := range historyForms {
		for prev := range 2 {
			for keysOnly := range 2 {
				historySQL[form][prev][keysOnly] = withClock(historyQuery(form, prev == 1, keysOnly == 1))
			}
		}
	}
}

// tailStatement returns the statement that reads what was written after revision $1, with the columns of the origin.
func tailStatement(origin string, prev, keysOnly bool) string {
	return "SELECT " + clockColumns + ", c.batch, c.alarms, " +
		"COALESCE((SELECT batch FROM object_versions WHERE resource_version = $1::bigint ORDER BY ordinal " +
		"LIMIT 1), 0), " +
		"(SELECT target FROM purge WHERE id = 1), " + origin + ", r.*" +
		fromClock + " LEFT JOIN LATERAL (" + tailQuery(prev, keysOnly) + ") AS r ON true"
}

// The forms that a history query takes.
const (
	historyAll       = iota
	historyOfKey     // read from the key's entries in the index
	historyBounded   // read in revision order, skipping rows of other keys
	historyUnbounded // likewise
	historyForms
)

// historyQuery returns the query for the rows of revisions ($1, $2], in order, until there are $3 rows and the last
// revision is complete. The span's arguments follow.
func historyQuery(form int, prev, keysOnly bool) string {
	const window = "resource_version > $1::bigint AND resource_version <= $2::bigint"
	const limit = " ORDER BY resource_version FETCH FIRST ($3::bigint) ROWS WITH TIES"
	wanted, listed := rowColumns+", batch", "v.key, v.resource_version, v.ordinal, v.deleted, v.create_revision, "+
		"v.version, v.lease, v.previous_version, v.batch"
	value := ""
	if !keysOnly {
		wanted, listed = wanted+", "+verified, listed+", "+ofV
		value = ", p.value AS p_value, p.checksum AS p_checksum, p.written_at AS p_written_at"
	}
	if prev {
		wanted += ", key AS entry"
	}
	var from string
	switch form {
	case historyAll:
		from = "SELECT " + wanted + " FROM object_versions WHERE " + window + limit
	case historyOfKey:
		from = "SELECT " + wanted + " FROM object_versions AS o WHERE o.key = $4::bytea AND " + window + limit
	default:
		where := "w.key >= $4::bytea"
		if form == historyBounded {
			where += " AND w.key < $5::bytea"
		}
		// OFFSET 0 keeps the planner from looking up the span in the key index, which would read all of its versions.
		from = "SELECT * FROM (SELECT " + wanted + " FROM object_versions WHERE " + window +
			" ORDER BY resource_version, ordinal OFFSET 0) AS w WHERE " + where + limit
	}
	if !prev {
		return from
	}
	return "SELECT " + listed + ", COALESCE(p.long_key, p.key) AS p_key, p.resource_version AS p_resource_version, " +
		"p.ordinal AS p_ordinal, p.deleted AS p_deleted, " +
		"p.create_revision AS p_create_revision, p.version AS p_version, p.lease AS p_lease, " +
		"p.previous_version AS p_previous_version" +
		value + " FROM (" + from + ") AS v LEFT JOIN LATERAL (SELECT * FROM object_versions AS o " +
		"WHERE o.key = v.entry " +
		"AND o.resource_version = v.previous_version AND NOT o.deleted LIMIT 1) AS p ON v.previous_version <> 0"
}

// tailQuery returns the query for the history of all keys, which ends with the revision at which the total size of keys
// and values reaches $4 bytes. The server reads only the lengths of the values after it, and sends nothing that nobody
// uses.
func tailQuery(prev, keysOnly bool) string {
	size := "octet_length(h.key)"
	if !keysOnly {
		size += " + COALESCE(octet_length(h.value), 0)"
	}
	if prev {
		size += " + COALESCE(octet_length(h.p_key), 0)"
		if !keysOnly {
			size += " + COALESCE(octet_length(h.p_value), 0)"
		}
	}
	return "SELECT w.* FROM (SELECT h.*, sum(" + size +
		") OVER (ORDER BY h.resource_version GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) " +
		"AS before FROM (" + historyQuery(historyAll, prev, keysOnly) + ") AS h) AS w " +
		"WHERE COALESCE(w.before, 0) < $4::bigint"
}
