package sandbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// newPDF returns a document of one page with the given content, and further objects from number 6 on.
func newPDF(content string, more ...string) string {
	objects := append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >> >>",
		stream("", content),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /FirstChar 32 /LastChar 126 /Widths [" + strings.Repeat("500 ", 95) + "] >>",
	}, more...)
	out, at := "%PDF-1.7\n", make([]int, 0, len(objects))
	for i, o := range objects {
		at = append(at, len(out))
		out += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	table := len(out)
	out += fmt.Sprintf("xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, offset := range at {
		out += fmt.Sprintf("%010d 00000 n \n", offset)
	}
	return out + fmt.Sprintf("trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, table)
}

func stream(entries, content string) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", entries, len(content), content)
}

func TestReadPDF(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ document, text string }{
		"lines":                         {newPDF("BT /F1 10 Tf 12 TL 50 700 Td (first line) Tj T* (second) Tj ET"), "first line\nsecond"},
		"objects for each line":         {newPDF("BT /F1 10 Tf 1 0 0 1 50 700 Tm (first) Tj ET BT 1 0 0 1 50 600 Tm (second) Tj ET"), "first\nsecond"},
		"words by kerning":              {newPDF("BT /F1 10 Tf 50 700 Td [(Some)-333(w)20(ords)] TJ ET"), "Some words"},
		"letters at their places":       {newPDF("BT /F1 10 Tf 50 700 Td (a) Tj 5 0 Td (b) Tj 9 0 Td (c) Tj ET"), "ab c"},
		"columns of a table":            {newPDF("BT /F1 10 Tf 50 700 Td (North) Tj 100 0 Td (1,234) Tj ET"), "North 1,234"},
		"an exponent stays on its line": {newPDF("BT /F1 10 Tf 50 700 Td (x) Tj /F1 7 Tf 5 3 Td (2) Tj ET"), "x2"},
		"in a form":                     {newPDF("q 1 0 0 1 0 100 cm /X Do Q", stream("/Type /XObject /Subtype /Form /Resources << /Font << /F1 5 0 R >> >>", "BT /F1 10 Tf (in a form) Tj ET")), "in a form"},
		"a form in itself":              {newPDF("BT /F1 10 Tf (begin) Tj ET /X Do", stream("/Type /XObject /Subtype /Form /Resources << /XObject << /X 6 0 R >> >>", "/X Do")), "begin"},
		"operators without operands":    {newPDF("BT Tf /F1 10 Tf 50 700 Td TJ Tj Do cm Q (text) Tj ET"), "text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := sandbox.ReadPDF(context.Background(), strings.NewReader(c.document))
			require.NoError(t, err)
			require.Equal(t, "[page 1]\n"+c.text+"\n", text)
		})
	}
}

func TestReadPDF_ofABrowser(t *testing.T) {
	t.Parallel()
	document, err := os.Open("testdata/browser.pdf")
	require.NoError(t, err)
	defer func() { _ = document.Close() }()
	text, err := sandbox.ReadPDF(context.Background(), document)
	require.NoError(t, err)
	for _, line := range []string{"Quarterly report", "Umlauts: äöü ß, Greek: αβγ", "Region Sales", "North 1,234", "Lorem ipsum dolor sit amet, consectetur"} {
		require.Contains(t, text, line)
	}
}

func TestReadPDF_refuses(t *testing.T) {
	t.Parallel()
	random := make([]byte, 64<<10)
	for i := range random {
		random[i] = byte(rand.New(rand.NewPCG(1, uint64(i))).Uint32())
	}
	whole := newPDF("BT /F1 10 Tf (text) Tj ET")
	for name, c := range map[string]struct{ document, reason string }{
		"no text":                  {newPDF("0 0 m 10 10 l S"), "it has no text"},
		"no document":              {"%PDF-1.7\n" + string(random), "it is damaged"},
		"nothing":                  {"", "it is damaged"},
		"a half":                   {whole[:len(whole)/2], "it is damaged"},
		"a name in a list's place": {strings.Replace(whole, "/Kids [3 0 R]", "/Kids /None", 1), "it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := sandbox.ReadPDF(context.Background(), strings.NewReader(c.document))
			reason := &sandbox.DocumentError{}
			require.ErrorAs(t, err, &reason, text)
			require.Contains(t, reason.Reason, c.reason)
		})
	}
}

func TestReadPDF_leavesOutWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	text, err := sandbox.ReadPDF(context.Background(), strings.NewReader(newPDF("BT /F1 10 Tf "+strings.Repeat("(0123456789012345678901234567890123456789) Tj ", 120_000)+"ET")))
	require.NoError(t, err)
	require.Less(t, len(text), 4<<20+100)
	require.Contains(t, text[len(text)-100:], "the rest is left out")
}
