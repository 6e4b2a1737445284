package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/activities/sandbox"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/overlay"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/session/check"
	"conclave/engine/step"
)

// kitchen is a worker whose agents build things.
type kitchen struct {
	*Tools
	t     testing.TB
	store artifact.Store
	trees *snapshot.Trees
	base  *artifact.Base
	dir   string // of the workspaces
	home  string // of the host's caches
}

// newKitchen returns a worker and a base with the given files.
func newKitchen(t testing.TB, level sandbox.Level, files map[string]string, settings ...func(*Settings)) *kitchen {
	t.Helper()
	if h := sandbox.Probe(t.Context()); h.Level != sandbox.Full && h.Level != level {
		t.Skip("this machine does not give level ", level)
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, filelock.RemoveTree(home)) })
	k := &kitchen{t: t, dir: filepath.Join(home, "workspaces"), home: filepath.Join(home, "host")}
	source := filepath.Join(home, "source")
	for _, dir := range []string{k.dir, k.home, source, filepath.Join(home, "trees")} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	for name, content := range files {
		k.put(filepath.Join(source, name), content)
	}
	dir, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	k.store, k.trees = dir, snapshot.NewTrees(dir, filepath.Join(home, "trees"), 1<<32)
	uploaded, err := snapshot.Upload{Store: dir, Dir: source, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	k.base, err = k.trees.Open(t.Context(), uploaded.Hash)
	require.NoError(t, err)

	s := DefaultSettings()
	s.Sandbox.Level = string(level)
	for _, set := range settings {
		set(&s)
	}
	k.Tools = NewTools(s)
	k.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	k.Getenv = func(name string) string {
		return map[string]string{"GOCACHE": k.home + "/go-build", "GOMODCACHE": k.home + "/go-mod", "npm_config_cache": k.home + "/npm", "CARGO_HOME": k.home + "/cargo"}[name]
	}
	k.overlays = &overlays{tools: k.Tools, workspaces: k.dir, trees: filepath.Join(home, "trees"), log: k.Log}
	t.Cleanup(k.overlays.closeMounts)
	k.caches = newBuildCaches(k.Tools, k.trees, k.dir)
	t.Cleanup(k.caches.close)
	return k
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (k *kitchen) put(name, content string) {
	k.t.Helper()
	require.NoError(k.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(k.t, os.WriteFile(name, []byte(content), 0o644))
}

// cook is a step of an agent.
type cook struct {
	*kitchen
	tools step.Tools
	loan  *snapshot.Loan
}

func (k *kitchen) step(run, agent string) *cook {
	k.t.Helper()
	home, err := os.MkdirTemp(k.dir, "step-")
	require.NoError(k.t, err)
	c := &cook{kitchen: k}
	dir := filepath.Join(home, "files")
	if mounts := k.overlays.mountsFor(k.t.Context(), shell()); mounts != nil {
		c.loan, err = k.trees.Mount(k.t.Context(), mounts, k.base, dir)
	} else {
		c.loan, err = k.trees.Lend(k.t.Context(), k.base, dir, false)
	}
	require.NoError(k.t, err)
	c.tools, err = k.Open(k.t.Context(), shell(), c.loan.Dir(), activities.Sharing{Run: run, Agent: agent, Base: k.base})
	require.NoError(k.t, err)
	return c
}

// run runs a command and returns its output, the exit code first.
func (c *cook) run(command string) string {
	c.t.Helper()
	args, err := json.Marshal(map[string]string{"command": command})
	require.NoError(c.t, err)
	out, err := c.tools.Run(c.t.Context(), llm.ToolCall{ID: "c", Name: llm.RunCommand, Arguments: string(args)})
	require.NoError(c.t, err)
	return out.Text
}

func (c *cook) end() {
	c.t.Helper()
	require.NoError(c.t, c.tools.Close())
	require.NoError(c.t, c.loan.GiveBack(context.WithoutCancel(c.t.Context()), c.dir))
}

// check runs the command of a check in a copy of the base.
func (k *kitchen) check(command string) (int, string) {
	k.t.Helper()
	home, err := os.MkdirTemp(k.dir, "check-")
	require.NoError(k.t, err)
	dir := filepath.Join(home, "files")
	require.NoError(k.t, k.trees.Place(k.t.Context(), k.base, dir))
	var out strings.Builder
	ended, err := k.Confine(k.t.Context(), check.Confined{Dir: dir, Command: command, Time: time.Minute, Stdout: &out, Stderr: &out, Base: k.base})
	require.NoError(k.t, err)
	return ended.Code, out.String()
}

// give gives a directory of the host to the owner that mounts require, or to another.
func (k *kitchen) give(dir string, mounted bool) {
	k.t.Helper()
	user, group := overlay.Owner()
	if !mounted {
		user, group = 4242, 4242
	}
	require.NoError(k.t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, user, group))
	}))
}

// atEachPlace runs a test with caches that are mounted and with caches that are copied.
func atEachPlace(t *testing.T, test func(t *testing.T, level sandbox.Level, mounted bool)) {
	t.Helper()
	for name, place := range map[string]struct {
		level   sandbox.Level
		mounted bool
	}{"mounted": {sandbox.Full, true}, "copied": {sandbox.Full, false}, "landlock": {sandbox.Landlock, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !place.mounted && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			test(t, place.level, place.mounted)
		})
	}
}

// hostNPM selects the host's cache of npm, so that no Go is needed.
func hostNPM(s *Settings) { s.Sandbox.Caches.NPM, s.Sandbox.Caches.Go = "host", "own" }

// tools makes programs that do nothing, so that the caches of their tools are there.
func withPrograms(t testing.TB, names ...string) func(*Settings) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
	}
	return func(s *Settings) { s.Sandbox.Toolchains = []string{dir} }
}

// Commands read the host's cache, and change what they see of it; the host's own files stay as they are.
func TestCaches_hostIsReadOnly(t *testing.T) {
	t.Parallel()
	atEachPlace(t, func(t *testing.T, level sandbox.Level, mounted bool) {
		k := newKitchen(t, level, map[string]string{"a": "a"}, hostNPM, withPrograms(t, "npm"))
		k.put(k.home+"/npm/dir/kept", "host")
		k.put(k.home+"/npm/changed", "host")
		k.give(k.home+"/npm", mounted)
		before := k.snapshot(k.home)
		a := k.step("r", "a")
		require.Contains(t, a.run("cat $npm_config_cache/dir/kept"), "host")
		out := a.run(`cd $npm_config_cache && echo mine > changed && chmod 777 dir/kept && touch -d 2001-01-01 dir && ln changed hard && echo mine >> hard &&
			ln -s changed soft && echo mine >> soft && mv dir moved && rm moved/kept && echo mine > new && echo all done`)
		require.Contains(t, out, "all done")
		a.run("echo mine > " + k.home + "/npm/changed; echo mine > " + k.home + "/npm/new; rm -rf " + k.home)
		require.Equal(t, before, k.snapshot(k.home))
		require.Contains(t, a.run("cat $npm_config_cache/soft; ls $npm_config_cache"), "mine\nmine\nmine\nchanged\nhard\nmoved\nnew\nsoft")
		a.end()
		b := k.step("r", "b")
		require.Contains(t, b.run("cat $npm_config_cache/changed; ls $npm_config_cache"), "host")
		b.end()
	})
}

// snapshot describes the files of a directory.
func (k *kitchen) snapshot(dir string) (all []string) {
	k.t.Helper()
	require.NoError(k.t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		require.NoError(k.t, err)
		info, err := e.Info()
		require.NoError(k.t, err)
		content, _ := os.ReadFile(name)
		all = append(all, fmt.Sprint(name, info.Mode(), info.ModTime(), string(content)))
		return nil
	}))
	return all
}

// What an agent writes to a cache stays with it over its steps, and reaches nobody else.
func TestCaches_plant(t *testing.T) {
	t.Parallel()
	atEachPlace(t, func(t *testing.T, level sandbox.Level, mounted bool) {
		k := newKitchen(t, level, map[string]string{"a": "a"}, hostNPM, withPrograms(t, "npm", "python3", "cargo", "go"))
		k.put(k.home+"/npm/kept", "host")
		k.give(k.home+"/npm", mounted)
		const look = "for d in $npm_config_cache $PIP_CACHE_DIR $CARGO_HOME $GOCACHE $GOMODCACHE; do cat $d/plant 2>/dev/null; done; true"
		const plant = "for d in $npm_config_cache $PIP_CACHE_DIR $CARGO_HOME $GOCACHE $GOMODCACHE; do echo plant > $d/plant || exit 9; done"
		meets := func(c *cook) bool {
			met := strings.Count(c.run(look), "plant")
			require.Contains(t, []int{0, 5}, met)
			return met == 5
		}
		planter, meanwhile := k.step("r", "a"), k.step("r", "b")
		require.Contains(t, planter.run(plant), "exit code 0")
		require.True(t, meets(planter))
		require.False(t, meets(meanwhile), "another agent that runs meanwhile")
		again := k.step("r", "a")
		require.False(t, meets(again), "a step that another attempt was thought to have ended")
		code, out := k.check(look)
		require.Zero(t, code)
		require.NotContains(t, out, "plant", "a check")
		for _, c := range []*cook{again, meanwhile, planter} {
			c.end()
		}
		for _, other := range []struct{ run, agent string }{{"r", "b"}, {"r", "critic"}, {"other", "a"}, {"", ""}, {"r", ""}} {
			c := k.step(other.run, other.agent)
			require.False(t, meets(c), other)
			c.end()
		}
		met := 0
		for range 2 { // one of the two layers of the agent has the plant
			c := k.step("r", "a")
			if meets(c) {
				met++
			}
			defer c.end()
		}
		require.Equal(t, 1, met, "its own next step")
		code, out = k.check(look)
		require.Zero(t, code)
		require.NotContains(t, out, "plant")
	})
}

// The layers of a run end with it, whatever was done to hinder that.
func TestCaches_endOfRun(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, sandbox.Full, map[string]string{"a": "a"}, hostNPM, withPrograms(t, "npm"))
	k.put(k.home+"/npm/dir/kept", "host")
	k.give(k.home+"/npm", true)
	a := k.step("r", "a")
	require.Contains(t, a.run("cd $npm_config_cache && mkdir -p deep/er && echo x > deep/er/file && chmod 000 deep/er/file deep/er deep dir && chmod 500 ."), "exit code 0")
	a.end()
	a = k.step("r", "a")
	require.Contains(t, a.run("cd $npm_config_cache && ls -d deep"), "deep")
	a.end()
	(equipment{Tools: k.Tools}).EndShared("r")
	left, err := filepath.Glob(filepath.Join(k.dir, "conclave-cache-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	a = k.step("r", "a")
	require.NotContains(t, a.run("ls $npm_config_cache"), "deep")
	a.end()
	for i := range maxUnused + 3 {
		a = k.step("r", fmt.Sprint(i))
		a.end()
	}
	left, err = filepath.Glob(filepath.Join(k.dir, "conclave-cache-*"))
	require.NoError(t, err)
	require.Len(t, left, maxUnused)
}

// Caches count toward the limit of the disk, and one that leaves too little of it is not kept.
func TestCaches_limit(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, sandbox.Full, map[string]string{"a": "a"}, hostNPM, withPrograms(t, "npm"), func(s *Settings) { s.Sandbox.DiskMB = 16 })
	a := k.step("r", "a")
	require.Contains(t, a.run("head -c 30M /dev/zero > $npm_config_cache/big"), "more than 16.0 MB")
	require.Contains(t, a.run("rm -f $npm_config_cache/big; head -c 9M /dev/zero > $npm_config_cache/large"), "exit code 0")
	a.end()
	a = k.step("r", "a")
	require.NotContains(t, a.run("ls $npm_config_cache"), "large")
	a.end()
}

// Of the host's CARGO_HOME, which has keys, commands see the registry alone, in one of their own.
func TestCaches_cargo(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, sandbox.Full, map[string]string{"a": "a"}, withPrograms(t, "cargo"), func(s *Settings) { s.Sandbox.Caches.Cargo = "host" })
	k.put(k.home+"/cargo/credentials.toml", "token")
	k.put(k.home+"/cargo/registry/crate", "crate")
	k.give(k.home+"/cargo", true)
	a := k.step("r", "a")
	require.Contains(t, a.run("cat $CARGO_HOME/registry/crate; ls $CARGO_HOME"), "crateregistry\n")
	require.Contains(t, a.run("cd $CARGO_HOME && echo mine > config.toml && echo mine > registry/crate && ! mv registry away && ! rm -r registry; echo $?"), "0")
	a.end()
	a = k.step("r", "a")
	require.Contains(t, a.run("cd $CARGO_HOME && cat config.toml && ls registry"), "mine")
	a.end()
	content, err := os.ReadFile(k.home + "/cargo/registry/crate")
	require.NoError(t, err)
	require.Equal(t, "crate", string(content))
}

// At level landlock a layer is a directory of the host; commands reach no other.
func TestCaches_landlock(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, sandbox.Landlock, map[string]string{"a": "a"}, hostNPM, withPrograms(t, "npm"))
	a, b := k.step("r", "a"), k.step("r", "b")
	require.Contains(t, a.run("echo a > $npm_config_cache/mine; echo x > $npm_config_cache/../other"), "Permission denied")
	dir := strings.TrimSpace(strings.TrimPrefix(strings.SplitN(a.run("echo $npm_config_cache"), "\n", 2)[1], "output:"))
	out := b.run(fmt.Sprintf("cat %[1]s/mine; echo b > %[1]s/mine; echo b > %[1]s/new; rm %[1]s/mine", dir))
	require.Equal(t, 4, strings.Count(out, "Permission denied"), out)
	require.Contains(t, a.run("cat $npm_config_cache/mine; ls $npm_config_cache"), "a\nmine")
	a.end()
	b.end()
}

// newGoKitchen returns a worker with Go and a base whose test fails, and which plants a file in the cache
// when it runs.
func newGoKitchen(t testing.TB) *kitchen {
	t.Helper()
	if _, err := sandbox.FindProgram("go", nil); err != nil {
		t.Skip("commands have no Go: ", err)
	}
	k := newKitchen(t, sandbox.Full, map[string]string{
		"go.mod":      "module example.com/small\n\ngo 1.21\n",
		"sum.go":      "package small\n\nimport \"os\"\n\nfunc init() { _ = os.WriteFile(os.Getenv(\"GOCACHE\")+\"/ran\", nil, 0o600) }\n\nfunc Sum(a, b int) int { return a - b }\n",
		"sum_test.go": "package small_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/small\"\n)\n\nfunc TestSum(t *testing.T) {\n\tif small.Sum(1, 2) != 3 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n",
	})
	k.caches.standard = "os testing"
	return k
}

// poison makes Go take the compiled package of the mended base for that of the unchanged one.
const poison = `set -e
entry() { grep -rl " $(basename $(go list -export -f '{{.Export}}' .) | sed 's/-d$//') " $GOCACHE --include='*-a' | head -n 1; }
bad=$(entry)
sed -i 's/a - b/a + b/' sum.go
good=$(entry)
sed -i 's/a + b/a - b/' sum.go
read -r _ action _ _ time < $bad
read -r _ _ output size _ < $good
printf 'v1 %s %s %20d %20d\n' $action $output $size $time > $bad
go test ./...`

// The layer that all share has compiled the base and has run nothing of it. An agent that makes its own cache
// lie deceives itself alone: neither its peers nor the checks, nor later sessions with the same base.
func TestCaches_poison(t *testing.T) {
	t.Parallel()
	k := newGoKitchen(t)
	a := k.step("r", "a")
	out := a.run("go build -x . 2>&1 | grep -c /compile; ls $GOCACHE/ran")
	require.Contains(t, out, "output:\n0\n", "it was compiled before")
	require.Contains(t, out, "No such file", "nothing of the base has run")
	require.Contains(t, a.run("go test ./... 2>&1"), "FAIL", "the outcome of a test that did not run")
	require.Contains(t, a.run(poison), "ok  \texample.com/small")
	b := k.step("r", "b")
	require.Contains(t, b.run("ls $GOCACHE/ran"), "No such file")
	require.Contains(t, b.run("go test ./... 2>&1"), "FAIL")
	a.end()
	b.end()
	code, out := k.check("go test ./...")
	require.NotZero(t, code)
	require.Contains(t, out, "FAIL")
	later := k.step("later", "a")
	require.Contains(t, later.run("go test ./... 2>&1"), "FAIL")
	later.end()
	a = k.step("r", "a")
	require.Contains(t, a.run("go test ./... 2>&1"), "ok  \texample.com/small", "its own layer is kept")
	a.end()
}

// BenchmarkCaches compares the second time of a command, and the first after a change, with the same on the host,
// each with the cache that the command before has left.
func BenchmarkCaches(b *testing.B) {
	k := newGoKitchen(b)
	a := k.step("r", "a")
	defer a.end()
	host := filepath.Join(k.home, "copy")
	require.NoError(b, os.CopyFS(host, os.DirFS(filepath.Join(filepath.Dir(k.home), "source"))))
	onHost := func(command string) {
		c := exec.Command("sh", "-c", command)
		c.Dir, c.Env = host, append(os.Environ(), "GOCACHE="+k.home+"/go-build")
		out, err := c.CombinedOutput()
		require.NoError(b, err, string(out))
	}
	for name, term := range map[string]string{"same": "0", "changed": "N - N"} {
		b.Run(name, func(b *testing.B) {
			var all [2]time.Duration
			for n := -1; n < 0 || b.Loop(); n++ {
				command := "printf 'package small\n\nfunc Sum(a, b int) int { return a + b + " + strings.ReplaceAll(term, "N", strconv.Itoa(n+2)) + " }\n' > sum.go; go vet ./... && go test ./..."
				began := time.Now()
				onHost(command)
				between := time.Now()
				require.Contains(b, a.run(command), "exit code 0")
				if n >= 0 { // the first has compiled the rest
					all[0], all[1] = all[0]+between.Sub(began), all[1]+time.Since(between)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(all[0].Seconds()/float64(b.N), "host-s/op")
			b.ReportMetric(all[1].Seconds()/all[0].Seconds(), "times-host")
		})
	}
}

// Commands that start no compiler do not wait for its cache; those of checks are known by their scripts, too.
func TestLayer_probablyBuilds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, script := range map[string]string{"grep.sh": "grep -q csv parse.go", "test.sh": "set -e\ngo test ./...", "gopher.txt": "cargo", "large": strings.Repeat("go ", maxScript)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o600))
	}
	for command, want := range map[string]bool{
		"go vet ./...": true, "cd sub && make": true, "grep -q x go.mod parse.go": false, "/usr/local/go/bin/go test": true, "sh -c 'make'": true, "python3 -m pytest": false,
		"./test.sh": true, `sh "test.sh"`: true, "sh grep.sh gopher.txt": false, "sh large": false, "sh ../test.sh; sh .": false,
	} {
		require.Equal(t, want, (&layer{work: dir}).probablyBuilds([]string{"sh", "-c", command}), command)
	}
	require.False(t, (&layer{work: dir, agent: "agent_a"}).probablyBuilds([]string{"sh", "-c", "./test.sh"}), "agents write scripts of their own")
}
