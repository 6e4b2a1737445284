package tools_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	t.Parallel()
	b := workspace(t,
		"whole", "one\r\n\ttwo\nthree", "empty", "", "long", numbered(5000), "bin", "PNG\x00\x01", "wide", strings.Repeat("x", 10_000)+"\nend\n",
		"latin1", "caf\xe9\n", "fat", strings.Repeat(strings.Repeat("y", 999)+"\n", 100))
	require.Equal(t, "one\r\n\ttwo\nthree", b.run("read_file", "path", "whole"), "unchanged")
	require.Equal(t, "\ttwo\n[lines 2-2 of whole (15 bytes in all); read on with offset 3]", b.run("read_file", "path", "./whole", "offset", 2, "limit", 1))
	require.Equal(t, "three", b.run("read_file", "path", "whole", "offset", 3, "limit", 1))
	require.Equal(t, "one\r\n\ttwo\nthree", b.run("read_file", "path", "whole", "offset", 0, "limit", 1e300))
	require.Equal(t, "[whole has only 3 lines; there is no line 9]", b.run("read_file", "path", "whole", "offset", 9))
	require.Equal(t, "[whole has only 3 lines; there is no line 1099511627776]", b.run("read_file", "path", "whole", "offset", 1e300))
	require.Equal(t, "[empty is empty]", b.run("read_file", "path", "empty"))
	require.Equal(t, "[bin is a binary file of 5 bytes; its content is not shown]", b.run("read_file", "path", "bin"))
	require.Equal(t, "caf\uFFFD\n", b.run("read_file", "path", "latin1"))

	result := b.run("read_file", "path", "long")
	require.True(t, strings.HasPrefix(result, "line 1\n"))
	require.True(t, strings.HasSuffix(result, "line 2000\n[lines 1-2000 of long (47.7 KB in all); read on with offset 2001]"), result[len(result)-100:])
	require.True(t, strings.HasSuffix(b.run("read_file", "path", "long", "offset", 4001), "line 5000\n"))

	result = b.run("read_file", "path", "wide")
	require.Equal(t, strings.Repeat("x", 4096)+"… [5905 more bytes of this line]\nend\n", result)

	result = b.run("read_file", "path", "fat")
	require.Less(t, len(result), 49<<10)
	require.Contains(t, result, "[lines 1-49 of fat")
}

// Reading on at the suggested offsets shows every line once.
func TestRead_continues(t *testing.T) {
	t.Parallel()
	whole := numbered(4321)
	b := workspace(t, "f", whole)
	var got strings.Builder
	for offset := 1; ; {
		result := b.run("read_file", "path", "f", "offset", offset)
		text, note, more := strings.Cut(result, "[")
		got.WriteString(text)
		if !more {
			break
		}
		_, err := fmt.Sscanf(note[strings.Index(note, "offset"):], "offset %d]", &offset)
		require.NoError(t, err)
	}
	require.Equal(t, whole, got.String())
}

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
		"too many pixels": {encoded(t, "png", 8001, 1), "it has 8001×1 pixels, more than 8000 on a side"},
		"too many bytes":  {whole + strings.Repeat("x", 5<<20), "it has more than 5 MiB"},
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

func TestRead_showsTheTextOfDocuments(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../sandbox/testdata/browser.pdf")
	require.NoError(t, err)
	b := workspace(t, "report", string(document), "cut.pdf", string(document[:5000]))
	require.Contains(t, b.run("read_file", "path", "report"), "[page 1]\nQuarterly report\n")
	page := b.run("read_file", "path", "report", "offset", 2, "limit", 1)
	require.Contains(t, page, "Quarterly report\n[lines 2-2 of report")
	require.Contains(t, b.run("read_file", "path", "cut.pdf"), "[cut.pdf is a PDF document that cannot be read: it is damaged")
}

// Source code about PDF is text.
func TestRead_onlyWhatBeginsAsADocumentIsOne(t *testing.T) {
	t.Parallel()
	source := "package pdf\n\nconst header = \"%PDF-1.7\"\n"
	require.Equal(t, source, workspace(t, "pdf.go", source).run("read_file", "path", "pdf.go"))
}

func TestRead_namesSoundAndVideo(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"tagged.mp3": "ID3\x04 tags", "plain.mp3": "\xFF\xFBsound", "a.wav": "RIFF\x24\x08\x00\x00WAVEfmt ", "a.ogg": "OggS\x00", "a.mp4": "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom",
	} {
		require.Contains(t, workspace(t, name, content).run("read_file", "path", name), "sound or video of", name)
	}
}
