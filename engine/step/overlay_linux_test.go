package step_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/files/overlay"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// TestMain lets this binary hold mounts.
func TestMain(m *testing.M) {
	overlay.RunHolder()
	os.Exit(m.Run())
}

var sandboxHost = sync.OnceValue(func() sandbox.Host { return sandbox.Probe(context.Background()) })

// mountedPorts gives a step a shell and, if mounts is not nil, mounts of its base.
func mountedPorts(t *testing.T, b *bench, trees *snapshot.Trees, mounts *overlay.Mounts, replies ...llm.Message) step.Ports {
	t.Helper()
	ports := b.ports(replies...)
	ports.Trees = trees
	ports.Tools = mounted{mounts: mounts, Toolbox: step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
		b.work = dir
		return tools.Open(ctx, dir, tools.Set{Files: true, Shell: &sandbox.Options{Level: sandbox.Full, Host: sandboxHost(), Tree: mounts.Tree(dir)}})
	})}
	return ports
}

// mounted is a toolbox with mounts.
type mounted struct {
	step.Toolbox
	mounts *overlay.Mounts
}

func (m mounted) Overlays(context.Context) *overlay.Mounts { return m.mounts }

func openMounts(t *testing.T) *overlay.Mounts {
	t.Helper()
	if sandboxHost().Level != sandbox.Full {
		t.Skip("this machine does not give level full: ", sandboxHost().Missing)
	}
	mounts, err := overlay.Open()
	if err != nil {
		t.Skip("this machine has no namespaces for this user: ", err)
	}
	t.Cleanup(mounts.Close)
	return mounts
}

// duration matches the first line of a command's result.
var duration = regexp.MustCompile(`^exit code (\d+), [0-9.]+ s`)

func command(line string) llm.Message { return call("run_command", map[string]string{"command": line}) }

// A step that is interrupted and resumed does the same in mounts as in copies, whatever its tools do.
func TestOverlay_asInCopies(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]llm.Message{
		"files": {
			writeCall("src/a.go", "mine\n"), writeCall("new/deep.go", "mine\n"), read("base/src/a.go"), read("peers/agent2/main.go"),
			call("list_files", map[string]string{"glob": "**"}), writeCall("base/main.go", "x"),
		},
		"commands": {
			writeCall("made/by/tool", "tool\n"),
			command("cat made/by/tool base/main.go peers/agent2.diff; echo command >> made/by/tool; echo command > made/by/command; chmod +x main.go"),
			command("mv src moved && rm gone.txt && ln -s main.go link && mkdir -p src/empty && echo again > src/a.go && ls -R . | sort"),
			writeCall("made/by/command", "tool\n"), command("rm -rf moved && mkdir moved && echo new > moved/a.go; cp -R base whole; chmod -R u+w whole; cat whole/gone.txt"),
			command("echo x > base/main.go; rm -rf base peers context 2>/dev/null; cat base/main.go context/docs/guide.md; ls peers"),
			command("rm -rf .conclave* && ls -A"),
		},
		"permissions": {
			command("chmod -R a-w . 2>/dev/null; mkdir -m 0 /tmp/closed; ls"), read("peers/agent3/main.go"),
			command("chmod u+w . && mkdir -m 0 closed && echo new > open"), command("chmod 0 src; cat main.go"),
		},
		"adopts": {
			writeCall("mine.go", "x"), command("rm -rf src; echo x > src"), call(step.AdoptFiles, map[string]string{"agent_id": "agent2"}),
			command("ls -R src"), call(step.AdoptFiles, map[string]string{"agent_id": "agent3"}), command("cat main.go"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mounts := openMounts(t)
			run := func(mounts *overlay.Mounts) (told []string, change artifact.Change) {
				b, r := basedBench(t)
				b.spec.Shown.Context = []step.Context{{Name: "docs", Files: b.storedDir("guide.md", "Read me.\n")}}
				late := b.peer(3, "main.go", "three\n")
				r.updates = at(map[int]func(context.Context){1: func(ctx context.Context) { require.NoError(t, b.mount(ctx, late)) }})
				trees := snapshot.NewTrees(b.store, t.TempDir(), 1<<30)
				half := len(script) / 2
				_, err := step.Run(t.Context(), mountedPorts(t, b, trees, mounts, script[:half]...), b.spec)
				require.ErrorIs(t, err, errScriptOver)
				resumed := &rules{}
				b.spec.Attempt.Number = 2
				b.spec.Open = func(a step.Access) (loop.Rules, []llm.Message, error) {
					return resumed, nil, a.Mount(t.Context(), late)
				}
				result, err := step.Run(t.Context(), mountedPorts(t, b, trees, mounts, append(script[half:len(script):len(script)], done("Two."))...), b.spec)
				require.NoError(t, err)
				require.Equal(t, mounts != nil, b.work[:6] == "/proc/", b.work)
				change, err = artifact.LoadChange(t.Context(), b.store, b.spec.Layout, result.Commit.Manifest)
				require.NoError(t, err)
				left, err := filepath.Glob(filepath.Join(b.scratch, "conclave-step-*"))
				require.NoError(t, err)
				require.Empty(t, left)
				for _, result := range results(resumed.learned) {
					told = append(told, duration.ReplaceAllString(result, "exit code $1"))
				}
				return told, change
			}
			told, change := run(nil)
			toldMounted, changeMounted := run(mounts)
			require.Equal(t, told, toldMounted)
			require.Equal(t, change, changeMounted)
		})
	}
}

// A step whose base has changed below the mount fails instead of taking the change for its own.
func TestOverlay_baseRemoved(t *testing.T) {
	t.Parallel()
	mounts := openMounts(t)
	b, _ := basedBench(t)
	kept := t.TempDir()
	ports := mountedPorts(t, b, snapshot.NewTrees(b.store, kept, 1<<30), mounts)
	ports.Model = &linking{Model: ports.Model, at: 1, then: done("Two."), do: func() {
		require.NoError(t, os.Remove(filepath.Join(kept, b.spec.Layout.Base().Hash(), "gone.txt")))
	}}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorContains(t, err, "have been changed")
}

// Without the holder of the mounts a step fails instead of finding an empty directory.
func TestOverlay_holderGone(t *testing.T) {
	t.Parallel()
	mounts := openMounts(t)
	b, _ := basedBench(t)
	ports := mountedPorts(t, b, snapshot.NewTrees(b.store, t.TempDir(), 1<<30), mounts)
	ports.Model = &linking{Model: ports.Model, at: 1, then: done("Two."), do: mounts.Close}
	_, err := step.Run(t.Context(), ports, b.spec)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, errScriptOver)
}

// A step that begins without the holder of the mounts works in copies.
func TestOverlay_holderGoneBefore(t *testing.T) {
	t.Parallel()
	mounts := openMounts(t)
	mounts.Close()
	b, _ := basedBench(t)
	ports := mountedPorts(t, b, snapshot.NewTrees(b.store, t.TempDir(), 1<<30), mounts, command("test -e main.go -a ! -e none"), done("Two."))
	_, err := step.Run(t.Context(), ports, b.spec)
	require.NoError(t, err)
	require.NotContains(t, b.work, "/proc/")
}
