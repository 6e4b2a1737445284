package inputs

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"conclave/engine/files/snapshot"
)

func drawn(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 2))))
	return b.Bytes()
}

func parseImages(t *testing.T, names ...string) *Flags {
	t.Helper()
	var f Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddImages(set)
	for _, name := range names {
		require.NoError(t, set.Set("image", name))
	}
	return &f
}

// Two pictures of one name are two, and keep their order.
func TestFlags_images(t *testing.T) {
	t.Parallel()
	conn, _ := connected(t)
	var names []string
	for i, dir := range []string{t.TempDir(), t.TempDir()} {
		names = append(names, filepath.Join(dir, "lamp.png"))
		require.NoError(t, os.WriteFile(names[i], drawn(t, 3+i), 0o600))
	}
	f := parseImages(t, names[1], names[0])
	require.NoError(t, f.Check())
	m, err := f.Upload(t.Context(), conn)
	require.NoError(t, err)
	require.Len(t, m.Images, 2)
	for i, width := range []int{4, 3} {
		hash, err := snapshot.Parse(m.Images[i].Manifest)
		require.NoError(t, err)
		base, err := snapshot.Open(t.Context(), conn.Store, hash)
		require.NoError(t, err)
		file, found := base.File(m.Images[i].Path)
		require.True(t, found)
		require.Equal(t, "lamp.png", filepath.Base(file.Path))
		data, err := base.ReadFile(t.Context(), file)
		require.NoError(t, err)
		require.Equal(t, drawn(t, width), data)
	}
	again, err := StorePictures(t.Context(), conn.Store, []File{{Name: "../\n", Data: drawn(t, 5)}})
	require.NoError(t, err)
	require.Equal(t, "01/picture.png", again[0].Path)
}

func TestFlags_imagesRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, whole := filepath.Join(dir, "a.txt"), filepath.Join(dir, "a.png")
	require.NoError(t, os.WriteFile(text, []byte("no picture"), 0o600))
	require.NoError(t, os.WriteFile(whole, drawn(t, 3), 0o600))
	many := make([]string, 21)
	for i := range many {
		many[i] = whole
	}
	for want, names := range map[string][]string{
		"it is not a PNG, JPEG, GIF or WebP; give a whole": {text},
		"no such file or directory; name a picture":        {filepath.Join(dir, "none.png")},
		"it is no file": {dir},
		"there are 21 pictures of 1575 bytes; leave at most 20": many,
	} {
		require.ErrorContains(t, parseImages(t, names...).Check(), want)
	}
}
