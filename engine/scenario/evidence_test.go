package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckEvidence(t *testing.T) {
	t.Parallel()
	for given, want := range map[[2]string]string{
		{"before", "screenshot"}:       "before",
		{"before.PNG", "screenshot"}:   "before",
		{"before.jpg", "screenshot"}:   "before",
		{"before.txt", "screenshot"}:   "before.txt",
		{"trace.zip", "trace"}:         "trace",
		{"report.json", "custom"}:      "report",
		{"checkout.v2", "console_log"}: "checkout.v2",
	} {
		_, name, err := CheckEvidence(given[0], given[1])
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	for _, name := range []string{"", "../x", "a/b", ".hidden", "a..b", "x.meta", strings.Repeat("a", 101), "a b", "ä"} {
		_, _, err := CheckEvidence(name, "screenshot")
		require.Error(t, err, name)
	}
	for _, name := range []string{"before.meta", "before.meta.json", "before.META.json"} {
		_, _, err := CheckEvidence(name, "custom")
		require.Error(t, err, "the name of a description: %s", name)
	}
	_, _, err := CheckEvidence("a", "film")
	require.ErrorContains(t, err, "console_log")
	require.Len(t, EvidenceTypes(), 14)
}

// Files keep their format. Text is stored as text or JSON.
func TestKind_Format(t *testing.T) {
	t.Parallel()
	const (
		png  = "\x89PNG\r\n\x1a\n\x00"
		jpeg = "\xff\xd8\xff\xe0"
		zip  = "PK\x03\x04\xff"
		webm = "\x1a\x45\xdf\xa3"
		pdf  = "%PDF-1.7\n\xff"
	)
	for _, c := range []struct{ kind, content, file, want string }{
		{"screenshot", png, "a.png", "png image/png"},
		{"screenshot", jpeg, "a.jpeg", "jpg image/jpeg"},
		{"trace", zip, "trace.zip", "zip application/zip"},
		{"video", webm, "v.webm", "webm video/webm"},
		{"pdf", pdf, "r.pdf", "pdf application/pdf"},
		{"custom", zip, "a.JAR", "jar application/zip"},
		{"custom", "\xff\x00", "dump.json", "bin application/octet-stream"},
		{"custom", "\xff\x00", "core", "bin application/octet-stream"},
		{"custom", `{"a":1}`, "a.json", "json application/json"},
		{"custom", "words", "", "json application/json"},
		{"stdout", "\xff words", "out", "txt text/plain; charset=utf-8"},
		{"html_snapshot", "<p>", "", "html text/html; charset=utf-8"},
	} {
		k, _, err := CheckEvidence("x", c.kind)
		require.NoError(t, err)
		f, _, err := k.Format([]byte(c.content), c.file)
		require.NoError(t, err)
		require.Equal(t, c.want, f.Extension+" "+f.ContentType, c.kind+" "+c.file)
	}
	for kind, content := range map[string]string{"screenshot": "words", "trace": png, "video": jpeg, "pdf": zip} {
		k, _, err := CheckEvidence("x", kind)
		require.NoError(t, err)
		_, _, err = k.Format([]byte(content), "x")
		require.ErrorContains(t, err, "a "+kind+" is a file of the format")
	}
}
