package server

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/headers"
)

func TestOpenDatabase_damagedFile(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(data []byte) []byte{
		"cut":         func(data []byte) []byte { return data[:20_000] },
		"empty":       func([]byte) []byte { return nil },
		"overwritten": func(data []byte) []byte { return bytes.Repeat([]byte("garbage!"), len(data)/8) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, databasePrefix+headers.ServerVersion+databaseSuffix)
			intact := filepath.Join(t.TempDir(), "intact.db") // a process keeps connections by name
			require.NoError(t, createDatabase(intact))
			data, err := os.ReadFile(intact)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, damage(data), 0o600))

			_, err = openDatabase(dir)
			require.Error(t, err)
			says := explainDamage(dir, err).Error()
			require.Contains(t, says, "the database "+file+" is damaged")
			require.Contains(t, says, "move it away with its -wal and -shm files")
			require.Contains(t, says, "safe under "+filepath.Join(dir, "s3"))
		})
	}
	other := errors.New("disk quota exceeded")
	require.Equal(t, other, explainDamage("d", other))
	require.NoError(t, explainDamage("d", nil))
}

// A new database does not read the log of the one that was moved away without it.
func TestOpenDatabase_setsAnOldLogAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, databasePrefix+headers.ServerVersion+databaseSuffix+"-wal")
	require.NoError(t, os.WriteFile(log, []byte("old log"), 0o600))
	_, err := openDatabase(dir)
	require.NoError(t, err)
	kept, err := os.ReadFile(log + ".old")
	require.NoError(t, err)
	require.Equal(t, "old log", string(kept))
}

func TestOpenDatabase_directoryInItsPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, databasePrefix+headers.ServerVersion+databaseSuffix)
	require.NoError(t, os.Mkdir(file, 0o700))
	_, err := openDatabase(dir)
	require.EqualError(t, err, "open the database "+file+": it is a directory; move it away and run the command again")
}
