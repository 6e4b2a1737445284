package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const journey = `# Buying a lamp

Every morning, before the shop opens.

## 1. Open the shop

Go to the start page.

` + "```sh\n## no heading\n```" + `

## Step 2: Buy!

The lamp is the first thing on the page.

### Preconditions
The basket is empty.

### Actions
1. Press "Buy".
2. Look at the basket.

#### On a phone
Open the menu first.

### Expected result
One lamp in the basket.

## Größe 🙂
### Notes
Look.
`

// A step is found after a byte order mark, but not within fenced code.
func TestParseMarkdown_editors(t *testing.T) {
	t.Parallel()
	d, err := ParseMarkdown("\ufeff## Open\nGo.\n~~~\n## code\n```\n## code\n~~~\n## Buy\nBuy.\n")
	require.NoError(t, err)
	require.Len(t, d.Steps, 2)
	require.Equal(t, "Open Buy", d.Steps[0].Title+" "+d.Steps[1].Title)
}

func TestParseMarkdown(t *testing.T) {
	t.Parallel()
	d, err := ParseMarkdown(strings.ReplaceAll(journey, "\n", "\r\n"))
	require.NoError(t, err)
	require.Equal(t, "Buying a lamp", d.Title)
	require.Equal(t, "Every morning, before the shop opens.", d.Before)
	require.Equal(t, []draft{
		{Title: "Open the shop", Actions: "Go to the start page.\n\n```sh\n## no heading\n```"},
		{
			Title: "Buy!", Description: "The lamp is the first thing on the page.", Preconditions: "The basket is empty.",
			Actions:  "1. Press \"Buy\".\n2. Look at the basket.\n\n\n#### On a phone\nOpen the menu first.",
			Expected: "One lamp in the basket.",
		},
		{Title: "Größe 🙂", Actions: "### Notes\nLook."},
	}, d.Steps)

	p, files, err := d.Plan("buy-a-lamp")
	require.NoError(t, err)
	require.Equal(t, []StepRef{
		{ID: "01", Title: "Open the shop", File: "01-open-the-shop.md"},
		{ID: "02", Title: "Buy!", File: "02-buy.md"},
		{ID: "03", Title: "Größe 🙂", File: "03-gr-e.md"},
	}, p.Steps)
	require.Equal(t, "# 01 Open the shop\n\n## Actions\n\nGo to the start page.\n\n```sh\n## no heading\n```\n", files["01-open-the-shop.md"])
	require.Contains(t, files["02-buy.md"], "\n## Expected Outcome\n\nOne lamp in the basket.\n")
}

func TestParseMarkdown_refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no step":           {"# Title\n\nDo it.\n", "the file has no step"},
		"a step of nothing": {"## Open\n\n## Buy\nBuy it.\n", "step 1 (Open) has no actions"},
		"no title":          {"## \nDo it.\n", "step 1 has no title"},
		"a long title":      {"## " + strings.Repeat("x", 201) + "\nDo it.\n", "201 characters"},
		"two scenarios":     {"# One\n## Open\nGo.\n# Two\n## Buy\nGo.\n", "a file contains one scenario"},
		"100 steps":         {strings.Repeat("## Open\nGo.\n", 100), "100 steps"},
		"a large step":      {"## Open\n" + strings.Repeat("Go on. ", 10<<10), "bytes, at most"},
	} {
		d, err := ParseMarkdown(c.text)
		if err == nil {
			_, _, err = d.Plan("slug")
		}
		require.ErrorContains(t, err, c.want, name)
	}
	_, _, err := Definition{Steps: []draft{{Title: "Open", Actions: "Go."}}}.Plan("../up")
	require.ErrorContains(t, err, "not a slug")
	_, _, err = Definition{Title: "a\nb", Steps: []draft{{Title: "Open", Actions: "Go."}}}.Plan("up")
	require.ErrorContains(t, err, "several lines")
}

func TestParseStep(t *testing.T) {
	t.Parallel()
	d, err := ParseStep(" Open the shop : go to http://127.0.0.1:3000 ")
	require.NoError(t, err)
	require.Equal(t, draft{Title: "Open the shop", Actions: "go to http://127.0.0.1:3000"}, d)
	for _, line := range []string{"", "Open", ":go", "Open: "} {
		_, err := ParseStep(line)
		require.Error(t, err, line)
	}
}

func TestPlan_fileNames(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"Open the shop":                            "01-open-the-shop.md",
		"  Many   spaces -- and, punctuation!  ":   "01-many-spaces-and-punctuation.md",
		"店を開く":                                     "01-step.md",
		"../../etc/passwd":                         "01-etc-passwd.md",
		strings.Repeat("word ", 40):                "01-word-word-word-word-word-word-word-word-word-wor.md",
		strings.Repeat("x", 47) + " cut at a dash": "01-" + strings.Repeat("x", 47) + ".md",
	} {
		p, files, err := Definition{Steps: []draft{{Title: title, Actions: "Go."}}}.Plan("slug")
		require.NoError(t, err)
		require.Equal(t, want, p.Steps[0].File)
		require.Contains(t, files, want)
		require.True(t, IsStepFile(want))
	}
}

// A definition that is accepted can run.
func FuzzParseMarkdown(f *testing.F) {
	f.Add(journey)
	f.Add("## a\n### Actions\n")
	f.Add("##\n#\n##### x")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseMarkdown(text)
		if err != nil {
			return
		}
		p, files, err := d.Plan("slug")
		if err != nil {
			return
		}
		require.NoError(t, p.Check())
		require.Len(t, files, len(p.Steps))
	})
}

// A step of a journey requests credentials in one line, which is converted to front matter.
func TestParseMarkdown_credentials(t *testing.T) {
	t.Parallel()
	d, err := ParseMarkdown("## Sign in\n\ncredentials: true\n\nGo.\n\n## Buy\n### Actions\nSay credentials: true.\n\n## Leave\ncredentials: true\n### Actions\nGo.\n")
	require.NoError(t, err)
	_, files, err := d.Plan("shop")
	require.NoError(t, err)
	require.Equal(t, "---\ncredentials: true\n---\n\n# 01 Sign in\n\n## Actions\n\nGo.\n", files["01-sign-in.md"])
	for file, want := range map[string]bool{"01-sign-in.md": true, "02-buy.md": false, "03-leave.md": true} {
		asks, err := AsksForCredentials(files[file])
		require.NoError(t, err)
		require.Equal(t, want, asks, file)
	}
}
