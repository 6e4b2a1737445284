package patch

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// files is a tree: contents by path; an empty directory has a slash at the end.
type files map[string]string

func (f files) list() (list []File) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			list = append(list, File{Path: dir, Mode: Dir})
		} else {
			list = append(list, File{Path: name, Mode: Regular, Content: []byte(f[name])})
		}
	}
	return list
}

func (f files) place(t require.TestingT, root *os.Root) {
	for _, file := range f.list() {
		dir := path.Dir(file.Path)
		if file.Mode == Dir {
			dir = file.Path
		}
		require.NoError(t, root.MkdirAll(dir, 0o755))
		if file.Mode != Dir {
			require.NoError(t, root.WriteFile(file.Path, file.Content, 0o600))
		}
	}
}

func filesIn(t require.TestingT, root *os.Root) files {
	found := files{}
	require.NoError(t, fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			below, err := fs.ReadDir(root.FS(), name)
			if len(below) == 0 && name != "." {
				found[name+"/"] = ""
			}
			return err
		}
		content, err := root.ReadFile(name)
		found[name] = string(content)
		return err
	}))
	return found
}

func openDir(t testing.TB) *os.Root {
	t.Helper()
	dir := t.TempDir() + "/tree"
	require.NoError(t, os.Mkdir(dir, 0o755))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return root
}

// unlocked calls f until it does not fail because of a lock. A process that another test is
// starting may hold a copy of the lock for a moment.
func unlocked(f func() error) error {
	for {
		if err := f(); !errors.Is(err, ErrBusy) {
			return err
		}
		runtime.Gosched()
	}
}

// journals returns the directory for the journals of the applies to a directory: one beside it.
func journals(root *os.Root) string { return root.Name() + ".journals" }

func journalOf(t require.TestingT, root *os.Root) (j *journal) {
	require.NoError(t, unlocked(func() (err error) {
		j, err = openJournal(root, journals(root))
		return err
	}))
	return j
}

// changesOf returns the changes from one tree to another.
func changesOf(from, to files) []Change { return Changes(context.Background(), from.list(), to.list()) }

func requireRecovered(t require.TestingT, root *os.Root, want bool) {
	require.NoError(t, unlocked(func() error {
		recovered, err := Recover(root, journals(root))
		if err == nil {
			require.Equal(t, want, recovered)
		}
		return err
	}))
}

// The old and the new tree of most tests: files become directories, and directories become files.
var (
	older = files{"a": "1", "gone/deep/b": "2", "gone/c": "3", "file": "4", "dir/x": "5", "dir/y/z": "6", "hollow/": "", "same": "7", "filled/": ""}
	newer = files{"a": "one", "file/below": "4", "dir": "a file now", "new/deep/d": "8", "hollow": "9", "same": "7", "filled/in": "10", "bare/deep/": ""}
)

// planned returns the plan for a change of the directory from one tree to another.
func planned(t require.TestingT, root *os.Root, from, to files) *applying {
	changes := changesOf(from, to)
	a := newApplying(root, changes)
	for _, c := range changes {
		conflict, err := a.planChange(c, false)
		require.NoError(t, err)
		require.Empty(t, conflict)
	}
	return a
}

// Wherever an apply is killed, and wherever its recovery is killed, the next recovery restores the
// old tree, to which the change can be applied.
func TestRecover_afterEveryKill(t *testing.T) {
	t.Parallel()
	edits := 1
	for killed := 0; killed <= edits; killed++ {
		for _, again := range slices.Compact([]int{0, min(1, killed), killed / 2, killed}) {
			root := openDir(t)
			older.place(t, root)
			a := planned(t, root, older, newer)
			j := journalOf(t, root)
			all, err := a.stageFiles(j)
			require.NoError(t, err)
			edits = len(all)
			for _, e := range all[:killed] {
				require.NoError(t, e.makeEdit(root))
			}
			for _, e := range slices.Backward(all[killed-again:]) {
				require.NoError(t, e.revertEdit(root))
			}
			require.NoError(t, j.lock.Close()) // as the kill does

			require.ErrorIs(t, unlocked(func() error {
				_, err := Apply(root, journals(root), changesOf(older, newer), Options{Check: true})
				return err
			}), ErrInterrupted)
			requireRecovered(t, root, true)
			require.Equal(t, older, filesIn(t, root), "killed after %d of %d edits and %d reverted ones", killed, edits, again)
			_, err = Apply(root, journals(root), changesOf(older, newer), Options{})
			require.NoError(t, err)
			require.Equal(t, newer, filesIn(t, root))
		}
	}
	require.Greater(t, edits, 20)
}

// Without edits in the journal nothing has changed, or everything, and only the stage is removed.
func TestRecover_withoutEdits(t *testing.T) {
	t.Parallel()
	for _, left := range [][]string{nil, {"new0"}, {"old0", "removed1"}} {
		root := openDir(t)
		older.place(t, root)
		j := journalOf(t, root)
		require.NoError(t, j.makeStage())
		for _, name := range left {
			require.NoError(t, root.WriteFile(path.Join(j.stage, name), []byte("half"), 0o600))
		}
		require.NoError(t, j.lock.Close()) // as the kill does
		requireRecovered(t, root, false)
		require.Equal(t, older, filesIn(t, root))
		require.NoFileExists(t, j.file)
	}
}

// killedAtTheEnd returns a directory in which an Apply was killed after its last edit.
func killedAtTheEnd(t *testing.T) *os.Root {
	t.Helper()
	root := openDir(t)
	older.place(t, root)
	j := journalOf(t, root)
	all, err := planned(t, root, older, newer).stageFiles(j)
	require.NoError(t, err)
	for _, e := range all {
		require.NoError(t, e.makeEdit(root))
	}
	require.NoError(t, j.lock.Close())
	return root
}

// Recovery preserves changes that a person has made since the kill.
func TestRecover_keepsLaterChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		do   func(*os.Root) error
		want string
	}{
		"an edited file":       {func(root *os.Root) error { return root.WriteFile("a", []byte("mine"), 0o600) }, "these files have changed since: a. Move them away"},
		"a file where one was": {func(root *os.Root) error { return root.WriteFile("gone", []byte("mine"), 0o600) }, "gone"},
		"a moved directory":    {func(root *os.Root) error { return os.Rename(root.Name()+"/new", root.Name()+"/gone") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := killedAtTheEnd(t)
			require.NoError(t, change.do(root))
			err := unlocked(func() error { _, err := Recover(root, journals(root)); return err })
			if change.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, change.want)
			require.True(t, pathExists(root, Stage), "the old versions stay")
		})
	}
}

// Two applies cannot run in the same directory.
func TestApply_busy(t *testing.T) {
	t.Parallel()
	root := openDir(t)
	older.place(t, root)
	j := journalOf(t, root)
	_, err := planned(t, root, older, newer).stageFiles(j)
	require.NoError(t, err)
	_, err = Apply(root, journals(root), changesOf(older, newer), Options{})
	require.ErrorIs(t, err, ErrBusy)
	_, err = Recover(root, journals(root))
	require.ErrorIs(t, err, ErrBusy)
	require.NoError(t, j.lock.Close())
	requireRecovered(t, root, true)
}

// After an error the preceding edits are reverted.
func TestApplying_takesBack(t *testing.T) {
	t.Parallel()
	root := openDir(t)
	there := files{"a": "old", "b": "old", "c": "old"}
	there.place(t, root)
	a := newApplying(root, nil)
	a.removed = []string{"c"}
	a.written = []File{{Path: "a", Mode: Regular, Content: []byte("new a")}, {Path: "b/below", Mode: Regular, Content: []byte("b is a file")}}
	require.Error(t, a.runEdits(journalOf(t, root)))
	require.Equal(t, there, filesIn(t, root))
}

// Nothing is applied if another program edits a file after its comparison, and the edit stays.
func TestApplying_editedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path string
		made bool // the edit comes through an open file, after its replacement
	}{
		"a replaced file":             {"a", false},
		"a removed file":              {"gone/deep/b", false},
		"a file where a new one goes": {"filled/in", false},
		"an open, replaced file":      {"a", true},
		"an open, removed file":       {"gone/deep/b", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := openDir(t)
			older.place(t, root)
			j := journalOf(t, root)
			edits, err := planned(t, root, older, newer).stageFiles(j)
			require.NoError(t, err)
			defer j.lock.Close()
			open, err := root.OpenFile(tt.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
			require.NoError(t, err)
			defer open.Close()
			remaining := edits
			if tt.made {
				for _, e := range edits {
					require.NoError(t, e.makeEdit(root))
				}
				remaining = nil
			}
			_, err = open.WriteString("mine")
			require.NoError(t, err)
			err = j.finishEdits(edits, remaining)
			var conflict *ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, []string{tt.path}, conflict.Paths)
			want := maps.Clone(older)
			want[tt.path] = "mine"
			if tt.path == "filled/in" {
				delete(want, "filled/")
			}
			require.Equal(t, want, filesIn(t, root))
		})
	}
}

// An UnrevertedError reports that some changes remain until Recover reverts them.
func TestApplying_cannotTakeBack(t *testing.T) {
	t.Parallel()
	root := openDir(t)
	there := files{"b": "old", "c": "old"}
	there.place(t, root)
	a := newApplying(root, nil)
	a.removed = []string{"c"}
	a.written = []File{{Path: "a", Mode: Regular, Content: []byte("one")}, {Path: "b/below", Mode: Regular, Content: []byte("b is a file")}}
	j := journalOf(t, root)
	edits, err := a.stageFiles(j)
	require.NoError(t, err)
	defer j.lock.Close()
	require.NoError(t, edits[0].makeEdit(root))
	require.NoError(t, root.WriteFile("c", []byte("mine"), 0o600))
	err = j.finishEdits(edits, edits[1:])
	half, ok := errors.AsType[*UnrevertedError](err)
	require.True(t, ok, "%v", err)
	require.ErrorContains(t, half.Err, "b")
	require.ErrorContains(t, err, "; its changes could not be reverted: ")
	require.FileExists(t, j.file, "Recover needs it")
	require.NoError(t, j.lock.Close())
	require.NoError(t, root.Remove("c"))
	requireRecovered(t, root, true)
	require.Equal(t, there, filesIn(t, root))
}

// A recovery that fails says that changes remain.
func TestRecover_halfDone(t *testing.T) {
	t.Parallel()
	root := killedAtTheEnd(t)
	require.NoError(t, root.MkdirAll("gone/c", 0o755)) // a directory in the place of a removed file
	err := unlocked(func() error { _, err := Recover(root, journals(root)); return err })
	half, ok := errors.AsType[*UnrevertedError](err)
	require.True(t, ok, "%v", err)
	require.NoError(t, half.Err)
	require.ErrorContains(t, err, "an earlier apply was interrupted, and its changes could not be reverted: restore gone/c: another file is there now")
	require.NoError(t, root.Remove("gone/c"))
	requireRecovered(t, root, true)
	require.Equal(t, older, filesIn(t, root))
}

// For any trees, a kill after any number of edits is reverted.
func TestRecover_anyTrees(t *testing.T) {
	t.Parallel()
	home, trees := t.TempDir(), 0
	drawn := rapid.Custom(func(t *rapid.T) files {
		f := files{}
		for range rapid.IntRange(0, 6).Draw(t, "files") {
			name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3).Draw(t, "path"), "/")
			if slices.ContainsFunc(slices.Collect(maps.Keys(f)), func(other string) bool {
				other = strings.TrimSuffix(other, "/")
				return strings.HasPrefix(other+"/", name+"/") || strings.HasPrefix(name+"/", other+"/")
			}) {
				continue
			}
			if rapid.Bool().Draw(t, "empty directory") {
				f[name+"/"] = ""
			} else {
				f[name] = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "content")
			}
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawn.Draw(t, "from"), drawn.Draw(t, "to")
		trees++
		dir := filepath.Join(home, strconv.Itoa(trees))
		require.NoError(t, os.Mkdir(dir, 0o755))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		from.place(t, root)
		j := journalOf(t, root)
		all, err := planned(t, root, from, to).stageFiles(j)
		require.NoError(t, err)
		for _, e := range all[:rapid.IntRange(0, len(all)).Draw(t, "killed after")] {
			require.NoError(t, e.makeEdit(root))
		}
		require.NoError(t, j.lock.Close())
		requireRecovered(t, root, len(all) > 0)
		require.Equal(t, from, filesIn(t, root))
		_, err = Apply(root, journals(root), changesOf(from, to), Options{})
		require.NoError(t, err)
		require.Equal(t, to, filesIn(t, root))
	})
}

// victimDir is the environment variable with the directory for TestApply_victim, which runs as a
// process to be killed.
const victimDir = "CONCLAVE_PATCH_VICTIM"

// manyFiles returns a tree of many files, half of which depend on content.
func manyFiles(content string) files {
	f := files{}
	for i := range 400 {
		name := path.Join("d"+string(rune('a'+i%20)), "f"+string(rune('a'+i/20)))
		f[name] = "old"
		if i%2 == 0 {
			f[name] = content
		}
	}
	return f
}

func TestApply_victim(t *testing.T) {
	dir := os.Getenv(victimDir)
	if dir == "" {
		t.Skip("run by TestRecover_killedProcess")
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, err = Apply(root, journals(root), changesOf(manyFiles("old"), manyFiles("new")), Options{})
	require.NoError(t, err)
}

// A killed process releases its lock, and after recovery the tree is the old or the new one,
// whenever the process was killed.
func TestRecover_killedProcess(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		root := openDir(t)
		manyFiles("old").place(t, root)
		cmd := exec.Command(os.Args[0], "-test.run=^TestApply_victim$")
		cmd.Env = append(os.Environ(), victimDir+"="+root.Name())
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // it may have been killed
		}()
		killWhenStaged(t, root, cmd, ended, n)
		require.NoError(t, unlocked(func() error { _, err := Recover(root, journals(root)); return err }))
		got := filesIn(t, root)
		if got["da/fa"] == "old" {
			require.Equal(t, manyFiles("old"), got)
		} else {
			require.Equal(t, manyFiles("new"), got)
		}
	}
}

// killWhenStaged kills the process after it has written n·50 new files, or begun to replace files.
func killWhenStaged(t *testing.T, root *os.Root, cmd *exec.Cmd, ended <-chan struct{}, n int) {
	t.Helper()
	for {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
		written, err := fs.Glob(root.FS(), Stage+"/*/new"+strconv.Itoa(n*50))
		require.NoError(t, err)
		replaced, err := fs.Glob(root.FS(), Stage+"/*/old*")
		require.NoError(t, err)
		if len(written)+len(replaced) > 0 {
			_ = cmd.Process.Kill() // it may have ended meanwhile
			<-ended
			return
		}
	}
}
