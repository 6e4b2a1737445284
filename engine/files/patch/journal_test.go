package patch

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"testing"

	"github.com/stretchr/testify/require"
)

// cloned is a tree with the stage of an apply that would move a hook to its place.
func cloned(t *testing.T) files {
	t.Helper()
	edits := []edit{{From: ".git/hooks/pre-commit", To: ".conclave-apply/old0"}}
	var old, current bytes.Buffer
	require.NoError(t, gob.NewEncoder(&old).Encode(edits))
	require.NoError(t, gob.NewEncoder(&current).Encode(record{Stage: Stage, Edits: edits}))
	return files{
		"main.go": "old\n", ".conclave-apply/journal": old.String(), ".conclave-apply/old0": "#!/bin/sh\nid",
		".conclave-apply/1-2": current.String(), ".conclave-apply/lock": "", ".git/config": "[core]\n",
	}
}

var (
	mainOld = files{"main.go": "old\n"}
	mainNew = files{"main.go": "new\n"}
)

// A journal in the tree is data: it is not believed, not overwritten, and it stops an apply that
// says so.
func TestRecover_clonedJournal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*os.Root) error{
		"as it was made": func(*os.Root) error { return nil },
		"without a lock": func(root *os.Root) error { return root.Remove(".conclave-apply/lock") },
		"the stage is a file": func(root *os.Root) error {
			return errors.Join(root.RemoveAll(Stage), root.WriteFile(Stage, nil, 0o600))
		},
		"the stage is a link": func(root *os.Root) error {
			return errors.Join(root.Rename(Stage, "elsewhere"), root.Symlink("elsewhere", Stage))
		},
		"a link to git's files": func(root *os.Root) error { return errors.Join(root.RemoveAll(Stage), root.Symlink(".git", Stage)) },
		"an empty directory":    func(root *os.Root) error { return errors.Join(root.RemoveAll(Stage), root.Mkdir(Stage, 0o755)) },
		"a link to nothing":     func(root *os.Root) error { return errors.Join(root.RemoveAll(Stage), root.Symlink("none", Stage)) },
		"a link to an empty directory": func(root *os.Root) error {
			return errors.Join(root.RemoveAll(Stage), root.Mkdir("empty", 0o755), root.Symlink("empty", Stage))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := openDir(t)
			cloned(t).place(t, root)
			require.NoError(t, change(root))
			before, err := exec.Command("ls", "-lAR", root.Name()).Output()
			require.NoError(t, err)
			requireRecovered(t, root, false)
			for _, o := range []Options{{}, {Check: true}} {
				_, err = Apply(root, journals(root), changesOf(mainOld, mainNew), o)
				require.ErrorIs(t, err, ErrForeign)
				require.ErrorContains(t, err, ".conclave-apply is in the directory, and this data directory knows of no apply there")
			}
			after, err := exec.Command("ls", "-lAR", root.Name()).Output()
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
		})
	}
}

// Spellings of the stage that the file system tells apart are names like others.
func TestApply_stageInAnotherCase(t *testing.T) {
	t.Parallel()
	root := openDir(t)
	there := files{"main.go": "old\n", ".Conclave-Apply/journal": "x", "sub/.conclave-apply/journal": "y", "concla~1": "z"}
	there.place(t, root)
	if pathExists(root, Stage) {
		t.Skip("the file system folds the case")
	}
	requireRecovered(t, root, false)
	_, err := Apply(root, journals(root), changesOf(mainOld, mainNew), Options{})
	require.NoError(t, err)
	there["main.go"] = "new\n"
	require.Equal(t, there, filesIn(t, root))
}

// A stage that git tracks is refused in a clone. If git writes it while an interrupted apply waits
// for its recovery, the journal still names its own files only.
func TestRecover_gitTracksTheStage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "core.hooksPath=/dev/null"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	origin := openDir(t)
	tracked := cloned(t)
	delete(tracked, ".git/config")
	tracked.place(t, origin)
	git(origin.Name(), "init", "-q")
	git(origin.Name(), "add", "-f", ".")
	git(origin.Name(), "commit", "-q", "-m", "all")

	root := openDir(t)
	git(root.Name(), "clone", "-q", origin.Name(), ".")
	requireRecovered(t, root, false)
	_, err := Apply(root, journals(root), changesOf(mainOld, mainNew), Options{})
	require.ErrorIs(t, err, ErrForeign)
	require.NoFileExists(t, root.Name()+"/.git/hooks/pre-commit")

	require.NoError(t, root.RemoveAll(Stage))
	j := journalOf(t, root)
	edits, err := planned(t, root, mainOld, mainNew).stageFiles(j)
	require.NoError(t, err)
	for _, e := range edits {
		require.NoError(t, e.makeEdit(root))
	}
	require.NoError(t, j.lock.Close()) // as the kill does
	git(root.Name(), "checkout", "-q", "--", Stage)
	requireRecovered(t, root, true)
	content, err := root.ReadFile("main.go")
	require.NoError(t, err)
	require.Equal(t, "old\n", string(content))
	require.NoFileExists(t, root.Name()+"/.git/hooks/pre-commit")
	require.True(t, pathExists(root, Stage+"/journal"), "what git tracks stays")
}

// A recovery puts no file back that was changed in the stage.
func TestRecover_changedStage(t *testing.T) {
	t.Parallel()
	root := killedAtTheEnd(t)
	stages, err := fs.Glob(root.FS(), Stage+"/*")
	require.NoError(t, err)
	require.Len(t, stages, 1)
	staged := path.Join(stages[0], "removed0")
	require.NoError(t, root.Remove(staged))
	require.NoError(t, root.WriteFile(staged, []byte("another"), 0o600))
	err = unlocked(func() error { _, err := Recover(root, journals(root)); return err })
	touched, ok := errors.AsType[*TouchedError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, []string{staged}, touched.Paths)
	require.Equal(t, newer["a"], filesIn(t, root)["a"])
}

// The journal is that of one directory: of its device and inode, wherever that is moved.
func TestRecover_byInode(t *testing.T) {
	t.Parallel()
	root := killedAtTheEnd(t)
	kept, home := journals(root), root.Name()

	// A copy has the stage, and no journal.
	require.NoError(t, exec.Command("cp", "-a", home, home+"-copy").Run())
	other, err := os.OpenRoot(home + "-copy")
	require.NoError(t, err)
	defer other.Close()
	before := filesIn(t, other)
	recovered, err := Recover(other, kept)
	require.NoError(t, err)
	require.False(t, recovered)
	_, err = Apply(other, kept, changesOf(older, newer), Options{})
	require.ErrorIs(t, err, ErrForeign)
	require.Equal(t, before, filesIn(t, other))

	// So has another data directory.
	_, err = Apply(root, t.TempDir(), changesOf(older, newer), Options{})
	require.ErrorIs(t, err, ErrForeign)

	require.NoError(t, os.Rename(home, home+"-moved"))
	moved, err := os.OpenRoot(home + "-moved")
	require.NoError(t, err)
	defer moved.Close()
	require.NoError(t, unlocked(func() error { recovered, err = Recover(moved, kept); return err }))
	require.True(t, recovered)
	require.Equal(t, older, filesIn(t, moved))
}

// Without its stage a journal is void: its user gave it up, or its directory is gone and another
// one has the inode.
func TestRecover_withoutTheStage(t *testing.T) {
	t.Parallel()
	root := killedAtTheEnd(t)
	require.NoError(t, root.RemoveAll(Stage))
	requireRecovered(t, root, false)
	require.Equal(t, newer, filesIn(t, root))
	_, err := Apply(root, journals(root), changesOf(newer, older), Options{})
	require.NoError(t, err)
	require.Equal(t, older, filesIn(t, root))
	entries, err := os.ReadDir(journals(root))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A damaged journal says which file it is.
func TestRecover_damagedJournal(t *testing.T) {
	t.Parallel()
	root := killedAtTheEnd(t)
	j := journalOf(t, root)
	require.NoError(t, os.WriteFile(j.file, []byte("half"), 0o600))
	require.NoError(t, j.Close())
	_, err := Recover(root, journals(root))
	require.ErrorContains(t, err, "read the journal of an earlier apply, "+j.file)
	require.ErrorContains(t, err, "remove it to keep everything as it is")
}
