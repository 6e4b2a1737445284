package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// Empty directories end in a slash, whether they were added or removed.
func TestChangedFiles(t *testing.T) {
	t.Parallel()
	file := artifact.File{Path: "a.go", Mode: 0o644, SHA256: strings.Repeat("0", 64)}
	base, err := artifact.NewBase(strings.Repeat("1", 64), artifact.Manifest{Files: []artifact.File{file, {Path: "gone.go", Mode: 0o644, SHA256: file.SHA256}, {Path: "hollow", Dir: true}}}, nil)
	require.NoError(t, err)
	c := artifact.Change{Files: []artifact.File{file, {Path: "made", Dir: true}, {Path: "new.go"}}, Removed: []string{"gone.go", "hollow"}}
	require.Equal(t, []changedFile{{"M", "a.go"}, {"D", "gone.go"}, {"D", "hollow/"}, {"A", "made/"}, {"A", "new.go"}}, changedFiles(c, base))
	require.Empty(t, changedFiles(c, nil))
}
