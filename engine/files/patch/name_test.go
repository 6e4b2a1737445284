package patch_test

import (
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/files/patch"
)

// forbidden are names that some file system takes for git's directory or for that of an apply.
var forbidden = []string{
	".git", ".GIT", ".gIt", ".git/hooks/pre-commit", "src/.git", "src/deep/.GIT/config", ".git/config/x",
	".git ", ".git.", ".git...", ".git . .", ".git/", ".git::$INDEX_ALLOCATION", ".git::$INDEX_ALLOCATION/hooks/x", ".git:x", ".GIT ::$DATA",
	"git~1", "GIT~1", "git~1/hooks/pre-commit", "git~1 .", "git~1::$INDEX_ALLOCATION", "git~2", "a/Git~10/x",
	".g\u200cit", "\u200d.git", ".git\u200e", ".gi\u200ft/hooks/x", ".\u202agit", ".g\u202eit", ".g\u206ait", ".gi\u206ft", "\ufeff.git", ".G\u200cI\u200dT",
	".git\xff", ".git\ufffe", ".g\u200cit . .",
	`a\.git\hooks\x`, `.git\hooks`, `a\.GIT`, `a\git~1\x`, `a\.git `, `\.git`, "a/b\\.git/c",
	".conclave-apply", ".conclave-apply/journal", ".Conclave-Apply/old0", "sub/.CONCLAVE-APPLY", ".conclave-apply ", ".conclave-apply.", ".conclave-apply::$DATA",
	".conclave\u200c-apply", "concla~1/journal", "CONCLA~2", `a\.conclave-apply`,
}

// allowed are names that look like them.
var allowed = []string{
	".gitignore", ".gitattributes", ".gitmodules", ".github/workflows/ci.yml", ".gitlab-ci.yml", ".git-credentials", ".gitx", ".git-", "..git", "a.git", "x/a.git/b",
	"git", "git/hooks", "git~", "git~x", "git~1x", "agit~1", ". git", ".g it", ".conclave/checks/a.sh", ".conclaveignore", ".conclave.yaml", ".conclave-applying", "conclave",
	"conclave-apply", "gitmod~1", "gi7eba~1", "src/main.go", "a b", "caf\xe9", "ünï", "...", "a:b", "~1", "\u200c", "",
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for _, name := range forbidden {
		require.NotEmpty(t, patch.Reserved(name, ""), "%q", name)
	}
	for _, name := range allowed {
		require.Empty(t, patch.Reserved(name, ""), "%q", name)
	}
	require.Equal(t, `"GIT~1" is git's name for its own files: choose another`, patch.Reserved("a/GIT~1/x", ""))
	require.Equal(t, `".Conclave-Apply" is where conclave keeps the files of an apply that runs or was interrupted: choose another name`, patch.Reserved(".Conclave-Apply/x", ""))
}

// A link may neither lead to git's files nor take the place of .gitmodules.
func TestReserved_links(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		".gitmodules", ".GITMODULES", "a/.gitmodules", ".gitmodules ", ".gitmodules::$DATA", "gitmod~1", "GITMOD~4", "gi7eba~1", "GI7EB~10", "~1000000", ".git\u200cmodules",
		`a\.gitmodules`, ".git",
	} {
		require.NotEmpty(t, patch.Reserved(name, "x"), "%q", name)
	}
	for _, target := range []string{".git", "../.git/hooks", "a/../.GIT/config", `..\.git`, "git~1", ".conclave-apply/new0", ".git /x"} {
		require.NotEmpty(t, patch.Reserved("a/link", target), "%q", target)
	}
	for _, target := range []string{"x", "../.gitmodules", ".gitignore", "../git/hooks"} {
		require.Empty(t, patch.Reserved("a/.gitignore", target), "%q", target)
	}
	require.Equal(t, `it is a link to ".git/hooks", and ".git" is git's name for its own files: choose another`, patch.Reserved("hooks", ".git/hooks"))
}

// refusedByGit reports whether git adds no entry with a path to an index, where it protects every
// file system.
func refusedByGit(t require.TestingT, index, mode, name string) bool {
	const empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
	cmd := exec.Command("git", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true", "update-index", "--add", "--cacheinfo", mode+","+empty+","+name)
	cmd.Dir = filepath.Dir(index)
	cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+index, "GIT_DIR="+filepath.Dir(index)+"/repo", "GIT_WORK_TREE="+filepath.Dir(index))
	out, err := cmd.CombinedOutput()
	if err == nil {
		require.NoError(t, os.Remove(index))
		return false
	}
	require.Contains(t, string(out), "Invalid path", "%q", name)
	return true
}

// gitIndex returns the path of an index for refusedByGit.
func gitIndex(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	out, err := exec.Command("git", "init", "-q", "--bare", dir+"/repo").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir + "/index"
}

// Whatever git refuses is refused here, too, for files and for links.
func TestReserved_asGit(t *testing.T) {
	t.Parallel()
	index := gitIndex(t)
	modes := map[string]string{string(patch.Regular): "", string(patch.Link): "x"}
	for _, name := range append(forbidden, allowed...) {
		if name == "" || path.Clean(name) != name {
			continue
		}
		for mode, target := range modes {
			if refusedByGit(t, index, mode, name) {
				require.NotEmpty(t, patch.Reserved(name, target), "git refuses %q", name)
			}
		}
	}
	piece := rapid.SampledFrom([]string{
		".git", ".GiT", "git~1", "GIT~1", ".", "g", "i", "t", "T", "~1", ".gitmodules", "modules", "gitmod~1", "gi7eba~1", "GI7EB~12", " ", "::$INDEX_ALLOCATION", ":", `\`,
		"\u200c", "\u200f", "\u202c", "\u206b", "\ufeff", "\ufffe", "\xff", "a",
	})
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(piece, 1, 5).Draw(t, "pieces"), "")
		}), 1, 3).Draw(t, "elements")
		name := path.Clean(strings.Join(elements, "/"))
		if strings.HasPrefix(name, "..") && (len(name) == 2 || name[2] == '/') || name == "." {
			return
		}
		mode := rapid.SampledFrom([]string{string(patch.Regular), string(patch.Link)}).Draw(t, "mode")
		if patch.Reserved(name, modes[mode]) == "" && refusedByGit(t, index, mode, name) {
			t.Fatalf("git refuses %q with mode %s", name, mode)
		}
	})
}

// A reserved name on either side of any change is refused before anything is written, and is in no
// patch.
func TestApply_reservedNames(t *testing.T) {
	t.Parallel()
	file, link := regular("x\n"), link(".git/hooks")
	for name, c := range map[string]patch.Change{
		"a new file":         {New: &patch.File{Path: ".git/hooks/pre-commit", Mode: patch.Executable, Content: []byte("id")}},
		"a file .git":        {New: &patch.File{Path: "src/.git", Mode: patch.Regular, Content: []byte("gitdir: .x")}},
		"a deleted file":     {Old: &patch.File{Path: ".GIT/config", Mode: patch.Regular}},
		"a rename away":      {Old: &patch.File{Path: ".git/config", Mode: patch.Regular, Content: file.Content}, New: &patch.File{Path: "a", Mode: patch.Regular, Content: file.Content}},
		"a rename into":      {Old: &patch.File{Path: "a", Mode: patch.Regular, Content: file.Content}, New: &patch.File{Path: "git~1/config", Mode: patch.Regular, Content: file.Content}},
		"an empty dir":       {New: &patch.File{Path: ".git ", Mode: patch.Dir}},
		"a link":             {New: &patch.File{Path: "hooks", Mode: patch.Link, Content: link.Content}},
		"a link .gitmodules": {New: &patch.File{Path: ".gitmodules", Mode: patch.Link, Content: []byte("a")}},
		"the stage":          {New: &patch.File{Path: ".conclave-apply/journal", Mode: patch.Regular}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			there := tree{"a": file, "deep/b": file}
			there.place(t, dir)
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			good := patch.Change{New: &patch.File{Path: "first", Mode: patch.Regular, Content: []byte("1")}}
			for _, o := range []patch.Options{{}, {Check: true}, {Merge: true}} {
				_, err = patch.Apply(root, t.TempDir(), []patch.Change{good, c}, o)
				reserved, ok := errors.AsType[*patch.NameError](err)
				require.True(t, ok, "%v", err)
				require.NotEmpty(t, reserved.Problem)
				require.Equal(t, there, read(t, dir))
			}
			var b strings.Builder
			_, ok := errors.AsType[*patch.NameError](patch.Write(&b, []patch.Change{good, c}, patch.Style{}))
			require.True(t, ok || c.Path() == ".git ", "only an empty directory is in no patch")
			require.NotContains(t, strings.ToLower(b.String()), ".git")
		})
	}
}

// A directory with HEAD, objects and refs is a repository without any .git: git would run the
// programs in its config. One that was there stays what it is.
func TestApply_repositories(t *testing.T) {
	t.Parallel()
	file := regular("x\n")
	adding := func(paths ...string) (changes []patch.Change) {
		for _, p := range paths {
			changes = append(changes, patch.Change{New: &patch.File{Path: p, Mode: patch.Regular, Content: file.Content}})
		}
		return changes
	}
	for name, tt := range map[string]struct {
		there   tree
		changes []patch.Change
		refused bool
	}{
		"a repository":             {tree{}, adding("sub/HEAD", "sub/config", "sub/objects/k", "sub/refs/k"), true},
		"in the directory itself":  {tree{}, adding("HEAD", "objects/k", "refs/k"), true},
		"in other letters":         {tree{}, adding("sub/head", "sub/Objects/k", "sub/REFS/k"), true},
		"the last part of one":     {tree{"sub/objects/k": file, "sub/refs/k": file}, adding("sub/HEAD"), true},
		"a file of one":            {tree{"t.git/HEAD": file, "t.git/objects/k": file, "t.git/refs/k": file}, adding("t.git/refs/l"), false},
		"two parts":                {tree{}, adding("sub/objects/k", "sub/refs/k"), false},
		"parts of two directories": {tree{}, adding("a/HEAD", "b/objects/k", "b/refs/k"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tt.there.place(t, dir)
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			_, err = patch.Apply(root, t.TempDir(), tt.changes, patch.Options{})
			_, refused := errors.AsType[*patch.NameError](err)
			require.Equal(t, tt.refused, refused, "%v", err)
		})
	}
}
