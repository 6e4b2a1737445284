package config

import (
	"errors"
	"flag"
	"os"
	"reflect"
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

// file returns the name of the file in messages.
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

func TestParse_reportsEveryProblemAtItsPosition(t *testing.T) {
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
			require.Zero(t, team, "no team is returned with an error")

			problems, ok := errors.AsType[Problems](err)
			require.True(t, ok)
			for _, p := range problems {
				require.Equal(t, c.file(), p.File)
				require.Positive(t, p.Line)
				require.Positive(t, p.Column)
				require.LessOrEqual(t, p.Line, strings.Count(c.text, "\n")+1, "the line is in the text")
			}
			for _, secret := range []string{"verysecret", "very-secret", "hunter2", "me:secret", "key=secret", "98765432"} {
				require.NotContains(t, err.Error(), secret, "a secret is never repeated")
			}
			require.NotContains(t, err.Error(), "\x1b", "control characters are escaped")
		})
	}
}

func TestParseSingle_needsNoID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"agent: {id: agent_q, backend: {model: m}}":                    "agent_q",
		"agents: [{id: agent_q, backend: {model: m}}]":                 "agent_q",
		"agent: {backend: {model: m}}":                                 "",
		"agents: [{backend: {model: m}}]":                              "",
		`{"agent": {"backend": {"type": "offline"}}}`:                  "",
		"agent: {backend: {model: m}}\norchestrator: {pacing: rounds}": "",
	} {
		team, err := ParseSingle("team.yaml", []byte(text))
		require.NoError(t, err, text)
		require.Len(t, team.Agents, 1)
		require.Equal(t, want, team.Agents[0].ID, text)
	}
	for text, says := range map[string]string{
		"agents: [{id: a, backend: {model: m}}, {id: b, backend: {model: m}}]": "2 agents are too many",
		"agents: []": "no agents",
		"":           "empty",
		"agent: {id: Agent, backend: {model: m}}": "not an agent id",
		`agent: {id: "", backend: {model: m}}`:    "not an agent id",
		"agent: {backend: {}}":                    "model",
		"agent: {bakend: {model: m}}":             "unknown key",
	} {
		_, err := ParseSingle("team.yaml", []byte(text))
		require.ErrorContains(t, err, says, text)
	}
	_, err := Parse("team.yaml", []byte("agent: {backend: {model: m}}"), Local)
	require.ErrorContains(t, err, "every agent has an id of its own", "a team's agents have IDs")
}

// FuzzParse verifies that accepted texts and their canonical forms parse to the same value, both on
// a cluster and locally.
func FuzzParse(f *testing.F) {
	f.Add(string(Starter(nil)), false)
	f.Add(contract, false)
	_, cases := readBroken(f)
	for _, c := range cases {
		f.Add(c.text, c.reach() == Cluster)
	}
	f.Fuzz(func(t *testing.T, text string, cluster bool) {
		reach := Local
		if cluster {
			reach = Cluster
		}
		team, err := Parse("team.yaml", []byte(text), reach)
		if err != nil {
			_, ok := errors.AsType[Problems](err)
			require.True(t, ok)
			return
		}
		canonical, err := team.Canonical()
		require.NoError(t, err)
		for _, r := range []Reach{reach, Local} {
			again, err := Parse("canonical", canonical, r)
			require.NoError(t, err, string(canonical))
			if !reflect.DeepEqual(team, again) {
				require.Equal(t, team, again)
			}
		}
	})
}

// FuzzParseCriteria verifies that accepted criteria have texts.
func FuzzParseCriteria(f *testing.F) {
	f.Add(`[{"text": "a", "category": "must", "anti_patterns": ["b"], "score_anchors": {"1": "c"}}]`)
	f.Add(`{"criteria": [{"name": "a"}, 1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		criteria, err := ParseCriteria("c.json", []byte(text))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		for _, c := range criteria {
			require.NotEmpty(t, c.Text)
		}
	})
}
