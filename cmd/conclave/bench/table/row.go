//go:build bench

package main

import (
	"cmp"
	"fmt"
	"strings"
)

// row is a line of the table.
type row struct {
	what      string
	benchmark string  // without "Benchmark" and the number of processors
	unit      string  // as the benchmark reports it
	target    float64 // the most that is wanted, in that unit; 0 for no target
	shown     quantity
	command   string // "" for make bench
}

// quantity is how people read a number.
type quantity struct {
	unit   string
	scale  float64 // from the benchmark's unit
	digits int
}

var (
	seconds      = quantity{"s", 1, 2}
	milliseconds = quantity{"ms", 1, 0}
	nanoseconds  = quantity{"ms", 1e-6, 2}
	times        = quantity{"×", 1, 3}
	number       = quantity{"", 1, 1}
	kibibytes    = quantity{"KiB", 1.0 / 1024, 1}
	mebibytes    = quantity{"MiB", 1, 0}
)

// rows are in the order of the table. Targets stand here and nowhere else.
var rows = []row{
	{"start of `conclave run` to first model call, new data directory", "Start/data=new", "s-to-first-call", 2, seconds, ""},
	{"the same, data directory of an earlier session", "Start/data=existing", "s-to-first-call", 2, seconds, ""},
	{"added to the model's time per step, 100 ms models", "Session/model=100ms", "added-ms/step", 150, milliseconds, ""},
	{"added to the model's time per step, 2 s models", "Session/model=2s", "added-ms/step", 150, milliseconds, ""},
	{"session over its critical path of model time, 2 s models", "Session/model=2s", "wall/model", 1.05, times, ""},
	{"events of history per step", "Session/model=2s", "events/step", 12, number, ""},
	{"bytes of history per step", "Session/model=2s", "history-B/step", 6 << 10, kibibytes, ""},
	{"S3 requests per step", "Storage", "requests/step", 0, number, ""},
	{"memory of the embedded stack, idle", "Memory", "stack-idle-MiB", 0, mebibytes, ""},
	{"memory of the embedded stack, most in a session", "Memory", "stack-session-MiB", 0, mebibytes, ""},
	{"memory of the worker, idle", "Memory", "worker-idle-MiB", 0, mebibytes, ""},
	{"memory of the worker, most in a session", "Memory", "worker-session-MiB", 0, mebibytes, ""},
	{"the protocol alone, 26 agents in three rounds", "Session", "ns/op", 0, nanoseconds, "go test -run '^$' -bench . ./engine/coordination"},
}

// of is v, which is in the benchmark's unit.
func (q quantity) of(v float64) string {
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", q.digits, v*q.scale, q.unit))
}

// verdict is the target, and whether v misses it.
func (r row) verdict(v float64) string {
	switch {
	case r.target == 0:
		return "–"
	case v > r.target:
		return "≤ " + r.shown.of(r.target) + ", missed"
	default:
		return "≤ " + r.shown.of(r.target)
	}
}

// again is the command that measures the row.
func (r row) again() string { return cmp.Or(r.command, "make bench BENCH="+r.benchmark) }
