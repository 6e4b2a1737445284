package artifact

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lenient walk omits exactly the entries for which a strict walk fails, and returns a valid
// manifest of the others.
func TestWalk_lenient(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 50)
	deep := strings.Repeat("d/", maxDepth)
	for name, tt := range map[string]struct {
		sizes      map[string]int64
		links      int
		kept, left []string
	}{
		"a name":    {sizes: map[string]int64{"a": 1, long: 1, "z/" + long + "/x": 1, "z/y": 1}, kept: []string{"a", "z/y"}, left: []string{"z/" + long + "/x", long}},
		"a file":    {sizes: map[string]int64{"a": 1, "big": maxFileBytes + 1, "z": 1}, kept: []string{"a", "z"}, left: []string{"big"}},
		"depth":     {sizes: map[string]int64{"a": 1, deep + "x": 1, "z": 1}, kept: []string{"a", "z"}, left: []string{strings.TrimSuffix(deep, "/")}},
		"all bytes": {sizes: map[string]int64{"a": maxFileBytes, "b": maxFileBytes, "c/x": maxFileBytes, "c-": maxFileBytes - 1, "d": 2, "e": 1}, kept: []string{"a", "b", "c-", "c/x", "e"}, left: []string{"d"}},
		"count":     {sizes: map[string]int64{"a": 1, "z": 1}, links: maxFiles + 5, kept: []string{"a"}, left: []string{fmt.Sprintf("b%05d", maxFiles-1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, size := range tt.sizes {
				path := filepath.Join(dir, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, nil, 0o600))
				require.NoError(t, os.Truncate(path, size))
			}
			for i := range tt.links { // quicker than files or directories
				require.NoError(t, os.Symlink("a", filepath.Join(dir, fmt.Sprintf("b%05d", i))))
			}
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			require.Error(t, (&walk{root: root}).findFiles(t.Context()))

			w := &walk{root: root, lenient: true}
			require.NoError(t, w.findFiles(t.Context()))
			var kept, left []string
			for i, f := range w.files {
				if !f.isRegular() {
					continue
				}
				kept = append(kept, f.Path)
				w.files[i].SHA256 = strings.Repeat("0", 64)
			}
			for _, warning := range w.warnings {
				left = append(left, warning.Path)
			}
			require.Equal(t, tt.kept, kept)
			require.Equal(t, tt.left, left)
			require.NoError(t, Manifest{Files: w.files}.Check())
		})
	}
}
