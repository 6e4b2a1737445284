package page

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
)

var update = flag.Bool("update", false, "write the golden files")

// drawn is the page of a played session.
func drawn(t *testing.T, p *stage.Play) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Write(t.Context(), &out, record.NewReader(p.Store, p.Layout, nil), "", stage.Began.Add(time.Hour)))
	return out.String()
}

// visible is the text of a page without style, script and tags.
func visible(html string) string {
	html = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>`).ReplaceAllString(html, "")
	html = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(html, " ")
	return strings.Join(strings.Fields(html), " ")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "write it with go test -update")
	require.Equal(t, string(want), got)
}

// The page of a session with each kind of end, without the parts that all pages have in common,
// matches its golden file.
func TestWrite_golden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"three rounds", "dissent", "tie", "finished by a person", "one failure", "all failed", "checks", "evaluated"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			html := drawn(t, stage.Named(t, name))
			main := html[strings.Index(html, "</style>")+len("</style>") : strings.Index(html, `<section id="glossary"`)]
			golden(t, strings.ReplaceAll(name, " ", "_")+".html", main)
		})
	}
}

// The head of a page names its policy, and its end has the glossary and the keys.
func TestWrite_frame(t *testing.T) {
	t.Parallel()
	html := drawn(t, stage.ThreeRounds(t))
	require.Contains(t, html, `<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; style-src &#39;sha256-`)
	require.Contains(t, html, "<style>"+style+"</style>")
	require.Contains(t, html, "<script>"+script+"</script>")
	_, words, _ := strings.Cut(html, `<dl class="glossary">`)
	require.Equal(t, 10, strings.Count(words[:strings.Index(words, "</dl>")], "<dt>"))
	require.Contains(t, html, "<kbd>j</kbd> <kbd>k</kbd>")
}

func TestWrite_tells(t *testing.T) {
	t.Parallel()
	text := visible(drawn(t, stage.ThreeRounds(t)))
	for _, want := range []string{
		"The decision: agent3.2, by agent_c",
		"won by consensus: 3 of 3 active agents voted for it",
		"moved from agent2.1 after seeing agent3.2",
		"The shop is often offline.",
		"no_tool_calls",
	} {
		require.Contains(t, strings.ReplaceAll(text, " ,", ","), want)
	}
}

// The reasons of the voters tell what each had chosen before, by the author of the answer; the sentences tell
// the outcome alone.
func TestWrite_backToItsOwn(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, stage.Named(t, "back to its own"))
	sides := sidesOf(s)
	require.Len(t, sides, 2)
	require.Equal(t, []reason{
		{Voters: []voter{{"agent_a", "c0", "step-agent_a-002"}}, Text: "Twice is better.", Moves: []string{"gave up its own agent1.1 after seeing agent2.2 and agent3.1"}},
		{Voters: []voter{{"agent_b", "c1", "step-agent_b-003"}}, Text: "Mine."},
	}, sides[0].Said)
	require.True(t, sides[0].For)
	require.Equal(t, []string{
		"gave up its own agent3.1 and voted for agent1.1 after seeing agent1.1 and agent2.1", "went back from agent1.1 to its own agent3.1 after seeing agent2.2",
	}, sides[1].Said[0].Moves)
	require.Len(t, explainOutcome(s), 1)
	require.Equal(t, []string{`a reply in step 002 of agent_c (invalid_vote_id); the model was told: “The agent_id names no answer that you were shown.”`}, rejectionLines(s))
}

// No session needs more than three sentences, and no sentence is among the facts.
func TestExplainOutcome_brief(t *testing.T) {
	t.Parallel()
	for _, script := range stage.Scripts {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			s := sessionOf(t, script.Play(t))
			told := explainOutcome(s)
			require.LessOrEqual(t, len(told), 3)
			for _, f := range factsOf(s) {
				require.NotEmpty(t, f.Lines, f.Name)
				for _, line := range f.Lines {
					require.NotContains(t, told, line)
				}
			}
		})
	}
}

// A page of any session is small enough to be attached to a message.
func TestWrite_large(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, strings.Repeat("Why? ", 3000), coordination.Config{Agents: stage.Three, MaxStepsPerAgent: 50})
	long := strings.Repeat("a <b> & \"c\" ", 4000)
	for round := range 12 {
		for _, agent := range stage.Three {
			p.Tool(1, agent, "run_command", `{"command":"make"}`, long)
			p.Answer(1, agent, strings.Repeat("x", round+1)+long, map[string]string{"notes.txt": long + agent})
		}
	}
	html := drawn(t, p)
	require.Less(t, len(html), maxPage)
	require.Contains(t, html, "more bytes in <code>agents/agent_a/001/answer.json</code>")
	require.Contains(t, html, "agents/agent_a/001/transcript.jsonl")
}

// Other programs record no question.
func TestWrite_withoutAQuestion(t *testing.T) {
	t.Parallel()
	html := drawn(t, stage.NewRecord(t, "", coordination.Config{Agents: stage.Three}))
	require.Contains(t, html, "<title>(no question) · conclave</title>")
	require.Contains(t, html, "<h1>(no question)</h1>")
}

func TestWrite_thousandSteps(t *testing.T) {
	t.Parallel()
	html := drawn(t, stage.Thousand(t))
	require.Less(t, len(html), maxPage)
	require.Contains(t, html, `id="step-agent_j-100"`)
}

// A session without a time of its beginning is drawn up to now.
func TestAhead(t *testing.T) {
	t.Parallel()
	now := stage.Began
	require.Equal(t, now, scaleEnd(time.Time{}, now))
	require.Equal(t, now.Add(10*time.Second), scaleEnd(now, now.Add(time.Second)))
	later := scaleEnd(now, now.Add(time.Hour))
	require.False(t, later.Before(now.Add(time.Hour)))
	require.True(t, later.Before(now.Add(76*time.Minute)))
}
