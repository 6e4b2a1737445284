package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/workflows"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// A workflow sets its search attributes at its begin and at its end, and only those that
// its namespace has.
func TestSession_isIndexed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		registered []string
		script     map[string][]any
		want       []string
	}{
		"decided": {stagetest.EveryAttribute(), stagetest.Seed(), []string{"Kind=session Status=running Team=default", "Status=consensus Winner=agent_c"}},
		"failed":  {stagetest.EveryAttribute(), map[string][]any{"agent_a": {}}, []string{"Kind=session Status=running Team=default", "Status=failed"}},
		"some":    {[]string{workflows.AttributeStatus, "Another"}, stagetest.Seed(), []string{"Status=running", "Status=consensus"}},
		"none":    {nil, stagetest.Seed(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stagetest.New(t, tc.script, nil)
			upserts := s.Indexed(tc.registered...)
			s.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
			require.NoError(t, s.GetWorkflowError())
			require.Equal(t, tc.want, *upserts)
		})
	}
}

func TestSession_aCancelledOneIsIndexed(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = stagetest.New(t, map[string][]any{"agent_a": {stagetest.Block{Reached: func() { s.CancelWorkflow() }}}}, nil)
	upserts := s.Indexed(stagetest.EveryAttribute()...)
	s.ExecuteWorkflow(session.Type, session.Input{Query: "Who?", SessionID: "s1"})
	require.Error(t, s.GetWorkflowError())
	require.Equal(t, []string{"Kind=session Status=running Team=default", "Status=cancelled"}, *upserts)
}
