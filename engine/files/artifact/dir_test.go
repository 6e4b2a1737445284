package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/storetest"
)

func openDir(t *testing.T, path string) *artifact.Dir {
	t.Helper()
	d, err := artifact.NewDir(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func listAll(t *testing.T, s artifact.Store, prefix string) []string {
	t.Helper()
	keys := []string{}
	for key, err := range s.List(t.Context(), prefix) {
		require.NoError(t, err)
		keys = append(keys, key)
	}
	return keys
}

func TestDir_isAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) artifact.Store { return openDir(t, t.TempDir()) })
}

func TestDir_unescapesNames(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := openDir(t, path)
	writeFile(t, filepath.Join(path, "agents/a/001/workspace/my notes.txt"), "from another program")

	require.Equal(t, []string{"agents/a/001/workspace/my=20notes.txt"}, listAll(t, d, "agents/"))
	data, err := d.Get(t.Context(), "agents/a/001/workspace/my=20notes.txt")
	require.NoError(t, err)
	require.Equal(t, "from another program", string(data))
	require.Equal(t, filepath.Join(path, "agents/a/001/workspace/my notes.txt"),
		d.URL("agents/a/001/workspace/my=20notes.txt"))
}

func TestDir_followsNoLinkOut(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	writeFile(t, filepath.Join(outside, "secret"), "secret")
	path := t.TempDir()
	d := openDir(t, path)
	require.NoError(t, os.Symlink(outside, filepath.Join(path, "dir")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(path, "file")))

	for _, key := range []string{"dir/secret", "file"} {
		_, err := d.Get(t.Context(), key)
		require.Error(t, err, key)
		require.Error(t, d.Create(t.Context(), key, []byte("x")), key)
		require.Error(t, d.Copy(t.Context(), key, "copy"), key)
	}
	require.Error(t, d.Put(t.Context(), "dir/new", strings.NewReader("x")))
	require.NoError(t, d.Put(t.Context(), "file", strings.NewReader("x")), "the link is replaced, not followed")
	require.Equal(t, []string{"file"}, listAll(t, d, ""))
	for _, err := range d.List(t.Context(), "dir/") {
		require.Error(t, err)
	}

	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	data, err := os.ReadFile(filepath.Join(outside, "secret"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))
}

func TestDir_objectsAreRegularFiles(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := openDir(t, path)
	require.NoError(t, syscall.Mkfifo(filepath.Join(path, "fifo"), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(path, "dir"), 0o755))
	for _, key := range []string{"fifo", "dir"} {
		_, err := d.Get(t.Context(), key)
		require.ErrorIs(t, err, artifact.ErrNotFound, key)
		err = d.Create(t.Context(), key, nil)
		require.Error(t, err, key)
		require.NotErrorIs(t, err, artifact.ErrExists, "nobody could read the object: %s", key)
	}
	require.Empty(t, listAll(t, d, ""))
}

func TestDir_removesTemporaryFiles(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := openDir(t, path)
	require.NoError(t, d.Create(t.Context(), "a", []byte("x")))
	require.ErrorIs(t, d.Create(t.Context(), "a", []byte("x")), artifact.ErrExists)
	require.NoError(t, d.Put(t.Context(), "a", strings.NewReader("y")))
	require.Error(t, d.Put(t.Context(), "b", failingBody{}))
	require.Error(t, d.Put(t.Context(), "a/b", strings.NewReader("y")), "a is a file")

	temps, err := os.ReadDir(filepath.Join(path, ".conclave-tmp"))
	require.NoError(t, err)
	require.Empty(t, temps)
	require.Equal(t, []string{"a"}, listAll(t, d, ""))
}

type failingBody struct{}

func (failingBody) Read(p []byte) (int, error)     { return copy(p, "half"), errors.New("torn") }
func (failingBody) Seek(int64, int) (int64, error) { return 0, nil }

func TestNewDir_removesOldTemporaryFiles(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	crashed, running := filepath.Join(path, ".conclave-tmp/crashed"), filepath.Join(path, ".conclave-tmp/running")
	writeFile(t, crashed, "half")
	writeFile(t, running, "half")
	old := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(crashed, old, old))

	d := openDir(t, path)
	require.Empty(t, listAll(t, d, ""))
	require.NoFileExists(t, crashed)
	require.FileExists(t, running)
}

const writerDir = "CONCLAVE_TEST_WRITER_DIR"

// TestMain lets the test binary act as a second program that uses the same directory.
func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled creates numbered objects and prints each number after its object is
// acknowledged.
func writeUntilKilled(dir string) error {
	d, err := artifact.NewDir(dir)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		body := strings.Repeat(fmt.Sprintf("%08d", i), 4096)
		if err := d.Create(context.Background(), fmt.Sprintf("ledger/%08d", i), []byte(body)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

func TestDir_acknowledgedObjectsSurviveAKilledWriter(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	writer := exec.CommandContext(t.Context(), os.Args[0])
	writer.Env = append(os.Environ(), writerDir+"="+path)
	out, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())

	acknowledged := -1
	for acknowledged < 40 {
		_, err := fmt.Fscan(out, &acknowledged)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Process.Kill())
	require.Error(t, writer.Wait())

	d := openDir(t, path)
	keys := listAll(t, d, "ledger/")
	require.GreaterOrEqual(t, len(keys), acknowledged+1)
	for i, key := range keys {
		require.Equal(t, fmt.Sprintf("ledger/%08d", i), key)
		data, err := d.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat(fmt.Sprintf("%08d", i), 4096), string(data))
	}
	require.False(t, slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, "tmp") }))
}

func TestDir_MakeDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	require.NoError(t, d.MakeDir(t.Context(), "agents/a/001/step.json"))
	require.DirExists(t, filepath.Join(dir, "agents/a/001"))
	require.ErrorIs(t, d.MakeDir(t.Context(), "agents/a/001/step.json"), artifact.ErrExists)
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "agents/a/002")))
	require.ErrorIs(t, d.MakeDir(t.Context(), "agents/a/002/step.json"), artifact.ErrExists)
	require.Error(t, d.MakeDir(t.Context(), "../x/step.json"))
}

func TestNewDir_doesNotBlockOnAFIFO(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, artifact.TempDir), 0o644))
	d, err := artifact.NewDir(dir)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func TestDir_Link(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := openDir(t, path)
	require.NoError(t, d.Put(t.Context(), "dir/my=20link", strings.NewReader("replaced")))
	for _, target := range []string{"one", "two"} {
		require.NoError(t, d.Link(t.Context(), "dir/my=20link", target))
		got, err := os.Readlink(filepath.Join(path, "dir/my link"))
		require.NoError(t, err)
		require.Equal(t, target, got)
	}
	require.Empty(t, listAll(t, d, ""), "links are not objects")
	require.Error(t, d.Link(t.Context(), "../out", "one"))
}
