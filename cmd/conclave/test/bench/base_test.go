//go:build bench

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"conclave/activities/tools"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/overlay"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	team "conclave/engine/session"
	"conclave/engine/step"
)

// TestMain lets this binary hold mounts.
func TestMain(m *testing.M) {
	overlay.RunHolder()
	os.Exit(m.Run())
}

// The base that steps work on.
const (
	baseFiles = 10_000
	baseBytes = 20 << 10 // of a file
	treeBytes = 8 << 30  // of a worker's trees
)

// ground is a stored base with the trees of a worker.
type ground struct {
	*desk
	model *modelServer
	dir   string // the person's directory
	known string
	hash  string
	trees *snapshot.Trees
	kept  string          // their directory
	home  string          // of workspaces
	mount *overlay.Mounts // of workspaces; nil if copies share their blocks or there are no mounts
	other string          // directory of copies that stay until the end, because creating files after removing as many is slow on ext4
	runs  int
}

// BenchmarkBase stores a directory of 10,000 files and runs steps on it in this process, as
// BenchmarkStep does. The first of these steps finds no files of the base on the worker, and those
// named "unpacked" find no copy to lend.
func BenchmarkBase(b *testing.B) {
	m := newModelServer(b, alone.minds(0))
	g := &ground{
		desk: newDesk(b, newStack(b, m)), model: m, dir: b.TempDir(), home: b.TempDir(), other: b.TempDir(),
		known: filepath.Join(b.TempDir(), "known"),
	}
	require.NoError(b, g.fill())
	b.Run("writes=1000", g.writes) // before other cases have removed thousands of files, for the same reason
	b.Run("upload=first", g.first)
	b.Run("upload=again", g.again)
	b.Run("session=second", g.second)
	g.keep(b)
	g.openMounts(b)
	b.Run("step=cold", g.cold)
	b.Run("step=warm", g.work)
	b.Run("step=unpacked", g.unpacked)
	b.Run("agents=3", g.together)
}

// openMounts opens the mounts that a worker would use.
func (g *ground) openMounts(b *testing.B) {
	b.Helper()
	shared, err := snapshot.Clones(g.kept, g.home)
	require.NoError(b, err)
	if shared {
		return
	}
	if g.mount, err = overlay.Open(); err != nil {
		b.Log("without mounts: ", err)
		return
	}
	b.Cleanup(g.mount.Close)
}

// fill writes the person's directory.
func (g *ground) fill() error {
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, baseBytes)
	for n := range baseFiles {
		_, _ = random.Read(content)
		name := filepath.Join(g.dir, baseName(n))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

func baseName(n int) string { return fmt.Sprintf("pkg%02d/part%d/file%04d.go", n/100, n%5, n) }

// first measures the first upload by a copy of the same directory.
func (g *ground) first(b *testing.B) {
	var ratio samples
	for b.Loop() {
		began := time.Now()
		require.NoError(b, exec.CommandContext(b.Context(), "cp", "-r", g.dir, filepath.Join(g.other, fmt.Sprintf("copy%d", g.runs))).Run())
		g.runs++
		copied := time.Since(began)
		began = time.Now()
		up := g.upload(b, g.known)
		ratio.add(time.Since(began).Seconds() / copied.Seconds())
		g.hash = up.Hash
	}
	ratio.report(b, "upload/cp", 2)
	b.ReportMetric(0, "ns/op")
}

func (g *ground) upload(b *testing.B, known string) snapshot.Uploaded {
	b.Helper()
	up, err := snapshot.Upload{Store: g.stack.store(b, g.proxy.URL), Dir: g.dir, Known: known, Now: time.Now}.Run(b.Context())
	require.NoError(b, err)
	return up
}

// again measures an upload of the unchanged directory.
func (g *ground) again(b *testing.B) {
	var took, sent samples
	for b.Loop() {
		before, began := g.proxy.traffic(), time.Now()
		g.hash = g.upload(b, g.known).Hash
		took.add(float64(time.Since(began).Milliseconds()))
		sent.add(100 * float64(g.proxy.traffic().since(before).up) / (baseFiles * baseBytes))
	}
	b.ReportMetric(took.median(), "ms")
	sent.report(b, "percent-sent", 1)
	b.ReportMetric(0, "ns/op")
}

// second measures the time from the start of a later `conclave run` on the base to its first
// model call.
func (g *ground) second(b *testing.B) {
	s := newShell(b, g.model.setting())
	firstCall(b, g.model, s, "--base", g.dir)
	var took samples
	for b.Loop() {
		took.add(firstCall(b, g.model, s, "--base", g.dir).Seconds())
	}
	took.report(b, "s-to-first-call", 2.5)
	b.ReportMetric(0, "ns/op")
}

// cold measures work on a worker that has to unpack the base first. It has no target.
func (g *ground) cold(b *testing.B) {
	beyond := g.workOn(b, func() { g.keep(b) })
	b.ReportMetric(beyond.median(), "ms-beyond-empty")
}

// unpacked measures work on a worker without copies to lend.
func (g *ground) unpacked(b *testing.B) {
	home, trees := g.home, g.trees
	defer func() { g.home, g.trees = home, trees }()
	beyond := g.workOn(b, func() {
		g.home, g.trees = filepath.Join(g.other, fmt.Sprintf("home%d", g.runs)), snapshot.NewTrees(g.filled, g.kept, treeBytes)
		require.NoError(b, os.Mkdir(g.home, 0o755))
	})
	beyond.report(b, "ms-beyond-empty", g.most(b))
}

// work measures steps that change ten files, in addition to a step without a base.
func (g *ground) work(b *testing.B) {
	beyond := g.workOn(b, func() {})
	beyond.report(b, "ms-beyond-empty", g.most(b))
}

// most returns the target of work in milliseconds.
func (g *ground) most(b *testing.B) float64 {
	b.Helper()
	if shared, err := snapshot.Clones(g.kept, g.home); shared || g.mount != nil {
		require.NoError(b, err)
		return 500
	}
	return 2000
}

// keep makes a new directory for unpacked bases.
func (g *ground) keep(b *testing.B) {
	b.Helper()
	var err error
	g.kept, err = os.MkdirTemp(g.other, "trees-")
	require.NoError(b, err)
	g.trees = snapshot.NewTrees(g.filled, g.kept, treeBytes)
}

// workOn returns the milliseconds of steps on the base beyond those of an empty one, and reports
// the requests. It calls prepare before each step.
func (g *ground) workOn(b *testing.B, prepare func()) (beyond samples) {
	var requests samples
	on := g.open(b)
	for b.Loop() {
		prepare()
		empty := g.run(b, nil, toolCall("write_file", map[string]string{"path": "a", "content": "a"}))
		before := g.proxy.traffic()
		took := g.run(b, on, g.edits())
		beyond.add(float64((took - empty).Milliseconds()))
		requests.add(float64(g.proxy.traffic().since(before).all()))
	}
	requests.report(b, "requests/step", 50)
	b.ReportMetric(0, "ns/op")
	return beyond
}

// open returns the base, which it uploads if no benchmark has.
func (g *ground) open(b *testing.B) *artifact.Base {
	b.Helper()
	if g.hash == "" {
		g.hash = g.upload(b, g.known).Hash
	}
	stored, err := g.trees.Open(b.Context(), g.hash)
	require.NoError(b, err)
	return stored
}

// edits writes ten files of the base.
func (g *ground) edits() (calls []llm.ToolCall) {
	for n := range 10 {
		calls = append(calls, writeCall(baseName(n*900), fmt.Sprintf("%d after %d", n, g.runs))...)
	}
	return calls
}

func writeCall(path, content string) []llm.ToolCall {
	calls := toolCall("write_file", map[string]string{"path": path, "content": content})
	calls[0].ID = path
	return calls
}

// run runs a step with one batch of calls and returns its time.
func (g *ground) run(b *testing.B, on *artifact.Base, calls []llm.ToolCall) time.Duration {
	b.Helper()
	return g.runWith(b, on, calls, nil)
}

// runWith is like run, but calls opened when the workspace is there.
func (g *ground) runWith(b *testing.B, on *artifact.Base, calls []llm.ToolCall, opened func()) time.Duration {
	b.Helper()
	g.runs++
	agent, began := fmt.Sprintf("agent_%d", g.runs), time.Now()
	spec, err := team.Step{
		Layout: g.layout.On(on), Attempt: 1, Token: "ground-" + agent, Agents: []string{agent}, Query: "Mend it.", Files: true,
		Launch: coordination.Launch{ID: "l", Agent: agent, Number: 1, Round: 1, Offered: []coordination.Action{coordination.NewAnswer}},
	}.Spec(b.Context(), g.filled)
	require.NoError(b, err)
	_, err = step.Run(b.Context(), step.Ports{
		Store: g.filled, Trees: g.trees, Model: &recital{replies: replies("It is mended.", calls)}, Now: time.Now, Scratch: g.home,
		Tools: mounted{g.mount, step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
			if opened != nil {
				opened()
			}
			return tools.Open(ctx, dir, tools.Set{Files: true})
		})},
	}, spec)
	require.NoError(b, err)
	return time.Since(began)
}

// mounted are tools that work in mounts.
type mounted struct {
	mounts *overlay.Mounts
	step.Toolbox
}

func (m mounted) Overlays(context.Context) *overlay.Mounts { return m.mounts }

// together measures the disk that three steps use at once, by the size of the base.
func (g *ground) together(b *testing.B) {
	var used samples
	on := g.open(b)
	g.run(b, on, g.edits()) // unpacks the base
	for b.Loop() {
		home := g.home
		g.home, g.trees = b.TempDir(), snapshot.NewTrees(g.filled, g.kept, treeBytes) // without spare copies
		before := freeBytes(b, g.home)
		var open func(n int)
		open = func(n int) { // each step runs while the one before is open
			if n > 0 {
				g.runWith(b, on, g.edits(), func() { open(n - 1) })
				return
			}
			used.add(float64(before-freeBytes(b, g.home)) / (baseFiles * baseBytes))
		}
		open(3)
		g.home = home
	}
	used.report(b, "disk/base", 0.2) // with reflinks or mounts
	b.ReportMetric(0, "ns/op")
}

// writes measures a reply with 1,000 calls that each write a file, in addition to a reply with one
// call. It uses the store itself, because a proxy would cost as much as the client.
func (g *ground) writes(b *testing.B) {
	var took samples
	cache, err := artifact.NewCache(g.stack.store(b, g.stack.S3Endpoint), b.TempDir(), 1<<30)
	require.NoError(b, err)
	counted := g.filled
	defer func() { g.filled = counted }()
	g.filled = cache
	for b.Loop() {
		one := g.run(b, nil, writeCall("one", "1"))
		var calls []llm.ToolCall
		for n := range 1000 {
			calls = append(calls, writeCall(fmt.Sprintf("d%d/f%d", n%10, n), fmt.Sprintf("%d of %d", n, g.runs))...)
		}
		took.add(float64((g.run(b, nil, calls) - one).Milliseconds()))
	}
	took.report(b, "ms-beyond-one", 1000)
	b.ReportMetric(0, "ns/op")
}

// freeBytes returns the free bytes of the file system of a directory.
func freeBytes(b *testing.B, dir string) int64 {
	b.Helper()
	var fs unix.Statfs_t
	require.NoError(b, unix.Statfs(dir, &fs))
	return int64(fs.Bfree) * fs.Bsize
}
