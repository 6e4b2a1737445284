package page

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/scenario"
	"conclave/engine/step"
)

// pictureOf is a PNG of a width.
func pictureOf(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 10))))
	return b.Bytes()
}

func TestCompareLabels(t *testing.T) {
	t.Parallel()
	require.Negative(t, compareLabels("agent2.1", "agent10.1"))
	require.Negative(t, compareLabels("agent1.1", "agent1.2"))
	require.Zero(t, compareLabels("agent1.1", "agent1.1"))
}

// The first comparison is between the final answer and its predecessor, or else the answer with the
// next most votes.
func TestCompareOf(t *testing.T) {
	t.Parallel()
	want := map[string][2]string{
		"three rounds": {"agent3.1", "agent3.2"}, "dissent": {"agent3.1", "agent2.1"}, "presented": {"agent2.1", "agent2.final"},
		"alone": {"", ""}, "all failed": {"", ""},
	}
	for _, script := range stage.Scripts {
		pair, known := want[script.Name]
		if !known {
			continue
		}
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			c := compareOf(sessionOf(t, script.Play(t)))
			require.Equal(t, pair[0], c.Left)
			require.Equal(t, pair[1], c.Right)
		})
	}
}

func TestCostOf(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, stage.ThreeRounds(t))
	c := costOf(s)
	require.Len(t, c.Steps, len(s.Steps))
	require.Equal(t, "agent_a 001", c.Steps[0].Name)
	require.Equal(t, "#step-agent_a-001", c.Steps[0].Href)
	require.Equal(t, "$0.1160", c.Line.Last)
	require.Empty(t, c.Line.Budget)
	require.True(t, strings.HasPrefix(c.Line.Points, "0,100 "), c.Line.Points)
	require.True(t, strings.HasSuffix(c.Line.Points, " 1000,0.0"), c.Line.Points)
}

// With a budget the line ends below or above it; without prices it shows tokens.
func TestCumulative(t *testing.T) {
	t.Parallel()
	spent := func(usd *float64) *record.Session {
		s := stepsAt([2]float64{0, 1}, [2]float64{1, 2})
		for _, p := range s.Steps {
			p.Usage = llm.Usage{ModelCalls: 1, InputTokens: 900, OutputTokens: 100, TotalUSD: usd}
			s.State.Cost = s.State.Cost.Add(p.Usage)
		}
		return s
	}
	usd, budget, tokens := 0.01, 0.015, 4000.0
	s := spent(&usd)
	s.Team.Orchestrator.Budget.USD = &budget
	d := drawCostLine(s)
	require.Equal(t, []string{"$0.0200", "$0.0150", "133 %", "25.0"}, []string{d.Last, d.Budget, d.Share, d.Y})

	s = spent(nil)
	s.Team.Orchestrator.Budget.Tokens = &tokens
	d = drawCostLine(s)
	require.Equal(t, []string{"2.0k tokens", "4.0k tokens", "50 %", "0.0"}, []string{d.Last, d.Budget, d.Share, d.Y})
	require.Empty(t, drawCostLine(stepsAt([2]float64{0, 1})).Points)
}

// Each entry of a transcript has a heading and texts, of which long ones are folded.
func TestEntriesOf(t *testing.T) {
	t.Parallel()
	one := 1
	entries := []loop.Entry{
		{Kind: loop.Opening, Messages: []llm.Message{{Role: llm.System, Content: strings.Repeat("x", 700)}, {Role: llm.User, Content: "Why?"}}},
		{Kind: loop.Reply, Seconds: 1.5, Usage: &llm.Usage{ModelCalls: 1, InputTokens: 10, OutputTokens: 2}, Messages: []llm.Message{{
			Role: llm.Assistant, Content: "Let me look.", Extra: map[string]json.RawMessage{"reasoning": json.RawMessage(`"Hm."`)},
			ToolCalls: []llm.ToolCall{{ID: "t1", Name: "run_command", Arguments: `{"command":"make"}`}},
		}}},
		{Kind: loop.Results, Messages: []llm.Message{{Role: llm.ToolRole, ToolCallID: "t1", Content: "no rule"}, {Role: llm.ToolRole, ToolCallID: "t2", Content: "?"}}, Outcomes: []loop.Outcome{{Call: "t1", ExitCode: &one}}},
		{Kind: loop.Reply, Salvaged: "vote", Messages: []llm.Message{{Role: llm.Assistant}}},
		{Kind: loop.Rejection, Reason: "no_tool_calls", Messages: []llm.Message{{Role: llm.User, Content: "Call a tool.", Images: []llm.Image{{Data: pictureOf(t, 4)}, {Data: []byte("x")}}}}},
		{Kind: loop.Updated, Messages: []llm.Message{{Role: llm.User, Content: "news"}}},
		{Kind: loop.Updated, Messages: []llm.Message{{Role: llm.ToolRole, Content: "withdrawn"}}},
		{Kind: loop.Wasted},
		{Kind: loop.Resumed},
		{Kind: loop.BegunAgain},
		{Kind: loop.Refused, Reason: "too long"},
		{Kind: loop.Elided},
		{Kind: loop.Compacted},
		{Kind: loop.Results, Action: &loop.Action{Kind: "vote"}},
		{Kind: "unheard_of"},
	}
	var transcript step.Transcript
	for _, e := range entries {
		transcript.Lines = append(transcript.Lines, step.Line{Entry: e})
	}
	got := entriesOf(transcript, &cutter{limit: 1000, images: 1000}, "transcript.jsonl")
	var headings []string
	for _, e := range got {
		headings = append(headings, e.Heading)
	}
	require.Equal(t, []string{
		"opening: the prompt", "reply", "results", "reply: tool calls written as text (salvaged)", "rejected: no_tool_calls", "update",
		"update: the action was withdrawn", "wasted: a paid reply that was discarded", "resumed: the entries above are of an earlier step, which this one continues",
		"begun again: the entries above were interrupted, and count no more", "refused: the conversation is too long for the model's context window",
		"elided: the model no longer sees the bulk of 0 old messages", "compacted: a summary replaces all turns but the last", "results: accepted as vote", "unheard_of",
	}, headings)
	require.True(t, got[0].Parts[0].Fold)
	require.False(t, got[0].Parts[1].Fold)
	require.Equal(t, "1.5 s · 10 tokens in, 2 out", got[1].Spent)
	var names []string
	for _, p := range got[1].Parts {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"reasoning", "text", "call run_command"}, names)
	require.Equal(t, "{\n  \"command\": \"make\"\n}", got[1].Parts[2].Text.Text)
	require.Equal(t, "result of run_command", got[2].Parts[0].Name)
	require.True(t, got[2].Parts[0].Failed)
	require.Equal(t, "result of an unknown call t2", got[2].Parts[1].Name)
	require.True(t, got[4].Bad)
	require.True(t, strings.HasPrefix(string(got[4].Parts[1].Image), "data:image/png;base64,"))
	require.Equal(t, "an image of 1 bytes", got[4].Parts[2].Text.Text)
	require.Equal(t, "too long", got[10].Parts[0].Text.Text)
}

func TestThumbnail(t *testing.T) {
	t.Parallel()
	small, ok := makeThumbnail(pictureOf(t, 2*smallWidth))
	require.True(t, ok)
	config, format, err := image.DecodeConfig(bytes.NewReader(small))
	require.NoError(t, err)
	require.Equal(t, "jpeg", format)
	require.Equal(t, smallWidth, config.Width)
	require.Equal(t, 5, config.Height)
	for _, bad := range [][]byte{nil, []byte("text"), pictureOf(t, 4)[:20]} {
		_, ok = makeThumbnail(bad)
		require.False(t, ok)
	}
}

// items are three runs of the list.
func items(now time.Time) []record.Item {
	usd := 0.5
	return []record.Item{
		{ID: "s1", Kind: "session", Status: "consensus", Query: "Which database?", Href: "/sessions/s1", Team: "default", Started: now.Add(-time.Hour), Took: time.Minute, Usage: &llm.Usage{ModelCalls: 1, TotalUSD: &usd}},
		{ID: "s2", Kind: "session", Status: "running", Query: "Why <b>?", Href: "/sessions/s2", Team: "team.yaml", Started: now.Add(-50 * time.Hour), Took: time.Hour, Parent: "p1"},
		{ID: "p1", Kind: "pipeline run", Status: "completed", Query: "A haiku", Href: "/pipelines/p1", Started: now, Offline: true},
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for query, want := range map[string]string{
		"":                     "s1 s2 p1",
		"text=which+DATA":      "s1",
		"text=s2":              "s2",
		"status=running":       "s2",
		"team=team.yaml":       "s2",
		"days=1":               "s1 p1",
		"days=nonsense":        "s1 s2 p1",
		"cost=0.1":             "s1",
		"cost=0.6":             "",
		"status=failed&days=1": "",
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		var got []string
		for _, i := range items(now) {
			if FilterOf(values).admits(i, now) {
				got = append(got, i.ID)
			}
		}
		require.Equal(t, want, strings.Join(got, " "), query)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	now := time.Now()
	order := func(sort string) string {
		html, err := List(items(now), Filter{Sort: sort, All: true}, Live{})
		require.NoError(t, err)
		var ids []string
		for part := range strings.SplitSeq(string(html), `<th scope="row"><a href="`) {
			if href, _, ok := strings.Cut(part, `">`); ok && strings.HasPrefix(href, "/") {
				ids = append(ids, href[strings.LastIndex(href, "/")+1:])
			}
		}
		return strings.Join(ids, " ")
	}
	require.Equal(t, "p1 s1 s2", order(""))
	require.Equal(t, "s2 s1 p1", order("time"))
	require.Equal(t, "s1", strings.Fields(order("cost"))[0])

	html, err := List(items(now), Filter{Team: "default", All: true}, Live{})
	require.NoError(t, err)
	text := visible(string(html))
	require.Contains(t, text, "1 of 3")
	require.Contains(t, text, "$0.5000")
	require.NotContains(t, string(html), "Why <b>")
	html, err = List([]record.Item{{ID: "s9", Kind: "session", Query: "Why?"}}, Filter{}, Live{})
	require.NoError(t, err)
	require.Contains(t, string(html), `<select name="status"><option value="">any</option></select>`, "an unknown status is no choice")
	require.Contains(t, string(html), "<td>–</td>")
	html, err = List(nil, Filter{}, Live{})
	require.NoError(t, err)
	require.Contains(t, visible(string(html)), "There is no session.")
}

func TestPriceOf(t *testing.T) {
	t.Parallel()
	usd := 0.25
	for want, i := range map[string]record.Item{
		"offline":     {Offline: true},
		"–":           {},
		"1.0k tokens": {Usage: &llm.Usage{ModelCalls: 1, InputTokens: 900, OutputTokens: 100}},
		"$0.2500":     {Usage: &llm.Usage{ModelCalls: 1, TotalUSD: &usd}},
	} {
		require.Equal(t, want, priceOf(i))
	}
}

// A report of scenario runs has verdicts, attempts, small screenshots, logs as text, links to other
// files, and an index of all runs.
func TestScenarios(t *testing.T) {
	t.Parallel()
	why := "the button <is> not there"
	failed := scenario.Run{
		Scenario: "checkout", Title: "A customer pays", RunID: "r2", RunNumber: 2, Status: scenario.Fail, StartedAt: "2026-11-22T09:00:00Z", DurationMS: 45000,
		Steps: []scenario.Result{
			{ID: "01", Title: "Open", Status: scenario.Pass, DurationMS: 12000, Summary: "It opens.", EvidencePaths: []string{"e/after.png", "e/before.png", "e/console.log", "e/middle.png", "e/trace.zip"}},
			{ID: "02", Title: "Pay", Status: scenario.Fail, Error: &why, Attempts: []scenario.Attempt{{Status: scenario.Fail, Error: &why, EvidencePaths: []string{"e/gone.png"}}, {Status: scenario.Fail}}},
			{ID: "03", Title: "Leave", Status: scenario.Skipped},
		},
	}
	passed := scenario.Run{Scenario: "search", RunID: "r1", Status: scenario.Pass, StartedAt: "2026-11-21T09:00:00Z"}
	evidence := map[string][]byte{"e/before.png": pictureOf(t, 20), "e/middle.png": pictureOf(t, 21), "e/after.png": pictureOf(t, 22), "e/console.log": []byte("GET / 200\n"), "e/trace.zip": {0, 1, 2}}
	run := ScenarioRun{
		Run: failed, Problem: "the worker stopped",
		Evidence: func(path string) []byte { return evidence[path] }, Link: func(path string) string { return "files/" + path },
	}
	html, err := Scenarios([]ScenarioRun{run}, []scenario.Run{passed, failed}, stage.Began)
	require.NoError(t, err)
	for _, want := range []string{
		"1 run, 1 failure", ">A customer pays</h2>", "the worker stopped", "the button &lt;is&gt; not there", "Attempt 2: fail", `alt="before.png" src="data:image/jpeg;base64,`,
		"GET / 200", `<a href="files/e/trace.zip">trace.zip</a>`, `<a href="files/e/gone.png">gone.png</a>`, `<a href="#run-checkout-r2">checkout</a>`,
	} {
		require.Contains(t, string(html), want)
	}
	require.Less(t, strings.Index(string(html), "<small>r2"), strings.Index(string(html), "<small>r1"), "the newest is first")
	require.Contains(t, visible(string(html)), "before.png middle.png after.png", "before and after are beside each other, in this order")
	require.Contains(t, visible(string(html)), "03 Leave skipped Steps"[:len("03 Leave skipped")])
	passed.Steps = []scenario.Result{{ID: "01", Title: "Search", Status: scenario.Pass, Flaky: true}}
	html, err = Scenarios([]ScenarioRun{{Run: passed}}, []scenario.Run{passed}, stage.Began)
	require.NoError(t, err)
	require.Contains(t, visible(string(html)), "1 run, all passed")
	require.Equal(t, 2, strings.Count(visible(string(html)), "pass flaky"), "its step and its row in the index")
	require.Contains(t, visible(string(html)), "pass, flaky search", "the run")
}

// A file is sent as text or as an image; other files are not shown.
func TestFile(t *testing.T) {
	t.Parallel()
	picture := pictureOf(t, 4)
	for name, c := range map[string]struct {
		path string
		size int64
		data []byte
		want string
	}{
		"text":           {"a.go", 4, []byte("func"), `<span class="k-word">func</span>`},
		"a cut text":     {"a.txt", 1000, []byte("abc"), "… 997 more bytes in <code>a.txt</code>"},
		"an image":       {"a.png", int64(len(picture)), picture, `<img alt="a.png" src="data:image/png;base64,`},
		"a drawing":      {"a.svg", 6, []byte("<svg/>"), "&lt;svg/&gt;"},
		"another format": {"a.bin", 3, []byte{0, 1, 2}, "It is neither text nor an image that can be shown"},
		"a cut image":    {"a.png", 1 << 20, picture, "It is neither text nor an image that can be shown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			html, err := File("agent1.1", artifact.File{Path: c.path, Size: c.size}, c.data)
			require.NoError(t, err)
			require.Contains(t, string(html), c.want)
		})
	}
}

func TestEscapePath(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a%20b/%C3%BC%3F.txt", escapePath("a b/ü?.txt"))
}

func TestAnswerText(t *testing.T) {
	t.Parallel()
	for _, script := range stage.Scripts {
		want := map[string]string{
			"presented": "That one, in full sentences.\n", "all failed": "Nothing was decided: no agent has an answer.\n",
			"cancelled": "Nothing was decided: a person cancelled the session.\n",
		}[script.Name]
		if want != "" {
			require.Equal(t, want, AnswerText(sessionOf(t, script.Play(t))), script.Name)
		}
	}
	running := &record.Session{}
	running.State.Status, running.State.Round, running.State.Phase = "running", 2, "coordinating"
	require.Equal(t, "There is no decision yet. Round 2, coordinating.\n", AnswerText(running))
}

// The sentence about a running session names what it waits for.
func TestStanding(t *testing.T) {
	t.Parallel()
	s := &record.Session{Agents: []*record.Agent{{}, {}}}
	s.State.Status, s.State.Round, s.State.Phase = "running", 1, "initial_answers"
	s.Agents[0].ID, s.Agents[0].Running = "agent_a", true
	require.Equal(t, "Round 1, initial answers. At work: agent_a.", describeProgress(s))
	s.State.Paused = true
	require.Equal(t, "Round 1, initial answers. A person paused the session.", describeProgress(s))
	require.Equal(t, "paused", howDecided(s))
	why := "the key is refused"
	s.State.Parked = &why
	require.Equal(t, "Round 1, initial answers. The session is parked: the key is refused", describeProgress(s))
	require.Equal(t, "parked", howDecided(s))
}
