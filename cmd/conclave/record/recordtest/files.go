package recordtest

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
)

// files stores the files of an answer as in a pulled session, with their manifest. It
// returns the manifest's hash.
func (p *Play) files(l *launch, files map[string]string) string {
	p.t.Helper()
	if len(files) == 0 {
		return ""
	}
	dir := p.t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(p.t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(p.t, os.WriteFile(file, []byte(content), 0o600))
	}
	m, hash, err := artifact.OpenWorkingCopy(p.Store, p.Layout, dir, p.t.TempDir()).Seal(p.t.Context())
	require.NoError(p.t, err)
	require.NoError(p.t, m.Tree(nil).Project(p.t.Context(), p.Store, p.Layout, p.Layout.Step(l.Agent, l.number, "workspace")))
	p.put(p.Layout.Step(l.Agent, l.number, "workspace.json"), m)
	return hash
}

func emptyFile() *bytes.Reader { return bytes.NewReader(nil) }
