//go:build simulate

package stagetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// simulate runs a schedule. The world knows the invariant that it has broken.
func simulate(t *testing.T, s *schedule, trace bool) (w *world) {
	t.Helper()
	scratch, err := os.MkdirTemp("/dev/shm", "simulate-") // in memory, where there is such a directory
	if err != nil {
		scratch = t.TempDir()
	}
	defer os.RemoveAll(scratch)
	activityContext() // made outside of the bubble
	cryptotest.SetGlobalRandom(t, s.seed)
	watchdog := time.AfterFunc(time.Minute, func() {
		debug.SetTraceback("all")
		panic("the simulation does not come to rest: a lock is held over a call") //nolint:forbidigo // nothing else ends a bubble
	})
	defer watchdog.Stop()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(s, scratch)
		w.tracing = trace
		w.play()
		w.end()
	})
	return w
}

// number returns the value of an environment variable.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// Runs of every kind keep the invariants, whatever happens to them. SEED is the first seed, SEEDS how many
// there are. With SIMULATED, a file, the seeds go on where the last ones ended.
func TestSimulate(t *testing.T) {
	seed, seeds := number("SEED", 1), number("SEEDS", 25)
	trace := os.Getenv("TRACE") != ""
	file := os.Getenv("SIMULATED")
	if file != "" && os.Getenv("SEED") == "" {
		if text, err := os.ReadFile(file); err == nil {
			seed, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
			require.NoError(t, err, file)
		}
	}
	began, events, last := time.Now(), 0, seed+seeds
	for n := seed; n < last; n++ {
		w := simulate(t, seeded(n), trace)
		events += w.count
		for _, line := range w.trace {
			fmt.Println(line)
		}
		if trace {
			fmt.Print(scriptOf(w.made))
		}
		if w.broken != nil {
			t.Errorf("seed %d: %v\n%s", n, w.broken, explain(t, w))
			if os.Getenv("FIRST") != "" {
				break
			}
		}
		if file != "" && os.Getenv("SEED") == "" && (n+1 == last || n%100 == 0) {
			require.NoError(t, os.WriteFile(file, []byte(strconv.FormatUint(n+1, 10)+"\n"), 0o644))
		}
	}
	t.Logf("seeds %d to %d: %d events, %v a seed", seed, last-1, events, (time.Since(began) / time.Duration(seeds)).Round(time.Millisecond))
}

// explain shrinks the schedule of a run that has failed, and returns it as a script.
func explain(t *testing.T, w *world) string {
	t.Helper()
	fails := func(decisions []decision) bool {
		again := simulate(t, scripted(decisions), false)
		return again.broken != nil && again.broken.name == w.broken.name
	}
	if !fails(w.made) {
		return "it does not fail again\n" + scriptOf(w.made)
	}
	few := shrink(w.made, int(number("TRIES", 300)), fails)
	again := simulate(t, scripted(few), true)
	return fmt.Sprintf("%d decisions:\n%s%v\n%s", len(few), scriptOf(few), again.broken, strings.Join(again.trace, "\n"))
}

// A script is the schedule of a run that has once broken an invariant.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			w := simulate(t, scripted(parseScript(string(text))), true)
			require.NoError(t, w.violated(), strings.Join(w.trace, "\n"))
		})
	}
}

// A run depends on its schedule only: a seed gives the same run again, and so does the script of its decisions. Of
// SEEDS seeds each is repeated TIMES times.
func TestSimulate_isDeterministic(t *testing.T) {
	for n := range number("SEEDS", 10) {
		first := simulate(t, seeded(n), true)
		for time := range number("TIMES", 3) {
			s := seeded(n)
			if time%2 == 0 {
				s = scripted(first.made)
			}
			again := simulate(t, s, true)
			if !slices.Equal(first.trace, again.trace) {
				at := 0
				for at < min(len(first.trace), len(again.trace)) && first.trace[at] == again.trace[at] {
					at++
				}
				t.Errorf("seed %d differs at %d: %s\nand\n%s", n, at, strings.Join(first.trace[max(0, at-3):min(at+4, len(first.trace))], "\n"), strings.Join(again.trace[max(0, at-3):min(at+4, len(again.trace))], "\n"))
				break
			}
		}
	}
}

// A script of SCRIPT breaks the invariant BREAKS, ten times of ten. It is run on a product with a fault.
func TestScript_breaks(t *testing.T) {
	file := os.Getenv("SCRIPT")
	if file == "" {
		t.Skip("SCRIPT names a file of testdata/faults")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, script, _ := strings.Cut(string(text), "----\n")
	for range 10 {
		w := simulate(t, scripted(parseScript(script)), false)
		require.NotNil(t, w.broken, "no invariant is broken")
		require.Contains(t, os.Getenv("BREAKS"), w.broken.name)
	}
}
