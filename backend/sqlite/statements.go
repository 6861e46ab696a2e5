package sqlite

// statement identifies a statement that connections keep prepared.
type statement int

const (
	begin statement = iota
	commit
	rollback
	insertRow
	moveClock
	nameCommit // of a transaction that does not move the clock
	nameAnyCommit
	markClosed
	grantLease
	endLease
	revokeLease
	changeRemaining
	forgetRemaining
	raiseAlarm
	clearAlarm

	readClock
	readSettings
	lastTime
	nextTime
	readLeases
	readRemaining
	readAlarms

	changeSetting
	readTokenKeys
	addTokenKey
	dropTokenKeys

	lastProgram
	addProgram

	readAuth
	readUsers
	readUserRoles
	readRoles
	readPermissions
	readToken
	setAuth
	addUser
	dropUser
	addUserRole
	dropUserRoles
	addRole
	dropRole
	addPermission
	dropPermissions
	addToken
	useToken
	dropTokens

	newestRow  // of one key
	newestKey  // the same without its value; a row of NULLs if there is none
	rowsByID   // by a JSON array of ids, in its order
	superseded // of the rows with the ids of a JSON array, in its order
	leaseKeys  // keys that were ever attached, with duplicates
	countRange // + shape
	_
	listRange // + shape*2 + keysOnly
	_
	_
	_
	history       // + shape*4 + withPrev*2 + keysOnly
	historyEnd    = history + 16
	purgeState    = historyEnd
	savePurge     = purgeState + 1
	purgeRows     = purgeState + 2
	deleteVersion = purgeState + 3
	deleteRow     = purgeState + 4
	inspectedRows = purgeState + 5
	deleteOlder   = purgeState + 6
	digests       = purgeState + 7 // + withValues
	_             = digests + 1
	numStatements = digests + 2
)

// The forms of a span of keys in SQL. The key index is in byte order, so each span is one contiguous part of it.
const (
	bounded   = iota // key >= ? AND key < ?
	unbounded        // key >= ?
)

// The forms that a history query takes.
const (
	historyAll       = iota
	historyOfKey     // read from the key's entries in the index, ordered by revision only
	historyBounded   // read in revision order, skipping rows of other keys
	historyUnbounded // likewise
)

const (
	keyIndex = "object_versions_namespace_name_resource_version_deleted"

	// columns are the columns of a row, in the order that scanRow expects. If the value is requested, it follows, with
	// what verifies it.
	columns  = "v.key, v.id, v.deleted, v.create_revision, v.version, v.lease, v.previous_version"
	verified = ", v.value, v.checksum, v.written_at"
	// prevColumns are the columns of the row that v supersedes, NULL if there is none.
	prevColumns  = ", p.key, p.id, p.deleted, p.create_revision, p.version, p.lease, p.previous_version"
	prevVerified = ", p.value, p.checksum, p.written_at"
)

var statements = makeStatements()

func makeStatements() (s [numStatements]string) {
	s[begin] = "BEGIN IMMEDIATE"
	s[commit] = "COMMIT"
	s[rollback] = "ROLLBACK"
	// Values that can be computed are not passed: each argument costs a call into C.
	s[insertRow] = "INSERT INTO object_versions (id, resource_version, key, deleted, create_revision, version, " +
		"lease, previous_version, value, checksum, written_at) " +
		"VALUES (?1, ?1 >> 20, ?2, ?7 IS NULL, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
	// The clock in memory must match the file's. It always does, unless another program wrote to the file despite the
	// lock.
	const name = "commit_id = random(), previous_commit_id = commit_id"
	s[moveClock] = "UPDATE clock SET revision = ?1, compacted = ?2, " + name +
		" WHERE id = 1 AND revision = ?3 AND compacted = ?4 AND incarnation = ?5"
	s[nameAnyCommit] = "UPDATE clock SET " + name + " WHERE id = 1"
	s[nameCommit] = s[nameAnyCommit] + " AND revision = ?1 AND compacted = ?2 AND incarnation = ?3"
	// The next transaction gets another id.
	s[markClosed] = "UPDATE clock SET previous_commit_id = commit_id WHERE id = 1"
	s[grantLease] = "INSERT INTO leases (id, ttl) VALUES (?, ?)"
	// A negative TTL marks a lease whose revocation has begun.
	s[endLease] = "UPDATE leases SET ttl = -abs(ttl) WHERE id = ?"
	s[revokeLease] = "DELETE FROM leases WHERE id = ?"
	s[raiseAlarm] = "INSERT INTO alarms (member, kind) VALUES (?, ?) ON CONFLICT DO NOTHING"
	s[clearAlarm] = "DELETE FROM alarms WHERE member = ? AND kind = ?"

	s[readClock] = "SELECT revision, compacted, incarnation FROM clock WHERE id = 1"
	s[readSettings] = "SELECT name, value FROM settings"
	s[nextTime] = "SELECT id, written_at FROM object_versions WHERE id >= ?1 ORDER BY id LIMIT 1"
	s[lastTime] = "SELECT written_at FROM object_versions WHERE id >= 0 ORDER BY id DESC LIMIT 1"
	s[changeRemaining] = "UPDATE leases SET remaining = ?2 WHERE id = ?1"
	s[forgetRemaining] = "UPDATE leases SET remaining = NULL WHERE remaining IS NOT NULL"
	s[readRemaining] = "SELECT id, remaining FROM leases WHERE remaining IS NOT NULL"
	s[readLeases] = "SELECT id, ttl FROM leases ORDER BY id"
	s[readAlarms] = "SELECT member, kind FROM alarms ORDER BY member, kind"

	s[changeSetting] = "INSERT INTO settings (name, value) VALUES (?1, ?2) " +
		"ON CONFLICT (name) DO UPDATE SET value = excluded.value"
	s[readTokenKeys] = "SELECT id, key, made_at FROM token_keys ORDER BY id"
	s[addTokenKey] = "INSERT INTO token_keys (id, key, made_at) SELECT ?1 + 1, ?2, unixepoch() " +
		"WHERE ?1 = (SELECT COALESCE(max(id), 0) FROM token_keys)"
	s[dropTokenKeys] = "DELETE FROM token_keys WHERE id < ?1 AND id < (SELECT max(id) FROM token_keys)"

	s[lastProgram] = "SELECT version FROM programs ORDER BY id DESC LIMIT 1"
	s[addProgram] = "INSERT INTO programs (version, started_at) VALUES (?1, unixepoch())"

	s[readAuth] = "SELECT enabled, revision, tokens_from FROM auth WHERE id = 1"
	s[readUsers] = "SELECT name, password, no_password, tokens_from FROM auth_users ORDER BY name"
	s[readUserRoles] = "SELECT user_name, role_name FROM auth_user_roles ORDER BY user_name, role_name"
	s[readRoles] = "SELECT name FROM auth_roles ORDER BY name"
	s[readPermissions] = "SELECT role_name, kind, key, range_end FROM auth_permissions ORDER BY role_name, place"
	s[readToken] = "SELECT user_name, revision, ttl, expires_at FROM auth_tokens WHERE sum = ?1"
	s[setAuth] = "UPDATE auth SET enabled = ?1, revision = ?2, tokens_from = ?3 WHERE id = 1"
	s[addUser] = "INSERT INTO auth_users (name, password, no_password, tokens_from) VALUES (?, ?, ?, ?)"
	s[dropUser] = "DELETE FROM auth_users WHERE name = ?"
	s[addUserRole] = "INSERT INTO auth_user_roles (user_name, role_name) VALUES (?, ?)"
	s[dropUserRoles] = "DELETE FROM auth_user_roles WHERE user_name = ?"
	s[addRole] = "INSERT INTO auth_roles (name) VALUES (?)"
	s[dropRole] = "DELETE FROM auth_roles WHERE name = ?"
	s[addPermission] = "INSERT INTO auth_permissions (role_name, place, kind, key, range_end) VALUES (?, ?, ?, ?, ?)"
	s[dropPermissions] = "DELETE FROM auth_permissions WHERE role_name = ?"
	s[addToken] = "INSERT INTO auth_tokens (sum, user_name, revision, ttl, expires_at) VALUES (?, ?, ?, ?, ?)"
	s[useToken] = "UPDATE auth_tokens SET expires_at = max(expires_at, ?2 + ttl) WHERE sum = ?1"
	s[dropTokens] = "DELETE FROM auth_tokens WHERE expires_at <= ?1"

	s[newestRow] = "SELECT " + columns + verified + " FROM object_versions AS v WHERE v.id = " +
		"(SELECT max(id) FROM object_versions INDEXED BY " + keyIndex + " WHERE key = ?1 AND resource_version = " +
		"(SELECT max(resource_version) FROM object_versions INDEXED BY " +
		keyIndex + " WHERE key = ?1 AND resource_version <= ?2))"
	s[newestKey] = "SELECT " + columns + ", max(v.id) FROM object_versions AS v INDEXED BY " + keyIndex +
		" WHERE v.key = ?1 AND v.resource_version = " +
		"(SELECT max(resource_version) FROM object_versions INDEXED BY " +
		keyIndex + " WHERE key = ?1 AND resource_version <= ?2)"
	s[rowsByID] = "SELECT " +
		columns + verified + " FROM json_each(?1) AS j CROSS JOIN object_versions AS v ON v.id = j.value"
	s[superseded] = "SELECT j.value FROM json_each(?1) AS j LEFT JOIN object_versions AS v ON v.id = j.value " +
		"WHERE v.id IS NULL OR EXISTS (SELECT 1 FROM object_versions AS n INDEXED BY " + keyIndex +
		" WHERE n.key = v.key AND n.resource_version >= v.resource_version " +
		"AND n.resource_version <= ?2 AND n.id > v.id)"
	s[leaseKeys] = "SELECT key FROM object_versions INDEXED BY object_versions_lease WHERE lease = ?1 AND lease <> 0"

	for shape, where := range []string{bounded: "v.key >= ?2 AND v.key < ?3", unbounded: "v.key >= ?2"} {
		s[countRange+statement(shape)] = "SELECT count(*) FROM (" + newest("v.deleted", where) + ")"
		s[listRange+statement(shape*2)] = "SELECT " + columns + verified + " FROM (" + newest("v.deleted", where) +
			" ORDER BY v.key LIMIT ?4) AS n CROSS JOIN object_versions AS v ON v.id = n.id"
		s[listRange+statement(shape*2+1)] = newest(columns, where) + " ORDER BY v.key LIMIT ?4"
	}

	for shape, form := range []struct{ index, where, order string }{
		historyAll:       {"", "v.id >= ?1 AND v.id < ?2", "v.id"},
		historyBounded:   {"", "v.id >= ?1 AND v.id < ?2 AND +v.key >= ?3 AND +v.key < ?4", "v.id"},
		historyUnbounded: {"", "v.id >= ?1 AND v.id < ?2 AND +v.key >= ?3", "v.id"},
		historyOfKey: {
			" INDEXED BY " + keyIndex,
			"v.key = ?3 AND v.resource_version >= ?1 >> 20 AND v.resource_version < ?2 >> 20",
			"v.resource_version",
		},
	} {
		for flags := range 4 {
			cols, join := columns, ""
			if flags&1 == 0 {
				cols += verified
			}
			if flags&2 != 0 {
				join = " LEFT JOIN object_versions AS p INDEXED BY " + keyIndex +
					" ON p.key = v.key AND p.resource_version = v.previous_version AND p.deleted = 0 AND " +
					"v.previous_version <> 0"
				cols += prevColumns
				if flags&1 == 0 {
					cols += prevVerified
				}
			}
			s[history+statement(shape*4+flags)] = "SELECT " + cols + " FROM object_versions AS v" + form.index + join +
				" WHERE " + form.where + " ORDER BY " + form.order
		}
	}

	s[purgeState] = "SELECT target, next_row FROM purge WHERE id = 1"
	s[savePurge] = "UPDATE purge SET target = ?, next_row = ? WHERE id = 1"
	s[purgeRows] = "SELECT " + columns + ", v.checksum, v.written_at FROM object_versions AS v WHERE v.id >= ?1 " +
		"AND v.id < ?2 ORDER BY v.id LIMIT ?3"
	s[deleteVersion] = "DELETE FROM object_versions INDEXED BY " +
		keyIndex + " WHERE key = ?1 AND resource_version = ?2 AND deleted = 0"
	s[deleteOlder] = "DELETE FROM object_versions INDEXED BY " + keyIndex + " WHERE key = ?1 AND resource_version < ?2"
	s[deleteRow] = "DELETE FROM object_versions WHERE id = ?1"
	// The clock is not joined: with statistics that count its row, the join would have to be sorted.
	const ofClock = " FROM clock WHERE id = 1)"
	s[inspectedRows] = "SELECT " + columns + verified + ", v.resource_version, (SELECT revision" + ofClock +
		", (SELECT compacted" + ofClock + ", p.id, p.create_revision, p.version FROM object_versions AS v " +
		"LEFT JOIN object_versions AS p ON v.previous_version <> 0 AND p.id = (SELECT max(o.id) " +
		"FROM object_versions AS o INDEXED BY " + keyIndex + " WHERE o.key = v.key " +
		"AND o.resource_version = v.previous_version AND o.deleted = 0) " +
		"WHERE v.id >= ?1 ORDER BY v.id LIMIT ?2"
	// The size of a value is in the row's header. SQLite skips the pages of a long value on its way to the checksum
	// behind it, unless the value is compared.
	for i, value := range []string{"CASE WHEN length(v.value) > 4000 THEN v.value = zeroblob(0) END", "v.value"} {
		s[digests+statement(i)] = "SELECT sqlstore_pack('SELECT " + columns + ", v.checksum, v.written_at, " +
			"length(v.value), " + value + " FROM object_versions AS v WHERE v.id >= ?1 AND v.id < ?2 ORDER BY v.id', " +
			"?1, ?2, ?3, ?4)"
	}
	return s
}

// newest returns the query that picks the newest row of each key at revision ?1 and drops the keys whose newest row is
// a tombstone. A transaction can delete a key and put it, or the other way round, so the revision alone does not
// determine which row is the newest, but the id does. SQLite takes the other columns of such a query from the row that
// holds the maximum.
//
// The query must be used as a table in a join and not as the set of an IN, which the planner would turn inside out.
func newest(columns, where string) string {
	return "SELECT " + columns + ", max(v.id) AS id FROM object_versions AS v INDEXED BY " + keyIndex +
		" WHERE " + where + " AND v.resource_version <= ?1 GROUP BY v.key HAVING v.deleted = 0"
}
