package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"conclave/cmd/conclave/local"

	"github.com/stretchr/testify/require"
)

func TestJoin_failedStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })

	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		ports   local.Ports
		says    []string
	}{
		"a wanted port is taken": {
			ports: local.Ports{UI: portOf(taken)},
			says:  []string{"listen for the Web UI", taken.Addr().String(), "address already in use", "choose another port"},
		},
		"the database is of another server version": {
			prepare: func(t *testing.T, dir string) { write(t, dir, "temporal-1.31.2.db", "") },
			says:    []string{"temporal-1.31.2.db", "written by Temporal server 1.31.2", "embeds 1.32.1", "choose another --data-dir", "move the file away"},
		},
		"the database is damaged": {
			prepare: func(t *testing.T, dir string) {
				write(t, dir, "temporal-1.32.1.db", strings.Repeat("no database. ", 100))
			},
			says: []string{"open the database", "temporal-1.32.1.db", "not a database"},
		},
		"the object directory is a file": {
			prepare: func(t *testing.T, dir string) { write(t, dir, "s3", "") },
			says:    []string{"make the directory of the object store", "not a directory"},
		},
		"the bucket was copied without its attributes": {
			prepare: func(t *testing.T, dir string) {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "s3", "conclave"), 0o700))
				write(t, dir, "s3/conclave/object", "content")
			},
			says: []string{"extended attributes are missing", "cp -a"},
		},
		"anybody may write to the data directory": {
			prepare: func(t *testing.T, dir string) { require.NoError(t, os.Chmod(dir, 0o777)) },
			says:    []string{"world-writable", "chmod 700"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if test.prepare != nil {
				test.prepare(t, dir)
			}
			_, err := local.Join(t.Context(), dir, local.Options{Ports: test.ports})
			require.Error(t, err)
			for _, part := range append(test.says, dir) {
				require.ErrorContains(t, err, part)
			}
			requireGone(t, dir)
			require.False(t, isRunning(dir))
		})
	}
}

func TestRunChild_withoutJoin(t *testing.T) {
	t.Parallel()
	err := RunChild(t.Context(), strings.NewReader(""), os.Stderr)
	require.ErrorContains(t, err, "started by other commands only")
}

func TestJoin_replacesATakenPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	r, err := reservePorts(t.Context(), local.Ports{}, local.Ports{S3: portOf(taken)})
	require.NoError(t, err)
	require.NotEqual(t, portOf(taken), portOf(r.s3))
}

func TestJoin_repairsAnIncompleteBucket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "s3")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, bucketName), 0o700))
	require.NoError(t, prepareObjects(dir))
	require.Empty(t, names(t, dir))
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}
