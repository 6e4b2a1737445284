package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
)

// bucket is a store with one session in it: agent_a answered with files in step
// 1 and voted in step 2.
type bucket struct {
	t      *testing.T
	store  artifact.Store
	layout artifact.Layout
}

func newBucket(t *testing.T) bucket {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	b := bucket{t: t, store: store, layout: artifact.InBucket("s1")}
	b.put("session.json", artifact.Session{Query: "Why?", Owner: artifact.Owner{WorkflowID: "s1", FirstRunID: "run-1"}})
	b.put("status.json", map[string]string{"status": "running"})
	b.put("ledger/000001.json", map[string]int{"seq": 1})
	b.put("blobs/sha256/"+strings.Repeat("0", 64), "content")
	b.put("journal/token/000001.json", "journal")
	b.put("agents/agent_a/002/vote.json", artifact.Vote{Voter: "agent_a"})
	b.workspace("agents/agent_a/001/")
	b.workspace("final/agent_a/")
	path := "s3://bucket/sessions/s1/agents/agent_a/001/workspace"
	b.put("agents/agent_a/last_action.json", artifact.LastAction{AgentID: "agent_a", StepNumber: 1, WorkspacePath: &path})
	return b
}

func (b bucket) put(name string, doc any) {
	b.t.Helper()
	require.NoError(b.t, artifact.PutJSON(b.t.Context(), b.store, b.layout.File(name), doc))
}

// workspace has a script, a name that needs escaping, a nested workspace.json
// of the agent's own and a link.
func (b bucket) workspace(dir string) {
	b.t.Helper()
	var m artifact.Manifest
	for _, f := range []struct {
		path, content string
		mode          uint32
	}{
		{"my notes.md", "notes", 0o644},
		{"run.sh", "#!/bin/sh\n", 0o755},
		{"sub/workspace.json", "not a manifest", 0o600},
	} {
		sum, err := artifact.PutBlob(b.t.Context(), b.store, b.layout, []byte(f.content))
		require.NoError(b.t, err)
		if strings.HasPrefix(dir, "final/") { // the only plain files of a bucket
			escaped, err := artifact.EscapePath(f.path)
			require.NoError(b.t, err)
			require.NoError(b.t, b.store.Put(b.t.Context(), b.layout.File(dir+"workspace/"+escaped), strings.NewReader(f.content)))
		}
		m.Files = append(m.Files, artifact.File{Path: f.path, Mode: f.mode, Size: int64(len(f.content)), SHA256: sum})
	}
	m.Files = append(m.Files, artifact.File{Path: "zz-latest", Link: "sub"})
	require.NoError(b.t, m.Check())
	b.put(dir+"workspace.json", m)
}

// blob returns the key of a content.
func (b bucket) blob(content string) string {
	sum := sha256.Sum256([]byte(content))
	return b.layout.Blob(hex.EncodeToString(sum[:]))
}

func (b bucket) pull(dir string) (pullResult, error) {
	b.t.Helper()
	return copyRun(b.t.Context(), b.store, "s1", dir, false, func(int, int) {})
}

// tree lists everything below dir: files with modes, links with targets.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		switch {
		case e.IsDir():
			if entries, err := os.ReadDir(path); err == nil && len(entries) == 0 {
				list = append(list, name+"/")
			}
		case e.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			require.NoError(t, err)
			list = append(list, name+" -> "+to)
		default:
			list = append(list, name+" "+info.Mode().String())
		}
		return nil
	}))
	return list
}

func TestCopyRun(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := filepath.Join(t.TempDir(), "new", "dir")
	summary, err := b.pull(dir)
	require.NoError(t, err)
	require.Equal(t, []string{
		"ANSWER.md -rw-r--r--",
		"agents/agent_a/001/workspace/my notes.md -rw-r--r--",
		"agents/agent_a/001/workspace/run.sh -rwxr-xr-x",
		"agents/agent_a/001/workspace/sub/workspace.json -rw-------",
		"agents/agent_a/001/workspace/zz-latest -> sub",
		"agents/agent_a/001/workspace.json -rw-r--r--",
		"agents/agent_a/002/vote.json -rw-r--r--",
		"agents/agent_a/last_action.json -rw-r--r--",
		"final/agent_a/workspace/my notes.md -rw-r--r--",
		"final/agent_a/workspace/run.sh -rwxr-xr-x",
		"final/agent_a/workspace/sub/workspace.json -rw-------",
		"final/agent_a/workspace/zz-latest -> sub",
		"final/agent_a/workspace.json -rw-r--r--",
		"index.html -rw-r--r--", "ledger/000001.json -rw-r--r--",
		"session.json -rw-r--r--",
		"status.json -rw-r--r--",
	}, tree(t, dir), "no blobs, no journals, no temporary files")
	require.Equal(t, 13, summary.Files)
	require.Equal(t, 13, summary.Copied)
	require.Equal(t, "running", summary.Status)
	require.Equal(t, dir, summary.Dir)

	// last_action.json names the local workspace.
	copied, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, copied.Close()) })
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), copied, artifact.Layout{}.Agent("agent_a", "last_action.json"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "agents/agent_a/001/workspace"), *last.WorkspacePath)
}

// partial adds a step without an action, whose files are stored as blobs.
func (b bucket) partial(dir string) {
	b.t.Helper()
	sum, err := artifact.PutBlob(b.t.Context(), b.store, b.layout, []byte("half of it"))
	require.NoError(b.t, err)
	b.put(dir+"partial.json", artifact.Manifest{Files: []artifact.File{
		{Path: "my plan.sh", Mode: 0o755, Size: 10, SHA256: sum}, {Path: "zz-latest", Link: "my plan.sh"},
	}})
	path := b.store.URL(b.layout.File(dir + "partial.json"))
	b.put("agents/agent_a/last_action.json", artifact.LastAction{AgentID: "agent_a", StepNumber: 3, PartialPath: &path})
}

// The files of a step without an action are pulled, and repaired.
func TestCopyRun_partialFiles(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.partial("agents/agent_a/003/")
	dir := t.TempDir()
	_, err := b.pull(dir)
	require.NoError(t, err)
	partial := filepath.Join(dir, "agents/agent_a/003/partial")
	require.Equal(t, []string{"my plan.sh -rwxr-xr-x", "zz-latest -> my plan.sh"}, tree(t, partial))
	data, err := os.ReadFile(filepath.Join(dir, "agents/agent_a/last_action.json"))
	require.NoError(t, err)
	var last artifact.LastAction
	require.NoError(t, json.Unmarshal(data, &last))
	require.Equal(t, partial, *last.PartialPath)

	require.NoError(t, os.WriteFile(filepath.Join(partial, "my plan.sh"), []byte("changed"), 0o755))
	_, err = b.pull(dir)
	require.NoError(t, err)
	data, err = os.ReadFile(filepath.Join(partial, "my plan.sh"))
	require.NoError(t, err)
	require.Equal(t, "half of it", string(data))
}

// A missing file of a step without an action is left out and named.
func TestCopyRun_partialFileMissing(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.partial("agents/agent_a/003/")
	m, err := artifact.ReadJSON[artifact.Manifest](t.Context(), b.store, b.layout.File("agents/agent_a/003/partial.json"))
	require.NoError(t, err)
	require.NoError(t, b.store.Delete(t.Context(), b.layout.Blob(m.Files[0].SHA256)))
	r, err := b.pull(t.TempDir())
	require.NoError(t, err)
	require.Len(t, r.LeftOut, 1)
	require.Equal(t, "agents/agent_a/003/partial/my plan.sh", r.LeftOut[0].Path)
}

func TestCopyRun_againCopiesNewFiles(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	_, err := b.pull(dir)
	require.NoError(t, err)
	before := tree(t, dir)

	summary, err := b.pull(dir)
	require.NoError(t, err)
	require.Equal(t, before, tree(t, dir))
	require.Equal(t, 6, summary.Copied, "status, last action and the four of final/ are replaced")

	b.put("status.json", map[string]string{"status": "consensus"})
	b.put("ledger/000002.json", map[string]int{"seq": 2})
	summary, err = b.pull(dir)
	require.NoError(t, err)
	require.Equal(t, 7, summary.Copied)
	require.Equal(t, "consensus", summary.Status)
	require.FileExists(t, filepath.Join(dir, "ledger/000002.json"))
}

func TestCopyRun_repairsAWorkspace(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	_, err := b.pull(dir)
	require.NoError(t, err)
	want := tree(t, dir)
	script := filepath.Join(dir, "agents/agent_a/001/workspace/run.sh")
	link := filepath.Join(dir, "agents/agent_a/001/workspace/zz-latest")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/zs\n"), 0o600))
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("elsewhere", link))

	_, err = b.pull(dir)
	require.NoError(t, err)
	require.Equal(t, want, tree(t, dir))
	content, err := os.ReadFile(script)
	require.NoError(t, err)
	require.Equal(t, "#!/bin/sh\n", string(content))
}

func TestCopyRun_resumesAnInterruptedCopy(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	_, err := copyRun(t.Context(), &unsteady{Store: b.store, down: true}, "s1", dir, false, func(int, int) {})
	require.ErrorIs(t, err, errOutage, "an outage is not the damage of one file")
	require.FileExists(t, filepath.Join(dir, "session.json"), "the claim comes first")

	_, err = b.pull(dir)
	require.NoError(t, err)
	whole := t.TempDir()
	_, err = b.pull(whole)
	require.NoError(t, err)
	require.Equal(t, tree(t, whole), tree(t, dir))
}

// A file that the store cannot provide does not prevent the copy of the others, and is copied by a
// later pull.
func TestCopyRun_leavesOutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	whole := t.TempDir()
	_, err := b.pull(whole)
	require.NoError(t, err)
	want := tree(t, whole)
	broken := &unsteady{Store: b.store}
	dir := t.TempDir()
	for range 2 {
		summary, err := copyRun(t.Context(), broken, "s1", dir, false, func(int, int) {})
		require.NoError(t, err)
		require.Len(t, summary.LeftOut, 1)
		require.Equal(t, "ledger/000001.json", summary.LeftOut[0].Path)
		require.Contains(t, summary.LeftOut[0].Problem, "was left out: outage")
		require.Equal(t, slices.DeleteFunc(slices.Clone(want), func(name string) bool { return strings.HasPrefix(name, "ledger/") }),
			slices.DeleteFunc(tree(t, dir), func(name string) bool { return name == "ledger/" }))
	}
	_, err = b.pull(dir)
	require.NoError(t, err)
	require.Equal(t, want, tree(t, dir))
}

// A body that breaks off leaves out its file only.
func TestCopyRun_leavesOutABrokenBody(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dir := t.TempDir()
	summary, err := copyRun(t.Context(), &unsteady{Store: b.store, midway: true}, "s1", dir, false, func(int, int) {})
	require.NoError(t, err)
	require.Len(t, summary.LeftOut, 1)
	require.NoFileExists(t, filepath.Join(dir, "ledger/000001.json"))
}

// If the claim is unreadable, the rest is copied into a directory that contains nothing else.
func TestCopyRun_damagedClaim(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(b bucket) error{
		"missing": func(b bucket) error { return b.store.Delete(t.Context(), "sessions/s1/session.json") },
		"malformed": func(b bucket) error {
			return b.store.Put(t.Context(), "sessions/s1/session.json", strings.NewReader("{"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			require.NoError(t, damage(b))
			dir := t.TempDir()
			summary, err := b.pull(dir)
			require.NoError(t, err)
			require.Equal(t, "session.json", summary.LeftOut[0].Path)
			require.FileExists(t, filepath.Join(dir, "final/agent_a/workspace/run.sh"))
			require.NoFileExists(t, filepath.Join(dir, "session.json"))
			_, err = b.pull(dir)
			require.ErrorContains(t, err, "name a new or an empty directory")
		})
	}
}

// A session that is being deleted is not copied in part.
func TestCopyRun_refusesADeletedSession(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.put(artifact.Deleted, struct{}{})
	_, err := b.pull(filepath.Join(t.TempDir(), "new"))
	require.ErrorIs(t, err, errDeleting)
	require.NoError(t, b.store.Delete(t.Context(), "sessions/s1/session.json"))
	_, err = b.pull(filepath.Join(t.TempDir(), "new"))
	require.ErrorIs(t, err, errDeleting)
}

func TestCopyRun_refusesOtherDirectories(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for name, content := range map[string]map[string]string{
		"another session":          {"session.json": `{"workflow_id":"s2","first_run_id":"run-9"}`},
		"the same ID, another run": {"session.json": `{"workflow_id":"s1","first_run_id":"run-9"}`},
		"no session":               {"thesis.txt": "precious"},
		"a broken claim":           {"session.json": `{`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range content {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			before := tree(t, dir)
			_, err := b.pull(dir)
			require.ErrorContains(t, err, dir)
			require.Equal(t, before, tree(t, dir), "nothing is touched")
		})
	}
}

func TestCopyRun_unknownSession(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "never")
	_, err := copyRun(t.Context(), newBucket(t).store, "s2", dir, false, func(int, int) {})
	require.ErrorIs(t, err, record.ErrNone)
	require.NoDirExists(t, dir)
}

func TestCopyRun_followsNoLinkOut(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	outside, dir := t.TempDir(), t.TempDir()
	_, err := b.pull(dir)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "final")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "final")))
	_, err = b.pull(dir)
	require.Error(t, err)
	require.Empty(t, tree(t, outside))
}

func TestCopyRun_refusesAManifestThatLeadsOut(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.put("agents/agent_a/001/workspace.json", artifact.Manifest{Files: []artifact.File{{Path: "evil", Link: "../../../../../etc/passwd"}}})
	dir := t.TempDir()
	summary, err := b.pull(dir)
	require.NoError(t, err)
	require.Len(t, summary.LeftOut, 1)
	require.Contains(t, summary.LeftOut[0].String(), "agents/agent_a/001/workspace.json cannot be used")
	require.Contains(t, summary.LeftOut[0].String(), "leaves the workspace")
	require.NoFileExists(t, filepath.Join(dir, "agents/agent_a/001/workspace/evil"))
}

func TestCopyRun_corruptContent(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	require.NoError(t, b.store.Put(t.Context(), b.blob("#!/bin/sh\n"), bytes.NewReader([]byte("#!/bin/zs\n"))))
	dir := t.TempDir()
	summary, err := b.pull(dir)
	require.NoError(t, err)
	require.Equal(t, []problem{{Path: "agents/agent_a/001/workspace/run.sh", Problem: "was left out: content does not match its sha256"}}, summary.LeftOut)
	require.NoFileExists(t, filepath.Join(dir, "agents/agent_a/001/workspace/run.sh"), "wrong content does not pass for the file")
}

var errOutage = errors.New("outage")

// unsteady is a store that fails for one object, or from that object on.
type unsteady struct {
	artifact.Store
	midway bool // the object's body breaks off
	down   bool // with that object an outage begins

	mu   sync.Mutex
	gone bool
}

func (u *unsteady) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case strings.HasSuffix(key, "/ledger/000001.json") && u.midway:
		return io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errOutage))), nil
	case strings.HasSuffix(key, "/ledger/000001.json"):
		u.gone = u.down
		return nil, errOutage
	}
	return u.Store.Open(ctx, key)
}

func (u *unsteady) Exists(ctx context.Context, key string) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone {
		return false, errOutage
	}
	return u.Store.Exists(ctx, key)
}
