package files

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/run/record"
)

// ended is a session with a history that ended some days ago.
func ended(id, status string, days int) *endedRun {
	return &endedRun{
		Run: record.Sessions.At(nil, id), workflow: id, status: status, objects: 3, bytes: 100,
		ended: time.Now().Add(-time.Duration(days) * time.Duration(day)), closed: []string{"run-" + id},
	}
}

func names(all []*endedRun) []string {
	ids := []string{}
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

func reasons(all []kept) map[string]string {
	by := map[string]string{}
	for _, k := range all {
		by[k.ID] = k.Reason
	}
	return by
}

func TestChoose_conditions(t *testing.T) {
	t.Parallel()
	open := ended("open", "running", 0)
	open.open = true
	half := ended("half", "plurality", 0)
	half.marked = true
	all := []*endedRun{
		open, half, ended("d1", "consensus", 1), ended("d2", "failed", 2), ended("d3", "consensus", 3), ended("d4", "failed", 4), ended("d5", "cancelled", 5),
	}
	for name, tt := range map[string]struct {
		filter filter
		want   []string
	}{
		"everything that has ended": {filter{}, []string{"half", "d1", "d2", "d3", "d4", "d5"}},
		"by age":                    {filter{olderThan: 3 * day}, []string{"half", "d3", "d4", "d5"}},
		"by count":                  {filter{keep: 3}, []string{"half", "d3", "d4", "d5"}},
		"by status":                 {filter{statuses: []string{"failed", "cancelled"}}, []string{"half", "d2", "d4", "d5"}},
		"the newest with a status":  {filter{statuses: []string{"failed"}, keep: 2}, []string{"half", "d4"}},
		"all conditions":            {filter{statuses: []string{"consensus", "failed"}, olderThan: 2 * day, keep: 4}, []string{"half", "d4"}},
		"only those half removed":   {filter{olderThan: 100 * day}, []string{"half"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chosen, stay := tt.filter.chooseRuns(all, false)
			require.Equal(t, tt.want, names(chosen))
			require.Empty(t, stay)
		})
	}
}

// The sessions of a pipeline's steps are removed with its run, never before it.
func TestChoose_stepsGoWithTheirPipeline(t *testing.T) {
	t.Parallel()
	make := func(open bool) []*endedRun {
		p := ended("p1", "completed", 1)
		p.Kind, p.open = record.Pipelines, open
		step := ended("p1-decide-l2", "consensus", 40)
		step.parent, p.children = p, []*endedRun{step}
		return []*endedRun{p, step}
	}
	older, _ := filter{olderThan: 30 * day}.chooseRuns(make(false), false)
	require.Empty(t, older, "the run is young")
	all, _ := filter{}.chooseRuns(make(false), false)
	require.Equal(t, []string{"p1"}, names(all))
	require.Equal(t, []string{"p1-decide-l2", "p1"}, names(all[0].withSessions()), "its sessions go first")
	running, _ := filter{}.chooseRuns(make(true), false)
	require.Empty(t, running)

	alive := make(false)
	alive[1].open = true
	chosen, _ := filter{}.chooseRuns(alive, false)
	require.Empty(t, chosen, "a session of its steps runs")
}

// A session is kept while a kept session continues it, directly or through others.
func TestChoose_sparesWhatIsContinued(t *testing.T) {
	t.Parallel()
	a, b, c, alone := ended("a", "consensus", 40), ended("b", "consensus", 35), ended("c", "consensus", 1), ended("alone", "consensus", 50)
	b.claim.Continues, c.claim.Continues = "a", "b"
	all := []*endedRun{c, b, a, alone}

	chosen, stay := filter{olderThan: 30 * day}.chooseRuns(all, false)
	require.Equal(t, []string{"alone"}, names(chosen))
	require.Equal(t, map[string]string{"b": "session c continues session b", "a": "session b continues session a"}, reasons(stay))

	chosen, stay = filter{}.chooseRuns(all, false)
	require.Equal(t, []string{"c", "b", "a", "alone"}, names(chosen), "they go together")
	require.Empty(t, stay)

	c.open = true
	chosen, _ = filter{}.chooseRuns(all, false)
	require.Equal(t, []string{"alone"}, names(chosen), "the open one continues them")
}

// On a cluster a run without a history may be open in another namespace.
func TestChoose_sparesWhatMayRunElsewhere(t *testing.T) {
	t.Parallel()
	lost := ended("lost", unknown, 90)
	lost.closed = nil
	known := ended("known", "consensus", 90)
	known.closed = nil
	all := []*endedRun{lost, known}
	chosen, _ := filter{}.chooseRuns(all, false)
	require.Equal(t, []string{"lost", "known"}, names(chosen), "a data directory has one namespace")

	chosen, stay := filter{}.chooseRuns(all, true)
	require.Equal(t, []string{"known"}, names(chosen))
	require.Contains(t, reasons(stay)["lost"], "`conclave delete lost`")
}
