package page

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
)

// livePage is the page of a running session with three agents.
func livePage(t *testing.T, live Live, play func(*stage.Play)) string {
	t.Helper()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: stage.Three, OnAgentFailure: "park"})
	play(p)
	live.Base = "/sessions/s1"
	html, err := Draw(t.Context(), sessionOf(t, p), live, stage.Began.Add(time.Hour), NewCanvas()).Page("e.1", "", false)
	require.NoError(t, err)
	return string(html)
}

// A parked session has one card: what it waits for, since when, and what a person can do. Nothing is told twice.
func TestDraw_parked(t *testing.T) {
	t.Parallel()
	html := livePage(t, Live{Token: "t"}, func(p *stage.Play) {
		p.Answer(1, "agent_a", "Because.", nil)
		p.Fail(1, "agent_c", "AuthFailed", "the key was refused")
	})
	text := visible(html)
	require.Contains(t, text, "parked It waits for you agent_c failed, AuthFailed: the key was refused since")
	require.Contains(t, html, `<time class="ago" datetime="2026-11-22T09:00:02Z">`)
	require.Contains(t, html, `<section id="why" class="card" data-part aria-labelledby="h-why" hidden>`)
	require.NotContains(t, text, "No decision yet")
	require.NotContains(t, text, "retry, finish or cancel")
	require.Contains(t, html, `<strong class="chip parked">parked</strong>`)
	require.Contains(t, html, `<button class="main">Retry the failed steps</button>`)
	for _, command := range []string{"retry 001", "say 001 TEXT", "pause 001", "finish 001", "cancel 001"} {
		require.Contains(t, html, "<code>conclave "+command+"</code>", "every action shows its command line")
	}
}

// A session that waits for a person shows the question first, whole or without a button, and takes the answer.
func TestDraw_question(t *testing.T) {
	t.Parallel()
	draw := func(live Live, open ...coordination.Question) string {
		p := stage.NewRecord(t, "Why?", coordination.Config{Agents: stage.Three})
		s := sessionOf(t, p)
		s.State.Questions = open
		live.Base = "/sessions/s1"
		html, err := Draw(t.Context(), s, live, stage.Began.Add(time.Hour), NewCanvas()).Page("e.1", "", false)
		require.NoError(t, err)
		return string(html)
	}
	asks := coordination.Question{QuestionID: "q1", QuestionKind: coordination.AskQuestion, Agent: "agent_a", Text: "Which <b>?\u202e", Options: []string{"this", "that"}, Since: stage.Began}
	html := draw(Live{Token: "t"}, asks)
	require.Contains(t, visible(html), "waiting It waits for you agent_a asks: since 2026-11-22 09:00:00 UTC , 2026-11-22 09:00:00 UTC agent_a : Which &lt;b&gt;? this that")
	require.NotContains(t, html, "Which <b>")
	require.NotContains(t, html, "\u202e")
	require.Contains(t, html, `<input type="hidden" name="question" value="q1"><input type="hidden" name="option" value="2">`)
	require.Contains(t, html, `<input id="text-replyq1" name="text" required`)
	require.Less(t, strings.Index(html, ">this</button>"), strings.Index(html, ">Pause</button>"), "the answers come first")

	may := coordination.Question{QuestionID: "q2", QuestionKind: coordination.AskApproval, Agent: "agent_a", Text: "May it run?", Tool: "send", Arguments: `{"to": "<ann>"}`, Since: stage.Began}
	html = draw(Live{Token: "t"}, may)
	require.Contains(t, html, `<pre>{&#34;to&#34;: &#34;&lt;ann&gt;&#34;}</pre>`)
	require.Contains(t, html, `action="/sessions/s1/approve"`)
	require.Contains(t, html, `action="/sessions/s1/deny"`)
	require.NotContains(t, draw(Live{}, may), "/approve", "a reader who may change nothing")
	may.Arguments, may.Path = "", "questions/q2.json"
	require.NotContains(t, draw(Live{Token: "t"}, may), "/approve", "nobody approves a call that is not shown whole")
}

// Deciding and cancelling ask first, and say what would win.
func TestDraw_asksFirst(t *testing.T) {
	t.Parallel()
	require.Contains(t, livePage(t, Live{Token: "t"}, func(*stage.Play) {}), "No agent has an answer yet, so the session would end without one.")
	html := visible(livePage(t, Live{Token: "t"}, func(p *stage.Play) {
		p.Answer(1, "agent_a", "Because.", nil)
		p.Answer(1, "agent_b", "Why not?", nil)
	}))
	require.Contains(t, html, "Decide now … agent2.1 of agent_b would win now, with 0 of 3 votes. Steps at work are ended. Decide now conclave finish")
	require.Contains(t, html, "Cancel … The session ends without a decision: nobody wins.")
}

// A reader who may change nothing has no form.
func TestDraw_readOnly(t *testing.T) {
	t.Parallel()
	html := livePage(t, Live{}, func(p *stage.Play) { p.Answer(1, "agent_a", "Because.", nil) })
	require.NotContains(t, html, `method="post"`)
	page, err := List(nil, Filter{}, Live{})
	require.NoError(t, err)
	require.NotContains(t, string(page), `method="post"`)
}

// A decided session can be continued.
func TestDraw_continue(t *testing.T) {
	t.Parallel()
	s := sessionOf(t, stage.ThreeRounds(t))
	page := func(l Live) string {
		l.Base, l.Token = "/sessions/s1", "t"
		html, err := Draw(t.Context(), s, l, stage.Began, NewCanvas()).Page("", "", false)
		require.NoError(t, err)
		return string(html)
	}
	require.Contains(t, page(Live{}), `action="/sessions/s1/continue"`)
	require.Contains(t, page(Live{}), "<code>conclave run --continue 001 TEXT</code>")
	flagged := page(Live{Command: func(command string, args ...string) string { return "conclave " + command + " --data-dir /d" }})
	require.Contains(t, flagged, `<code id="command-0">conclave files --data-dir /d</code>`)
}

// The list has a form for a new question, and leaves out what pipelines and evaluations started.
func TestList_nested(t *testing.T) {
	t.Parallel()
	all := append(items(time.Now()), record.Item{ID: "eval-x-q1-1", Kind: "session", Href: "/sessions/eval-x-q1-1", Query: "2 + 2?"})
	list := func(f Filter) string {
		html, err := List(all, f, Live{Token: "t", Teams: []string{"default", "reviewers"}})
		require.NoError(t, err)
		return string(html)
	}
	html := list(Filter{})
	require.Contains(t, html, `action="/ask"`)
	require.Contains(t, html, `<select id="team-ask" name="team" aria-label="team"><option>default</option><option>reviewers</option></select>`)
	require.Contains(t, html, `<code>conclave run --team TEAM TEXT</code>`)
	require.Contains(t, visible(html), "2 of 2 · 2 more of pipelines and evaluations")
	require.NotContains(t, html, "/sessions/s2")
	require.Contains(t, list(Filter{All: true}), "/sessions/eval-x-q1-1")
	require.NotContains(t, list(Filter{All: true}), "more of pipelines")

	for from, want := range map[string][2]string{
		"/sessions/s1": {"", ""}, "/sessions/s2": {"/sessions/s1", "/sessions/eval-x-q1-1"}, "/sessions/eval-x-q1-1": {"/sessions/s2", ""}, "/sessions/none": {"", ""},
	} {
		require.Equal(t, want, [2]string{Beside(all, from, -1), Beside(all, from, 1)}, from)
	}
}

// The page of an address that shows nothing leads to the list, and escapes the address.
func TestProblem(t *testing.T) {
	t.Parallel()
	html, err := Problem("There is no such page", "nothing is at /<script>")
	require.NoError(t, err)
	require.Contains(t, string(html), "nothing is at /&lt;script&gt;")
	require.Contains(t, string(html), `<a class="button main" href="/">All sessions</a>`)
	require.Contains(t, string(html), "<style>"+style+"</style>")
}

// A vote for an answer of its agent that is no longer the newest is stale, and is drawn apart from the fresh ones.
func TestTallyOf(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: stage.Three})
	for _, agent := range stage.Three {
		p.Answer(1, agent, "Because of "+agent+".", nil)
	}
	p.Vote(1, "agent_a", "agent_b", "It is.")
	p.Answer(1, "agent_c", "Because of me.", nil)
	tally := tallyOf(sessionOf(t, p))
	require.Equal(t, []string{"agent2.1", "agent1.1", "agent3.2"}, []string{tally.Rows[0].Label, tally.Rows[1].Label, tally.Rows[2].Label})
	require.Equal(t, [2]int{0, 1}, [2]int{tally.Rows[0].Fresh, tally.Rows[0].Stale})
	require.Equal(t, "33.333%", tally.Rows[0].StaleW)

	large := tallyOf(sessionOf(t, stage.TwentySix(t)))
	require.Equal(t, "agent13.1", large.Rows[0].Label)
	require.True(t, large.Rows[0].Winner)
	require.LessOrEqual(t, len(large.Rows), 8)
	require.Equal(t, 26, len(large.Rows)+large.Rest)
}

// The page of the largest team begins with its details folded.
func TestWrite_many(t *testing.T) {
	t.Parallel()
	many, few := drawn(t, stage.TwentySix(t)), drawn(t, stage.ThreeRounds(t))
	for _, part := range []string{"all-agents", "all-answers", "all-steps"} {
		require.Contains(t, many, `<details id="`+part+`">`)
		require.Contains(t, few, `<details id="`+part+`" open>`)
	}
	require.Less(t, sizesFor(26).lane*26, 450)
}
