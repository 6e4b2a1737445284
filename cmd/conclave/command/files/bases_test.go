package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

// stock stores a directory with one file as a base that was last used days ago.
func (s *shop) stock(content string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o644))
	done, err := snapshot.Upload{Store: s.store, Dir: dir, Now: time.Now}.Run(s.t.Context())
	require.NoError(s.t, err)
	old := time.Now().Add(-2 * snapshot.Grace)
	require.NoError(s.t, filepath.WalkDir(s.store.URL("base"), func(path string, e fs.DirEntry, err error) error {
		require.NoError(s.t, err)
		return os.Chtimes(path, old, old)
	}))
	return done.Hash
}

// kept reports whether the store has a base.
func (s *shop) kept(hash string) bool {
	s.t.Helper()
	_, err := snapshot.Open(s.t.Context(), s.store, hash)
	return err == nil
}

func TestSweepBases(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	named, shown, unnamed, gone := s.stock("named"), s.stock("shown"), s.stock("unnamed"), s.stock("gone")
	s.put("sessions/s2/session.json", `{"query":"Why?","base":"`+snapshot.Reference(named)+`"}`)
	s.put("pipelines/p2/pipeline.json", `{"request":"Go","context":[{"name":"docs","manifest":"`+snapshot.Reference(shown)+`"}]}`)
	s.put("sessions/s3/session.json", `{"query":"Why?","base":"`+snapshot.Reference(gone)+`"}`)
	s.conn.CLI.DataDir = t.TempDir()
	inputs.Remember(s.conn, "s3", "/home/me/project")
	inv := s.inventory()
	s3, err := inv.findRun(t.Context(), "s3")
	require.NoError(t, err)

	would, err := inv.sweepBases(t.Context(), []*endedRun{s3}, true)
	require.NoError(t, err)
	require.Equal(t, 8, would.Objects, "manifest, use, index and pack of two bases")
	require.True(t, s.kept(unnamed))

	r := newReport(nil, nil, nil)
	require.Zero(t, r.finishBases(t.Context(), inv, nil))
	require.Equal(t, 4, r.Bases.Objects)
	require.Equal(t, r.Bases.Bytes, r.Bytes)
	require.False(t, s.kept(unnamed))
	require.True(t, s.kept(gone), "its session is still there")

	require.NoError(t, s.store.Delete(t.Context(), "sessions/s3/session.json"))
	require.Zero(t, r.finishBases(t.Context(), inv, []*endedRun{s3}))
	require.Equal(t, []bool{true, true, false}, []bool{s.kept(named), s.kept(shown), s.kept(gone)})
	dir, err := inputs.Directory(s.conn, "s3")
	require.NoError(t, err)
	require.Empty(t, dir)
}

func TestSweepBases_busy(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	unnamed := s.stock("unnamed")
	require.NoError(t, artifact.PutJSON(t.Context(), s.store, snapshot.Root+"holds/upload.json", map[string]time.Time{"expires": time.Now().Add(time.Hour)}))
	r := newReport(nil, nil, nil)
	require.Zero(t, r.finishBases(t.Context(), s.inventory(), nil))
	require.True(t, s.kept(unnamed))
	require.Contains(t, s.errs.String(), "unused bases stay until the next prune")
}
