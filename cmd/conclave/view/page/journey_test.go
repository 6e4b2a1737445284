package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/scenario"
)

// The page of a run offers the actions that the state of the run allows.
func TestDrawScenario_states(t *testing.T) {
	t.Parallel()
	now := stage.Began.Add(5 * time.Minute)
	ended := stage.SignIn()
	running, paused, passed := ended, ended, ended
	running.Status, paused.Status, paused.Paused, passed.Status = scenario.Running, scenario.Running, true, scenario.Pass
	for name, c := range map[string]struct {
		run   scenario.Run
		shown string
		has   []string
		hasNo []string
	}{
		"running": {running, "running", []string{"/scenarios/r1/say", "/scenarios/r1/pause", "<li>5:00</li>"}, []string{"/retry", "/resume"}},
		"paused":  {paused, "paused", []string{"/scenarios/r1/resume", "<li>70 s</li>"}, []string{"/retry", "/pause"}},
		"failed":  {ended, "fail", []string{"/scenarios/r1/retry", "<li>70 s</li>"}, []string{"/say", "/pause"}},
		"passed":  {passed, "pass", nil, []string{"<form"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := DrawScenario(ScenarioRun{Run: c.run}, Live{Base: "/scenarios/r1", Token: "t", Temporal: "http://127.0.0.1:8233/x"}, now, NewCanvas())
			require.NoError(t, err)
			html, err := d.Page("e.1", "done", false)
			require.NoError(t, err)
			require.Contains(t, string(html), `<span class="kind">scenario run</span> <span class="id">sign-in/r1</span>`)
			require.Contains(t, string(html), `<h1>A customer signs in</h1>`)
			require.Contains(t, string(html), `<strong class="chip `+c.shown+`">`+c.shown+`</strong>`)
			require.Contains(t, string(html), `data-events="/scenarios/r1/events?since=e.1"`)
			require.Contains(t, string(html), `<p class="notice" role="status">done</p>`)
			require.Contains(t, string(html), `<a class="temporal" href="http://127.0.0.1:8233/x">Temporal</a>`)
			for _, want := range c.has {
				require.Contains(t, string(html), want)
			}
			for _, other := range c.hasNo {
				require.NotContains(t, string(html), other)
			}
		})
	}
}

// A step is drawn once for all readings of its run, and again when it changes.
func TestDrawScenario_once(t *testing.T) {
	t.Parallel()
	reads, canvas := 0, NewCanvas()
	run := ScenarioRun{Run: stage.SignIn(), Evidence: func(string) []byte { reads++; return []byte("a log") }}
	run.Status = scenario.Running
	work := Live{Running: []cli.Activity{{Agent: "tester", Doing: coordination.Doing{What: "model call 3"}}}}
	draw := func() map[string]string {
		d, err := DrawScenario(run, work, stage.Began, canvas)
		require.NoError(t, err)
		parts, err := d.Parts()
		require.NoError(t, err)
		byID := map[string]string{}
		for _, p := range parts {
			byID[p.ID] = p.HTML
		}
		return byID
	}
	first := draw()
	require.Contains(t, first["decision"], "tester")
	require.Contains(t, first["run-sign-in-r1-step-01"], "flaky")
	require.Equal(t, 3, reads)
	require.Equal(t, first, draw())
	require.Equal(t, 3, reads)
	run.Run.Steps[2].Status = scenario.Pass
	second := draw()
	require.NotEqual(t, first["run-sign-in-r1-step-03"], second["run-sign-in-r1-step-03"])
	require.Equal(t, 3, reads, "the other steps have not changed")
}
