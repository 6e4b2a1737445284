package step_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// seen is the state that a step finds when its tools open.
type seen struct {
	inode uint64 // of main.go
	names []string
}

// runOn runs a step on a worker's trees and returns the state that it found.
func runOn(t *testing.T, b *bench, trees *snapshot.Trees, token string, change func(*step.Ports)) (found seen) {
	t.Helper()
	b.spec.Token, b.spec.Shown.Peers = token, nil
	ports := b.ports(writeCall("new.go", token), writeCall("src/a.go", token), done("It is "+token))
	ports.Trees = trees
	ports.Tools = step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
		info, err := os.Lstat(filepath.Join(dir, "main.go"))
		require.NoError(t, err)
		found.inode = artifact.Identify(info).Inode
		for _, pattern := range []string{"*", "*/*"} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			require.NoError(t, err)
			for _, name := range names {
				rel, _ := filepath.Rel(dir, name)
				found.names = append(found.names, rel)
			}
		}
		return tools.Open(ctx, dir, tools.Set{Files: true})
	})
	if change != nil {
		change(&ports)
	}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	return found
}

// Steps of a worker use the same copy of the base in turn, and none finds the files of another.
func TestBase_copyIsReused(t *testing.T) {
	t.Parallel()
	b, _ := basedBench(t)
	trees := snapshot.NewTrees(b.store, t.TempDir(), 1<<30)
	stored, err := trees.Open(t.Context(), b.spec.Layout.Base().Hash())
	require.NoError(t, err)
	b.spec.Layout = b.spec.Layout.On(stored)
	want := []string{"base", "gone.txt", "main.go", "src", "src/a.go"}
	first := runOn(t, b, trees, "run-l1", nil)
	require.Equal(t, want, first.names)
	require.Len(t, spares(t, b), 1, "the workspace")
	second := runOn(t, b, trees, "run-l2", nil)
	require.Len(t, spares(t, b), 1)
	require.Equal(t, want, second.names)
	homes, err := filepath.Glob(filepath.Join(b.scratch, "conclave-step-*"))
	require.NoError(t, err)
	require.Empty(t, homes)
}

func spares(t *testing.T, b *bench) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.scratch, "conclave-spare-*"))
	require.NoError(t, err)
	return found
}

// An answer is written once for the steps of a worker that see it, and none sees what another
// did to it.
func TestMount_answersAreReused(t *testing.T) {
	t.Parallel()
	r := &rules{}
	b := newBench(t, r)
	files := []string{"main.go", "theirs"}
	for n := range 40 {
		files = append(files, fmt.Sprintf("f%d", n), fmt.Sprint(n))
	}
	b.spec.Shown.Peers = []step.Peer{b.peer(2, files...)}
	trees := snapshot.NewTrees(b.store, t.TempDir(), 1<<30)
	var inodes []uint64
	for n := range 3 {
		b.spec.Token = fmt.Sprintf("run-l%d", n)
		ports := b.ports(read("peers/agent2/main.go"), copyPath("peers/agent2", "."), read("main.go"), read("peers/agent2/main.go"), done(b.spec.Token))
		ports.Trees = trees
		shown := func(name string) string { return filepath.Join(b.work, "peers/agent2", name) }
		r.updates = at(map[int]func(context.Context){
			0: func(context.Context) { // until every later change shows
				var is artifact.Identity
				require.Eventually(t, func() bool {
					info, err := os.Lstat(shown("f39"))
					require.NoError(t, err)
					is = artifact.Identify(info)
					return is.Settled(time.Now().UnixNano())
				}, time.Minute, time.Millisecond)
				inodes = append(inodes, is.Inode)
			},
			3: func(context.Context) {
				require.NoError(t, os.Chmod(shown("main.go"), 0o644))
				require.NoError(t, os.WriteFile(shown("main.go"), []byte("altered"), 0o644))
			},
		})
		_, err := step.Run(t.Context(), ports, b.spec)
		require.NoError(t, err)
		told := results(r.learned)
		require.Equal(t, "theirs", told[0])
		require.Contains(t, told[1], "copied 41 files")
		require.Equal(t, []string{"theirs", "altered"}, told[2:4], "the copy, and what this step alone has altered")
		r.learned = nil
	}
	require.Equal(t, inodes[0], inodes[1])
	require.Equal(t, inodes[1], inodes[2])
	require.Len(t, spares(t, b), 1)
}

// The unchanged base is copied before the first call that may read it.
func TestBase_unchangedOnDemand(t *testing.T) {
	t.Parallel()
	list := func(path, glob string) llm.Message {
		return call("list_files", map[string]string{"path": path, "glob": glob})
	}
	for name, tt := range map[string]struct {
		replies []llm.Message
		copies  int
	}{
		"never":          {[]llm.Message{read("main.go"), read("../base"), read("missing"), list("", "**"), list(".", ""), copyPath("main.go", "other.go"), call("read_file", nil)}, 1},
		"refused writes": {[]llm.Message{writeCall("new", "x"), call(step.AdoptFiles, map[string]string{"agent_id": "agent2"})}, 1},
		"read":           {[]llm.Message{read("./base/main.go")}, 2},
		"listed":         {[]llm.Message{list("base", "")}, 2},
		"other case":     {[]llm.Message{read("BASE/main.go")}, 2},
		"copied":         {[]llm.Message{copyPath("base/main.go", "other.go"), read("base/main.go")}, 2},
		"through a link": {[]llm.Message{read("to-base/main.go")}, 2},
		"another tool":   {[]llm.Message{call("run_command", map[string]string{"command": "ls base"})}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := basedBench(t)
			trees := snapshot.NewTrees(b.store, t.TempDir(), 1<<30)
			ports := b.ports(append(tt.replies, done("Two."))...)
			ports.Trees = trees
			ports.Model = &linking{Model: ports.Model, at: 1, then: writeCall("first", "x"), do: func() {
				require.NoError(t, os.Symlink("base", filepath.Join(b.work, "to-base")))
			}}
			_, err := step.Run(t.Context(), ports, b.spec)
			require.NoError(t, err)
			require.Len(t, spares(t, b), tt.copies)
		})
	}
}

// Tools that may read the unchanged base at any time find it from the start.
func TestBase_unchangedForLastingTools(t *testing.T) {
	t.Parallel()
	b, _ := basedBench(t)
	ports := b.ports()
	ports.Tools = toolbox{Toolbox: ports.Tools, repeatable: func(string) bool { return false }}
	ports.Model = &linking{Model: ports.Model, at: 1, then: done("Two."), do: func() {
		require.FileExists(t, filepath.Join(b.work, "base", "main.go"))
	}}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
}

// A read-only directory that a call has renamed, removed or replaced is restored after the call,
// and nothing else is written.
func TestBase_readOnlyDirectoriesComeBack(t *testing.T) {
	t.Parallel()
	victim := t.TempDir()
	require.NoError(t, os.Chmod(victim, 0o500))
	for name, spoil := range map[string]func(dir string) error{
		"renamed": func(dir string) error { return os.Rename(filepath.Join(dir, "base"), filepath.Join(dir, "old")) },
		"removed": func(dir string) error { return filelock.RemoveTree(filepath.Join(dir, "base")) },
		"file": func(dir string) error {
			return errors.Join(filelock.RemoveTree(filepath.Join(dir, "base")), os.WriteFile(filepath.Join(dir, "base"), nil, 0o600))
		},
		"link": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "base"), filepath.Join(dir, "old")), os.Symlink(victim, filepath.Join(dir, "base")))
		},
		"directory above": func(dir string) error {
			return errors.Join(filelock.RemoveTree(filepath.Join(dir, "context")), os.Symlink(victim, filepath.Join(dir, "context")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := basedBench(t)
			b.spec.Shown.Context = []step.Context{{Name: "docs", Files: b.storedDir("guide.md", "Read me.\n")}}
			ports := b.ports(read("base/main.go"), read("base/main.go"), read("context/docs/guide.md"), call("list_files", nil), done("Two."))
			ports.Model = &linking{Model: ports.Model, at: 2, then: call(step.AdoptFiles, map[string]string{"agent_id": "agent2"}), do: func() {
				require.NoError(t, spoil(b.work))
			}}
			_, err := step.Run(t.Context(), ports, b.spec)
			require.NoError(t, err)
			told := results(r.learned)
			require.Contains(t, told[2], "one\n")
			require.Contains(t, told[3], "Read me.")
			require.NotContains(t, told[4], "old")
			left, err := os.ReadDir(victim)
			require.NoError(t, err)
			require.Empty(t, left)
			info, err := os.Stat(victim)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o500), info.Mode().Perm())
		})
	}
}

// spoiling are tools whose calls do something else.
type spoiling struct {
	openTools
	do func()
}

type openTools = step.Tools

func (s spoiling) Run(context.Context, llm.ToolCall) (loop.Output, error) {
	s.do()
	return loop.Output{}, nil
}

// A step whose read-only directory cannot be restored fails and leaves nothing.
func TestBase_readOnlyDirectoryIsLost(t *testing.T) {
	t.Parallel()
	b, _ := basedBench(t)
	b.spec.Adopts = false
	b.spec.Shown.Context = []step.Context{{Name: "docs", Files: b.storedDir("guide.md", "Read me.\n")}}
	ctx, cancel := context.WithCancel(t.Context())
	ports := b.ports(writeCall("new", "x"))
	open := ports.Tools
	ports.Tools = step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
		opened, err := open.OpenTools(ctx, dir)
		return spoiling{opened, func() {
			require.NoError(t, filelock.RemoveTree(filepath.Join(dir, "context")))
			cancel()
		}}, err
	})
	_, err := step.Run(ctx, ports, b.spec)
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(b.scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A copy to which a process may still write is not lent again.
func TestBase_copyOfLastingTools(t *testing.T) {
	t.Parallel()
	b, _ := basedBench(t)
	trees := snapshot.NewTrees(b.store, t.TempDir(), 1<<30)
	runOn(t, b, trees, "run-l1", func(p *step.Ports) {
		p.Tools = toolbox{Toolbox: p.Tools, repeatable: func(tool string) bool { return tool != llm.FileTools()[0].Name }}
	})
	left, err := os.ReadDir(b.scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// After calls of file tools only the files that they wrote are scanned. Other tools and the answer
// cause a walk of the directory.
func TestTouched_scansWhatToolsWrote(t *testing.T) {
	t.Parallel()
	for how, change := range map[string]func(*step.Ports){
		"named": nil,
		"walk": func(p *step.Ports) {
			p.Tools = toolbox{Toolbox: p.Tools, repeatable: func(string) bool { return false }}
		},
	} {
		b := newBench(t, &rules{})
		ports := b.ports(writeCall("mine", "x"))
		ports.Tools = step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "unnoticed"), nil, 0o644))
			return tools.Open(ctx, dir, tools.Set{Files: true})
		})
		if change != nil {
			change(&ports)
		}
		result, err := step.Run(t.Context(), ports, b.spec)
		require.ErrorIs(t, err, errScriptOver)
		var names []string
		for _, f := range result.Partial.Changed {
			names = append(names, f.Path)
		}
		require.Equal(t, map[string][]string{"named": {"mine"}, "walk": {"mine", "unnoticed"}}[how], names)
	}
}

// A refused or failed call also causes a scan.
func TestTouched_answerHasEveryFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, &rules{})
	ports := b.ports(writeCall("a/b", "x"), writeCall("a", "refused"), writeCall("c", "y"), writeCall("c", "z"), done("done"))
	result, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	m, err := artifact.LoadManifest(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
	require.NoError(t, err)
	require.Len(t, m.Files, 2)
	require.Equal(t, "a/b", m.Files[0].Path)
	require.EqualValues(t, 1, m.Files[1].Size)
}
