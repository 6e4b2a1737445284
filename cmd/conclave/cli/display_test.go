package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

func TestLines_oneLinePerEvent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLines(&out)
	started := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	l.Show(Snapshot{Started: started, Elapsed: 63 * time.Second, News: []coordination.Entry{
		{Seq: 1, Text: "round 1: 3 launched", Time: started},
		{Seq: 2, Text: "agent_a voted for agent_b (agent2.1)", Reason: "because\nit is \x1b[31mbetter", Time: started.Add(61 * time.Second)},
	}})
	l.Show(Snapshot{Elapsed: 64 * time.Second})
	l.Show(Snapshot{Missed: 7, News: []coordination.Entry{{Seq: 10, Text: "consensus: agent_b (agent2.1)"}}})
	l.Note("a note\nof two lines")
	require.Equal(t, `0:00 round 1: 3 launched
1:01 agent_a voted for agent_b (agent2.1): because it is better
earlier 7 events are not shown
earlier consensus: agent_b (agent2.1)
a note of two lines
`, out.String())
}

// An error that several agents fail with is written once.
func TestLines_joinsEqualErrors(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLines(&out)
	failed := func(seq int, agent, why string) coordination.Entry {
		return coordination.Entry{Seq: seq, Kind: coordination.EntryFailed, Agent: agent, Text: agent + " failed: AuthFailed", Reason: why}
	}
	l.Show(Snapshot{News: []coordination.Entry{failed(1, "agent_a", "the key is refused"), failed(2, "agent_b", "the key is refused")}})
	l.Show(Snapshot{News: []coordination.Entry{failed(3, "agent_c", "another key"), failed(4, "agent_a", "the key is refused")}})
	require.Equal(t, `earlier agent_a failed: AuthFailed: the key is refused
earlier agent_b failed: AuthFailed: the same error as agent_a
earlier agent_c failed: AuthFailed: another key
earlier agent_a failed: AuthFailed: the key is refused
`, out.String())
}

func TestLines_activities(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLines(&out)
	began := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	doing := func(kind coordination.DoingKind, since, until float64, what string) Activity {
		a := Activity{Agent: "agent_a", Doing: coordination.Doing{Kind: kind, Since: at(since), What: what}}
		if until > 0 {
			a.Until = at(until)
		}
		return a
	}
	calling := doing(coordination.CallsModel, 0, 0, "model call 1")
	calling.First = true
	brief := doing(coordination.RateLimited, 5, 6, "slow\ndown")
	long := doing(coordination.RateLimited, 5, 17, "slow\ndown")
	longer := doing(coordination.RateLimited, 5, 300, "slow\ndown")
	setUp := Activity{Agent: "agent_a", Doing: coordination.Doing{What: "attempt 2 after Network: refused"}}
	prepare := Activity{Work: "Prepare", Doing: doing(coordination.Queued, 20, 24, "attempt 9 after Storage: it is down").Doing}
	for _, tt := range []struct {
		now        float64
		activities []Activity
	}{
		{1, []Activity{calling}},
		{2, []Activity{calling}},
		{29, []Activity{calling}},
		{31, []Activity{calling}},
		{40, []Activity{calling}},
		{5.1, []Activity{brief}},
		{5.2, []Activity{long}},
		{6, []Activity{long}},
		{18, []Activity{longer}}, // printed once while it lasts
		{19, []Activity{setUp}},
		{19, []Activity{setUp, prepare}},
		{20, nil},
		{21, []Activity{brief}},
	} {
		l.Show(Snapshot{Elapsed: at(tt.now).Sub(began), Now: at(tt.now), Activities: tt.activities})
	}
	require.Equal(t, `0:02 agent_a: model call 1
0:31 agent_a: model call 1 for 31 s
0:05 agent_a: rate limit, next try in 12 s: slow down
0:19 agent_a: attempt 2 after Network: refused
0:19 Prepare: waiting, next try in 5 s: attempt 9 after Storage: it is down
0:21 agent_a: rate limit, trying again: slow down
`, out.String())
}

func TestLines_holdOnceWhileItLasts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLines(&out)
	paused := Hold{Why: "paused", Release: "`conclave resume s1` resumes it"}
	parked := Hold{Why: "agent_a failed:\x1b[31m no key", Release: "`conclave retry s1` runs its step again"}
	for _, holds := range [][]Hold{{paused}, {paused}, {paused, parked}, {parked}, nil, {paused}} {
		l.Show(Snapshot{Elapsed: time.Second, Holds: holds})
	}
	require.Equal(t, "0:01 paused; `conclave resume s1` resumes it\n"+
		"0:01 agent_a failed: no key; `conclave retry s1` runs its step again\n"+
		"0:01 paused; `conclave resume s1` resumes it\n", out.String())
}

// A hold shows the time at which it began, if that is known.
func TestLines_holdSince(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	started := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	holds := []Hold{{Why: "paused"}, {Why: "parked", Parked: true}}
	Since(holds, started.Add(5*time.Second), time.Time{})
	NewLines(&out).Show(Snapshot{Started: started, Elapsed: time.Hour, Holds: holds})
	require.Equal(t, "0:05 paused; \n1:00:00 parked; \n", out.String())
}

func TestNew_withoutTerminal(t *testing.T) {
	t.Parallel()
	require.IsType(t, lines{}, NewDisplay(&bytes.Buffer{}))
}

// rowsUp counts rows as a terminal that wraps lines at width.
func rowsUp(text string) int {
	const up = "\r\x1b["
	i := strings.Index(text, up)
	if i != 0 {
		return 0
	}
	n := 0
	for _, r := range text[len(up):] {
		if r < '0' || r > '9' {
			break
		}
		n = n*10 + int(r-'0')
	}
	return max(n, 1) // the one-row movement may leave its number out
}

func TestScreen_redrawsInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	width := 20
	s := screen{out: &out, size: func() (int, int) { return width, 10 }}

	s.draw([]string{"first", "second", strings.Repeat("x", 50)})
	first := out.String()
	require.Zero(t, rowsUp(first), "nothing above is touched the first time")
	for _, line := range strings.Split(ansi.Strip(first), "\n") {
		require.LessOrEqual(t, ansi.StringWidth(line), width-1, "no line wraps")
	}

	out.Reset()
	s.draw([]string{"again"})
	require.Equal(t, 3, rowsUp(out.String()), "the three lines are replaced")
	require.True(t, strings.HasSuffix(out.String(), ansi.EraseScreenBelow), "the rest of the block is erased")

	out.Reset()
	s.draw([]string{strings.Repeat("y", 19)})
	out.Reset()
	width = 7
	s.draw([]string{"narrow"})
	require.Equal(t, 3, rowsUp(out.String()), "the terminal wrapped 19 characters into three rows of 7")
}

func TestBoard_noteAboveTheBlock(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := board{screen: screen{out: &out, size: func() (int, int) { return 80, 24 }}}
	b.Show(secondRound())
	out.Reset()
	b.Note("no worker polls")
	require.Regexp(t, `(?s)no worker polls.*20261121-153012-k3f9`, out.String())
	require.Len(t, b.screen.shown, len(formatFrame(secondRound(), 80, 24, false)))
}
