package tools_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// onePixel is a WebP file.
const onePixel = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

func encoded(t *testing.T, format string, width, height int) string {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	var b bytes.Buffer
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, picture)
	case "jpeg":
		err = jpeg.Encode(&b, picture, nil)
	case "gif":
		err = gif.Encode(&b, picture, nil)
	case "webp":
		data, _ := base64.StdEncoding.DecodeString(onePixel)
		_, err = b.Write(data)
	}
	require.NoError(t, err)
	return b.String()
}

func (b bench) output(path string) loop.Output {
	b.t.Helper()
	out, err := b.files.Run(b.t.Context(), llm.ToolCall{Name: "read_file", Arguments: args("path", path)})
	require.NoError(b.t, err)
	return out
}

func TestRead_showsImages(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"png", "jpeg", "gif", "webp"} {
		data := encoded(t, format, 3, 2)
		b := workspace(t, "a picture", data)
		out := b.output("a picture")
		require.Equal(t, []llm.Image{{MediaType: "image/" + format, Data: []byte(data)}}, out.Images, "for any name")
		require.Contains(t, out.Text, `["a picture" is an image (image/`+format)
		require.Contains(t, out.Text, "it is shown below]")
	}
}

// A provider that refuses an image would end the step.
func TestRead_refusesUnusableImages(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "png", 300, 200)
	for name, tt := range map[string]struct{ content, says string }{
		"cut":             {whole[:len(whole)/2], "cannot be shown"},
		"only a word":     {"\x89PNG\r\n\x1a\n is how it begins", "cannot be shown"},
		"a cut WebP":      {encoded(t, "webp", 0, 0)[:20], "cannot be shown"},
		"too many pixels": {encoded(t, "png", 8001, 1), "8001 x 1 pixels; make a smaller one"},
		"too many bytes":  {whole + strings.Repeat("x", 5<<20), "more than 5.0 MB; make a smaller one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := workspace(t, "p", tt.content).output("p")
			require.Empty(t, out.Images)
			require.Contains(t, out.Text, tt.says)
		})
	}
}

func TestRead_boundsTheNumberOfImages(t *testing.T) {
	t.Parallel()
	b := workspace(t, "p.png", encoded(t, "png", 1, 1))
	shown := 0
	for range 25 {
		shown += len(b.output("p.png").Images)
	}
	require.Equal(t, 20, shown)
	require.Contains(t, b.output("p.png").Text, "the limit of 20 images in one turn is reached")
}
