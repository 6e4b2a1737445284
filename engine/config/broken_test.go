package config

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the expected messages")

// broken is one case of testdata/broken.txt.
type broken struct {
	title, text, want string
}

func (b broken) reach() Reach {
	if strings.HasSuffix(b.title, " (cluster)") {
		return Cluster
	}
	return Local
}

// file is the name in messages: the last word on what a person sees.
func (b broken) file() string {
	if b.reach() == Cluster {
		return "input config"
	}
	return "team.yaml"
}

const brokenFile = "testdata/broken.txt"

func readBroken(tb testing.TB) (preamble string, cases []broken) {
	tb.Helper()
	data, err := os.ReadFile(brokenFile)
	require.NoError(tb, err)
	sections := strings.Split(string(data), "\n=== ")
	for _, section := range sections[1:] {
		title, rest, ok := strings.Cut(section, "\n")
		require.True(tb, ok)
		text, want, ok := strings.Cut("\n"+rest, "\n>>>\n")
		require.True(tb, ok, "no >>> in %s", title)
		if text != "" {
			text = text[1:] + "\n"
		}
		cases = append(cases, broken{title, text, strings.TrimRight(want, "\n")})
	}
	return sections[0], cases
}

func TestBrokenFilesAreRefusedWithEveryProblemAtItsPlace(t *testing.T) {
	t.Parallel()
	preamble, cases := readBroken(t)
	if *update {
		var b strings.Builder
		b.WriteString(preamble)
		for _, c := range cases {
			_, err := Parse(c.file(), []byte(c.text), c.reach())
			require.Error(t, err, c.title)
			b.WriteString("\n=== " + c.title + "\n" + c.text + ">>>\n" + err.Error() + "\n")
		}
		require.NoError(t, os.WriteFile(brokenFile, []byte(b.String()), 0o644))
		return
	}
	for _, c := range cases {
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			team, err := Parse(c.file(), []byte(c.text), c.reach())
			require.EqualError(t, err, c.want)
			require.Zero(t, team, "a refused configuration is no team")

			var problems Problems
			require.ErrorAs(t, err, &problems)
			for _, p := range problems {
				require.Equal(t, c.file(), p.File)
				require.Positive(t, p.Line)
				require.Positive(t, p.Column)
				require.LessOrEqual(t, p.Line, strings.Count(c.text, "\n")+1, "the line is in the text")
			}
			for _, secret := range []string{"verysecret", "very-secret", "hunter2", "me:secret", "key=secret", "98765432"} {
				require.NotContains(t, err.Error(), secret, "a secret is never repeated")
			}
			require.NotContains(t, err.Error(), "\x1b", "nothing reaches the terminal unescaped")
		})
	}
}
