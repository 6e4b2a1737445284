package prune

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// ended is a session with a history that ended some days ago.
func ended(id, status string, days int) *run {
	return &run{
		kind: sessions, id: id, root: "sessions/" + id + "/", workflow: id, status: status, objects: 3, bytes: 100,
		ended: now.Add(-time.Duration(days) * day), closed: []string{"run-" + id},
	}
}

func names(all []*run) []string {
	ids := []string{}
	for _, r := range all {
		ids = append(ids, r.id)
	}
	return ids
}

func reasons(all []kept) map[string]string {
	by := map[string]string{}
	for _, k := range all {
		by[k.run.id] = k.reason
	}
	return by
}

func TestChoose_conditions(t *testing.T) {
	t.Parallel()
	open := ended("open", "running", 0)
	open.open = true
	half := ended("half", "plurality", 0)
	half.marked = true
	all := []*run{
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
			tt.filter.now = now
			chosen, stay := tt.filter.choose(all)
			require.Equal(t, tt.want, names(chosen))
			require.Empty(t, stay)
		})
	}
}

// The sessions of a pipeline's steps are removed with its run, never before it.
func TestChoose_stepsGoWithTheirPipeline(t *testing.T) {
	t.Parallel()
	make := func(open bool) []*run {
		p := ended("p1", "completed", 1)
		p.kind, p.open = pipelines, open
		step := ended("p1-decide-l2", "consensus", 40)
		step.parent, p.children = p, []*run{step}
		return []*run{p, step}
	}
	older, _ := filter{now: now, olderThan: 30 * day}.choose(make(false))
	require.Empty(t, older, "the run is young")
	all, _ := filter{now: now}.choose(make(false))
	require.Equal(t, []string{"p1"}, names(all))
	require.Equal(t, []string{"p1-decide-l2", "p1"}, names(all[0].members()), "its sessions go first")
	running, _ := filter{now: now}.choose(make(true))
	require.Empty(t, running)

	alive := make(false)
	alive[1].open = true
	chosen, _ := filter{now: now}.choose(alive)
	require.Empty(t, chosen, "a session of its steps runs")
}

// A session is kept while a kept session continues it, directly or through others.
func TestChoose_sparesWhatIsContinued(t *testing.T) {
	t.Parallel()
	a, b, c, alone := ended("a", "consensus", 40), ended("b", "consensus", 35), ended("c", "consensus", 1), ended("alone", "consensus", 50)
	b.claim.Continues, c.claim.Continues = "a", "b"
	all := []*run{c, b, a, alone}

	chosen, stay := filter{now: now, olderThan: 30 * day}.choose(all)
	require.Equal(t, []string{"alone"}, names(chosen))
	require.Equal(t, map[string]string{"b": "session c continues session b", "a": "session b continues session a"}, reasons(stay))

	chosen, stay = filter{now: now}.choose(all)
	require.Equal(t, []string{"c", "b", "a", "alone"}, names(chosen), "they go together")
	require.Empty(t, stay)

	c.open = true
	chosen, _ = filter{now: now}.choose(all)
	require.Equal(t, []string{"alone"}, names(chosen), "the open one continues them")
}

// On a cluster a run without a history may be open in another namespace.
func TestChoose_sparesWhatMayRunElsewhere(t *testing.T) {
	t.Parallel()
	lost := ended("lost", unknown, 90)
	lost.closed = nil
	known := ended("known", "consensus", 90)
	known.closed = nil
	all := []*run{lost, known}
	chosen, _ := filter{now: now}.choose(all)
	require.Equal(t, []string{"lost", "known"}, names(chosen), "a data directory has one namespace")

	chosen, stay := filter{now: now, elsewhere: true}.choose(all)
	require.Equal(t, []string{"known"}, names(chosen))
	require.Contains(t, reasons(stay)["lost"], "`conclave delete lost`")
}
