package llm

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func encodedPNG(t *testing.T, width, height int) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))
	return b.String()
}

func TestImage_check(t *testing.T) {
	t.Parallel()
	whole := encodedPNG(t, 300, 200)
	for name, tt := range map[string]struct{ data, format, says string }{
		"PNG":             {whole, "image/png", ""},
		"text":            {"BM begins like a bitmap", "", "it is not a PNG, JPEG, GIF or WebP"},
		"cut":             {whole[:len(whole)/2], "image/png", "it is damaged"},
		"begin only":      {"\x89PNG\r\n\x1a\n", "image/png", "it is damaged"},
		"cut WebP":        {"RIFF\xff\xff\x00\x00WEBPVP8 ", "image/webp", "it is damaged"},
		"odd WebP":        {"RIFF\x0c\x00\x00\x00WEBPVP8Z" + strings.Repeat("\x00", 8), "image/webp", `it has the unknown form "VP8Z"`},
		"wide":            {encodedPNG(t, 8001, 1), "image/png", "it has 8001×1 pixels, more than 8000 on a side or 32 million in all"},
		"too many pixels": {encodedPNG(t, 8000, 4001), "image/png", "it has 8000×4001 pixels"},
		"too many bytes":  {whole + strings.Repeat("x", 5<<20), "image/png", "it has more than 5 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := Image{Data: []byte(tt.data)}
			require.Equal(t, tt.format, i.Format())
			if tt.says == "" {
				require.NoError(t, i.CheckWhole())
			} else {
				require.ErrorContains(t, i.CheckWhole(), tt.says)
			}
		})
	}
}
