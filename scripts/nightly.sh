#!/usr/bin/env bash
# Runs the heavy suites one after another, each over all its databases, with a random seed each: nightly.sh [SUITE...]
# It goes on after a failure, and prints a table at the end. Each run has a limit and a log of its own in
# .cache/nightly. To repeat a run, set SEED to the seed in the table, and DATASTORE to its database.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

# SUITE MINUTES DATABASES COMMAND...; databases are separated by commas, "-" is none to choose.
suites() {
	cat <<-'END'
		lint 75 - make lint-all
		unit 60 - env SQLSTORE_TEST_LENGTH=6 make test
		fuzz 40 - make fuzz
		versions 120 - make test-postgres-versions
		etcd 30 sqlite,postgres,pgbouncer make e2e-etcd
		restapi 30 - make e2e-restapi
		kubestorage 30 sqlite,postgres,pgbouncer make e2e-kubestorage
		kubeapiserver 75 sqlite,postgres,pgbouncer make e2e-kubeapiserver
		bench 20 sqlite,postgres make bench
		powercut 30 - make e2e-powercut
		bitrot 30 - make e2e-bitrot
		simulation 30 - make e2e-simulation
		launchers 75 - make e2e-launchers
		deploy 75 - make e2e-deploy
		console 75 - make e2e-console
		examples 75 - make e2e-examples
		etcdtests 190 - make e2e-etcdtests
		traces 30 - make e2e-traces
		monitoring 30 - make e2e-monitoring
		moves 30 - make e2e-moves
		pitr 30 - make e2e-pitr
		backups 30 - make e2e-backups
		packages 60 - make e2e-packages
		cluster 30 - make e2e-cluster
		patroni 30 - make e2e-patroni
		chaos 30 - make e2e-chaos
	END
}

known=$(suites | awk '{ print $1 }')
for suite; do
	if ! grep -qx -- "$suite" <<<"$known"; then
		echo "nightly: $suite is not a suite; want some of" $known >&2
		exit 2
	fi
done
case ${DATASTORE:-} in
"" | sqlite | postgres | pgbouncer) ;;
*)
	echo "nightly: DATASTORE=$DATASTORE is not a database; want sqlite, postgres or pgbouncer" >&2
	exit 2
	;;
esac
chosen=" ${*:-$(tr '\n' ' ' <<<"$known")} "
logs=.cache/nightly
mkdir -p "$logs"
passed=0 failed=0
table=$(printf '%-14s %-10s %-10s %8s  %s' SUITE DATABASE RESULT SECONDS SEED)

# run SUITE MINUTES DATABASE COMMAND... runs a suite once.
run() {
	local suite=$1 limit=$2 database=$3 began=$SECONDS result=ok status log seed
	shift 3
	seed=${SEED:-$((RANDOM << 15 | RANDOM))}
	log=$logs/$suite${database//-/}.log
	[ "$database" = - ] || set -- "$@" DATASTORE="$database" BENCH_FLAGS="-short -datastore $database"
	echo "--- $suite $database (seed $seed, log $log)"
	SQLSTORE_TEST_SEED=$seed timeout --kill-after=10s "${limit}m" "$@" >"$log" 2>&1
	status=$?
	case $status in
	0) passed=$((passed + 1)) ;;
	124 | 137) result="timeout" failed=$((failed + 1)) ;;
	*) result=FAILED failed=$((failed + 1)) ;;
	esac
	if [ $result != ok ]; then
		grep -E '^\s*--- FAIL|^(FAIL|panic)' "$log" | head -n 20
		tail -n 5 "$log"
	fi
	echo "--- $suite $database: $result after $((SECONDS - began)) s"
	table+=$'\n'$(printf '%-14s %-10s %-10s %8d  %s' "$suite" "$database" "$result" $((SECONDS - began)) "$seed")
}

while read -r suite limit databases command; do
	[[ $chosen == *" $suite "* ]] || continue
	for database in ${databases//,/ }; do
		[ -z "${DATASTORE:-}" ] || [ "$database" = - ] || [ "$database" = "$DATASTORE" ] || continue
		# shellcheck disable=SC2086
		run "$suite" "$limit" "$database" $command
	done
done < <(suites)
if ((passed + failed == 0)); then
	echo "nightly: nothing ran: none of$chosen""has DATASTORE=${DATASTORE:-} among its databases, see $0" >&2
	exit 2
fi
echo "$table"
echo "$passed passed, $failed failed"
((failed == 0))
