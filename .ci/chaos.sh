#!/bin/sh
# chaos.sh OUTDIR COMMAND... leaves the programs of a cluster in OUTDIR and runs the command with the variables
# that name them: PostgreSQL's programs of this machine, Temporal's server and its tool for databases with
# PostgreSQL's driver, and conclave-worker with a clock that is a minute ahead.
#
# Temporal's server has the modules of go.mod, so that most of it has been compiled for the embedded server
# already. Exit 3: PostgreSQL or the modules cannot be had here, for a reason that it prints.
set -eu

out=${1:?usage: chaos.sh OUTDIR COMMAND...}
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)

missing() {
	echo "chaos.sh: $1" >&2
	exit 3
}

for dir in "${POSTGRES_BIN:-}" $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) $(dirname "$(command -v initdb || echo /)"); do
	test -n "$dir" && test -x "$dir/initdb" && test -x "$dir/postgres" && break
done
test -x "$dir/initdb" || missing "there is no PostgreSQL server; install it (Debian's package postgresql), or name its programs by POSTGRES_BIN"

version=$(go list -m -f '{{.Version}}' go.temporal.io/server)
server=$out/temporal-$version
if ! test -x "$server/server" || ! test -x "$server/sql"; then
	echo "chaos.sh: building Temporal $version" >&2
	cp go.mod "$out/temporal.mod"
	cp go.sum "$out/temporal.sum"
	go mod edit -dropreplace=github.com/jackc/pgx/v5 "$out/temporal.mod" # the embedded server has no such driver
	mkdir -p "$server"
	go build -mod=mod -modfile="$out/temporal.mod" -o "$server/" go.temporal.io/server/cmd/server go.temporal.io/server/cmd/tools/sql ||
		missing "Temporal $version cannot be built here"
fi

export POSTGRES_BIN="$dir" TEMPORAL_SERVER_BIN="$server/server" TEMPORAL_SQL_BIN="$server/sql"
test "${CONCLAVE_CHAOS:-}" != short || exec "$@" # it has no time for the program that follows

# No program can change the clock of another that asks the kernel directly, so this one asks a package time
# that adds a minute. All its packages are compiled once more.
ahead=$out/ahead
mkdir -p "$ahead"
goroot=$(go env GOROOT)
sed 's/^\tsec, nsec, mono := runtimeNow()$/&\n\tsec += 60/' "$goroot/src/time/time.go" >"$ahead/time.overlay"
! cmp -s "$goroot/src/time/time.go" "$ahead/time.overlay" || missing "package time has changed: its Now is not found"
printf '{"Replace": {"%s": "%s"}}\n' "$goroot/src/time/time.go" "$ahead/time.overlay" >"$ahead/overlay.json"
# Without the version of the repository its build ID is a checksum, different from that of the other worker.
go build -buildvcs=false -overlay "$ahead/overlay.json" -o "$ahead/conclave-worker" ./cmd/conclave-worker

export CONCLAVE_WORKER_AHEAD_BIN="$ahead/conclave-worker"
exec "$@"
