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
	count        = quantity{"", 1, 0}
	kibibytes    = quantity{"KiB", 1.0 / 1024, 1}
	mebibytes    = quantity{"MiB", 1, 0}
)

// The steps that go on from another answer's files.
const (
	unchanged = "Step/files=1000/changed=0/cache=warm"
	changed   = "Step/files=1000/changed=10/cache=warm"
	cold      = "Step/files=1000/changed=0/cache=cold"
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
	{"a step without its model's time, empty workspace", "Step/files=0", "ms/step", 0, milliseconds, ""},
	{"its S3 requests but copies", "Step/files=0", "requests-but-copies/step", 20, count, ""},
	{"a step that goes on from 1,000 files of 50 MB, none changed", unchanged, "ms/step", 0, milliseconds, ""},
	{"its time, by that of its copies within the store", unchanged, "step/copies", 0, times, ""},
	{"its S3 requests but copies", unchanged, "requests-but-copies/step", 25, count, ""},
	{"its copies within the store", unchanged, "COPY/step", 0, count, ""},
	{"bytes it uploads", unchanged, "up-B/step", 512 << 10, kibibytes, ""},
	{"bytes it downloads", unchanged, "down-B/step", 512 << 10, kibibytes, ""},
	{"the same, 10 files changed", changed, "ms/step", 0, milliseconds, ""},
	{"its S3 requests but copies", changed, "requests-but-copies/step", 50, count, ""},
	{"bytes it uploads", changed, "up-B/step", 1536 << 10, kibibytes, ""},
	{"bytes it downloads", changed, "down-B/step", 512 << 10, kibibytes, ""},
	{"the same, none changed, on a worker that has none of the files", cold, "ms/step", 0, milliseconds, ""},
	{"its time, by that of its copies within the store", cold, "step/copies", 0, times, ""},
	{"bytes it downloads", cold, "down-B/step", 0, kibibytes, ""},
	{"kill -9 of a worker in a step to the step's next model call", "Resume", "s-to-next-call", 0, seconds, ""},
	{"model calls paid again", "Resume", "calls-repeated", 1, count, ""},
	{"model calls of a debate of three, rounds with inject", "Pacing", "rounds-inject-calls", 0, count, ""},
	{"its time", "Pacing", "rounds-inject-s", 0, seconds, ""},
	{"its stale votes", "Pacing", "rounds-inject-stale-votes", 0, count, ""},
	{"model calls with restart, by those with inject", "Pacing", "rounds-restart-calls-ratio", 0, times, ""},
	{"its time, likewise", "Pacing", "rounds-restart-s-ratio", 0, times, ""},
	{"its stale votes", "Pacing", "rounds-restart-stale-votes", 0, count, ""},
	{"model calls of continuous pacing with inject, by those of rounds", "Pacing", "continuous-inject-calls-ratio", 0, times, ""},
	{"its time, likewise", "Pacing", "continuous-inject-s-ratio", 0, times, ""},
	{"its stale votes", "Pacing", "continuous-inject-stale-votes", 0, count, ""},
	{"model calls of continuous pacing with restart, likewise", "Pacing", "continuous-restart-calls-ratio", 0, times, ""},
	{"its time, likewise", "Pacing", "continuous-restart-s-ratio", 0, times, ""},
	{"its stale votes", "Pacing", "continuous-restart-stale-votes", 0, count, ""},
	{"tokens sent for a scenario of ten steps, an agent for each", "Isolation", "agent-each-tokens", 0, count, ""},
	{"the same steps, one agent for all", "Isolation", "one-agent-tokens", 0, count, ""},
	{"tokens with an agent for each step, by those with one for all", "Isolation", "tokens-ratio", 1.0 / 3, times, ""},
	{"memory of the embedded stack, idle", "Memory", "stack-idle-MiB", 0, mebibytes, ""},
	{"memory of the embedded stack, most in a session", "Memory", "stack-session-MiB", 0, mebibytes, ""},
	{"memory of the worker, idle", "Memory", "worker-idle-MiB", 0, mebibytes, ""},
	{"memory of the worker, most in a session", "Memory", "worker-session-MiB", 0, mebibytes, ""},
	{"200 steps at the same time in one worker: its memory, at most", "Fleet", "worker-MiB", 1024, mebibytes, ""},
	{"its processor time per step", "Fleet", "worker-cpu-ms/step", 0, milliseconds, ""},
	{"added to the model's time of a step, median", "Fleet", "added-ms/step", 0, milliseconds, ""},
	{"added to that of one in twenty, at least", "Fleet", "added-p95-ms/step", 0, milliseconds, ""},
	{"added to that of a step alone", "Fleet", "alone-ms/step", 0, milliseconds, ""},
	{"start of a command in the sandbox, level full, beyond a plain one", "SandboxStart/full", "ns/op", 10e6, nanoseconds, ""},
	{"the same, level landlock", "SandboxStart/landlock", "ns/op", 10e6, nanoseconds, ""},
	{"the protocol alone, 26 agents in three rounds", "Session", "ns/op", 0, nanoseconds, "go test -run '^$' -bench . ./engine/coordination"},
}

// plain is what is taken off a measurement, by benchmark: what it is compared to,
// in the same unit.
var plain = map[string]string{
	"SandboxStart/full":     "SandboxStart/none",
	"SandboxStart/landlock": "SandboxStart/none",
}

// value is what the row shows, if all of it was measured.
func (r row) value(measured map[series][]float64) (float64, bool) {
	values, ok := measured[series{r.benchmark, r.unit}]
	if !ok {
		return 0, false
	}
	base, compared := plain[r.benchmark]
	if !compared {
		return median(values), true
	}
	off, ok := measured[series{base, r.unit}]
	if !ok {
		return 0, false
	}
	return median(values) - median(off), true
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
func (r row) again() string {
	name := r.benchmark
	if plain[name] != "" {
		name, _, _ = strings.Cut(name, "/") // with what it is compared to
	}
	return cmp.Or(r.command, "make bench BENCH="+name)
}
