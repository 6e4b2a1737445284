package progress

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

func TestLines_delayOncePerReason(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLines(&out)
	second := Delay{Agent: "agent_a", Why: "attempt 2, Overloaded: no\ncapacity; again", Next: 11500 * time.Millisecond}
	third := Delay{Agent: "agent_a", Why: "attempt 3, Overloaded: no capacity"}
	prepare := Delay{Work: "Prepare", Why: "attempt 9, Storage: it is down; again", Next: -time.Second}
	for _, delays := range [][]Delay{{second}, {second}, {third, prepare}, {third}, nil, {third}} {
		l.Show(Snapshot{Elapsed: time.Second, Delays: delays})
	}
	require.Equal(t, `0:01 agent_a: attempt 2, Overloaded: no capacity; again in 12 s
0:01 agent_a: attempt 3, Overloaded: no capacity
0:01 Prepare: attempt 9, Storage: it is down; again
0:01 agent_a: attempt 3, Overloaded: no capacity
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

func TestNew_withoutTerminal(t *testing.T) {
	t.Parallel()
	require.IsType(t, lines{}, New(&bytes.Buffer{}))
}

// tty counts rows as a terminal that wraps lines at width.
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
	require.Len(t, b.screen.shown, len(frame(secondRound(), 80, 24, false)))
}
