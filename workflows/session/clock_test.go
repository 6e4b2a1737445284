package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/workflows"
)

// "Session time stands still while parked or paused."
func TestClock_StandsStill(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), hangs(), hangs()}})
	start := p.Now()
	const from, until = 1000, 50_000
	p.at(from, func() { p.asks(t, workflows.PauseSignal, nil, nil) })
	p.at(until-1, func() { require.Len(t, p.log.bells(), 1, "no warning while the session is held") })
	p.at(until, func() { p.asks(t, workflows.ResumeSignal, nil, nil) })
	require.Equal(t, "timeout", p.run(t).Status)
	require.Equal(t, time.Duration(until+sessionTime-from)*time.Second, p.Now().Sub(start).Truncate(time.Second))
}

// "A session that runs out of time wraps up what is running": the warning comes grace
// seconds before the end, or a quarter of the session's time.
func TestClock_Warning(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ seconds, warned int }{
		"in time":         {seconds: 10 * grace, warned: 9 * grace},
		"a short session": {seconds: 2 * grace, warned: 2*grace - grace/2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), hangs()}})
			p.prepared.TimeoutSeconds = tc.seconds
			directives := func() (all []coordination.Directive) {
				for _, bell := range p.log.bells() {
					all = append(all, bell.Directive)
				}
				return all
			}
			p.at(max(1, tc.warned-1), func() { require.Empty(t, directives()) })
			p.at(tc.warned+1, func() { require.Equal(t, []coordination.Directive{coordination.WrapUp}, directives()) })
			require.Equal(t, "timeout", p.run(t).Status)
			require.Equal(t, []coordination.Directive{coordination.WrapUp, coordination.Ending}, directives())
		})
	}
}

// A pause moves the one warning together with the end.
func TestClock_WarningAfterAPause(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), hangs(), hangs(), hangs()}})
	p.at(100, func() { p.asks(t, workflows.PauseSignal, nil, nil) })
	p.at(10_000, func() { p.asks(t, workflows.ResumeSignal, nil, nil) })
	const warned = 10_000 + sessionTime - 100 - grace
	wrapUps := func() (n int) {
		for _, bell := range p.log.bells() {
			if bell.Directive == coordination.WrapUp {
				n++
			}
		}
		return n
	}
	p.at(warned-1, func() { require.Zero(t, wrapUps()) })
	p.at(warned+1, func() {
		require.Equal(t, 1, wrapUps())
		p.asks(t, workflows.PauseSignal, nil, nil)
	})
	p.at(warned+2, func() { p.asks(t, workflows.ResumeSignal, nil, nil) })
	require.Equal(t, "timeout", p.run(t).Status)
	near := 0
	for _, timer := range p.log.timers {
		if timer == "until the session's time is nearly over" {
			near++
		}
	}
	require.Equal(t, 2, near, "at the start and after the first pause, not after the second")
}
