package coordination

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The timeline keeps at least 50 entries and all those of the last 15 seconds, but at most 500,
// numbered from the first entry of the session. It truncates the agents' texts.
func TestTimeline(t *testing.T) {
	t.Parallel()
	require.NotNil(t, New(team("a")).Timeline())
	p := answered(team("a"))
	vote := p.vote("a", "a").(Voted)
	vote.Reason = strings.Repeat("é", 300) + "\xff"
	p.step(vote)
	timeline := p.state.Timeline()
	last := timeline[len(timeline)-1]
	require.Equal(t, "vote", last.Kind)
	require.Equal(t, "a voted for a (agent1.1)", last.Text)
	require.Equal(t, strings.Repeat("é", 280), last.Reason)
	require.Equal(t, strings.Repeat("é", 280), p.state.View().Agents[0].Vote.Reason)

	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	for after, c := range []struct{ events, want int }{{60, 0}, {60, 60}, {700, 500}, {0, 50}} {
		for range c.events {
			p.step(Failed{End: End{Launch: "x"}})
		}
		p.state.Stamp(now.Add(time.Duration(after) * 20 * time.Second))
		timeline = p.state.Timeline()
		if c.want == 0 {
			c.want = p.state.Events
		}
		require.Len(t, timeline, c.want)
		for i, e := range timeline {
			require.Equal(t, p.state.Events-c.want+1+i, e.Seq)
			require.NotEmpty(t, e.Text)
		}
	}
}

// The timeline reports which votes an answer makes stale, and which votes are stale when they are
// cast.
func TestTimelineTellsOfStaleVotes(t *testing.T) {
	t.Parallel()
	p := answered(team("a", "b", "c", "d"))
	p.step(p.vote("a", "b"), p.vote("b", "b"), p.answer("c"), p.vote("d", "b"))
	var texts []string
	for _, e := range p.state.Timeline() {
		texts = append(texts, e.Text)
	}
	require.Equal(t, []string{
		"a voted for b (agent2.1)",
		"b voted for b (agent2.1)",
		"c answered agent3.2; the votes of a and b are stale now",
		"d voted for b (agent2.1), stale already",
	}, texts[len(texts)-4:])
}

// texts returns the lines of the timeline after seq.
func texts(s *State, seq int) []string {
	var lines []string
	for _, e := range s.Timeline() {
		if e.Seq > seq {
			lines = append(lines, e.Kind+": "+e.Text)
		}
	}
	return lines
}

// The timeline of a session with every kind of entry.
func TestTimelineOfEveryKind(t *testing.T) {
	t.Parallel()
	p := start(teamWith(func(o *Config) {
		o.OnAgentFailure, o.Updates, o.Strategy, o.MaxRestarts = "park", Restart, winnerPresent, 1
	}, "a", "b"))
	p.batch(Pause{})
	p.batch(p.suspend("a"), p.suspend("b"))
	p.batch(Resume{}, Said{Agent: "a", Text: "be brief"}, Said{Text: "all of you"})
	p.batch(p.fail("a"), p.answer("b"))
	p.batch(Retry{})
	p.batch(p.answer("a"))
	p.batch(p.answer("b"))
	p.batch(p.restart("a"), TimeShort{})
	p.batch(p.vote("a", "b"))
	p.batch(p.vote("b", "b"))
	p.batch(p.answer("b"))
	p.batch(p.evaluate("b", true))
	p.batch(Finish{})
	require.Equal(t, []string{
		"round: round 1: 2 launched",
		"paused: paused",
		"suspended: a was suspended",
		"suspended: b was suspended",
		"resumed: resumed",
		"said: message to a",
		"said: message to all agents",
		"failed: a failed: overloaded",
		"answer: b answered agent2.1",
		"retried: the failed step of a is retried",
		"answer: a answered agent1.1",
		"round: round 2: 2 launched",
		"answer: b answered agent2.2",
		"restarted: a restarts with the news",
		"asked: time is short: running steps are asked to finish",
		"vote: a voted for b (agent2.2)",
		"round: round 3: 1 launched",
		"vote: b voted for b (agent2.2)",
		"presented: b presented the final answer",
		"judged: b wants the team to begin again",
		"round: round 4: 2 launched",
		"asked: a decision was requested",
		"decided: finished: b (agent2.2)",
	}, texts(p.state, 0))
	for _, e := range p.state.Timeline() {
		switch e.Kind {
		case "said":
			require.NotEmpty(t, e.Reason, "the text of the message")
		case "failed":
			require.Equal(t, "the model was overloaded", e.Reason)
		case "judged":
			require.Equal(t, "the numbers are missing", e.Reason)
		}
	}
}

// In decomposition the timeline shows blocked agents and agents stopped by the session.
func TestTimelineOfStops(t *testing.T) {
	t.Parallel()
	p := answered(teamWith(func(o *Config) { o.Mode, o.AnswersGlobal = Decomposition, 3 }, "a", "b"))
	seq := p.state.Events
	p.batch(p.stop("b", Blocked), p.answer("a"))
	require.Equal(t, []string{
		"stopped: b is blocked",
		"answer: a answered agent1.2; the stop of b is stale now",
		"stopped: a is stopped at its limit of answers",
		"stopped: b is stopped at its limit of answers",
	}, texts(p.state, seq))
	seq = p.state.Events
	p.batch(p.exhaust("b"))
	require.Equal(t, []string{
		"refused: b ended without an action; the parts were not joined, the present answer stands",
		"decided: presented: b (agent2.1)",
	}, texts(p.state, seq))
}

// CONTRACT: "every event and ledger entry has time". It is the driver's first stamp after the
// event.
func TestStamp(t *testing.T) {
	t.Parallel()
	p := start(team("a"))
	first := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	p.step(p.answer("a"))
	p.state.Stamp(first)
	records := only[Record](p.drain())
	require.Equal(t, first, records[0].Entry.Time)
	p.state.Stamp(first.Add(time.Minute))
	times := map[string]time.Time{}
	for _, e := range p.state.Timeline() {
		times[e.Text] = e.Time
	}
	require.Equal(t, first, times["a answered agent1.1"])
	require.Equal(t, first.Add(time.Minute), times["round 2: 1 launched"])
}

// Seed 003, success criterion 6: "tracker properly logs UPDATE_INJECTED".
func TestTimeline_UpdateInjected(t *testing.T) {
	t.Parallel()
	p := playerOf(New(teamWith(injecting, "a", "b")))
	p.drain()
	p.batch(p.answer("a"), p.answer("b"))
	p.batch(p.answer("b"))
	told, _ := p.witnessed(p.launchOf("a"))
	vote := p.vote("a", "b").(Voted)
	vote.Seen = told
	p.step(vote)
	var injected []Entry
	for _, e := range p.state.Timeline() {
		if e.Kind == "update_injected" {
			injected = append(injected, e)
		}
	}
	require.Len(t, injected, 1)
	for _, e := range injected {
		require.Equal(t, "a", e.Agent)
		require.Equal(t, "agent2.2", e.Label)
		require.Equal(t, "a received agent2.2 while it worked", e.Text)
	}
}

// An injection is recorded however its step ends, and only once if the step is resumed.
func TestTimeline_UpdateInjectedWithoutAnAction(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *player, told []Seen) Event{
		"failed":    func(p *player, told []Seen) Event { e := p.fail("a").(Failed); e.Told = told; return e },
		"suspended": func(p *player, told []Seen) Event { e := p.suspend("a").(Suspended); e.Told = told; return e },
		"exhausted": func(p *player, told []Seen) Event { e := p.exhaust("a").(Exhausted); e.Told = told; return e },
		"refused": func(p *player, told []Seen) Event {
			e := p.vote("a", "nobody").(Voted)
			e.Seen = told
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlayer(teamWith(injecting, "a", "b"))
			p.drain()
			p.batch(p.answer("a"), p.answer("b"))
			p.batch(p.answer("b"))
			told, _ := p.witnessed(p.launchOf("a"))
			p.step(end(p, told))
			require.Equal(t, []string{"update_injected: a received agent2.2 while it worked"}, injections(p.state))

			p.state.Events, p.state.Recent = 0, nil
			p.batch(Retry{})
			if a := p.state.agentOf("a"); a.Run != nil { // resumed, with the launch's first view
				vote := p.vote("a", "b").(Voted)
				vote.Seen = told
				p.step(vote)
			}
			require.Empty(t, injections(p.state))
		})
	}
}

// A step that is cancelled by a decision has also received its injections.
func TestTimeline_UpdateInjectedBeforeACancellation(t *testing.T) {
	t.Parallel()
	p := newPlayer(teamWith(injecting, "a", "b"))
	p.drain()
	p.batch(p.answer("a"), p.answer("b"))
	p.batch(p.answer("b"))
	told, _ := p.witnessed(p.launchOf("a"))
	cut := p.suspend("a").(Suspended)
	cut.Told = told
	p.batch(Finish{})
	p.step(cut)
	require.Equal(t, []string{"update_injected: a received agent2.2 while it worked"}, injections(p.state))
}

func injections(s *State) []string {
	return slices.DeleteFunc(texts(s, 0), func(line string) bool { return !strings.HasPrefix(line, "update_injected") })
}
