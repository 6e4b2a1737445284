package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const prd = `# The Lamp Shop

A long story for people.

## Application Type

Web application

## Base URL

http://127.0.0.1:3000

### Mirrors

http://127.0.0.1:3001

## Tech Stack

Go, SQLite

## Main Scenarios

Buying things.

## Credentials

- **User**: ada@example.org
- Password: ` + "`correct horse`" + ` (changes weekly)

### Clerk

* PIN: 123
* key = id: 'abcd 1234'

## Notes

Other things.
`

func parse(t *testing.T, prd string) Project {
	t.Helper()
	p, err := ParseProject(prd)
	require.NoError(t, err)
	return p
}

func TestProject_Summary(t *testing.T) {
	t.Parallel()
	p := parse(t, strings.ReplaceAll(prd, "\n", "\r\n"))
	brief := p.Summary(false)
	for _, has := range []string{"Web application", "## Base URL\nhttp://127.0.0.1:3000", "### Mirrors\nhttp://127.0.0.1:3001", "Go, SQLite"} {
		require.Contains(t, brief, has)
	}
	for _, hasNot := range []string{"long story", "Buying things", "Other things", "Credentials", "ada@", "correct", "Clerk", "123", "abcd"} {
		require.NotContains(t, strings.ReplaceAll(brief, "127", ""), hasNot)
	}
	full := p.Summary(true)
	require.Contains(t, full, "- **User**: ada@example.org\n- Password: `correct horse` (changes weekly)")
	require.Contains(t, full, "### Clerk\n* PIN: 123")
	require.NotContains(t, full, "Other things")
	require.Equal(t, full, p.Summary(true))
	require.Empty(t, parse(t, "").Summary(true))
}

// A long description is truncated, but credentials are not.
func TestProject_Summary_long(t *testing.T) {
	t.Parallel()
	long := parse(t, "## Tech Stack\n"+strings.Repeat("ä", 5000)+"\n## Credentials\nPassword: hunter2\n")
	for _, with := range []bool{false, true} {
		summary := long.Summary(with)
		require.LessOrEqual(t, len(summary), 4<<10)
		require.Contains(t, summary, "ä\n[cut]")
		require.Equal(t, with, strings.Contains(summary, "hunter2"))
	}
}

// Sections are determined only by headings. A subsection belongs to its section, but cannot make
// credentials public.
func TestProject_sections(t *testing.T) {
	t.Parallel()
	p := parse(t, "# Environment of Users\n\nFor people.\n\n## Services\n\n### API\n\nhttp://127.0.0.1:8\n\n#### URL\n\nhttp://127.0.0.1:9\n\n"+
		"#### Credentials:\n\n- key: key-12345\n\n##### Services\n\n- other: key-67890\n\n### Web\n\nhttp://127.0.0.1:10\n\n## Notes\n\n### More\n\nOther things.\n")
	brief := p.Summary(false)
	for _, has := range []string{"127.0.0.1:8", "127.0.0.1:9", "127.0.0.1:10"} {
		require.Contains(t, brief, has)
	}
	for _, hasNot := range []string{"For people", "key-", "Other things"} {
		require.NotContains(t, brief, hasNot)
	}
	require.Equal(t, []string{"key-12345", "key-67890"}, p.Secrets())
}

func TestProject_Secrets(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"ada@example.org", "correct horse", "abcd 1234"}, parse(t, prd).Secrets(), "a value of three characters is not redacted")
	for line, want := range map[string][]string{
		"Password: hunter2":                                {"hunter2"},
		"- **Password:** hunter2":                          {"hunter2"},
		"password: \"two words\"":                          {"two words"},
		"* API key: sk-12345":                              {"sk-12345"},
		"- alice: it's":                                    {"it's"},
		"- site: http://alice:hunter2@127.0.0.1:3000/":     {"http://alice:hunter2@127.0.0.1:3000/", "alice", "hunter2", "alice:hunter2", "YWxpY2U6aHVudGVyMg=="},
		"- site: https://a%40b.org:p%40ss!@example.org/x":  {"a%40b.org", "a@b.org", "p%40ss!", "p@ss!"},
		"- database: postgres://ab:cd@db/shop":             {"ab:cd"},
		"- mirror: https://ghp_12345@example.org/":         {"ghp_12345"},
		"- header: 'Authorization: Bearer eyJhbGciOi' now": {"Authorization: Bearer eyJhbGciOi"},
	} {
		require.Subset(t, parse(t, "## Credentials\n\n"+line).Secrets(), want, line)
	}
	for _, undeclared := range []string{"Password: hunter2", "## Authentication\n\n- Password: hunter2", "## Base URL\nhttp://127.0.0.1:3000/?from=a@b", "## URL\n\nhttp://127.0.0.1:3000/people/@alice"} {
		require.Empty(t, parse(t, undeclared).Secrets(), undeclared)
	}
}

// A credential that could not be redacted is refused, and not repeated in the error.
func TestParseProject_refuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# Shop\n\n## Credentials\n\nada / hunter2":       "prd.md, line 5",
		"## Credentials\n| ada | hunter2 |":               "line 2",
		"## Credentials\n- Password: hunter2 and so on":   "spaces in quotes",
		"## Credentials\n- Password: `hunter2":            "line 2",
		"## Credentials\n- Password:":                     "line 2",
		"## Base URL\nhttp://ada:hunter2@127.0.0.1/":      `below "Base URL" contains a user or password`,
		"## Stack\n### Mirror\nSee <https://hunter2@x/>.": `below "Mirror"`,
	} {
		_, err := ParseProject(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// HarshJudge writes accounts below Authentication, which no step reads.
func TestProject_unread(t *testing.T) {
	t.Parallel()
	for prd, want := range map[string]string{
		"# Shop\n\n## Authentication\n\n- user: ada\n": `prd.md, line 3: no step reads the section "Authentication"`,
		"## Test users:\nada / hunter2":                `line 1: no step reads the section "Test users:"`,
		"## Credentials\n- user: ada\n":                "",
		"## Notes\nAuthentication is by cookie.\n":     "",
	} {
		p, err := ParseProject(prd)
		require.NoError(t, err)
		require.Contains(t, p.Unread, want)
		require.Equal(t, want == "", p.Unread == "", prd)
		require.NotContains(t, p.Unread, "hunter2")
	}
}

func TestAsksForCredentials(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{
		"":                                       false,
		"# 01 Log in\n\nLog in as the owner.\n":  false,
		"---\ncredentials: true\n---\n\n# 01 Go": true,
		"\ufeff---\r\ntags: [a]\r\ncredentials:  true\r\n---\r\n# 01 Go": true,
		"---\ncredentials: false\n---\n":                                 false,
		"---\n---\n":                                                     false,
		"---\ncredentials: true\n":                                       false, // never closed
		"# 01\n---\ncredentials: true\n---\n":                            false,
	} {
		asks, err := AsksForCredentials(file)
		require.NoError(t, err, file)
		require.Equal(t, want, asks, file)
	}
	for file, want := range map[string]string{
		"---\ncredentials: {password: hunter2}\n---\n": "true or false",
		"# 01 Go\n\n## Credentials\n\n- a: hunter2\n":  "belongs in prd.md",
	} {
		_, err := AsksForCredentials(file)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
