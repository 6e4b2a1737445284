//go:build simulate

package stagetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// planted is a fault of the product, in one file, and the invariants that it may break.
type planted struct {
	name, file     string
	before, after  string
	breaks, script string
}

// readPlanted reads a file of testdata/faults: a comment, the product's file, the lines to replace with - and
// those in their place with +, the invariants, and the script that finds the fault.
func readPlanted(t *testing.T, name string) (p planted) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	head, script, _ := strings.Cut(string(text), "----\n")
	p.name, p.script = strings.TrimSuffix(filepath.Base(name), ".txt"), script
	for line := range strings.Lines(head) {
		switch {
		case strings.HasPrefix(line, "file: "):
			p.file = strings.TrimSpace(line[len("file: "):])
		case strings.HasPrefix(line, "breaks: "):
			p.breaks = strings.TrimSpace(line[len("breaks: "):])
		case strings.HasPrefix(line, "-"):
			p.before += line[1:]
		case strings.HasPrefix(line, "+"):
			p.after += line[1:]
		}
	}
	return p
}

// build builds the simulation with the fault in the product.
func (p planted) build(t *testing.T, root string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(root, p.file)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), p.before), "%s has the lines to replace once:\n%s", p.file, p.before)
	replaced := filepath.Join(dir, "replaced.go")
	require.NoError(t, os.WriteFile(replaced, []byte(strings.Replace(string(source), p.before, p.after, 1)), 0o644))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: replaced}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644))
	binary = filepath.Join(dir, "simulate.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-tags", "simulate", "-vet=off", "-ldflags=-w", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// run runs a test of the simulation.
func (p planted) run(ctx context.Context, binary, test string, env ...string) (string, error) {
	command := exec.CommandContext(ctx, binary, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "2h")
	command.Env = append(os.Environ(), append(env, "TEMPORAL_DEBUG=1", "SIMULATED=", "BREAKS="+p.breaks)...)
	out, err := command.CombinedOutput()
	return string(out), err
}

var found = regexp.MustCompile(`seed (\d+): ([^:]+): `)

// Each planted fault is found within PLANTED seeds, and by its script ten times of ten. FAULT chooses one.
func TestPlanted(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.txt")
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, file := range files {
		p := readPlanted(t, file)
		if only := os.Getenv("FAULT"); only != "" && !strings.Contains(p.name, only) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			binary := p.build(t, root)
			if p.script != "" {
				out, err := p.run(t.Context(), binary, "TestScript_breaks", "SCRIPT="+file)
				require.NoError(t, err, "%s", out)
			}
			most := number("PLANTED", 0)
			if most == 0 {
				return
			}
			began := time.Now()
			for seed := uint64(1); seed <= most; seed += 500 {
				out, err := p.run(t.Context(), binary, "TestSimulate", fmt.Sprintf("SEED=%d", seed), "SEEDS=500", "FIRST=1")
				if err == nil {
					continue
				}
				hit := found.FindStringSubmatch(out)
				require.NotNil(t, hit, "%s", out)
				require.Contains(t, p.breaks, hit[2], "%s", out)
				n, _ := strconv.Atoi(hit[1])
				t.Logf("%s: found by seed %d in %v\n%s", p.name, n, time.Since(began).Round(time.Second), out)
				return
			}
			t.Errorf("not found in %d seeds", most)
		})
	}
}
