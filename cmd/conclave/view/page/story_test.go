package page

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// after is a time of a session that begins at stage.Began.
func after(seconds float64) time.Time {
	return stage.Began.Add(time.Duration(seconds * float64(time.Second)))
}

// stepsAt is a session of steps from one second to another.
func stepsAt(times ...[2]float64) *record.Session {
	s := &record.Session{Created: stage.Began}
	for i, at := range times {
		s.Steps = append(s.Steps, &record.Step{Agent: "agent_a", Number: i + 1, Started: after(at[0]), Ended: after(at[1])})
	}
	return s
}

// Working time is drawn to scale; idle time is drawn shorter.
func TestAxis(t *testing.T) {
	t.Parallel()
	a := newAxis(stepsAt([2]float64{0, 12}, [2]float64{6, 24}, [2]float64{3600, 3624}), after(3624))
	require.InDelta(t, 48+4, a.total, 0.001, "48 seconds of work, and an hour drawn as 4")
	for seconds, share := range map[float64]float64{-5: 0, 0: 0, 13: 0.25, 24: 24.0 / 52, 3600: 28.0 / 52, 3624: 1, 9999: 1} {
		require.InDelta(t, share, a.positionOf(after(seconds)), 0.001, seconds)
	}
	idle := a.compressedSpans()
	require.Len(t, idle, 1)
	require.Equal(t, after(24), idle[0].from)
	require.Zero(t, axis{}.positionOf(after(1)))
}

// A session without a start has an axis of two thousand years, and no ticks.
func TestAxis_withoutStart(t *testing.T) {
	t.Parallel()
	s := stepsAt([2]float64{0, 10})
	s.Created, s.Steps[0].Started = time.Time{}, time.Time{}
	require.Empty(t, newAxis(s, after(10)).roundTimes(time.Time{}))
}

// Ticks stand at round times of the work, apart from each other.
func TestAxis_round(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps [][2]float64
		end   float64
		want  []float64
	}{
		"half a minute":         {[][2]float64{{0, 31}}, 31, []float64{0, 10, 20, 30}},
		"less than a second":    {[][2]float64{{0, 0.9}}, 0.9, []float64{0, 0.2, 0.4, 0.6, 0.8}},
		"a pause of a night":    {[][2]float64{{0, 24}, {28800, 28824}}, 28824, []float64{0, 10, 20, 28800, 28810, 28820}},
		"three days of work":    {[][2]float64{{0, 3 * 86400}}, 3 * 86400, []float64{0, 43200, 86400, 129600, 172800, 216000, 259200}},
		"ten days of work":      {[][2]float64{{0, 10 * 86400}}, 10 * 86400, []float64{0, 172800, 345600, 518400, 691200, 864000}},
		"short times of work":   {[][2]float64{{1, 2}, {1000, 1001}, {2000, 2001}}, 2001, []float64{0, 1, 2, 1000, 1001, 2000, 2001}},
		"a session of no times": {nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []float64
			for _, since := range newAxis(stepsAt(c.steps...), after(c.end)).roundTimes(stage.Began) {
				got = append(got, since.Seconds())
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestMerged(t *testing.T) {
	t.Parallel()
	var got [][2]float64
	for _, s := range mergeSpans([]span{{from: after(5), to: after(6)}, {from: after(0), to: after(2)}, {from: after(1), to: after(3)}, {from: after(2), to: after(3)}}) {
		got = append(got, [2]float64{s.from.Sub(after(0)).Seconds(), s.to.Sub(after(0)).Seconds()})
	}
	require.Equal(t, [][2]float64{{0, 3}, {5, 6}}, got)
	require.Empty(t, mergeSpans(nil))
}

func TestMoment(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1.5 s", formatMoment(1500*time.Millisecond, 9))
	require.Equal(t, "0:01", formatMoment(1500*time.Millisecond, 10))
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	for at, want := range map[float64][2]string{0: {"start", "start"}, 0.3: {"middle", "start"}, 0.7: {"middle", "end"}, 1: {"end", "end"}} {
		require.Equal(t, want, [2]string{anchorAt(at), sideOf(at)}, at)
	}
}

func TestWidthClass(t *testing.T) {
	t.Parallel()
	for steps, want := range map[int]int{0: 1, 13: 1, 14: 2, 1000: 12} {
		s := &record.Session{Agents: []*record.Agent{{Steps: make([]*record.Step, steps)}}}
		require.Equal(t, want, widthClass(s), steps)
	}
}

func TestActionWords(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*record.Step{
		"answer agent1.1":         {Answer: &record.Answer{Label: "agent1.1"}},
		"vote for agent2.1":       {Vote: &record.Vote{Vote: artifact.Vote{TargetLabel: "agent2.1"}}},
		"stop, blocked":           {Stop: &record.Stop{Status: "blocked"}},
		"client_tools":            {Action: "client_tools"},
		"at work":                 {},
		"ended without an action": {Over: true},
	} {
		require.Equal(t, want, actionWords(&record.Session{Agents: []*record.Agent{{}}}, p))
	}
}

func TestBarClass(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*record.Step{
		"bar going":     {},
		"bar unacted":   {Ended: after(1)},
		"bar uncounted": {Ended: after(1), Action: "vote"},
		"bar":           {Ended: after(1), Action: "vote", Accepted: true},
	} {
		d := &drawing{s: &record.Session{}}
		d.s.State.Status = "running"
		require.Equal(t, want, d.barClass(p))
	}
}

// itemsOf are the symbols of strips.
func itemsOf[T comparable](strips []strip[T]) (all []T) {
	for _, s := range strips {
		all = append(all, s.Items...)
	}
	return all
}

// A lane grows by its last strip, and the IDs of agents do not mix with those of strips.
func TestStripsOf(t *testing.T) {
	t.Parallel()
	marks := make([]mark, 40)
	for i := range marks {
		marks[i].X = cssPercent(float64(i) / 100)
	}
	strips := stripsOf("marks", "agent_a", marks)
	require.Equal(t, marks, itemsOf(strips))
	require.Equal(t, []string{"marks.0-agent_a", "marks.1-agent_a", "marks.2-agent_a"}, []string{strips[0].ID, strips[1].ID, strips[2].ID})
	require.NotEqual(t, lane{Agent: "a-1"}.MarksID(), stripsOf("marks", "a", marks)[1].ID)
	p := &painter{Canvas: NewCanvas()}
	drawStrips(p, "marks", "marks-agent_a", strips[:2])
	first := p.parts
	marks = slices.Clone(marks)
	marks[20].Class = "vote stale"
	p.parts = nil
	drawStrips(p, "marks", "marks-agent_a", stripsOf("marks", "agent_a", marks))
	second := p.parts
	require.Len(t, second, 3)
	require.Equal(t, first[0], second[0])
	require.NotEqual(t, first[1], second[1])
	require.Contains(t, second[1].HTML, `<svg class="mark vote stale" x="20.000%"`)
}

// The story of three rounds: bars, symbols, lines from votes, and what a person said.
func TestStoryOf(t *testing.T) {
	t.Parallel()
	s := storyOf(sessionOf(t, stage.ThreeRounds(t)), after(3600))
	require.Len(t, s.Lanes, 3)
	var labels []string
	for _, l := range s.Lanes {
		for _, m := range itemsOf(l.Marks) {
			labels = append(labels, m.Class+" "+m.Label)
		}
	}
	require.Equal(t, []string{"answer 1.1", "vote stale →2.1", "vote →3.2", "answer 2.1", "vote stale →2.1", "vote →3.2", "answer 3.1", "answer 3.2", "vote →3.2"}, labels)
	classes := map[string]int{}
	for _, l := range s.Lanes {
		for _, to := range itemsOf(l.Ties) {
			classes[to.Class]++
		}
	}
	require.Equal(t, map[string]int{"tie stale": 2, "tie": 3}, classes)
	require.Equal(t, "said", s.Notes[0].Class)
	require.Equal(t, "“The shop is often offline.”", s.Notes[0].Text)
	require.Equal(t, "decided", s.Notes[1].Class)
	require.Equal(t, "consensus: agent_c (agent3.2)", s.Notes[1].Text)
	require.Len(t, s.Events, s.Count)
	require.Equal(t, "0:00", s.Ticks[0].Text)
}

// A pause of a night is a band and is drawn shorter.
func TestStoryOf_pause(t *testing.T) {
	t.Parallel()
	for _, script := range stage.Scripts {
		if script.Name != "paused" {
			continue
		}
		s := storyOf(sessionOf(t, script.Play(t)), after(0))
		require.Len(t, s.Bands, 2)
		require.Equal(t, []string{"pause", "gap"}, []string{s.Bands[0].Class, s.Bands[1].Class})
		require.Equal(t, "paused 8:00:00", s.Bands[0].Text)
	}
}

// A time without work that is not over has no length.
func TestStoryOf_idle(t *testing.T) {
	t.Parallel()
	s := stepsAt([2]float64{0, 5}, [2]float64{3600, 3605})
	s.State.Status = workflows.Running
	require.Equal(t, []string{"idle 59:55", "idle"}, []string{storyOf(s, after(7200)).Bands[0].Text, storyOf(s, after(7200)).Bands[1].Text})
}

// A message to one agent crosses its lane only.
func TestStoryOf_messageToOne(t *testing.T) {
	t.Parallel()
	for _, script := range stage.Scripts {
		if script.Name == "message to one" {
			n := storyOf(sessionOf(t, script.Play(t)), after(0)).Notes[0]
			require.Equal(t, storyTop+roomy.lane, n.Top)
			require.Equal(t, n.Top+roomy.lane, n.Bottom)
		}
	}
}

// Directories without events list the ends of their steps.
func TestEventsOf_withoutEvents(t *testing.T) {
	t.Parallel()
	s := stepsAt([2]float64{0, 65}, [2]float64{1, 3})
	s.Steps[1].Over = true
	s.Steps[0].Vote = &record.Vote{Vote: artifact.Vote{TargetLabel: "agent2.1"}}
	list := eventsOf(s)
	require.Len(t, list, 2)
	require.Equal(t, "agent_a, step 002: ended without an action", list[0].Text)
	require.Equal(t, "agent_a, step 001: vote for agent2.1", list[1].Text)
	require.Equal(t, "1:05", list[1].Clock)
	require.Equal(t, "event-step-agent_a-001", list[1].ID)
}

func TestShortLabel(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1.2", shortLabel("agent1.2"))
	require.Equal(t, "other", shortLabel("other"))
}

// Rows of the board describe the agents' activities.
func TestNewRow(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]coordination.AgentView{
		"failed":                  {Error: &coordination.Failure{Type: "Network"}},
		"not joined yet":          {Absent: true},
		"at work":                 {Running: true},
		"its answer is evaluated": {Running: true, Purpose: coordination.Evaluation},
		"voted":                   {Status: "voted"},
	} {
		s := &record.Session{}
		s.State.Status = "running"
		require.Equal(t, want, newRow(s, &record.Agent{AgentView: a}, 0, nil, after(0)).State)
	}
	ended := &record.Session{}
	require.Equal(t, "never joined", newRow(ended, &record.Agent{AgentView: coordination.AgentView{Absent: true}}, 0, nil, after(0)).State)
}
